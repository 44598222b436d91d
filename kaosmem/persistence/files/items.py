"""Files of items: snapshots and archives.

A header line, one item a line, and a line that says how many.

The last line repeats the fields of plain items that opening needs, as columns. Their own lines are
decoded one by one when somebody asks for them: most are never asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from sys import intern
from typing import Any, TypeAlias

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files.columns import decode_columns, encode_columns
from kaosmem.persistence.files.contents import ArchiveTableBuilder
from kaosmem.persistence.files.lines import (
    checksum,
    decode_line,
    encode_line,
    parse_object,
    split_lines,
    stated_crc,
)
from kaosmem.persistence.files.manifest import ListedArchive
from kaosmem.persistence.files.records import FORMAT_VERSION, unknown_version
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import StoredItem

_COLUMNS = {"section": str, "id": str, "role": str, "tokens": int, "position": int}
"""The columns of plain items in the last line, and their types. Other items have their section."""
_PLAIN = {"id": str, "role": str, "content": str, "tokens": int, "position": int}
"""The fields of every plain item, and their types."""
_NOT_PLAIN = frozenset(
    ("key", "expires_at", "pinned", "priority", "unit", "uses", "last_use", "updated")
)
"""Fields that no plain item has: a session needs to know them when it opens."""
_MAX_SUMMED_UP = 10**6  # as the last line is a line like others, which may not be too long


Stored: TypeAlias = JSONDict | StoredItem


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A file of items, read whole.

    Attributes:
        seq, crc: The record that it follows, and that record's checksum.
        txns: Ids of the newest commits up to there, and of those that index files are of.
        log_id: Of the session's first.
        purged: The newest record after which something was forgotten and all older files deleted, 0
            for none.
        counter: Name of the counter of all its tokens, or None if unknown.
        archives: The archive files that belong to it.
    """

    seq: int
    crc: int = 0
    txns: tuple[str, ...] = ()
    log_id: str = ""
    purged: int = 0
    header: JSONObject = field(default_factory=dict)
    items: list[tuple[str, Stored]] = field(default_factory=list)
    counter: str | None = None
    archives: tuple[ListedArchive, ...] = ()


def encode_items(
    head: ItemFile,
    items: Iterable[tuple[str, JSONObject]],
    *,
    contents: ArchiveTableBuilder | None = None,
) -> Iterator[bytes]:
    """Yield the lines of a file of items, one after the other as they are asked for.

    Raises InvalidArgumentError.

    Args:
        head: The fields of the first line.
        contents: Of an archive file, for its last line.
    """
    opening: JSONDict = {
        "seq": head.seq,
        "version": FORMAT_VERSION,
        "chain": f"{head.crc:08x}",
        "log": head.log_id,
        "purged": head.purged,
        "archives": list(map(list, head.archives)),
        "txns": [*head.txns],
        "d": head.header,
    }
    line, chain = encode_line(opening, 0)
    yield line
    count = 0
    rows: list[tuple[Any, ...]] = []
    if contents is not None:
        contents.note(len(line))
    for section, data in items:
        line, chain = encode_line({"sec": section, "d": data}, chain)
        yield line
        count += 1
        if contents is None:
            rows.append(_row(section, data if count <= _MAX_SUMMED_UP else {}))
        else:
            contents.note(len(line), section, data)
    own: JSONDict = {}
    if contents is not None:
        own = {**contents.fields, "after": f"{chain:08x}"}
    elif any(None not in row for row in rows):
        columns = map(list, zip(*rows, strict=True))
        own = {"plain": encode_columns(dict(zip(_COLUMNS, columns, strict=True)))}
    yield encode_line({**own, "end": count}, chain)[0]


def _row(section: str, data: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of an item in the columns of plain items."""
    is_plain = all(type(data.get(name)) is kind for name, kind in _PLAIN.items())
    if not is_plain or not _NOT_PLAIN.isdisjoint(data):
        return section, None, None, None, None
    return section, data["id"], data["role"], data["tokens"], data["position"]


def decode_items(data: bytes, path: str) -> ItemFile:
    """Return a file of items. Of plain items in a snapshot, the lines are checked alone.

    Raises CorruptionError if any line of it is damaged, and UnsupportedVersionError.
    """
    *lines, rest = split_lines(data)
    start = 0
    try:
        if len(lines) < 2 or rest:
            raise CorruptionError("it is incomplete")
        fields, crc = decode_line(lines[0], 0)
        head = header_of(fields)
        for before, line in pairwise(lines):
            start += len(before) + 1
            crc = checksum(line, crc)
        last = parse_object(lines[-1])
        if last.get("end") != len(lines) - 2:
            raise CorruptionError("it is incomplete")
        head.items.extend(_items(lines[1:-1], last.get("plain")))
        counter = last.get("counter")
        if not isinstance(counter, str | None):
            raise CorruptionError("it does not name its token counter")
    except CorruptionError as error:
        raise CorruptionError(
            f"{path!r} is damaged at byte {start}: {error}", file=path, byte=start
        ) from None
    return replace(head, counter=counter)


def _items(lines: Sequence[bytes], plain: object) -> Iterator[tuple[str, Stored]]:
    """Yield the items of a file with their sections.

    Args:
        lines: The lines of the items.
        plain: The columns of plain items, None without them.

    Raises:
        CorruptionError: If they make no sense.
    """
    if plain is None:
        yield from map(item_of, map(parse_object, lines))
        return
    columns = decode_columns(plain, _COLUMNS, len(lines))
    for line, row in zip(lines, zip(*columns.values(), strict=True), strict=True):
        if None in row or row[-1] < 0:
            yield item_of(parse_object(line))
            continue
        section, item_id, role, tokens, position = row
        yield section, StoredItem(item_id, section, intern(role), tokens, position, line, _parse)


def _parse(line: bytes) -> JSONDict:
    """Return the data of an item's line. Raises CorruptionError."""
    return item_of(parse_object(line))[1]


def decoded_entries(items: Iterable[tuple[str, Stored]]) -> Iterator[tuple[str, JSONDict]]:
    """Yield items with their sections, those decoded that are not yet. Raises CorruptionError."""
    for section, item in items:
        if not isinstance(item, dict):
            item = dict(item.entry())
        yield section, item


def item_of(fields: dict[str, Any]) -> tuple[str, JSONDict]:
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
                archives=tuple(map(ListedArchive.from_list, archives)),
            )
    raise CorruptionError("it does not begin with a header")
