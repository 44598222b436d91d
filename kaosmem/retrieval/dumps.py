"""The bytes of a stored index: a header line, then its columns, little-endian."""

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

VERSION = 6
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
        "columns": {name: each.nbytes for name, each in stored.items()},
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    yield line + b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"
    for each in stored.values():
        yield each.tobytes()
        yield bytes(-each.nbytes % _ALIGNMENT)


class StoredColumns:
    """The columns of a dump, as views of its bytes where they can be.

    Whoever stores a dump keeps its checksum, too. So nothing is checked here but what it is a dump
    of, and its size.

    Raises:
        CorruptionError: If the bytes are no index of this kind, or of another version or analysis.
    """

    def __init__(self, data: bytes | memoryview, kind: str) -> None:
        data = memoryview(data).cast("B")
        line = bytes(data[:_MAX_HEADER_BYTES]).partition(b"\n")[0]
        try:
            header = json.loads(line)
            sizes = dict(header["columns"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise unusable_dump("its first line is no header") from None
        for name, value in (("index", kind), ("version", VERSION), ("analysis", ANALYSIS)):
            if header.get(name) != value:
                raise unusable_dump(f"its {name} is not {value!r}")
        self._views = {}
        start = len(line) + 1
        for name, size in sizes.items():
            self._views[name] = data[start : start + size]
            start += size + -size % _ALIGNMENT
        if start != len(data):
            raise unusable_dump(
                f"it has {len(data)} bytes, and not the {start} that its columns take"
            )

    def numbers(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """Return a column of numbers."""
        stored = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self._views[name], stored).astype(dtype, copy=False)

    def texts(self, name: str) -> list[str]:
        """Return a column of texts, each of them once."""
        found: list[str] = json.loads(bytes(self._views[name]))
        return found


def unusable_dump(why: str) -> CorruptionError:
    """Return the error for a dump that can't be used; why is about form alone."""
    return CorruptionError(
        f"this is no index that can be used: {why}; make the index anew from its items"
    )


def _stored(column: NDArray[Any] | list[str]) -> NDArray[Any]:
    if isinstance(column, list):
        text = json.dumps(column, separators=(",", ":"))
        return np.frombuffer(text.encode(), np.uint8)
    little_endian = column.dtype.newbyteorder("<")
    return column.astype(little_endian, copy=False)
