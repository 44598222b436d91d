"""A corpus in the memory of one process, with its versions: for tests, and as the model of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from kaosmem.corpora.corpus import (
    BaseCorpus,
    Change,
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

_Entries: TypeAlias = Mapping[str, Entry]
"""The passages of a version, by id."""


@dataclass(frozen=True)
class _Indexed:
    """The passages of a version in order, the index of their places there, and counts of terms."""

    ordered: list[Found]
    index: TextIndex
    counts: TermCounts


@dataclass
class _Tenant:
    """The versions of a tenant's passages."""

    versions: dict[int, tuple[datetime, _Entries]] = field(default_factory=dict)
    last: int = 0
    indexed: tuple[_Entries, _Indexed] | None = None

    @property
    def newest(self) -> _Entries:
        return self.versions[self.last][1] if self.last in self.versions else {}

    def index(self, entries: _Entries) -> _Indexed:
        """Return the index of a version."""
        if self.indexed is None or self.indexed[0] is not entries:
            ordered = sorted(entries.values(), key=lambda each: each.found.order)
            index = BM25Ranker(analyze=str.split).index()
            index.add(enumerate(map(_as_item, ordered)))
            counts = TermCounts.of(each.words for each in ordered)
            self.indexed = entries, _Indexed([each.found for each in ordered], index, counts)
        return self.indexed[1]


class InMemoryCorpus(BaseCorpus):
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
        self._tenants: dict[str, _Tenant] = {}

    async def sources(self) -> dict[str, str]:
        _, entries = self._read()
        return {each.found.passage.source: each.found.stamp for each in entries.values()}

    async def versions(self) -> list[CorpusVersion]:
        return [CorpusVersion(number, at) for number, (at, _) in self._own().versions.items()]

    async def tenants(self) -> list[str]:
        return sorted(name for name, own in self._tenants.items() if own.versions)

    async def erase_tenant(self) -> None:
        self._tenants.pop(self._tenant, None)

    async def compact(self) -> None:
        """Do nothing: there is nothing to merge."""

    async def close(self) -> None:
        """Do nothing: the passages stay."""

    async def _search(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None
    ) -> Hits:
        version, entries = self._read()
        indexed = self._own().index(entries)
        ordered = indexed.ordered
        among = None
        if wanted is not None:
            passing = enumerate(wanted(each.passage.metadata) for each in ordered)
            among = [place for place, passes in passing if passes]
        ranked = indexed.index.rank(" ".join(words), limit, among=among)
        return Hits([ordered[place] for place, _ in ranked], indexed.counts, version)

    async def _counts(self) -> TermCounts:
        _, entries = self._read()
        return self._own().index(entries).counts

    async def _at_values(self, column: str, values: Sequence[str]) -> list[Found]:
        _, entries = self._read()
        wanted = set(values)
        return [each.found for each in entries.values() if each.row()[column] in wanted]

    def _own(self) -> _Tenant:
        return self._tenants.setdefault(self._tenant, _Tenant())

    def _read(self) -> tuple[int, _Entries]:
        """Return the version that is asked for, with its number."""
        own = self._own()
        if self._moment is None:
            return own.last, own.newest
        number = self._moment
        if isinstance(number, datetime):
            known = [each for each, (at, _) in own.versions.items() if at <= number]
            number = max(known, default=-1)
        if number not in own.versions:
            raise not_kept()
        return number, own.versions[number][1]

    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        own = self._own()
        before = own.newest
        kept = dict(before)
        for passage_id, entry in before.items():
            if entry.found.passage.source in sources or passage_id in ids:
                del kept[passage_id]
        gone = len(before) - len(kept)
        kept |= {entry.id: entry for entry in entries}
        if kept != before:
            own.last += 1
            own.versions[own.last] = utc_now(), kept
        return Change(own.last, gone)

    async def _purge(self, *, alone: bool) -> int:
        own = self._own()
        own.versions = {number: each for number, each in own.versions.items() if number == own.last}
        own.indexed = None
        return own.last


def _as_item(entry: Entry) -> Item:
    found = entry.found
    text = " ".join(entry.words)
    return Item(entry.id, "", found.passage.role, text, found.tokens, found.added_at)
