"""Slots of an index's entries, in order of arrival, found by ordinal."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.ranker import unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_ORDINALS = np.empty(0, np.int64)


class Slots:
    """The ordinals of entries by slot.

    A new entry gets the next slot, and that of a removed one stays empty. The first slots may be settled: those of
    entries in order of ordinals, which are found without a table.
    """

    def __init__(self, settled: NDArray[np.int64] = _NO_ORDINALS) -> None:
        self._ordinals = array("q", settled.tobytes())
        self._settled = len(settled)
        self._full = bytearray(b"\1") * len(settled)
        self._empty = 0
        self._later: dict[int, int] = {}  # ordinal -> slot, of entries that are not settled

    def __len__(self) -> int:
        """Return the number of slots, empty ones too."""
        return len(self._ordinals)

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and self.get(ordinal) >= 0

    @property
    def used(self) -> int:
        """Return the number of entries."""
        return len(self._ordinals) - self._empty

    @property
    def settled(self) -> int:
        """Return how many slots were settled."""
        return self._settled

    @property
    def unsettled(self) -> int:
        """Return how many slots are empty, or of entries that have come since the others were settled."""
        return len(self._ordinals) - self._settled + self._empty

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Return the ordinal of each slot, empty ones too: a view to be let go of before the next change."""
        return np.frombuffer(self._ordinals, np.int64)

    def in_order(self) -> NDArray[np.int64]:
        """Return the slots of the entries in order of ordinals."""
        used = np.flatnonzero(np.frombuffer(self._full, np.bool_))
        ordinals = self.ordinals[used]
        return used if (ordinals[1:] > ordinals[:-1]).all() else used[np.argsort(ordinals)]

    def get(self, ordinal: int) -> int:
        """Return the slot of an entry, -1 for an unknown ordinal."""
        slot = self._later.get(ordinal)
        if slot is not None:
            return slot
        slot = bisect_left(self._ordinals, ordinal, 0, self._settled)
        return slot if slot < self._settled and self._ordinals[slot] == ordinal and self._full[slot] else -1

    def find(self, ordinal: int) -> int:
        """Return the slot of an entry. Raises KeyError for an unknown ordinal."""
        slot = self.get(ordinal)
        if slot < 0:
            raise unknown(ordinal)
        return slot

    def find_all(self, ordinals: Collection[int]) -> NDArray[np.int64]:
        """Return the slots of entries, -1 for each unknown ordinal: shape (n,)."""
        try:
            wanted = np.fromiter(ordinals, np.int64, len(ordinals))
        except OverflowError:
            return np.fromiter(map(self.get, ordinals), np.int64, len(ordinals))
        slots = np.full(len(wanted), -1)
        if self._settled:
            settled = self.ordinals[: self._settled]
            near = np.clip(wanted - settled[0], 0, self._settled - 1)  # right where no ordinal before it is missing
            (others,) = np.nonzero(settled[near] != wanted)
            near[others] = np.minimum(np.searchsorted(settled, wanted[others]), self._settled - 1)
            found = (settled[near] == wanted) & np.frombuffer(self._full, np.bool_)[near]
            slots[found] = near[found]
        if self._later:
            later = np.fromiter(map(self._later.get, wanted.tolist(), repeat(-1)), np.int64, len(wanted))
            slots = np.maximum(slots, later)
        return slots

    def append(self, ordinal: int) -> None:
        """Put a new entry into the next slot."""
        self._later[ordinal] = len(self._ordinals)
        self._ordinals.append(ordinal)
        self._full.append(1)

    def empty(self, slot: int) -> None:
        """Note that the entry in a slot is gone."""
        self._later.pop(self._ordinals[slot], None)
        self._full[slot] = 0
        self._empty += 1


def places_of(slots: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return of each of so many slots its place among these, -1 for one that is not among them: shape (size,)."""
    places = np.full(size, -1)
    places[slots] = np.arange(len(slots))
    return places
