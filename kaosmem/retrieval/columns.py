"""The columns of an index in memory: a row for each slot, and the slots of entries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kaosmem.retrieval.ranker import MAX_ORDINALS, unknown_ordinal

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Int64s: TypeAlias = NDArray[np.int64]
"""Slots, ordinals, scores and sizes."""
UInt32s: TypeAlias = NDArray[np.uint32]
"""Numbers of terms, and postings."""
Int32s: TypeAlias = NDArray[np.int32]
"""Numbers of labels."""
Int8s: TypeAlias = NDArray[np.int8]
"""Vectors in whole numbers."""
Float32s: TypeAlias = NDArray[np.float32]
"""Vectors as an embedder returns them."""
Float64s: TypeAlias = NDArray[np.float64]
"""Numbers between two steps of a calculation."""
Bools: TypeAlias = NDArray[np.bool_]
"""Whether something holds, by slot or by candidate."""

_LEAST_ROOM = 64


def are_changes(values: NDArray[np.integer]) -> Bools:
    """Return whether each value differs from the one before it. The first one does."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


class GrowingArray:
    """An array with room to grow, one row for each slot.

    Attributes:
        values: The rows: a view, which the next change may leave behind.

    Args:
        row_shape: Shape of a row, () for a single number.
    """

    def __init__(self, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.values: NDArray[Any]
        self.take_over(np.empty((0, *row_shape), dtype))

    def __len__(self) -> int:
        return len(self.values)

    def extend(self, rows: NDArray[Any]) -> None:
        """Put rows after the last."""
        size = len(rows)
        if size:
            self._make_room(size)
            self.values[-size:] = rows

    def shorten(self, size: int) -> None:
        """Keep the first rows alone."""
        self.values = self._rows[:size]

    def lengthen(self, size: int) -> None:
        """Have at least so many rows, new ones of zeros."""
        missing = size - len(self)
        if missing > 0:
            shape = missing, *self._rows.shape[1:]
            self.extend(np.zeros(shape, self._rows.dtype))

    def take_over(self, rows: NDArray[Any]) -> None:
        """Have these rows and no others. They are copied when they change, not before."""
        self._rows = rows
        self.values = rows

    def put(self, place: int | slice, row: Any) -> None:
        """Overwrite a row. Rows that are the memory of others are copied first."""
        if not self._rows.flags.owndata:
            self.take_over(self.values.copy())
        self.values[place] = row

    def _make_room(self, rows: int) -> None:
        """Have more rows, whose values are to be set."""
        wanted = len(self) + rows
        if wanted > len(self._rows):
            # Of zeros: other memory may still have words that were forgotten.
            room = max(_LEAST_ROOM, wanted + wanted // 4)
            grown = np.zeros((room, *self._rows.shape[1:]), self._rows.dtype)
            grown[: len(self)] = self.values
            self._rows = grown
        self.values = self._rows[:wanted]


class RaggedColumn:
    """A column whose rows are sequences of numbers of terms."""

    def __init__(self) -> None:
        self._values = GrowingArray(np.uint32)
        self._starts = GrowingArray(np.int64)
        self._starts.lengthen(1)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def values(self) -> UInt32s:
        """Return the numbers of all rows, one row after another."""
        return self._values.values

    @property
    def starts(self) -> Int64s:
        """Return where each row starts, and the end of all: shape (rows + 1,)."""
        return self._starts.values

    def of(self, row: int) -> UInt32s:
        """Return the numbers of a row."""
        start, stop = self.starts[row : row + 2].tolist()
        return self.values[start:stop]

    def gathered(self, rows: Int64s, *, most: int | None = None) -> tuple[UInt32s, Int64s]:
        """Return the numbers of some rows, one after another, and how many of each row there are.

        Args:
            most: So many of the first numbers of each row are returned. None is all.
        """
        starts = self.starts[rows]
        sizes = self.starts[rows + 1] - starts
        if most is not None:
            sizes = np.minimum(sizes, most)
        shifts = starts - (np.cumsum(sizes) - sizes)
        places = np.repeat(shifts, sizes)
        places += np.arange(len(places))
        return self.values[places], sizes

    def extend(self, values: UInt32s, sizes: Int64s) -> None:
        """Put rows of these sizes after the last."""
        ends = np.cumsum(sizes) + len(self._values)
        self._values.extend(values)
        self._starts.extend(ends)

    def erase(self, row: int) -> None:
        """Overwrite the numbers of a row."""
        start, stop = self.starts[row : row + 2].tolist()
        self._values.put(slice(start, stop), 0)

    def take_over(self, values: UInt32s, sizes: Int64s) -> None:
        """Have these rows and no others."""
        ends = np.cumsum(sizes, dtype=np.int64)
        self._values.take_over(values)
        self._starts.take_over(np.concatenate([[0], ends]))


class LabelColumn:
    """The label of each slot, by number: from 1 on, each number given once. 0 is no label."""

    def __init__(self) -> None:
        self._numbers = GrowingArray(np.int32)
        self._number_of: dict[str, int] = {}
        self.names: list[str | None] = [None]  # by number, None for a lost one

    def __len__(self) -> int:
        """Return the number of labels that slots have."""
        return len(self._number_of)

    @property
    def numbers(self) -> Int32s:
        """Return the number of each slot's label."""
        return self._numbers.values

    def number(self, name: str | None) -> int:
        """Return the number of a label, 0 for an unknown one or none."""
        if name is None:
            return 0
        return self._number_of.get(name, 0)

    def extend(self, names: Sequence[str | None]) -> list[str]:
        """Label the next slots, None for not at all, and return the labels that are new."""
        different = [name for name in dict.fromkeys(names) if name is not None]
        new = [name for name in different if name not in self._number_of]
        for name in new:
            self._number_of[name] = len(self.names)
            self.names.append(name)
        numbers = [*map(self.number, names)]
        self._numbers.extend(np.array(numbers, np.int32))
        return new

    def clear(self, slot: int) -> int:
        """Take a slot's label away, and return its number if no other slot has it, else 0."""
        number = int(self.numbers[slot])
        self._numbers.put(slot, 0)
        name = self.names[number]
        if name is None or (self.numbers == number).any():
            return 0
        del self._number_of[name]
        self.names[number] = None
        return number

    def in_order(self) -> tuple[list[str], Int32s]:
        """Return the labels in order, and the number in that order of each number."""
        names = sorted(self._number_of)
        places = np.zeros(len(self.names), np.int32)
        for place, name in enumerate(names, 1):
            places[self._number_of[name]] = place
        return names, places

    def take_over(self, names: list[str], numbers: Int32s) -> None:
        """Have these labels, of which the first has the number 1, and no others."""
        self._numbers.take_over(numbers)
        self.names = [None, *names]
        self._number_of = {name: number for number, name in enumerate(names, 1)}


class SlotTable:
    """The slots of entries by ordinal. A new entry gets the next slot.

    The slot of a removed entry stays empty. Ordinals are dense: a section numbers its items.
    """

    def __init__(self) -> None:
        self._ordinals = GrowingArray(np.int64)  # by slot, -1 for an empty one
        self._numbers = GrowingArray(np.int32)  # by ordinal, one above the slot, 0 without an entry
        self.used = 0  # number of entries

    def __len__(self) -> int:
        """Return the number of slots, empty ones too."""
        return len(self._ordinals)

    def __contains__(self, ordinal: object) -> bool:
        if not isinstance(ordinal, int) or not 0 <= ordinal < len(self._numbers):
            return False
        return bool(self._numbers.values[ordinal])

    @property
    def ordinals(self) -> Int64s:
        """Return the ordinal of each slot, -1 for an empty one."""
        return self._ordinals.values

    @property
    def are_full(self) -> Bools:
        """Return whether each slot has an entry."""
        return self.ordinals >= 0

    def in_order(self) -> Int64s:
        """Return the slots of the entries in order of ordinals."""
        numbers = self._numbers.values
        return numbers[numbers > 0].astype(np.int64) - 1

    def find(self, ordinal: int) -> int:
        """Return the slot of an entry. Raises KeyError for an unknown ordinal."""
        if ordinal not in self:
            raise unknown_ordinal(ordinal)
        return int(self._numbers.values[ordinal]) - 1

    def find_all(self, wanted: Int64s) -> Int64s:
        """Return the slots of ordinals, -1 for each unknown ordinal."""
        found = np.full(wanted.shape, -1)
        are_known = (wanted >= 0) & (wanted < len(self._numbers))
        found[are_known] = self._numbers.values[wanted[are_known]] - 1
        return found

    def among(self, ordinals: Collection[int]) -> Int64s:
        """Return the slots of the known ordinals, each once."""
        # As floats: a caller may ask for a number that no integer of 64 bits can hold.
        given = np.fromiter(ordinals, np.float64, len(ordinals))
        wanted = np.clip(given, -1, MAX_ORDINALS).astype(np.int64)
        found = np.unique(self.find_all(wanted))
        return found[found >= 0]

    def extend(self, ordinals: Sequence[int] | Int64s) -> None:
        """Put new entries into the next slots."""
        new = np.array(ordinals, np.int64)
        first = len(self) + 1
        self._ordinals.extend(new)
        self._numbers.lengthen(int(new.max(initial=-1)) + 1)
        self._numbers.values[new] = np.arange(first, first + len(new))
        self.used += len(new)

    def empty(self, slot: int) -> None:
        """Note that the entry in a slot is gone."""
        self._numbers.values[self.ordinals[slot]] = 0
        self._ordinals.put(slot, -1)
        self.used -= 1
