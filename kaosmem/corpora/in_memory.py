"""A corpus in the memory of one process, with its versions: for tests, and as the model of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kaosmem.arguments import check_count
from kaosmem.corpora.corpus import (
    CANDIDATES,
    BaseCorpus,
    Candidates,
    Change,
    CorpusVersion,
    Entry,
    Found,
    check_ids,
    not_kept,
    utc_now,
)
from kaosmem.filters import MetadataFilter
from kaosmem.retrieval.ranker import CollectionStatistics
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.retrieval.text_index import TextIndex


@dataclass
class _Tenant:
    """The versions of a tenant's passages, each a mapping by id."""

    versions: dict[int, tuple[datetime, Mapping[str, Entry]]] = field(default_factory=dict)
    last: int = 0
    indexed: tuple[Mapping[str, Entry], list[Entry], TextIndex] | None = None

    @property
    def newest(self) -> Mapping[str, Entry]:
        return self.versions[self.last][1] if self.last in self.versions else {}

    def put(self, entries: Mapping[str, Entry]) -> int:
        self.last += 1
        self.versions[self.last] = utc_now(), entries
        return self.last

    def index(self, entries: Mapping[str, Entry]) -> tuple[list[Entry], TextIndex]:
        """Return the entries of a version in order, and the index of their places there."""
        if self.indexed is None or self.indexed[0] is not entries:
            ordered = sorted(entries.values(), key=lambda each: _found(each).order)
            index = BM25Ranker(analyze=str.split).index()
            index.add(enumerate(map(_as_item, ordered)))
            self.indexed = entries, ordered, index
        return self.indexed[1:]


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

    async def candidates(
        self,
        terms: Sequence[str],
        *,
        limit: int = CANDIDATES,
        filter: MetadataFilter | None = None,
    ) -> Candidates:
        version, entries = self._read()
        ordered, index = self._own().index(entries)
        among = None
        if filter is not None:
            passing = enumerate(filter(entry.passage.metadata) for entry in ordered)
            among = [place for place, passes in passing if passes]
        asked = " ".join(dict.fromkeys(terms))
        ranked = index.rank(asked, check_count(limit, "limit"), among=among)
        found = [_found(ordered[place]) for place, _ in ranked]
        return Candidates(tuple(found), _collection(entries.values(), terms), version)

    async def statistics(self, terms: Iterable[str] = ()) -> CollectionStatistics:
        _, entries = self._read()
        return _collection(entries.values(), terms)

    async def get(self, ids: Iterable[str]) -> list[Found]:
        _, entries = self._read()
        return [_found(entries[each]) for each in check_ids(ids) if each in entries]

    async def at_spots(self, spots: Iterable[str]) -> list[Found]:
        _, entries = self._read()
        wanted = set(spots)
        return [each for each in map(_found, entries.values()) if each.spot() in wanted]

    async def sources(self) -> dict[str, str]:
        _, entries = self._read()
        passages = [entry.passage for entry in entries.values()]
        return {each.source: str(each.metadata.get("file", "")) for each in passages}

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

    def _own(self) -> _Tenant:
        return self._tenants.setdefault(self._tenant, _Tenant())

    def _read(self) -> tuple[int, Mapping[str, Entry]]:
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
            if entry.passage.source in sources or passage_id in ids:
                del kept[passage_id]
        gone = len(before) - len(kept)
        kept |= {entry.passage.id: entry for entry in entries}
        if kept == before:
            return Change(own.last, 0)
        return Change(own.put(kept), gone)

    async def _purge(self, *, alone: bool) -> int:
        own = self._own()
        own.versions = {number: each for number, each in own.versions.items() if number == own.last}
        own.indexed = None
        return own.last

    async def _times(self, sources: Sequence[str], ids: Sequence[str]) -> list[datetime]:
        named = (
            entry
            for entry in self._own().newest.values()
            if entry.passage.source in sources or entry.passage.id in ids
        )
        return [entry.added_at for entry in named]


def _found(entry: Entry) -> Found:
    return Found(entry.added_at, entry.place, entry.passage, entry.tokens)


def _as_item(entry: Entry) -> Item:
    passage = entry.passage
    text = " ".join(entry.terms)
    return Item(passage.id, "", passage.role, text, entry.tokens, entry.added_at)


def _collection(entries: Iterable[Entry], terms: Iterable[str]) -> CollectionStatistics:
    frequencies = dict.fromkeys(terms, 0)
    size = 0
    total = 0
    for entry in entries:
        size += 1
        total += len(entry.terms)
        for term in frequencies.keys() & entry.terms:
            frequencies[term] += 1
    return CollectionStatistics(size, total, frequencies)
