"""A ranker's index that also knows the day of each entry, for queries that name a period."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Self, cast

from kaosmem.language.dates import day_of

if TYPE_CHECKING:
    from kaosmem.language.dates import Period
    from kaosmem.retrieval import Index
    from kaosmem.retrieval.ranker import StorableIndex, StorableRanker, TokensOf
    from kaosmem.types.items import Item

_ALIGNED = 64
"""A dump begins with the number of days in 8 bytes and the days in 4 bytes each.

This beginning is filled up to a multiple of so many bytes.
"""


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
    def load(cls, ranker: StorableRanker, data: memoryview, *, tokens_of: TokensOf) -> Self:
        """Return the index of a dump. Raises ValueError for a damaged one."""
        import numpy as np

        count = int.from_bytes(data[:8], "little")
        size = 8 + 4 * count
        if size > len(data):
            raise ValueError(f"the dump of an index has {len(data)} bytes; its days take {size}")
        days = array("i", np.frombuffer(data[8:size], "<i4").tolist())
        index = ranker.load(data[size + -size % _ALIGNED :], tokens_of=tokens_of)
        dated = cls(index, days)
        if dated.ordinals != {*index.ordinals.tolist()}:
            raise ValueError("the dump of an index has days of other entries")
        return dated
