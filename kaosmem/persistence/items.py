"""Files of items: snapshots and archives. A header line, one item a line, and a line that says how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kaosmem.errors import CorruptionError, UnsupportedVersionError
from kaosmem.names import shown
from kaosmem.persistence.records import FORMAT_VERSION, decode_line, encode_line, stated_crc
from kaosmem.types import JSONValue, json_text


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A file of items, read whole.

    seq, crc: the record that it follows, and that record's checksum.
    txns: ids of the newest commits up to there.
    """

    seq: int
    crc: int
    txns: tuple[str, ...]
    header: dict[str, JSONValue]
    items: list[tuple[str, dict[str, JSONValue]]]


def encode_items(
    header: Mapping[str, JSONValue],
    items: Iterable[tuple[str, Mapping[str, JSONValue]]],
    *,
    seq: int,
    crc: int = 0,
    txns: Iterable[str] = (),
) -> Iterator[bytes]:
    """Yield the lines of a file of items, read as they are asked for. Raises InvalidContentError."""
    line, chain = encode_line(
        {"seq": seq, "version": FORMAT_VERSION, "chain": f"{crc:08x}", "txns": list(txns), "d": header}, 0
    )
    yield line
    count = 0
    for section, data in items:
        line, chain = encode_line({"sec": section, "d": data}, chain)
        yield line
        count += 1
    yield encode_line({"end": count}, chain)[0]


def decode_items(data: bytes, path: str) -> ItemFile:
    """Return a file of items. Raises CorruptionError if any line of it is damaged, and UnsupportedVersionError."""
    *lines, rest = data.split(b"\n")
    start = crc = 0
    found: list[dict[str, Any]] = []
    try:
        for line in lines:
            fields, crc = decode_line(line, crc)
            found.append(fields)
            start += len(line) + 1
        if rest or not found or found.pop().get("end") != len(found) - 1:
            raise CorruptionError("it is incomplete")
        head, start = _header(found[0]), len(lines[0])
        head.items.extend((fields["sec"], fields["d"]) for fields in islice(found, 1, None))
    except (CorruptionError, KeyError) as error:
        reason = str(error) if isinstance(error, CorruptionError) else "a line is not an item"
        raise CorruptionError(f"{path!r} is damaged at byte {start}: {reason}", file=path, byte=start) from None
    return head


def find_item(data: bytes, item_id: str, path: str) -> tuple[str, dict[str, JSONValue]] | None:
    """Return the section and data of the last item in a file of items whose `id` is `item_id`, or None.

    Only lines that hold the id's text are parsed, each checked against the checksum of the line before.
    Raises CorruptionError.
    """
    needle = b'"id":' + json_text(item_id).encode()
    end = len(data)
    while (at := data.rfind(needle, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        before = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
        if start:
            try:
                fields, _ = decode_line(data[start : data.find(b"\n", at)], stated_crc(data[before:start]))
            except CorruptionError as error:
                raise CorruptionError(f"{path!r} is damaged at byte {start}: {error}", file=path, byte=start) from None
            if fields.get("d", {}).get("id") == item_id:
                return fields["sec"], fields["d"]
        end = start
    return None


def _header(fields: dict[str, Any]) -> ItemFile:
    match fields:
        case {"version": int(version)} if version > FORMAT_VERSION:
            raise UnsupportedVersionError(
                f"the session was stored in version {shown(version)} of its format, and {FORMAT_VERSION} is the newest "
                "known here; open it with a newer kaosmem"
            )
        case {"version": 1, "seq": int(seq), "chain": str(chain), "txns": list(txns), "d": dict(header)}:
            return ItemFile(seq, stated_crc(b'{"crc":"' + chain.encode()), tuple(map(str, txns)), header, [])
    raise CorruptionError("it does not begin with a header")
