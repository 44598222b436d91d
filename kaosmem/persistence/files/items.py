"""Files of items: snapshots and archives.

A header line, one item a line, and a line that says how many.

The last line repeats the fields of plain items that opening needs, so that their own lines are
decoded one by one when somebody asks for them: most are never asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, TypeAlias

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.contents import Contents
from kaosmem.persistence.files.lines import (
    checksum,
    decode_line,
    decode_lines,
    encode_line,
    parse_object,
    split_lines,
    stated_crc,
)
from kaosmem.persistence.files.manifest import ListedArchive
from kaosmem.persistence.files.records import FORMAT_VERSION, unknown_version
from kaosmem.types import JSONValue
from kaosmem.types.items import StoredItem

_SUMMED_UP = {"id": str, "role": str, "content": str, "tokens": int, "position": int}
"""The fields of every plain item, and their types."""
_NOT_SUMMED_UP = frozenset(
    ("key", "expires_at", "pinned", "priority", "unit", "uses", "last_use", "updated")
)
"""Fields that no plain item has: a session needs to know them when it opens."""
_MAX_SUMMED_UP = 10**6  # as the last line is a line like others, which may not be too long


Stored: TypeAlias = dict[str, JSONValue] | StoredItem


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A file of items, read whole.

    Attributes:
        seq, crc: The record that it follows, and that record's checksum.
        txns: Ids of the newest commits up to there.
        log_id: Of the session's first.
        purged: The newest record after which something was forgotten and all older files deleted, 0
            for none.
        commits: By their last records, the ids of those before it that index files are of.
        counter: Name of the counter of all its tokens, or None if unknown.
        archives: The archive files that belong to it.
    """

    seq: int
    crc: int = 0
    txns: tuple[str, ...] = ()
    log_id: str = ""
    purged: int = 0
    header: Mapping[str, JSONValue] = field(default_factory=dict)
    items: list[tuple[str, Stored]] = field(default_factory=list)
    commits: Mapping[int, str] = field(default_factory=dict)
    counter: str | None = None
    archives: tuple[ListedArchive, ...] = ()


def encode_items(
    head: ItemFile,
    items: Iterable[tuple[str, Mapping[str, JSONValue]]],
    *,
    contents: Contents | None = None,
) -> Iterator[bytes]:
    """Yield the lines of a file of items, one after the other as they are asked for.

    Raises InvalidArgumentError.

    Args:
        head: The fields of the first line.
        contents: Of an archive file, for its last line.
    """
    opening: dict[str, JSONValue] = {
        "seq": head.seq,
        "version": FORMAT_VERSION,
        "chain": f"{head.crc:08x}",
        "log": head.log_id,
        "purged": head.purged,
        "archives": [each.to_list() for each in head.archives],
        "commits": [[last, txn] for last, txn in sorted(head.commits.items())],
        "txns": [*head.txns],
        "d": head.header,
    }
    line, chain = encode_line(opening, 0)
    yield line
    count = 0
    summary = _Summary()
    if contents is not None:
        contents.note(len(line))
    for section, data in items:
        line, chain = encode_line({"sec": section, "d": data}, chain)
        yield line
        count += 1
        if contents is None:
            summary.note(count, section, data)
        else:
            contents.note(len(line), section, data)
    own = summary.fields if contents is None else {**contents.fields, "after": f"{chain:08x}"}
    yield encode_line({**own, "end": count}, chain)[0]


class _Summary:
    """The fields of plain items that the last line of a file of items repeats.

    Such as follow one another in their section, none taken between them, are a run: the number of
    its first line, its section and position, and how many items it has.
    """

    def __init__(self) -> None:
        self._runs: list[list[JSONValue]] = []
        self._ids: list[JSONValue] = []
        self._roles: list[JSONValue] = []
        self._tokens: list[JSONValue] = []
        self._next: tuple[int, str, int] | None = (
            None  # line, section, position that go on with the last run
        )

    def note(self, number: int, section: str, data: Mapping[str, JSONValue]) -> None:
        """Take in the item of a line."""
        is_plain = all(type(data.get(name)) is kind for name, kind in _SUMMED_UP.items())
        if not is_plain or not _NOT_SUMMED_UP.isdisjoint(data) or len(self._ids) >= _MAX_SUMMED_UP:
            return
        position = data["position"]
        if self._next != (number, section, position):
            self._runs.append([number, section, position, 0])
        self._runs[-1][-1] += 1
        self._ids.append(data["id"])
        self._roles.append(data["role"])
        self._tokens.append(data["tokens"])
        self._next = number + 1, section, position + 1

    @property
    def fields(self) -> dict[str, JSONValue]:
        """Return it as JSON values, nothing for nothing."""
        if not self._runs:
            return {}
        return {"runs": self._runs, "ids": self._ids, "roles": self._roles, "tokens": self._tokens}


