"""The bytes of a dumped index: a header line, then its columns, little-endian."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kaosmem.errors import CorruptionError
from kaosmem.language.analysis import ANALYSIS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Columns = Mapping[str, "NDArray[Any] | list[str]"]
"""The data of an index, by name: numbers, shape (n,), or texts."""

VERSION = 2
"""Raised when the same columns are written or read in another way."""
_MAX_HEADER_BYTES = 1 << 16
_ALIGNMENT = 8


def encode_columns(kind: str, columns: Callable[[], Columns]) -> Iterator[bytes]:
    """Yield the bytes of an index of some kind: the same for the same columns on every machine."""
    stored = {name: _stored(column) for name, column in columns().items()}
    header = {
        "index": kind,
        "version": VERSION,
        "analysis": ANALYSIS,
        "columns": {name: [each.dtype.str, len(each)] for name, each in stored.items()},
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    yield line + b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"
    for each in stored.values():
        yield each.tobytes()
        yield bytes(-each.nbytes % _ALIGNMENT)


class StoredColumns:
    """The columns of a dump, as views of its bytes where they can be.

    Raises CorruptionError, here or where a column is taken, for bytes that are no index of this
    kind, of another version or analysis, or damaged. Memory is in proportion to the bytes.
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
        self._places = dict(self._placed(header.get("columns"), len(line) + 1))

    def numbers(
        self,
        name: str,
        dtype: DTypeLike,
        *,
        among: tuple[int, int] | None = None,
        size: int | None = None,
    ) -> NDArray[Any]:
        """Return a column of numbers.

        among: the least number and one above the largest. size: number of them.
        """
        stored, start, stop = self._places.get(name, ("", 0, 0))
        wanted = np.dtype(dtype)
        if stored != wanted.newbyteorder("<").str:
            raise unusable(f"it has no column {name!r} of {wanted.name}")
        found = np.frombuffer(self._data[start:stop], stored).astype(wanted, copy=False)
        if size is not None and len(found) != size:
            raise unusable(f"column {name!r} has {len(found)} numbers, not {size}")
        if (
            among is not None
            and len(found)
            and not (among[0] <= found.min().item() and found.max().item() < among[1])
        ):
            raise unusable(
                f"column {name!r} has a number that is not from {among[0]} to below {among[1]}"
            )
        return found

    def texts(self, name: str) -> list[str]:
        """Return a column of texts, each of them once."""
        found = _parsed(self.numbers(name, np.uint8).tobytes())
        if (
            not isinstance(found, list)
            or not {*map(type, found)} <= {str}
            or len({*found}) != len(found)
        ):
            raise unusable(f"column {name!r} is no list of different texts")
        return found

    def is_wide(self, name: str) -> bool:
        """Return whether a column is of numbers of 8 bytes."""
        return self._places.get(name, ("", 0, 0))[0].endswith("8")

    def _placed(self, columns: object, start: int) -> Iterator[tuple[str, tuple[str, int, int]]]:
        if isinstance(columns, dict):
            for name, column in columns.items():
                match column:
                    case [str(dtype), int(size)] if dtype in _DTYPES and 0 <= size <= len(
                        self._data
                    ):
                        stop = start + size * np.dtype(dtype).itemsize
                        yield name, (dtype, start, stop)
                        start = stop + -stop % _ALIGNMENT
                    case _:
                        raise unusable("a column is of no known kind")
        if start != len(self._data):
            raise unusable(
                f"it has {len(self._data)} bytes, and not the {start} that its columns take"
            )


_DTYPES = {
    np.dtype(each).newbyteorder("<").str
    for each in (np.uint8, np.uint16, np.int32, np.uint32, np.int64)
}
_DTYPES.add("<f4")


def unusable(why: str) -> CorruptionError:
    """Return the error for a dump that can't be used; why is about form alone."""
    return CorruptionError(
        f"this is no index that can be used: {why}; make the index anew from its items"
    )


def owned(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as an array of its own, which keeps no bytes of a dump alive."""
    return column if column.flags.owndata else column.copy()


def _stored(column: NDArray[Any] | list[str]) -> NDArray[Any]:
    if isinstance(column, list):
        return np.frombuffer(json.dumps(column, separators=(",", ":")).encode(), np.uint8)
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise unusable("a part of it is no JSON") from None
