"""Labels of entries, such as roles, as numbers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = 0
"""The number of no label."""
_NO_NUMBERS = np.empty(0, np.int32)


class Labels:
    """The label of each slot, by number: from 1 on, each given once."""

    def __init__(self, names: Iterable[str] = (), numbers: NDArray[np.int32] = _NO_NUMBERS) -> None:
        self.numbers = array("i", numbers.tobytes())  # by slot
        self._names: list[str | None] = [None, *names]  # by number, None where no slot has it any more
        self.number_of = {name: number for number, name in enumerate(self._names) if name is not None}
        self._sizes = array("i", np.bincount(numbers, minlength=len(self._names)).astype(np.int32).tobytes())

    def __len__(self) -> int:
        """Return how many labels there are."""
        return len(self.number_of)

    @property
    def size(self) -> int:
        """Return one above the largest number ever given."""
        return len(self._names)

    def name(self, number: int) -> str:
        """Return the label of a number, "" for one that no slot has."""
        return self._names[number] or ""

    def append(self, name: str | None) -> bool:
        """Label the next slot, None for not at all, and return whether none had this label."""
        if name is None:
            self.numbers.append(NONE)
            return False
        number = self.number_of.get(name)
        if is_new := number is None:
            number = self.number_of[name] = len(self._names)
            self._names.append(name)
            self._sizes.append(0)
        self.numbers.append(number)
        self._sizes[number] += 1
        return is_new

    def clear(self, slot: int) -> bool:
        """Take a slot's label away, and return whether no other has it."""
        number, self.numbers[slot] = self.numbers[slot], NONE
        name = self._names[number]
        if name is None:
            return False
        self._sizes[number] -= 1
        if not self._sizes[number]:
            del self.number_of[name]
            self._names[number] = None
        return not self._sizes[number]

    def frozen(self) -> Callable[[NDArray[np.int64]], tuple[list[str], NDArray[np.int32], NDArray[np.int64]]]:
        """Return a function that gives the labels of some slots as they are now, despite later changes.

        It returns the labels in order, the number of each slot's among these, and the new number of each old one, -1
        for one that is gone.
        """
        return partial(_settled, dict(self.number_of), self.size, np.array(self.numbers, np.int32))


def _settled(
    number_of: dict[str, int], size: int, numbers: NDArray[np.int32], slots: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int64]]:
    names: Sequence[str] = sorted(number_of)
    places = np.full(size, -1)
    places[[NONE, *map(number_of.__getitem__, names)]] = np.arange(len(names) + 1)
    return list(names), places[numbers[slots]].astype(np.int32), places
