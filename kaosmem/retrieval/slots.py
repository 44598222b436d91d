"""The slots of entries: rows of the columns of an index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.columns import GrowingArray
from kaosmem.retrieval.ranker import unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s


class Slots:
    """The ordinals of entries by slot.

    A new entry gets the next slot. The slot of a removed one stays empty. Most entries come in
    order of their ordinals, and are found by bisection; the others are in a table.
    """

    def __init__(self) -> None:
        self._ordinals = GrowingArray(np.int64)
        self._highest = GrowingArray(np.int64)  # of the ordinals up to each slot
        self._full = GrowingArray(np.bool_)
        self._moved: dict[int, int] = {}  # ordinal -> slot, of entries after a higher ordinal
        self._empty = 0
        self._newest = -1  # the highest ordinal ever given

    def __len__(self) -> int:
        """Return the number of slots, empty ones too."""
        return len(self._ordinals)

    def __contains__(self, ordinal: object) -> bool:
        if not isinstance(ordinal, int) or not 0 <= ordinal <= self._newest:
            return False
        return bool(self.find_all(np.array([ordinal], np.int64))[0] >= 0)

    @property
    def used(self) -> int:
        """Return the number of entries."""
        return len(self) - self._empty

    @property
    def stale(self) -> int:
        """Return how many slots are empty or out of order."""
        return self._empty + len(self._moved)

    @property
    def ordinals(self) -> Int64s:
        """Return the ordinal of each slot, empty ones too."""
        return self._ordinals.values

    @property
    def are_full(self) -> NDArray[np.bool_]:
        """Return whether each slot has an entry."""
        return self._full.values

    def in_order(self) -> Int64s:
        """Return the slots of the entries in order of ordinals."""
        slots = np.flatnonzero(self.are_full)
        if self._moved:
            slots = slots[np.argsort(self.ordinals[slots], kind="stable")]
        return slots

    def find(self, ordinal: int) -> int:
        """Return the slot of an entry. Raises KeyError for an unknown ordinal."""
        if ordinal not in self:
            raise unknown(ordinal)
        return int(self.find_all(np.array([ordinal], np.int64))[0])

    def find_all(self, wanted: Int64s) -> Int64s:
        """Return the slots of ordinals, -1 for each unknown ordinal."""
        if not len(self):
            return np.full(len(wanted), -1)
        slots = np.minimum(np.searchsorted(self._highest.values, wanted), len(self) - 1)
        is_there = (self.ordinals[slots] == wanted) & self.are_full[slots]
        found = np.where(is_there, slots, -1)
        if self._moved:
            (others,) = np.nonzero(~is_there)
            moved = map(self._moved.get, wanted[others].tolist(), repeat(-1))
            found[others] = np.fromiter(moved, np.int64, len(others))
        return found

    def among(self, ordinals: Collection[int]) -> Int64s:
        """Return the slots of the known ordinals, each once."""
        try:
            wanted = np.fromiter(ordinals, np.int64, len(ordinals))
        except OverflowError:
            wanted = np.array([each for each in ordinals if 0 <= each < 1 << 63], np.int64)
        found = np.unique(self.find_all(wanted))
        return found[found >= 0]

    def extend(self, ordinals: Sequence[int]) -> None:
        """Put new entries into the next slots."""
        first = len(self)
        new = np.array(ordinals, np.int64)
        highest = np.maximum.accumulate(np.concatenate([[self._newest], new]))
        for place in np.flatnonzero(new <= highest[:-1]).tolist():
            self._moved[ordinals[place]] = first + place
        self._ordinals.extend(new)
        self._highest.extend(highest[1:])
        self._full.extend(np.ones(len(new), np.bool_))
        self._newest = int(highest[-1])

    def take_over(self, ordinals: Int64s) -> None:
        """Have these entries, in order of ordinals, and no others."""
        self._ordinals.extend(ordinals)
        self._highest.extend(ordinals)
        self._full.extend(np.ones(len(ordinals), np.bool_))
        self._newest = int(ordinals.max(initial=-1))

    def empty(self, slot: int) -> None:
        """Note that the entry in a slot is gone."""
        self._moved.pop(int(self.ordinals[slot]), None)
        self.are_full[slot] = False
        self._empty += 1
