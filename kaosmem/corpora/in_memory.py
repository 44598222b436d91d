"""A corpus in the memory of one process, with its versions: for tests, and as the model of others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from kaosmem.corpora.corpus import (
    ChangeResult,
    Corpus,
    CorpusVersion,
    PassageChange,
    Row,
    Snapshot,
    StampsBySource,
    count_words,
    no_such_version,
    utc_now,
)
from kaosmem.filters import Filter
from kaosmem.retrieval.ranker import Index
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.types.items import Item

T = TypeVar("T")


@dataclass(frozen=True)
class _Version:
    """A version of a tenant's passages, oldest first."""

    version: int
    at: datetime
    rows: Sequence[Row]

    @cached_property
    def index(self) -> Index:
        """The index of the places in this order, by words."""
        index = BM25Ranker(analyze=str.split).index()
        for place, row in enumerate(self.rows):
            index.add([(place, Item(row.id, "", "", row.words, 1, self.at))])
        return index

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        return self._all_counts

    @cached_property
    def _all_counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        count_words(counts, (row.words for row in self.rows))
        return counts

    def search(
        self,
        words: Sequence[str],
        limit: int,
        wanted: Filter,
    ) -> list[str]:
        found = self.rows
        if words:
            ranked = self.index.rank(" ".join(words), len(found))
            found = [found[place] for place, _ in ranked]
        if not wanted:
            found = found[:limit]
        return [row.passage for row in found]

    def get(self, ids: Collection[str]) -> list[str]:
        return [row.passage for row in self.rows if row.id in ids]

    def sources(self) -> StampsBySource:
        return {row.source: row.stamp for row in self.rows}


EMPTY = _Version(0, utc_now(), ())
"""The version of a tenant without passages."""


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
        self._tenants: defaultdict[str, list[_Version]] = defaultdict(list)

    async def versions(self) -> list[CorpusVersion]:
        return [CorpusVersion(each.version, each.at) for each in self._kept]

    async def tenants(self) -> list[str]:
        return sorted(tenant for tenant, kept in self._tenants.items() if kept)

    async def erase_tenant(self) -> None:
        self._kept.clear()

    async def _ask(self, ask: Callable[[Snapshot], T]) -> T:
        number = await self._number()
        for each in reversed(self._kept):
            if number in (None, each.version):
                return ask(each)
        if number is not None:
            raise no_such_version()
        return ask(EMPTY)

    async def _change(self, change: PassageChange) -> ChangeResult:
        ids = {*change.ids, *(row.id for row in change.new)}
        before = self._newest
        rows = [
            row for row in before.rows if row.id not in ids and row.source not in change.sources
        ]
        gone = len(before.rows) - len(rows)
        if not (change.new or gone):
            return ChangeResult(before.version, 0)
        after = _Version(before.version + 1, utc_now(), [*rows, *change.new])
        self._kept.append(after)
        return ChangeResult(after.version, gone)

    async def _purge(self, *, alone: bool) -> int:
        del self._kept[:-1]
        return self._newest.version

    @property
    def _newest(self) -> _Version:
        if self._kept:
            return self._kept[-1]
        return EMPTY

    @property
    def _kept(self) -> list[_Version]:
        """The versions that are kept, oldest first."""
        return self._tenants[self.tenant]
