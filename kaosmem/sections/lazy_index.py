"""The index of a section.

It is made or read back when the section is first ranked, and then follows its changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple, cast

from kaosmem.exact import log
from kaosmem.language.dates import day_of
from kaosmem.retrieval.ranker import CountingIndex, Ranking, StorableRanker, ranking_of
from kaosmem.sections.holdings import Holdings, Moment
from kaosmem.sections.past import EvictedItem
from kaosmem.types.items import decoded

if TYPE_CHECKING:
    from kaosmem.language.dates import Period
    from kaosmem.language.query import Query
    from kaosmem.retrieval import Index
    from kaosmem.retrieval.ranker import Ranker, StorableIndex
    from kaosmem.types.items import Item, StoredItem

MIN_STORED = 500
"""An index of fewer items is not kept: it is made in milliseconds."""

_UNSTORED_SHARE = 10
"""An index is kept anew when the kept one lacks a tenth of it: each item is written ten times at most on average, and
to catch up costs a tenth of making it."""


_BATCH = 64
"""Entries that are indexed at a time, in about 20 ms.

A caller that needs the section meanwhile waits for one batch.
"""
_BATCH_TOKENS = 16_384
_WARM_UP_CHARS = 200
_LOOKED_AT = 4_096
"""Entries looked through for a batch, as evicted items that only files hold are passed over."""


class StoredIndex(NamedTuple):
    """An index as it is kept. updates: how many updates of items it knows of."""

    updates: int
    data: memoryview


class IndexDump(NamedTuple):
    """An index to be kept, with the name of its ranker. Its data are chunks that do not change."""

    ranker: str
    updates: int
    chunks: Iterable[bytes]


_OUTSIDE = 50
"""An item outside the periods counts this fraction of its score.

