"""The index of a section.

It is made or read back when the section is first ranked, and then follows its changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.retrieval.ranker import StorableRanker
from kaosmem.retrieval.rankers import LinearRanker
from kaosmem.sections.item_table import ChangeCounts, ItemTable
from kaosmem.sections.ranking import DatedIndex
from kaosmem.types.items import decoded

if TYPE_CHECKING:
    from kaosmem.retrieval import Index
    from kaosmem.retrieval.ranker import Ranker
    from kaosmem.sections.archive import EvictedItem
    from kaosmem.types.items import Item, StoredItem

MIN_STORED = 500
"""An index of fewer items is not kept: it is made in milliseconds."""

_UNSTORED_SHARE = 10
"""An index is kept anew when the kept one lacks a tenth of it.

So each item is written ten times at most on average, and to catch up costs a tenth of making it.
"""

_BATCH = 128
"""Entries that are indexed at a time, in about 20 ms.

A caller that needs the section meanwhile waits for one batch.
"""
_BATCH_TOKENS = 32_768
_WARM_UP_CHARS = 200

_MAX_INLINE_CHANGES = 8
_MAX_INLINE_TOKENS = 4_096
"""So many changes, of so many tokens together, are indexed in the event loop, in about 2 ms."""


class StoredIndex(NamedTuple):
    """An index as it is kept. updates: how many updates of items it knows of."""

    updates: int
    data: memoryview


class IndexDump(NamedTuple):
    """An index to be kept, with the name of its ranker. Its data are chunks that do not change."""

    ranker: str
    updates: int
    chunks: Iterable[bytes]


class LazyIndex:
    """A ranker's index over holdings. Before it ranks, it takes in their changes in batches.

    Each change of the holdings is noted here by its ordinals, which are then pending. A batch drops
    the entries of some pending ordinals, and adds the items that are there now. So it does not
    matter how often an ordinal is noted, or why. A batch that fails leaves its ordinals pending.

    Public methods may run in another thread while the holdings change. The holdings are changed and
    the change is noted under `lock`, so that a batch is chosen between two changes.

    Attributes:
        asking: Held by the thread that asks or changes the index. `synced` expects it.
    """

    def __init__(
        self,
        ranker: Ranker | None,
        held: ItemTable,
        lock: RLock,
    ) -> None:
        self._ranker = ranker or LinearRanker()
        self._held = held
        self.lock = lock
        self.asking = Lock()
        self._read_stored: Callable[[str], StoredIndex | None] | None = None
        self._index: DatedIndex | None = None
        self._pending: dict[int, None] = {}
        # When the index last had all changes; None since it began to take in later ones.
        self._settled_counts: ChangeCounts | None = None
        self._unstored = 0  # changes of the index that the one that is kept lacks
        self._is_warm = False

    def keep_in(self, read: Callable[[str], StoredIndex | None]) -> None:
        """Say how to read the index that was kept for a ranker's name."""
        self._read_stored = read

    def changed(self, ordinals: Iterable[int]) -> None:
        """Note items that are new, have changed or are gone. The caller holds `lock`."""
        if self._index is not None:
            self._pending.update(dict.fromkeys(ordinals))

    def follow(self, held: ItemTable, shared: int) -> None:
        """Index other holdings from now on. The caller holds `lock`, and `asking` if any is shared.

        Args:
            shared: Number of leading items that both holdings have in common. An item among them
                may have been updated.
        """
        before = self._held
        self._held = held
        index = self._index
        if index is None:
            return
        if not shared:
            self._clear()
            return
        changed = {at for at in self._known() if at >= shared}
        for at in before.updated.keys() | held.updated.keys():
            if before.updated.get(at) != held.updated.get(at):
                changed.add(at)
        self._begin(index, changed.union(self._pending))

    @property
    def missing_changes(self) -> int:
        """Return how many changes the index lacks."""
        with self.lock:
            if self._index is None:
                return len(self._held) + len(self._held.evicted)
            return len(self._pending)

    @property
    def lag(self) -> int:
        """Return how many changes have to be indexed beside the event loop.

        Return 0 if there are so few that `synced` takes them in about as fast as a thread begins.
        """
        missing_changes = self.missing_changes
        index = self._index
        if (
            index is None
            or not 0 < missing_changes <= _MAX_INLINE_CHANGES
            or not getattr(index.index, "is_quick", False)
        ):
            return missing_changes
        with self.lock:
            batch = self._batch()
        tokens = 0
        for item in batch.values():
            if item is not None:
                tokens += item.tokens
        if len(batch) == missing_changes and tokens <= _MAX_INLINE_TOKENS:
            return 0
        return missing_changes

    def synced(self) -> DatedIndex:
        """Return the index with all changes."""
        while True:
            index = self._index
            if index is None:
                index = self._begin_anew()
            if not self._take_in_batch(index):
                return index

    @contextmanager
    def asked(self) -> Iterator[Index]:
        """Give the ranker's index with all changes, for one caller at a time."""
        with self.asking:
            yield self.synced().index

    def catch_up(self) -> None:
        """Read back the index that was kept, or index one batch of changes.

        This is meant for another thread: the section may change meanwhile. If it raises, the
        changes stay pending.
        """
        with self.asking:
            if self._index is None:
                self._read_back()
            else:
                self._take_in_batch(self._index)
            if not self.missing_changes:
                self._warm_up()

    def purge(self) -> None:
        """Keep no entry of items that are gone.

        This may be done in another thread. After items are forgotten, their words stay in the index
        until this call or the next ranking.
        """
        is_left = True
        while is_left:
            with self.asking:
                is_left = self._drop_some()

    def _drop_some(self) -> bool:
        """Remove the entries of some pending ordinals, and return whether there were any."""
        with self.lock:
            index = self._index
            if index is None:
                return False
            some = [*islice(filter(index.__contains__, self._pending), _BATCH)]
        for ordinal in some:
            index.remove(ordinal)
        self._unstored += len(some)
        return bool(some)

    @property
    def to_store(self) -> ChangeCounts | None:
        """Return the present change counts if the index is to be stored now.

        None: the stored index is as good.
        """
        index = self._index
        if index is None or len(index) < MIN_STORED:
            return None
        if self._unstored < max(MIN_STORED, len(index) // _UNSTORED_SHARE):
            return None
        if isinstance(self._ranker, StorableRanker):
            return self._held.change_counts
        return None

    def dump(self, change_counts: ChangeCounts) -> IndexDump | None:
        """Return the index, which counts as kept from now on. This may be done in another thread.

        Return None if it has anything from after those changes, or lacks an earlier change.
        """
        with self.asking:
            with self.lock:
                index = self._index
                own = self._settled_counts
                if index is None or own is None:
                    return None
                if own.taken > change_counts.taken or own.updates > change_counts.updates:
                    return None
                unstored = self._unstored
                self._unstored = 0
            chunks = index.dump()
            if chunks is None:
                self._unstored += unstored
                return None
            return IndexDump(self._ranker.name, own.updates, chunks)

    def not_stored(self) -> None:
        """Note that nothing is kept of the index."""
        self._unstored = 0 if self._index is None else len(self._index)

    def _known(self) -> set[int]:
        """Return the ordinals of all items that are to be in the index."""
        return {*self._held.evicted, *self._held}

    def _clear(self) -> None:
        """Have no index: it is made anew when it is asked for."""
        self._index = None
        self._pending = {}
        self._settled_counts = None

    def _begin(self, index: DatedIndex, changed: Iterable[int]) -> None:
        """Have an index. Its entries that are gone, missing or changed are pending."""
        self._clear()
        self._index = index
        pending = (self._known() ^ index.ordinals).union(changed)
        self._pending = dict.fromkeys(sorted(pending))

    def _begin_anew(self) -> DatedIndex:
        """Have an empty index, all items pending."""
        index = DatedIndex(self._ranker.index())
        with self.lock:
            self._begin(index, ())
        return index

    def _read_back(self) -> None:
        """Have the index that was kept, if it can be used; else an empty one."""
        stored = None
        if self._read_stored and self.missing_changes >= MIN_STORED:
            stored = self._read_stored(self._ranker.name)
        if stored is None or not self._takes(stored):
            self._begin_anew()

    def _takes(self, stored: StoredIndex) -> bool:
        """Take over an index that was kept, and return whether that saves time.

        An ordinal is given once. So an item in both has changed only if it was updated later.
        """
        ranker = self._ranker
        if not isinstance(ranker, StorableRanker):
            return False
        try:
            index = DatedIndex.load(ranker, stored.data)
        except ValueError:
            return False
        with self.lock:
            updated = self._held.updated
            later = {at for at, number in updated.items() if number > stored.updates}
            indexed = index.ordinals
            if 2 * len((indexed - self._known()) | (indexed & later)) > len(indexed):
                return False
            self._begin(index, later)
        return True

    def _batch(self) -> dict[int, Item | StoredItem | EvictedItem | None]:
        """Return the next changes: pending ordinals with their items, None for a gone one."""
        batch: dict[int, Item | StoredItem | EvictedItem | None] = {}
        tokens = 0
        for ordinal in self._pending:
            item = self._held.find(ordinal)
            batch[ordinal] = item
            if item is not None:
                tokens += item.tokens
            if len(batch) == _BATCH or tokens >= _BATCH_TOKENS:
                break
        return batch

    def _take_in_batch(self, index: DatedIndex) -> bool:
        """Take in one batch of changes, and return whether there was any.

        The batch is chosen between two changes of the holdings. If it fails, it stays pending.
        """
        with self.lock:
            batch = self._batch() if self._pending else {}
            if not batch:
                self._note_settled(index)
                return False
            for ordinal in batch:
                del self._pending[ordinal]
            self._settled_counts = None
        try:
            index.put({at: self._held.whole(item) for at, item in batch.items()})
        except BaseException:
            with self.lock:
                self._put_back(index, batch)
            raise
        with self.lock:
            self._unstored += len(batch)
            self._note_settled(index)
        return True

    def _note_settled(self, index: DatedIndex) -> None:
        """Note the change counts if the index has all changes. The caller holds `lock`."""
        if self._index is index and not self._pending:
            self._settled_counts = self._held.change_counts

    def _put_back(self, index: DatedIndex, batch: Iterable[int]) -> None:
        """Let a batch that failed be pending again, unless the index is given up."""
        if self._index is not index:
            return
        if index.is_sound:
            self._pending.update(dict.fromkeys(batch))
        else:
            self._clear()

    def _warm_up(self) -> None:
        """Rank once, by the text of an item.

        That makes the tables that every ranking uses, here beside the event loop.
        """
        if self._is_warm or self._index is None or len(self._held) < MIN_STORED:
            return
        self._is_warm = True
        with self.lock:
            newest = self._held.stored[-1]
        self._index.index.rank(decoded(newest).text[:_WARM_UP_CHARS], 1)
