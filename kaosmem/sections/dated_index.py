"""A ranker's index that also knows the day of each entry, for queries that name a period."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self, cast

from kaosmem.exact import log
from kaosmem.language.dates import day_of
from kaosmem.retrieval.ranker import Ranking, ranking_of

if TYPE_CHECKING:
    from kaosmem.language.dates import Period
    from kaosmem.language.query import Query
    from kaosmem.retrieval import Index
    from kaosmem.retrieval.ranker import StorableIndex, StorableRanker
    from kaosmem.types.items import Item

_ALIGNED = 64
"""A dump begins with the number of days in 8 bytes and the days in 4 bytes each.

This beginning is filled up to a multiple of so many bytes.
"""
_OUTSIDE = 50
"""An item outside the periods counts this fraction of its score.

Of the LoCoMo questions that name a date, 94 % have their evidence in that period. "Last week" is
often meant loosely. With 50, evidence in the period comes first, and a far better match outside it
is not lost.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The items that are ranked for a query.

    Attributes:
        ranked: The items that match its words, best first.
        newest: The other items of the query's periods, newest first. They come after the ranked
            items.
        are_newest_first: No item of the periods matches, and the newest come before the ranked
            items.
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


def _preferring(
    meant: Collection[int],
    ranked: Ranking,
    within: Ranking,
    limit: int,
) -> Found:
    """Return at most `limit` ranked items and `limit` newest ones, best those of the periods.

    Args:
        meant: Ordinals of the items of the periods.
        ranked: The ranking of all items.
        within: The ranking of the items of the periods alone, by the topic. Its scores are not
            comparable with those of all. An item that all others outrank gets a share of the worst
            score.
    """
    scores = dict(ranked.matches)
    worst = ranked.matches[-1][1] if scores else 1.0
    matches = {}
    for each, score in within.matches:
        matches[each] = scores.get(each, worst * score / within.matches[0][1])
    for each, score in ranked.matches:
        if each not in meant:
            matches[each] = score / _OUTSIDE
    best = sorted(matches.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    newest = sorted((each for each in meant if each not in matches), reverse=True)[:limit]

    def signals(ordinal: int) -> Mapping[str, float]:
        """Return the signals of an item.

        One of the periods has `period` too: its addend to the score's logarithm.
        """
        found = ranked.signals(ordinal) or within.signals(ordinal)
        if ordinal in meant:
            return {**found, "period": round(log(_OUTSIDE), 9)}
        return found

    return Found(Ranking(best, signals), tuple(newest), not within.matches)


class DatedIndex:
    """The entries of a ranker's index, each with its day.

    Attributes:
        index: The ranker's own.
        is_sound: Whether each entry is known here. If an addition fails half way, the index may
            have a part of it.
    """

    def __init__(self, index: Index, days: array[int] | None = None) -> None:
        self.index = index
        self.is_sound = True
        # By ordinal, as `date.toordinal` counts; 0 without an entry.
        self._days = array("i") if days is None else days

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and ordinal < len(self._days) and self._days[ordinal] != 0

    @property
    def ordinals(self) -> set[int]:
        """Return the ordinals of all entries."""
        return {ordinal for ordinal, day in enumerate(self._days) if day}

    def of_periods(self, periods: Iterable[Period]) -> set[int]:
        """Return the ordinals of the entries that are of one of these periods."""
        import numpy as np

        days = np.frombuffer(self._days, np.int32)
        meant = np.zeros(len(days), np.bool_)
        for first, last in periods:
            meant |= (first.toordinal() <= days) & (days <= last.toordinal())
        return set(np.flatnonzero(meant).tolist())

    def find(
        self,
        query: Query,
        limit: int,
        among: set[int] | None,
    ) -> Found:
        """Return at most `limit` ranked entries and `limit` newest ones.

        Args:
            among: The ordinals to choose from; None for all.
        """
        ranked = ranking_of(self.index, query.text, limit, among=among)
        meant = self.of_periods(query.periods) if query.periods else set()
        if among is not None:
            meant &= among
        if not meant:
            return Found(ranked)
        within = ranking_of(self.index, query.topic, max(limit, len(meant)), among=meant)
        return _preferring(meant, ranked, within, limit)

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item in an entry's place."""
        self.index.update(ordinal, item)
        self._days[ordinal] = day_of(item).toordinal()

    def remove(self, ordinal: int) -> None:
        """Remove an entry."""
        self.index.remove(ordinal)
        self._days[ordinal] = 0

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item). Raises as the ranker's index does."""
        entries = list(entries)
        before = len(self.index)
        try:
            self.index.add(entries)
        except BaseException:
            self.is_sound = len(self.index) == before
            raise
        for ordinal, item in entries:
            missing = ordinal + 1 - len(self._days)
            if missing > 0:
                self._days.frombytes(bytes(self._days.itemsize * missing))
            self._days[ordinal] = day_of(item).toordinal()

    def dump(self) -> Iterable[bytes] | None:
        """Return the index as it is now, in bytes; None if its ranker cannot store it.

        The bytes may be asked for later, and in another thread.
        """
        import numpy as np

        chunks = cast("StorableIndex", self.index).dump()
        if chunks is None:
            return None
        size = 8 + 4 * len(self._days)
        count = len(self._days).to_bytes(8, "little")
        days = np.array(self._days, "<i4").tobytes()
        return chain((count, days, bytes(-size % _ALIGNED)), chunks)

    @classmethod
    def load(cls, ranker: StorableRanker, data: memoryview) -> Self:
        """Return the index of a dump. Raises ValueError for a damaged one."""
        import numpy as np

        count = int.from_bytes(data[:8], "little")
        size = 8 + 4 * count
        if size > len(data):
            raise ValueError(f"the dump of an index has {len(data)} bytes; its days take {size}")
        days = array("i", np.frombuffer(data[8:size], "<i4").tolist())
        index = ranker.load(data[size + -size % _ALIGNED :])
        dated = cls(index, days)
        if dated.ordinals != {*index.ordinals.tolist()}:
            raise ValueError("the dump of an index has days of other entries")
        return dated
