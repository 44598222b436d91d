"""A corpus in the memory of one process, with its versions: for tests, and as the model of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from kaosmem.corpora.corpus import (
    Change,
    Corpus,
    CorpusVersion,
    Entry,
    Found,
    Hits,
    not_kept,
    utc_now,
)
from kaosmem.corpora.term_counts import TermCounts
from kaosmem.filters import MetadataFilter
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.retrieval.text_index import TextIndex


@dataclass(frozen=True)
class _Version:
    """A version of a tenant's passages, by id."""

    number: int
    at: datetime
    entries: Mapping[str, Entry]

    @cached_property
    def ordered(self) -> list[Entry]:
        """The passages, oldest first."""
        return sorted(self.entries.values(), key=lambda each: each.found.order)

    @cached_property
    def index(self) -> TextIndex:
        """The index of the places in this order."""
        index = BM25Ranker(analyze=str.split).index()
        index.add(enumerate(map(_as_item, self.ordered)))
        return index

    @cached_property
    def counts(self) -> TermCounts:
        """The counts of terms."""
        return TermCounts.of(each.words for each in self.ordered)


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

    async def sources(self) -> dict[str, str]:
        entries = self._read().entries.values()
        return {each.found.passage.source: each.found.stamp for each in entries}

    async def versions(self) -> list[CorpusVersion]:
        return [CorpusVersion(each.number, each.at) for each in self._own()]

    async def tenants(self) -> list[str]:
        return sorted(name for name, own in self._tenants.items() if own)

    async def erase_tenant(self) -> None:
        self._tenants.pop(self._tenant, None)

    async def compact(self) -> None:
        """Do nothing: there is nothing to merge."""

    async def close(self) -> None:
        """Do nothing: the passages stay."""

    async def _search(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None
    ) -> Hits:
        version = self._read()
        found = [each.found for each in version.ordered]
        among = None
        if wanted is not None:
            passing = enumerate(wanted(each.passage.metadata) for each in found)
            among = [place for place, passes in passing if passes]
        ranked = version.index.rank(" ".join(words), limit, among=among)
        return Hits([found[place] for place, _ in ranked], version.counts, version.number)

    async def _counts(self) -> TermCounts:
        return self._read().counts

    async def _at_values(self, column: str, values: Sequence[str]) -> list[Found]:
        wanted = set(values)
        entries = self._read().entries.values()
        return [each.found for each in entries if each.row()[column] in wanted]

    def _own(self) -> list[_Version]:
        return self._tenants.setdefault(self._tenant, [])

    def _read(self) -> _Version:
        """Return the version that is asked for. Raises NotFoundError."""
        kept = self._own()
        moment = self._moment
        if moment is None:
            return kept[-1] if kept else _Version(0, utc_now(), {})
        for each in reversed(kept):
            if each.number == moment or (isinstance(moment, datetime) and each.at <= moment):
                return each
        raise not_kept()

    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        before = self._read()
        after = dict(before.entries)
        for passage_id, entry in before.entries.items():
            if entry.found.passage.source in sources or passage_id in ids:
                del after[passage_id]
        gone = len(before.entries) - len(after)
        after |= {entry.id: entry for entry in entries}
        if after == before.entries:
            return Change(before.number, gone)
        own = self._own()
        if own:
            own[-1] = replace(before)  # without the index, which the new version does not need
        own.append(_Version(before.number + 1, utc_now(), after))
        return Change(before.number + 1, gone)

    async def _purge(self, *, alone: bool) -> int:
        del self._own()[:-1]
        return self._read().number


def _as_item(entry: Entry) -> Item:
    found = entry.found
    text = " ".join(entry.words)
    return Item(entry.id, "", found.passage.role, text, found.tokens, found.added_at)
