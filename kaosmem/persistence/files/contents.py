"""The last line of an archive file: a table of its evicted items, without their texts.

It says which checksum comes before it, so that it can be read and checked alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, repeat
from operator import le
from typing import Any

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.persistence.files.lines import checksum, parse_object, stated_crc
from kaosmem.persistence.files.manifest import ListedArchive
from kaosmem.persistence.steps import Read, Steps
from kaosmem.sections.archive import EvictedFile, EvictedItem, parse_time
from kaosmem.types import JSONValue
from kaosmem.types.items import stated_from

_MAX_BYTES = 48 * 2**20  # as a line may not be too long
_RECALLABLE = {"id": str, "tokens": int, "position": int, "unit": int}
"""The fields of every evicted item, and their types."""


@dataclass
class _Columns:
    """The items of one section that may be recalled, in order. Rare fields are given by number.

    lines, positions: each less the one before.
    """

    lines: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    keys: list[int | str] = field(default_factory=list)
    created: list[int | str] = field(default_factory=list)
    stated: list[int | str] = field(default_factory=list)
    ends: list[int | str] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    last: tuple[int, int] = 0, 0

    def note(self, line: int, data: Mapping[str, Any]) -> None:
        """Take in the item of a line."""
        number = len(self.ids)
        position = data["position"]
        self.lines.append(line - self.last[0])
        self.positions.append(position - self.last[1])
        self.last = line, position
        self.ids.append(data["id"])
        self.tokens.append(data["tokens"])
        if data["unit"] != position:
            self.units += number, data["unit"]
        if "updated" in data:
            self.updates += number, data["updated"]
        if data.get("key") is not None:
            self.keys += number, data["key"]
            self.created += number, data["created_at"]
            if stated := stated_from(data.get("metadata", {})):
                self.stated += number, stated.isoformat()
        if "ended" in data:
            self.ends += number, data["ended"][0]
        if _is_results(data.get("content")):
            self.results.append(number)

    def to_dict(self) -> dict[str, JSONValue]:
        """Return them as JSON values."""
        return {name: value for name, value in vars(self).items() if name != "last"}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> _Columns:
        """Return the object that `to_dict` stored. Raises CorruptionError, KeyError."""
        columns = cls(**{name: stored[name] for name in vars(cls()) if name != "last"})
        numbers = (
            columns.lines,
            columns.positions,
            columns.tokens,
            columns.units,
            columns.updates,
            columns.results,
        )
        _check(all(type(each) is list and {*map(type, each)} <= {int} for each in numbers))
        _check({*map(type, columns.ids)} <= {str} and {*map(type, columns.keys[1::2])} <= {str})
        _check(columns.created[::2] == columns.keys[::2])
        _check(
            len({len(columns.lines), len(columns.positions), len(columns.ids), len(columns.tokens)})
            == 1
        )
        return columns

    def items(self, section: str, file: EvictedFile, end: int) -> Iterator[EvictedItem]:
        """Return the items, which are before the line `end` of a file. Raises CorruptionError."""
        lines = [*accumulate(self.lines)]
        positions = [*accumulate(self.positions)]
        units = _filled(self.units, positions)
        _check(
            all(map(le, units, positions))
            and max(lines, default=0) < end
            and min(lines, default=1) > 0
        )
        _check(min((*units, *self.tokens, *self.updates), default=0) >= 0)
        updates = _filled(self.updates, [0] * len(lines))
        nothing = [None] * len(lines)
        keys: list[str | None] = _filled(self.keys, nothing)
        created: list[datetime | None] = _filled(_timed(self.created), nothing)
        stated: list[datetime | None] = _filled(_timed(self.stated), nothing)
        ends: list[datetime | None] = _filled(_timed(self.ends), nothing)
        results = _filled(
            [each for number in self.results for each in (number, True)], [False] * len(lines)
        )
        # A session has as many as it ever evicted: no loop of ours makes them as fast.
        return map(
            EvictedItem,
            self.ids,
            repeat(section),
            self.tokens,
            positions,
            units,
            updates,
            keys,
            created,
            stated,
            ends,
            results,
            repeat(file),
            lines,
        )


class Contents:
    """Sums up an archive file as it is written.

    counter: name of the counter of its tokens, or None if unknown.
    """

    def __init__(self, counter: str | None) -> None:
        self._counter = counter
        self._sizes: list[int] = []
        self._past: dict[str, _Columns] = {}
        self._keyed: dict[str, dict[str, list[int]]] = {}  # section -> key -> lines
        self._bytes = 0

    def note(self, size: int, section: str = "", data: Mapping[str, Any] | None = None) -> None:
        """Take in the next line: its bytes, and the section and data of its item."""
        if data is not None and all(
            type(data.get(name)) is kind for name, kind in _RECALLABLE.items()
        ):
            self._past.setdefault(section, _Columns()).note(len(self._sizes), data)
            self._bytes += len(data["id"].encode()) + len((data.get("key") or "").encode()) + 24
        elif data is not None and type(key := data.get("key")) is str:
            self._keyed.setdefault(section, {}).setdefault(key, []).append(len(self._sizes))
            self._bytes += len(key.encode()) + 16
        self._sizes.append(size)
        self._bytes += 8

    @property
    def fields(self) -> dict[str, JSONValue]:
        """Return it as JSON values, nothing where it is too much for a line."""
        return self.all_fields if self._bytes <= _MAX_BYTES else {}

    @property
    def all_fields(self) -> dict[str, JSONValue]:
        """Return it as JSON values."""
        past = {section: columns.to_dict() for section, columns in self._past.items()}
        return {"counter": self._counter, "sizes": self._sizes, "past": past, "keyed": self._keyed}


def read_contents(listed: ListedArchive) -> Steps[dict[str, Any] | None]:
    """Return the table in the last line of an archive file, None without one.

    Raises CorruptionError, FileNotFoundError.
    """
    line: bytes = (yield Read(listed.path, listed.start))[:-1]
    listed.check(line)
    fields = parse_object(line)
    checksum(line, stated_crc(b'{"crc":"' + str(fields.get("after")).encode()))
    return fields if "past" in fields else None


def starts_of(fields: Mapping[str, Any]) -> array[int]:
    """Return the offset of each line of an archive file, as its last line lists them.

    Raises CorruptionError.
    """
    sizes: Any = fields.get("sizes")
    _check(type(sizes) is list and {*map(type, sizes)} <= {int} and min(sizes, default=0) >= 0)
    return array("q", accumulate(sizes, initial=0))


def evicted_in(fields: Mapping[str, Any], file: EvictedFile, *, end: int) -> Iterator[EvictedItem]:
    """Yield the evicted items of a file, from the table in its last line, line `end`.

    Raises CorruptionError.
    """
    try:
        for section, stored in fields["past"].items():
            yield from _Columns.from_dict(stored).items(section, file, end)
    except (AttributeError, InvalidArgumentError, KeyError, TypeError, ValueError):
        raise CorruptionError("its last line makes no sense") from None


def keyed_lines(fields: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the numbers of the lines that hold items with keys, by key, from the table of a file.

    Raises CorruptionError.
    """
    found: dict[str, list[int]] = {}
    try:
        for stored in fields["past"].values():
            columns = _Columns.from_dict(stored)
            lines = [*accumulate(columns.lines)] if columns.keys else []
            for number, key in zip(columns.keys[::2], columns.keys[1::2], strict=True):
                found.setdefault(str(key), []).append(lines[int(number)])
        for by_key in fields["keyed"].values():
            for key, numbers in by_key.items():
                _check({*map(type, numbers)} <= {int})
                found.setdefault(key, []).extend(numbers)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise CorruptionError("its last line makes no sense") from None
    return found


def _filled(pairs: Sequence[Any], usual: Iterable[Any]) -> list[Any]:
    """Return the usual value at all places but some.

    The exceptions are given as place, value, place, value.
    """
    values = list(usual)
    for place, value in zip(pairs[::2], pairs[1::2], strict=True):
        _check(0 <= place < len(values))
        values[place] = value
    return values


def _timed(pairs: Sequence[Any]) -> list[Any]:
    """Return pairs whose second values are times. Raises InvalidArgumentError."""
    return [parse_time(value) if place % 2 else value for place, value in enumerate(pairs)]


def _is_results(content: JSONValue) -> bool:
    """Return whether content is nothing but tool results, some of them."""
    return isinstance(content, list | tuple) and {block["type"] for block in content} == {
        "tool_result"
    }


def _check(makes_sense: bool) -> None:
    if not makes_sense:
        raise CorruptionError("its last line makes no sense")
