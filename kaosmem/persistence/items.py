"""Files of items: snapshots and archives. A header line, one item a line, and a line that says how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kaosmem.errors import CorruptionError
from kaosmem.persistence.blobs import Blob, Place, in_line, spill
from kaosmem.persistence.lines import checksum, decode_line, decode_lines, encode_line, stated_crc
from kaosmem.persistence.records import FORMAT_VERSION, stated_blobs, unknown_version
from kaosmem.types import JSONValue, json_text

_PLAIN = 3  # fields of an item's line: crc, sec and d


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A file of items, read whole.

    seq, crc: the record that it follows, and that record's checksum.
    txns: ids of the newest commits up to there. log_id: of the session's first.
    purged: the newest record after which something was forgotten and all older files deleted, 0 for none.
    lacking: data of items, with the texts that each lacks.
    commits: by their last records, the ids of those before it that index files are of.
    """

    seq: int
    crc: int
    txns: tuple[str, ...]
    log_id: str
    purged: int
    header: dict[str, JSONValue]
    items: list[tuple[str, dict[str, JSONValue]]] = field(default_factory=list)
    lacking: list[tuple[dict[str, JSONValue], tuple[Blob, ...]]] = field(default_factory=list)
    commits: Mapping[int, str] = field(default_factory=dict)


def encode_items(
    header: Mapping[str, JSONValue],
    items: Iterable[tuple[str, Mapping[str, JSONValue]]],
    *,
    seq: int,
    crc: int = 0,
    txns: Iterable[str] = (),
    log_id: str = "",
    purged: int = 0,
    commits: Mapping[int, str] | None = None,
    place: Place = in_line,
) -> Iterator[bytes]:
    """Yield the lines of a file of items, read as they are asked for; their fields are those of an ItemFile.

    place: says which file has a long text; by default they stay in their lines.
    Raises InvalidContentError.
    """
    opening = {"seq": seq, "version": FORMAT_VERSION, "chain": f"{crc:08x}", "log": log_id, "purged": purged}
    earlier = {"commits": [[last, txn] for last, txn in sorted(commits.items())]} if commits else {}
    line, chain = encode_line({**opening, "txns": list(txns), **earlier, "d": header}, 0)
    yield line
    count = 0
    for section, data in items:
        data, blobs = (data, []) if place is in_line else spill(data, place)
        fields = {"sec": section, "d": data} | ({"blobs": [blob.to_list() for blob in blobs]} if blobs else {})
        line, chain = encode_line(fields, chain)
        yield line
        count += 1
    yield encode_line({"end": count}, chain)[0]


def decode_items(data: bytes, path: str) -> ItemFile:
    """Return a file of items. Raises CorruptionError if any line of it is damaged, and UnsupportedVersionError."""
    *lines, rest = data.split(b"\n")
    start = crc = 0
    try:
        if len(lines) < 2:
            raise CorruptionError("it is incomplete")
        fields, crc = decode_line(lines[0], 0)
        head, start = header_of(fields), len(lines[0]) + 1
        decoded = decode_lines(lines[1:], crc)
        for line in islice(lines, 1, len(lines) - 1):
            fields, _ = next(decoded)
            section, item = item_of(fields)
            head.items.append((section, item))
            if len(fields) > _PLAIN:
                head.lacking.append((item, stated_blobs(fields)))
            start += len(line) + 1
        fields, _ = next(decoded)
        if rest or fields.get("end") != len(head.items):
            raise CorruptionError("it is incomplete")
    except CorruptionError as error:
        raise CorruptionError(f"{path!r} is damaged at byte {start}: {error}", file=path, byte=start) from None
    return head


def find_item(data: bytes, item_id: str, path: str) -> tuple[str, dict[str, JSONValue], tuple[Blob, ...]] | None:
    """Return the section and data of the last item in a file of items whose `id` is `item_id`, or None.

    What names the texts that the data lacks comes with it.

    Only lines that hold the id's text are parsed; the checksums of all are checked: a damaged one may have held it.
    Raises CorruptionError.
    """
    needle = b'"id":' + json_text(item_id).encode()
    *lines, rest = data.split(b"\n")
    start = crc = 0
    candidates = []
    try:
        for line in lines:
            before, crc = crc, checksum(line, crc)
            if needle in line:
                candidates.append((start, before, line))
            start += len(line) + 1
        if rest or not lines or not lines[-1].endswith(b'"end":%d}' % (len(lines) - 2)):
            raise CorruptionError("it is incomplete")
        for start, before, line in reversed(candidates):
            fields, _ = decode_line(line, before)
            if start and (found := item_of(fields))[1].get("id") == item_id:
                return *found, stated_blobs(fields)
    except CorruptionError as error:
        raise CorruptionError(f"{path!r} is damaged at byte {start}: {error}", file=path, byte=start) from None
    return None


def item_of(fields: dict[str, Any]) -> tuple[str, dict[str, JSONValue]]:
    """Return the section and data that a line's fields are. Raises CorruptionError."""
    section, data = fields.get("sec"), fields.get("d")
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
            "txns": list(txns),
            "d": dict(header),
        }:
            crc = stated_crc(b'{"crc":"' + chain.encode())
            commits = _commits_of(fields.get("commits", []))
            return ItemFile(seq, crc, tuple(map(str, txns)), log_id, purged, header, commits=commits)
    raise CorruptionError("it does not begin with a header")


def _commits_of(stored: JSONValue) -> dict[int, str]:
    match stored:
        case [*entries] if all(isinstance(each, list) and [*map(type, each)] == [int, str] for each in entries):
            return dict(entries)
    raise CorruptionError("it does not name the commits that index files are of")
