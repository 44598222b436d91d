"""A corpus in the memory of one process, with its versions: for tests, and as the model of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kaosmem.corpora.corpus import (
    Candidates,
    Change,
    Corpus,
    CorpusChange,
    CorpusVersion,
    Snapshot,
    not_kept,
    query_words,
    row_of,
    statistics_of,
    utc_now,
    words_of,
)
from kaosmem.corpora.term_counts import count_words
from kaosmem.filters import MetadataFilter
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.retrieval.text_index import TextIndex

T = TypeVar("T")


@dataclass(frozen=True)
class _Version:
    """A version of a tenant's passages, by id."""

    number: int = 0
    at: datetime = field(default_factory=utc_now)
    passages: Mapping[str, Item] = field(default_factory=dict)

    @property
    def ordered(self) -> list[Item]:
        """The passages, oldest first."""
        return list(self.passages.values())

    @cached_property
    def index(self) -> TextIndex:
        """The index of the places in this order, by words."""
        index = BM25Ranker(analyze=str.split).index()
        for place, each in enumerate(self.ordered):
            index.add([(place, replace(each, content=words_of(each)))])
        return index

    @cached_property
    def counts(self) -> Counter[str]:
        """The counts of the words of all passages."""
        counts: Counter[str] = Counter()
        count_words(counts, map(words_of, self.ordered))
        return counts

    def search(self, terms: Sequence[str], limit: int, wanted: MetadataFilter | None) -> Candidates:
        found = self.ordered
        if terms:
            ranked = self.index.rank(" ".join(query_words(terms)), len(found))
            found = [found[place] for place, _ in ranked]
        if wanted is not None:
            found = [each for each in found if wanted(each.metadata)]
        return Candidates(found[:limit], statistics_of(terms, self.counts), self.number)

    def lookup(self, column: str, values: Sequence[str]) -> list[Item]:
        return [each for each in self.ordered if row_of(each)[column] in values]

    def sources(self) -> dict[str, str]:
        rows = map(row_of, self.ordered)
        return {row["source"]: row["stamp"] for row in rows}


class InMemoryCorpus(Corpus):
    """A corpus in memory. Each version is a copy of the list of passages, so keep it small.

    Args:
        tenant: A valid name.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.corpora import CorpusSource
    >>> corpus = InMemoryCorpus()
    >>> version = await corpus.add(
    ...     [{"id": "lease-1", "source": "lease.md", "text": "The rent is 900 euros."}]
    ... )
    >>> memory = SessionMemory.test_mode()
    >>> name = await memory.attach(CorpusSource(corpus), timeout_s=2)
    >>> print((await memory.assemble_context("How high is the rent?", budget=200)).text)
    ## corpus
    [lease.md] The rent is 900 euros.
    <BLANKLINE>
    """

    def __init__(self, *, tenant: str = "default") -> None:
        super().__init__(tenant)
        self._tenants: dict[str, list[_Version]] = {}

    async def versions(self) -> list[CorpusVersion]:
        return [CorpusVersion(each.number, each.at) for each in self._kept]

    async def tenants(self) -> list[str]:
        return sorted(self._tenants)

    async def erase_tenant(self) -> None:
        self._tenants.pop(self._tenant, None)

    async def close(self) -> None:
        """Do nothing: the passages stay."""

    async def _ask(self, ask: Callable[[Snapshot], T]) -> T:
        return ask(await self._read())

    async def _change(self, change: Change) -> CorpusChange:
        new, sources, ids = change
        before = await self._read()
        gone = {*ids, *(each.id for each in new)}
        after = {
            item_id: each
            for item_id, each in before.passages.items()
            if item_id not in gone and each.metadata["source"] not in sources
        }
        number_gone = len(before.passages) - len(after)
        after |= {each.id: each for each in new}
        if after == before.passages:
            return CorpusChange(before.number, 0)
        version = _Version(before.number + 1, utc_now(), after)
        self._tenants.setdefault(self._tenant, []).append(version)
        return CorpusChange(version.number, number_gone)

    async def _merge(self, *, counts: bool) -> None:
        """Do nothing: terms are counted when they are asked for."""

    async def _purge(self, *, alone: bool) -> int:
        del self._kept[:-1]
        return (await self._read()).number

    @property
    def _kept(self) -> list[_Version]:
        """The versions that are kept, oldest first."""
        return self._tenants.get(self._tenant, [])

    async def _read(self) -> _Version:
        """Return the version that is asked for. Raises NotFoundError."""
        number = await self._number()
        if number is None:
            return self._kept[-1] if self._kept else _Version()
        for each in self._kept:
            if each.number == number:
                return each
        raise not_kept()