Of the LoCoMo questions that name a date, 94 % have their evidence in that period. "Last week" is
often meant loosely. With 50, evidence in the period comes first, and a far better match outside it
is not lost.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The items that are ranked for a query.

    ranked: the items that match its words, best first.
    newest: the other items of the query's periods, newest first. They come after the ranked items.
    are_newest_first: no item of the periods matches, and the newest come before the ranked items.
    """

    ranked: Ranking
    newest: tuple[int, ...] = ()
    are_newest_first: bool = False

    def scored(self, limit: int) -> list[tuple[int, float]]:
        """Return the best of all with scores.

        The newest get as much as the best match if they come first, else 0.
        """
        if not self.are_newest_first:
            return [*self.ranked.matches, *((each, 0.0) for each in self.newest)][:limit]
        most = _OUTSIDE * self.ranked.matches[0][1] if self.ranked.matches else 1.0
        return [*((each, most) for each in self.newest), *self.ranked.matches][:limit]


def _preferring(meant: Collection[int], ranked: Ranking, within: Ranking, limit: int) -> Found:
    """Return at most `limit` ranked items and `limit` newest ones, best those of the periods.

    meant: ordinals of the items of the periods. ranked: the ranking of all items.
    within: the ranking of the items of the periods alone, by the topic. Its scores are not comparable with those of
        all. An item that all others outrank gets a share of the worst score.
    """
    scores = dict(ranked.matches)
    worst = ranked.matches[-1][1] if scores else 1.0
    matches = {
        each: scores.get(each, worst * score / within.matches[0][1])
        for each, score in within.matches
    }
    matches |= {each: score / _OUTSIDE for each, score in ranked.matches if each not in meant}
    best = sorted(matches.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    newest = sorted((each for each in meant if each not in matches), reverse=True)[:limit]

    def signals(ordinal: int) -> Mapping[str, float]:
        """Return the signals of an item.

        One of the periods has `period` too: its addend to the score's logarithm.
        """
        found = ranked.signals(ordinal) or within.signals(ordinal)
        return {**found, "period": round(log(_OUTSIDE), 9)} if ordinal in meant else found

    return Found(Ranking(best, signals), tuple(newest), not within.matches)


class LazyIndex:
    """A ranker's index over holdings. Before it ranks, it takes in their changes in batches.

    Public methods may run in another thread while the holdings change. Every change of the holdings is made and noted
    here under `lock`, so that a batch is chosen between two changes.
    asking: held by the thread that asks or changes the index. `find`, `unread`, `synced` and `frequencies` expect it.
    """

    def __init__(self, ranker: Ranker | None, held: Holdings, lock: RLock) -> None:
        self._ranker = ranker
        self._held = held
        self.lock = lock
        self.asking = Lock()
        self._read_stored: Callable[[str], StoredIndex | None] | None = None
        self._index: Index | None = None
        self._updates: int | None = (
            None  # of which the index knows, None where it is another's and has not caught up
        )
        self._seen = Moment(0, 0)  # the newest of which the index may have anything
        self._unstored = 0  # changes of the index that the one that is kept lacks
        # ordinals below this are known here: of items that the index has, or that are stale or
        # unread
        self._noted = 0
        self._stale: dict[
            int, bool
        ] = {}  # held ordinal, new or changed -> whether the index has it
        self._unread: dict[int, bool] = {}  # as `_stale`, of evicted items that only files hold
        self._gone: dict[int, None] = {}  # ordinals that the index has still
        self._is_warm = False
        self._days = array(
            "i"
        )  # of the entry of each ordinal, as `date.toordinal` counts; 0 of one that is not there
        self._ranked: tuple[str, int, Ranking] | None = (
            None  # as the index is, since it last changed
        )

    def keep_in(self, read: Callable[[str], StoredIndex | None]) -> None:
        """Say how to read the index that was kept for a ranker's name. It is read once at most."""
        self._read_stored = read

    def came_back(self, ordinals: Iterable[int]) -> None:
        """Note items at ordinals that were given before. Items at new ordinals need no note."""
        if self._index is not None:
            self._stale |= dict.fromkeys(ordinals, False)

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        if self._index is not None and ordinal < self._noted:
            self._stale.setdefault(ordinal, True)

    def removed(self, ordinals: Iterable[int]) -> None:
        """Note that items are gone."""
        if self._index is not None:
            for ordinal in ordinals:
                if ordinal < self._noted and self._stale.pop(
                    ordinal, self._unread.pop(ordinal, True)
                ):
                    self._gone[ordinal] = None

    def _note_new(self) -> None:
        """Note the items that came since the last time."""
        with self.lock:
            new = range(self._noted, self._held.taken)
            self._noted = self._held.taken
            for ordinal in new:
                if ordinal in self._held or ordinal in self._held.past:
                    self._stale[ordinal] = False

    def unread(self, limit: int) -> list[EvictedItem]:
        """Return some of the items that the index lacks until they are read: `read` says when."""
        self.synced()
        known = map(self._held.known, islice(self._unread, limit))
        return [item for item in known if isinstance(item, EvictedItem)]

    def read(self, ordinals: Iterable[int]) -> None:
        """Note that the texts of these evicted items are at hand, until the index has them."""
        self._stale |= {
            ordinal: self._unread.pop(ordinal) for ordinal in ordinals if ordinal in self._unread
        }

    def inherit(self, other: LazyIndex, shared: int) -> None:
        """Take another's index.

        Note the differences: any of the first `shared` items may differ, later ones do.

        The other one lets go of it. The caller holds its `asking`.
        """
        self._read_stored = other._read_stored
        if not shared or other._index is None:
            return
        self._index = other._index
        self._unstored = other._unstored
        self._seen = other._seen
        self._days = other._days[:]
        self._is_warm = other._is_warm
        if isinstance(self._ranker_used, StorableRanker):
            cast("StorableIndex", self._index).tokens_of = self._held.item_tokens
        other._note_new()
        lacking = {
            at
            for each in (other._stale, other._unread)
            for at, indexed in each.items()
            if not indexed
        }
        now = {*chain(self._held.past, self._held)}
        before = {*chain(other._held.past, other._held)} - lacking | other._gone.keys()
        kept = {ordinal for ordinal in before & now - other._gone.keys() if ordinal < shared}
        # An item changes by an update, which has a number, or when it is counted again.
        tokens = zip(kept, self._held.item_tokens(kept), other._held.item_tokens(kept), strict=True)
        changed = {at for at, after, had in tokens if after != had}
        changed |= {at for at in kept if self._held.updated.get(at) != other._held.updated.get(at)}
        self._gone = dict.fromkeys(before - kept)
        self._noted = self._held.taken
        self._stale = dict.fromkeys(now - kept, False)
        self._stale |= dict.fromkeys(changed, True)
        self._stale |= {
            at: True for each in (other._stale, other._unread) for at in each if at in kept
        }
        other._index = None

    def find(self, query: Query, limit: int, among: set[int] | None = None) -> Found:
        """Return at most `limit` ranked items and `limit` newest ones.

        among: the ordinals to choose from; None for all.
        """
        ranked = self._rank(query.text, limit, among)
        meant = self._of_periods(query.periods) if query.periods else set()
        if among is not None:
            meant &= among
        if not meant:
            return Found(ranked)
        within = self._rank(query.topic, max(limit, len(meant)), meant)
        return _preferring(meant, ranked, within, limit)

    def _rank(self, query: str, limit: int, among: set[int] | None) -> Ranking:
        index = self.synced()
        if among is None and self._ranked is not None and self._ranked[:2] == (query, limit):
            return self._ranked[2]
        ranking = ranking_of(index, query, limit, among=among)
        if among is None:
            self._ranked = query, limit, ranking
        return ranking

    def _of_periods(self, periods: Iterable[Period]) -> set[int]:
        """Return the ordinals of all items that are of one of these periods."""
        import numpy as np

        days = np.frombuffer(self._days, np.int32)
        meant = np.zeros(len(days), np.bool_)
        for first, last in periods:
            meant |= (first.toordinal() <= days) & (days <= last.toordinal())
        return set(np.flatnonzero(meant).tolist())

    def frequencies(self, terms: Iterable[str]) -> Mapping[str, int] | None:
        """Return the number of items with each term; None if the index does not count them."""
        index = self.synced()
        return index.frequencies(terms) if isinstance(index, CountingIndex) else None

    @property
    def behind(self) -> int:
        """Return how many changes the index lacks.

        Evicted items that have to be read first are not counted.
        """
        with self.lock:
            if self._index is None:
                return len(self._held) + len(self._held.past)
            self._note_new()
            return len(self._gone) + len(self._stale)

    def synced(self) -> Index:
        """Return the index with all changes, except evicted items that have to be read first."""
        while self._index is None or self.behind:
            self._catch_up()
        return self._index

    @contextmanager
    def asked(self) -> Iterator[Index]:
        """Give the ranker's index with all changes, for one caller at a time."""
        with self.asking:
            yield self.synced()

    def catch_up(self) -> None:
        """Read back the index that was kept, or index one batch of changes.

        This is meant for another thread: the section may change meanwhile. If it raises, the
        changes stay to be made.
        """
        with self.asking:
            stored = None
            if (
                self._index is None
                and self._read_stored
                and len(self._held) + len(self._held.past) >= MIN_STORED
            ):
                read = self._read_stored
                self._read_stored = None
                stored = read(self._ranker_used.name)
            if self.behind:
                self._catch_up(stored)

    def _catch_up(self, stored: StoredIndex | None = None) -> None:
        """Make the index or read it back, or take one batch of changes in.

        Where this fails, they stay noted.
        """
        if self._index is None:
            self._begin(stored)
        elif self._gone:
            self._take_out(_BATCH)
        else:
            self._take_in(self._index)
        with self.lock:
            if self.behind:
                return
            if not any(self._unread.values()):
                self._updates = self._held.updates
                self._seen = self._held.moment
        self._warm_up()

    def purge(self) -> None:
        """Keep nothing of items that are gone: no entry and no last query.

        This may be done in another thread. After items are forgotten, their words stay in the index
        until this call or the next ranking.
        """
        is_left = True
        while is_left:
            with self.asking:
                self._take_out(_BATCH)
                is_left = bool(self._gone)

    @property
    def to_store(self) -> Moment | None:
        """Return the present moment if the index is to be stored now.

        None: the stored index is as good.
        """
        index = self._index
        if index is None or self._updates is None or len(index) < MIN_STORED:
            return None
        if self._unstored < max(MIN_STORED, len(index) // _UNSTORED_SHARE):
            return None
        return self._held.moment if isinstance(self._ranker_used, StorableRanker) else None

    def dump(self, moment: Moment) -> IndexDump | None:
        """Return the index, which counts as kept from now on. This may be done in another thread.

        Return None if it has anything from after that moment, or lacks an earlier change.
        """
        with self.asking:
            with self.lock:
                index = self._index
                updates = self._updates
                seen = self._seen
                if (
                    index is None
                    or updates is None
                    or seen.taken > moment.taken
                    or seen.updates > moment.updates
                ):
                    return None
                unstored = self._unstored
                self._unstored = 0
            chunks = cast("StorableIndex", index).dump()
            if chunks is None:
                self._unstored += unstored
                return None
            return IndexDump(
                self._ranker_used.name, updates, chain((_dump_days(self._days),), chunks)
            )

    def not_stored(self) -> None:
        """Note that nothing is kept of the index."""
        self._unstored = 0 if self._index is None else len(self._index)

    @property
    def _ranker_used(self) -> Ranker:
        if self._ranker is None:
            from kaosmem.retrieval.rankers import LinearRanker

            self._ranker = LinearRanker()
        return self._ranker

    def _begin(self, stored: StoredIndex | None) -> None:
        """Have the index that was kept, with a note of the differences, or an empty one."""
        index = None if stored is None else self._loaded(stored)
        with self.lock:
            if index is None or stored is None or not self._takes(index, stored.updates):
                held = self._held
                ranker = self._ranker_used
                if isinstance(ranker, StorableRanker):
                    self._index = ranker.index(tokens_of=held.item_tokens)
                else:
                    self._index = ranker.index()
                self._gone, self._stale = {}, dict.fromkeys(chain(held.past, held), False)
                self._noted = held.taken
                self._updates = held.updates
                self._seen = Moment(0, 0)
                self._days = array("i")

    def _warm_up(self) -> None:
        """Rank once, by the text of an item.

        That makes the tables that every ranking uses, here beside the event loop.
        """
        if not self._is_warm and self._index is not None and len(self._held) >= MIN_STORED:
            self._is_warm = True
            with self.lock:
                newest = self._held.stored[-1]
            self._index.rank(decoded(newest).text[:_WARM_UP_CHARS], 1)

    def _loaded(self, stored: StoredIndex) -> StorableIndex | None:
        ranker = self._ranker_used
        if not isinstance(ranker, StorableRanker):
            return None
        try:
            self._days, data = _load_days(stored.data)
            return ranker.load(data, tokens_of=self._held.item_tokens)
        except ValueError:
            return None

    def _takes(self, index: StorableIndex, updates: int) -> bool:
        """Take over an index that was stored after `updates` updates, if that saves time.

        An ordinal is given once, so that items in both are the same except for updates. Other
        entries of the index are gone.
        """
        known = {*index.ordinals.tolist()}
        now = {*chain(self._held.past, self._held)}
        changed = (
            {at for at, number in self._held.updated.items() if number > updates} & known & now
        )
        if 2 * (len(known - now) + len(changed)) > len(known):
            return False
        self._gone = dict.fromkeys(known - now)
        self._noted = self._held.taken
        self._stale = dict.fromkeys(sorted(now - known), False) | dict.fromkeys(changed, True)
        self._index = index
        self._updates = updates
        self._seen = Moment(max(known, default=-1) + 1, updates)
        return True

    def _take_out(self, limit: int) -> None:
        """Remove some entries that are gone."""
        self._ranked = None
        for _ in range(limit):
            with self.lock:
                if self._index is None or not self._gone:
                    return
                ordinal = next(iter(self._gone))
                del self._gone[ordinal]  # each once, also where a later one raises
            self._index.remove(ordinal)
            self._days[ordinal] = 0
            self._unstored += 1

    def _take_in(self, index: Index) -> None:
        """Add and update one batch of entries, chosen between two changes of the holdings."""
        with self.lock:
            batch = self._batch()
            changed = [ordinal for ordinal in batch if self._stale.pop(ordinal)]
            self._seen = self._held.moment
        self._ranked = None
        before = len(index)
        try:
            while changed:
                item = decoded(batch[changed[-1]])
                index.update(changed[-1], item)
                self._note_day(changed[-1], item)
                del batch[changed.pop()]
                self._unstored += 1
            new = [(ordinal, decoded(item)) for ordinal, item in batch.items()]
            index.add(new)
            for ordinal, item in new:
                self._note_day(ordinal, item)
            self._unstored += len(batch)
        except BaseException:
            with self.lock:
                self._put_back(batch, changed, is_sound=len(index) == before)
            raise

    def _note_day(self, ordinal: int, item: Item) -> None:
        self._days.extend(0 for _ in range(len(self._days), ordinal + 1))
        self._days[ordinal] = day_of(item).toordinal()

    def _batch(self) -> dict[int, Item | StoredItem]:
        """Return the next items to be indexed, by ordinal, and note those that must be read first."""
        batch: dict[int, Item | StoredItem] = {}
        tokens = 0
        for ordinal in [*islice(self._stale, _LOOKED_AT)]:
            item = self._held.undecoded(ordinal)
            if isinstance(item, EvictedItem):
                self._unread[ordinal] = self._stale.pop(ordinal)
                continue
            batch[ordinal] = item
            tokens += item.tokens
            if len(batch) == _BATCH or tokens >= _BATCH_TOKENS:
                break
        return batch

    def _put_back(self, batch: Iterable[int], changed: Iterable[int], *, is_sound: bool) -> None:
        """Note once more the changes that were not taken in.

        An index that may have a part of them is made anew.
        """
        if not is_sound:
            self._index = None
            self._updates = None
            self._gone = {}
            self._stale = {}
            self._unread = {}
            return
        had = {*changed}
        for ordinal in batch:
            if ordinal in had:
                if ordinal not in self._gone:
                    self._stale.setdefault(ordinal, True)
            elif ordinal in self._gone:  # removed meanwhile; if it has come back, that is noted
                del self._gone[ordinal]
            else:
                self._stale[ordinal] = False


_DAYS_ALIGNED = 64
"""A dump begins with the number of days in 8 bytes and the days in 4 bytes each.

This beginning is filled up to a multiple of so many bytes.
"""


def _dump_days(days: array[int]) -> bytes:
    import numpy as np

    size = 8 + 4 * len(days)
    return (
        len(days).to_bytes(8, "little")
        + np.array(days, "<i4").tobytes()
        + bytes(-size % _DAYS_ALIGNED)
    )


def _load_days(data: memoryview) -> tuple[array[int], memoryview]:
    """Return the days and the rest of a dump. Raises ValueError for a dump that is too short."""
    import numpy as np

    count = int.from_bytes(data[:8], "little")
    size = 8 + 4 * count
    if size > len(data):
        raise ValueError(f"the dump of an index has {len(data)} bytes; its days take {size}")
    days = array("i", np.frombuffer(data[8:size], "<i4").tolist())
    return days, data[size + -size % _DAYS_ALIGNED :]
