"""The columns of an index, in memory and as the bytes of a dump.

A dump is a header line, then the columns, little-endian.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kaosmem.errors import CorruptionError
from kaosmem.language.analysis import ANALYSIS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from kaosmem.retrieval.arrays import Int64s, UInt32s

Columns = Mapping[str, "NDArray[Any] | list[str]"]
"""The data of an index, by name: numbers, shape (n,), or texts."""

VERSION = 3
"""Raised when the same columns are written or read in another way."""
_MAX_HEADER_BYTES = 1 << 16
_ALIGNMENT = 8
_LEAST_ROOM = 64


class GrowingArray:
    """An array with room to grow, one row for each slot.

    Args:
        row_shape: Shape of a row, () for a single number.
    """

    def __init__(self, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self._rows = np.empty((0, *row_shape), dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> NDArray[Any]:
        """Return the rows: a view, which the next change may leave behind."""
        return self._rows[: self._size]

    def append(self, row: Any) -> None:
        """Put a row after the last."""
        self._make_room(1)
        self._rows[self._size] = row
        self._size += 1

    def extend(self, rows: NDArray[Any]) -> None:
        """Put rows after the last."""
        if not len(rows):
            return
        self._make_room(len(rows))
        self._rows[self._size : self._size + len(rows)] = rows
        self._size += len(rows)

    def shorten(self, size: int) -> None:
        """Keep the first rows alone."""
        self._size = size

    def take_over(self, rows: NDArray[Any]) -> None:
        """Have these rows and no others. They are copied when they change, not before."""
        self._rows = rows
        self._size = len(rows)

    def put(self, place: int | slice, row: Any) -> None:
        """Overwrite a row. Rows that are the memory of others are copied first."""
        if not self._rows.flags.owndata:
            self._rows = self._rows.copy()
        self._rows[place] = row

    def _make_room(self, rows: int) -> None:
        wanted = self._size + rows
        if wanted > len(self._rows):
            # Of zeros: other memory may still have words that were forgotten.
            room = max(_LEAST_ROOM, wanted + wanted // 4)
            grown = np.zeros((room, *self._rows.shape[1:]), self._rows.dtype)
            grown[: self._size] = self.values
            self._rows = grown


class Ragged:
    """A column whose rows are sequences of numbers of terms."""

    def __init__(self) -> None:
        self._values = GrowingArray(np.uint32)
        self._starts = GrowingArray(np.int64)
        self._starts.append(0)

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
        self._values.take_over(values)
        self._starts.take_over(np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]))


class Labels:
    """The label of each slot, by number: from 1 on, each number given once. 0 is no label."""

    def __init__(self) -> None:
        self._numbers = GrowingArray(np.int32)
        self._number_of: dict[str, int] = {}
        self.names: list[str | None] = [None]  # by number, None for a lost one
        self.sizes: list[int] = [0]  # number of slots, by number

    def __len__(self) -> int:
        """Return the number of labels that slots have."""
        return len(self._number_of)

    @property
    def numbers(self) -> NDArray[np.int32]:
        """Return the number of each slot's label."""
        return self._numbers.values

    def number(self, name: str) -> int:
        """Return the number of a label, 0 for an unknown one."""
        return self._number_of.get(name, 0)

    def extend(self, names: Sequence[str | None]) -> list[str]:
        """Label the next slots, None for not at all, and return the labels that are new."""
        new = []
        numbers = array("i")
        for name in names:
            if name is not None and name not in self._number_of:
                self._number_of[name] = len(self.names)
                self.names.append(name)
                self.sizes.append(0)
                new.append(name)
            number = 0 if name is None else self._number_of[name]
            self.sizes[number] += 1
            numbers.append(number)
        self._numbers.extend(np.array(numbers, np.int32))
        return new

    def clear(self, slot: int) -> int:
        """Take a slot's label away, and return its number if no other slot has it, else 0."""
        number = int(self.numbers[slot])
        self._numbers.put(slot, 0)
        self.sizes[number] -= 1
        name = self.names[number]
        if name is None:
            return 0
        if self.sizes[number]:
            return 0
        del self._number_of[name]
        self.names[number] = None
        return number

    def in_order(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the labels in order, and the number in that order of each number."""
        names = sorted(self._number_of)
        places = np.zeros(len(self.names), np.int32)
        for place, name in enumerate(names, 1):
            places[self._number_of[name]] = place
        return names, places

    def take_over(self, names: list[str], numbers: NDArray[np.int32]) -> None:
        """Have these labels, of which the first has the number 1, and no others."""
        self._numbers.take_over(numbers)
        self.names = [None, *names]
        self._number_of = {name: number for number, name in enumerate(names, 1)}
        self.sizes = np.bincount(numbers, minlength=len(self.names)).tolist()


def encode_columns(kind: str, columns: Callable[[], Columns]) -> Iterator[bytes]:
    """Yield the bytes of an index of some kind: the same for the same columns on every machine."""
    stored = {name: _stored(column) for name, column in columns().items()}
    header = {
        "index": kind,
        "version": VERSION,
        "analysis": ANALYSIS,
        "columns": {name: each.nbytes for name, each in stored.items()},
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    yield line + b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"
    for each in stored.values():
        yield each.tobytes()
        yield bytes(-each.nbytes % _ALIGNMENT)


class StoredColumns:
    """The columns of a dump, as views of its bytes where they can be.

    Memory is in proportion to the bytes.

    Raises:
        CorruptionError: Here or where a column is taken, if the bytes are no index of this kind, of
            another version or analysis, or damaged.
    """

    def __init__(self, data: bytes | memoryview, kind: str) -> None:
        self._data = memoryview(data).cast("B")
        line = bytes(self._data[:_MAX_HEADER_BYTES]).partition(b"\n")[0]
        header = _parsed(line)
        if not isinstance(header, dict):
            raise unusable("its first line is no header")
        for name, value in (("index", kind), ("version", VERSION), ("analysis", ANALYSIS)):
            if header.get(name) != value:
                raise unusable(f"its {name} is not {value!r}")
        self._columns = self._views(header.get("columns"), len(line) + 1)

    def numbers(
        self,
        name: str,
        dtype: DTypeLike,
        *,
        among: tuple[int, int] | None = None,
        size: int | None = None,
    ) -> NDArray[Any]:
        """Return a column of numbers.

        Args:
            among: The least number, and one above the largest.
            size: Number of them.
        """
        stored = np.dtype(dtype).newbyteorder("<")
        column = self._columns.get(name)
        if column is None or len(column) % stored.itemsize:
            raise unusable(f"it has no column {name!r} of {stored.name}")
        found = np.frombuffer(column, stored).astype(dtype, copy=False)
        if size is not None and len(found) != size:
            raise unusable(f"column {name!r} has {len(found)} numbers, not {size}")
        if among is not None and len(found):
            least, above = among
            if found.min().item() < least or found.max().item() >= above:
                raise unusable(
                    f"column {name!r} has a number that is not from {least} to below {above}"
                )
        return found

    def texts(self, name: str) -> list[str]:
        """Return a column of texts, each of them once."""
        found = _parsed(self.numbers(name, np.uint8).tobytes())
        if not isinstance(found, list) or not {*map(type, found)} <= {str}:
            raise unusable(f"column {name!r} is no list of texts")
        if len({*found}) != len(found):
            raise unusable(f"column {name!r} is no list of different texts")
        return found

    def ragged(self, values: str, sizes: str, rows: int, terms: int) -> tuple[UInt32s, Int64s]:
        """Return a ragged column of numbers of terms: its values, and the sizes of its rows."""
        found = self.numbers(values, np.uint32, among=(1, terms + 1))
        row_sizes = self.numbers(sizes, np.int32, among=(0, 1 << 31), size=rows).astype(np.int64)
        if row_sizes.sum() != len(found):
            raise unusable(f"column {values!r} is not as long as its rows")
        return found, row_sizes

    def labels(self, names: str, numbers: str, size: int) -> tuple[list[str], NDArray[np.int32]]:
        """Return a column of labels: their names, and the number of each slot's label."""
        found = self.texts(names)
        return found, self.numbers(numbers, np.int32, among=(0, len(found) + 1), size=size)

    def _views(self, sizes: object, start: int) -> dict[str, memoryview]:
        """Return the bytes of each column. sizes: how many bytes each has, by name."""
        if not isinstance(sizes, dict):
            raise unusable("its header names no columns")
        views = {}
        for name, size in sizes.items():
            if type(size) is not int or size < 0:
                raise unusable(f"the size of column {name!r} is no whole number")
            views[name] = self._data[start : start + size]
            start += size + -size % _ALIGNMENT
        if start != len(self._data):
            raise unusable(
                f"it has {len(self._data)} bytes, and not the {start} that its columns take"
            )
        return views


def unusable(why: str) -> CorruptionError:
    """Return the error for a dump that can't be used; why is about form alone."""
    return CorruptionError(
        f"this is no index that can be used: {why}; make the index anew from its items"
    )


def _stored(column: NDArray[Any] | list[str]) -> NDArray[Any]:
    if isinstance(column, list):
        return np.frombuffer(json.dumps(column, separators=(",", ":")).encode(), np.uint8)
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise unusable("a part of it is no JSON") from None