def decode_items(data: bytes, path: str, *, unread: bool = False) -> ItemFile:
    """Return a file of items.

    Raises CorruptionError if any line of it is damaged, and UnsupportedVersionError.

    Args:
        unread: Of plain items, check the line alone.
    """
    *lines, rest = split_lines(data)
    decoder = _Decoder()
    try:
        if len(lines) < 2:
            raise CorruptionError("it is incomplete")
        head = header_of(decoder.fields(lines[0]))
        at = 1
        if unread:
            for first, items in _runs(lines):
                decoder.decode(lines[at:first], head)
                at = first + len(items)
                decoder.check(lines[first:at])
                head.items.extend((item.section, item) for item in items)
        decoder.decode(lines[at:-1], head)
        last = decoder.fields(lines[-1])
        if last.get("end") != len(head.items) or rest:
            raise CorruptionError("it is incomplete")
        counter = last.get("counter")
        if not isinstance(counter, str | None):
            raise CorruptionError("it does not name its token counter")
    except CorruptionError as error:
        start = decoder.start
        raise CorruptionError(
            f"{path!r} is damaged at byte {start}: {error}", file=path, byte=start
        ) from None
    return replace(head, counter=counter)


class _Decoder:
    """Reads the lines of a file one after another.

    Attributes:
        crc: Of the last one.
        start: Byte where the next one begins.
    """

    def __init__(self) -> None:
        self.crc = self.start = 0

    def fields(self, line: bytes) -> dict[str, Any]:
        """Return the fields of a line."""
        fields, self.crc = decode_line(line, self.crc)
        self.start += len(line) + 1
        return fields

    def decode(self, lines: Sequence[bytes], head: ItemFile) -> None:
        """Add the items of lines to those of a file."""
        for line, (fields, crc) in zip(lines, decode_lines(lines, self.crc), strict=True):
            head.items.append(item_of(fields))
            self.crc = crc
            self.start += len(line) + 1

    def check(self, lines: Iterable[bytes]) -> None:
        """Pass over lines that are intact."""
        for line in lines:
            self.crc = checksum(line, self.crc)
            self.start += len(line) + 1


def _runs(lines: Sequence[bytes]) -> Iterator[tuple[int, list[StoredItem]]]:
    """Yield the plain items of a file by runs, each after the number of its first line.

    Raises CorruptionError where that makes no sense.
    """
    match parse_object(lines[-1]):
        case {"runs": list(runs), "ids": list(ids), "roles": list(roles), "tokens": list(tokens)}:
            pass
        case _:
            return
    are_typed = {*map(type, ids), *map(type, roles)} <= {str} and {*map(type, tokens)} <= {int}
    if not are_typed or not len(ids) == len(roles) == len(tokens):
        raise CorruptionError("its last line makes no sense")
    summed_up = zip(ids, map(intern, roles), tokens, strict=True)
    number = 1
    for run in runs:
        match run:
            case [int(first), str(section), int(position), int(count)] if (
                number <= first and 0 < count < len(lines) - first and position >= 0
            ):
                number = first + count
            case _:
                raise CorruptionError("its last line makes no sense")
        items = []
        for line, (item_id, role, size) in zip(lines[first:number], summed_up, strict=False):
            items.append(StoredItem(item_id, section, role, size, position, line, _parse))
            position += 1
        yield first, items


def _parse(line: bytes) -> dict[str, JSONValue]:
    """Return the data of an item's line. Raises CorruptionError."""
    return item_of(parse_object(line))[1]


def decoded_entries(
    items: Iterable[tuple[str, Stored]],
) -> Iterator[tuple[str, dict[str, JSONValue]]]:
    """Yield items with their sections, those decoded that are not yet. Raises CorruptionError."""
    for section, item in items:
        yield section, item if isinstance(item, dict) else dict(item.entry())


def item_of(fields: dict[str, Any]) -> tuple[str, dict[str, JSONValue]]:
    """Return the section and data that a line's fields are. Raises CorruptionError."""
    section = fields.get("sec")
    data = fields.get("d")
    if type(section) is str and type(data) is dict:
        return section, data
    raise CorruptionError("a line is not an item")


def header_of(fields: dict[str, Any]) -> ItemFile:
    """Return a file of items without its items, from its first line. Raises as `decode_items`."""
    match fields:
        case {"version": int(version)} if version > FORMAT_VERSION:
            raise unknown_version(version)
        case {
            "version": 1,
            "seq": int(seq),
            "chain": str(chain),
            "log": str(log_id),
            "purged": int(purged),
            "archives": list(archives),
            "commits": list(commits),
            "txns": list(txns),
            "d": dict(header),
        }:
            crc = stated_crc(b'{"crc":"' + chain.encode())
            return ItemFile(
                seq,
                crc,
                tuple(map(str, txns)),
                log_id,
                purged,
                header,
                commits=_commits_of(commits),
                archives=tuple(map(ListedArchive.from_list, archives)),
            )
    raise CorruptionError("it does not begin with a header")


def _commits_of(stored: JSONValue) -> dict[int, str]:
    match stored:
        case [*entries] if all(
            isinstance(each, list) and [*map(type, each)] == [int, str] for each in entries
        ):
            return dict(entries)
    raise CorruptionError("it does not name the commits that index files are of")
