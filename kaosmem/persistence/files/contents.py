"""The last line of an archive file: a table of its items, without their texts.

The line says which checksum comes before it, so that it can be read and checked alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import accumulate, compress, repeat
from operator import sub
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.persistence.files.columns import (
    check,
    decode_columns,
    encode_columns,
    is_empty,
    malformed_table,
)
from kaosmem.persistence.files.lines import checksum, parse_object, stated_crc
from kaosmem.persistence.files.manifest import ListedArchive
from kaosmem.persistence.steps import Read, Steps
from kaosmem.sections.archive import EvictedFile, EvictedItem, parse_time
from kaosmem.types import JSONDict
from kaosmem.types.items import stated_from

_MAX_BYTES = 48 * 2**20  # as a line may not be too long
_ROW_BYTES = 80
"""Size of a row in JSON, at most, beside its id, section and key."""

_COLUMNS: Mapping[str, type] = {
    "id": str,
    "section": str,
    "tokens": int,
    "position": int,
    "unit": int,
    "updated": int,
    "key": str,
    "created_at": str,
    "stated_from": str,
    "valid_until": str,
}
"""The columns and the types of their values: the fields of an `EvictedItem`, in its order.

The column `unit` says how far the item is from the first one of its unit. There, and in the column
`updated`, None stands for 0.
"""

_RECALLABLE = {"id": str, "tokens": int, "position": int, "unit": int}
"""The fields of every item that may be recalled, and their types."""

_NUMBERS = "tokens", "position", "unit", "updated"
_TIMES = "created_at", "stated_from", "valid_until"


class ArchiveTableBuilder:
    """Sum up an archive file as it is written.

    Args:
        counter: Name of the counter of its tokens, or None if unknown.
    """

    def __init__(self, counter: str | None) -> None:
        self._counter = counter
        self._sizes: list[int] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._bytes = 0

    def note(
        self,
        size: int,
        section: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Take in the next line: its bytes, and the section and data of its item."""
        self._sizes.append(size)
        if data is None:
            return
        row = _row(section, data)
        for name, column in self._columns.items():
            column.append(row.get(name))
        named = f"{row['id']}{section}{row['key']}"
        self._bytes += len(named.encode()) + _ROW_BYTES

    @property
    def fields(self) -> JSONDict:
        """Return it as JSON values, nothing where it is too much for a line."""
        if self._bytes > _MAX_BYTES:
            return {}
        return self.all_fields

    @property
    def all_fields(self) -> JSONDict:
        """Return it as JSON values. A column without a value is left out."""
        columns = encode_columns(self._columns)
        return {"counter": self._counter, "sizes": self._sizes, "columns": columns}


def _row(section: str, data: Mapping[str, Any]) -> JSONDict:
    """Return the row of an item. Only the row of an item that may be recalled has a position."""
    key = data.get("key")
    row: JSONDict = {"id": data.get("id"), "section": section, "key": key}
    if any(type(data.get(name)) is not kind for name, kind in _RECALLABLE.items()):
        return row
    row["tokens"] = data["tokens"]
    row["position"] = data["position"]
    row["unit"] = (data["position"] - data["unit"]) or None
    row["updated"] = data.get("updated")
    if key is not None:
        row["created_at"] = data.get("created_at")
        stated = stated_from(data.get("metadata", {}))
        if stated is not None:
            row["stated_from"] = stated.isoformat()
    if "ended" in data:
        row["valid_until"] = data["ended"][0]
    return row


class ArchiveTable:
    """The table of an archive file.

    Attributes:
        counter: Name of the counter of the tokens, or None if unknown.
        starts: Where each line of the file begins, and where the last item's ends.

    Args:
        fields: As `ArchiveTableBuilder` gives them.

    Raises:
        CorruptionError: If they make no sense.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.counter = fields.get("counter")
        sizes = fields.get("sizes")
        check(isinstance(self.counter, str | None))
        if not isinstance(sizes, list):
            raise malformed_table()
        check(set(map(type, sizes)) == {int} and min(sizes) >= 0)
        self.starts = array("q", accumulate(sizes, initial=0))
        self._columns = decode_columns(fields.get("columns"), _COLUMNS, len(self.starts) - 2)

    def lines(self, column: str, values: Container[str]) -> list[int]:
        """Return the numbers of the lines that have one of these values in a column, ascending."""
        return [line for line, each in enumerate(self._columns[column], 1) if each in values]

    def evicted(self, file: EvictedFile) -> Iterator[EvictedItem]:
        """Return the items that may be recalled, in order.

        Raises:
            CorruptionError: If they make no sense.
        """
        columns = dict(self._columns)
        lines: Iterable[int] = range(1, len(self.starts) - 1)
        if None in columns["position"]:
            is_recallable = [position is not None for position in columns["position"]]
            lines = compress(lines, is_recallable)
            for name, column in columns.items():
                columns[name] = list(compress(column, is_recallable))
        columns["updated"] = [number or 0 for number in columns["updated"]]
        distances = [number or 0 for number in columns["unit"]]
        check(None not in columns["id"])
        check(None not in columns["tokens"] and min(distances, default=0) >= 0)
        columns["unit"] = list(map(sub, columns["position"], distances))
        for name in _NUMBERS:
            check(min(columns[name], default=0) >= 0)
        check(_places(columns["key"]) == _places(columns["created_at"]))
        for name in _TIMES:
            columns[name] = _as_times(columns[name])
        # A session has as many as it ever evicted: no loop of ours makes them as fast.
        return map(EvictedItem, *columns.values(), repeat(file), lines)


def _places(column: list[Any]) -> list[int]:
    """Return the places of the values of a column."""
    if is_empty(column):
        return []
    return [place for place, value in enumerate(column) if value is not None]


def _as_times(column: list[Any]) -> list[Any]:
    """Return a column with times in the place of their texts. Raises CorruptionError."""
    times = list(column)
    try:
        for place in _places(column):
            times[place] = parse_time(column[place])
    except InvalidArgumentError:
        raise malformed_table() from None
    return times


def read_table(listed: ListedArchive) -> Steps[ArchiveTable | None]:
    """Return the table in the last line of an archive file, None without one.

    Raises CorruptionError, FileNotFoundError.
    """
    line: bytes = (yield Read(listed.path, listed.start))[:-1]
    listed.check(line)
    fields = parse_object(line)
    checksum(line, stated_crc(b'{"crc":"' + str(fields.get("after")).encode()))
    if "columns" in fields:
        return ArchiveTable(fields)
    return None
