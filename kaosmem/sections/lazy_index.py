"""A section's index: built or read on first use, and updated before each ranking."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, cast

from kaosmem.retrieval.ranker import StorableRanker
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.past import EvictedItem

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker
    from kaosmem.retrieval.ranker import StorableIndex
    from kaosmem.types import Item

MIN_STORED = 500
"""An index of fewer items is not kept: it is made in milliseconds."""

_UNSTORED_SHARE = 10
"""An index is kept anew when what is kept lacks a tenth of it: each item is written ten times at most on average, and
to catch up costs a tenth of making it."""


class StoredIndex(NamedTuple):
    """An index as it is kept.

    ranker: name of what made it. updates: how many updates of items it knows of.
    """

    ranker: str
    updates: int
    data: memoryview


class IndexDump(NamedTuple):
    """An index to be kept, which goes on changing; as StoredIndex, its data in chunks that do not change."""

    ranker: str
    updates: int
    chunks: Iterable[bytes]


class LazyIndex:
    """A ranker's index over holdings: made when first asked, then told of changes in batches, just before it ranks."""

    def __init__(self, ranker: Ranker | None, held: Holdings) -> None:
        self._ranker = ranker
        self._held = held
        self._index: Index | None = None
        self._stored: StoredIndex | None = None
        self._updates: int | None = None  # of which the index knows, None where it is another's and has not caught up
        self._unstored = 0  # changes of the index that the one that is kept lacks
        self._stale: dict[int, bool] = {}  # held ordinal, new or changed -> whether the index has it
        self._unread: dict[int, bool] = {}  # as `_stale`, of what was evicted and only files hold
        self._gone: list[int] = []  # ordinals that the index has still
        self._ranked: tuple[str, int, list[tuple[int, float]]] | None = None  # as the index is, since it last changed

    @property
    def is_wanted(self) -> bool:
        """Return whether it would help to be offered one that was kept."""
        return self._index is None and self._stored is None and len(self._held) + len(self._held.past) >= MIN_STORED

    def offer(self, stored: StoredIndex) -> None:
        """Give an index that was kept: of these holdings, as they were at some time."""
        if self._index is None:
            self._stored = stored

    def added(self, ordinals: Iterable[int]) -> None:
        """Note new items."""
        if self._index is not None:
            self._stale |= dict.fromkeys(ordinals, False)

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        if self._index is not None:
            self._stale.setdefault(ordinal, True)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        if self._index is not None and self._stale.pop(ordinal, self._unread.pop(ordinal, True)):
            self._gone.append(ordinal)

    def unread(self, limit: int) -> list[EvictedItem]:
        """Return some of the items that the index lacks until they are read: `read` says when."""
        self.synced()
        known = map(self._held.known, islice(self._unread, limit))
        return [item for item in known if isinstance(item, EvictedItem)]

    def read(self, ordinals: Iterable[int]) -> None:
        """Take in those of these evicted items that the index lacks; their texts are at hand."""
        stale = {ordinal: self._unread.pop(ordinal) for ordinal in ordinals if ordinal in self._unread}
        if stale:
            self._stale |= stale
            self.synced()

    def inherit(self, other: LazyIndex, shared: int) -> None:
        """Take another's index, and note what differs: any of the first `shared` items may, and all later ones do."""
        self._stored = other._stored
        if other._index is None:
            return
        self._index, self._unstored = other.synced(), other._unstored
        if isinstance(self._ranker_used, StorableRanker):
            cast("StorableIndex", self._index).tokens_of = self._held.item_tokens
        before, now = ({*chain(each._held.past, each._held)} for each in (other, self))
        kept = {ordinal for ordinal in before & now if ordinal < shared}
        self._gone = list(before - kept)
        self._stale = dict.fromkeys(now - kept, False)
        self._stale |= {ordinal: True for ordinal in kept if self._held.known(ordinal) != other._held.known(ordinal)}
        self._stale |= {ordinal: indexed for ordinal, indexed in other._unread.items() if ordinal in kept}

    def rank(self, query: str, limit: int, *, among: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first, of all items or of those `among` these ordinals."""
        index = self.synced()
        if among is not None:
            return index.rank(query, limit, among=among)
        if self._ranked is None or self._ranked[:2] != (query, limit):
            self._ranked = query, limit, index.rank(query, limit)
        return self._ranked[2]

    def synced(self) -> Index:
        """Return the index, which has all changes but for evicted items that have to be read first."""
        if self._index is None:
            self._index = self._read_back() or self._made()
        if not self._stale and not self._gone and self._updates == self._held.updates:
            return self._index
        self._ranked = None
        self._take_out()
        items = {ordinal: self._held.known(ordinal) for ordinal in self._stale}
        self._unread |= {at: self._stale.pop(at) for at, item in items.items() if isinstance(item, EvictedItem)}
        self._unstored += len(self._stale)
        for ordinal, indexed in self._stale.items():
            if indexed:
                self._index.update(ordinal, cast("Item", items[ordinal]))
        self._index.add((at, cast("Item", items[at])) for at, indexed in self._stale.items() if not indexed)
        self._stale.clear()
        if not any(self._unread.values()):
            self._updates = self._held.updates
        return self._index

    def purge(self) -> None:
        """Keep nothing of what is gone, which would stay until the index is asked again."""
        self._stored = None
        self._take_out()

    def dump(self) -> IndexDump | None:
        """Return the index to be kept, as it is, if what is kept lacks much of it; None where that is as good."""
        index = self._index
        if index is None or self._updates is None or len(index) < MIN_STORED:
            return None
        if self._unstored < max(MIN_STORED, len(index) // _UNSTORED_SHARE):
            return None
        if not isinstance(ranker := self._ranker_used, StorableRanker):
            return None
        self._unstored = 0
        chunks = cast("StorableIndex", index).dump()
        return None if chunks is None else IndexDump(ranker.name, self._updates, chunks)

    def not_stored(self) -> None:
        """Note that nothing is kept of the index."""
        self._unstored = 0 if self._index is None else len(self._index)

    @property
    def _ranker_used(self) -> Ranker:
        if self._ranker is None:
            from kaosmem.retrieval.linear import LinearRanker

            self._ranker = LinearRanker()
        return self._ranker

    def _take_out(self) -> None:
        self._ranked = None
        while self._index is not None and self._gone:  # each once, also where a later one raises
            self._index.remove(self._gone.pop())
            self._unstored += 1

    def _made(self) -> Index:
        self._gone, self._stale = [], dict.fromkeys(chain(self._held.past, self._held), False)
        ranker = self._ranker_used
        return ranker.index(tokens_of=self._held.item_tokens) if isinstance(ranker, StorableRanker) else ranker.index()

    def _read_back(self) -> Index | None:
        """Return the index that was kept, and note what differs; None where another is made as fast.

        An ordinal is given once, so that what both have is the same but for updates. What the index has beside that is
        gone.
        """
        stored, self._stored = self._stored, None
        ranker = self._ranker_used
        if stored is None or stored.ranker != ranker.name or not isinstance(ranker, StorableRanker):
            return None
        try:
            index = ranker.load(stored.data, tokens_of=self._held.item_tokens)
        except ValueError:
            return None
        known, now = {*index.ordinals.tolist()}, {*chain(self._held.past, self._held)}
        changed = self._held.updated_since(stored.updates) & known & now
        if 2 * (len(known - now) + len(changed)) > len(known):
            return None
        self._gone = list(known - now)
        self._stale = dict.fromkeys(sorted(now - known), False) | dict.fromkeys(changed, True)
        return index
