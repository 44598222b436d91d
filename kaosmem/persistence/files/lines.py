"""The lines of a session's files: strict JSON objects, chained by checksums."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any
from zlib import crc32

from kaosmem.arguments import MAX_JSON_DEPTH, STRICT_JSON, json_text
from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.names import shown
from kaosmem.types import JSONObject

MAX_LINE_BYTES = 64 * 2**20
MAX_CONTAINERS = 500_000
# A record, its data and an item stand around metadata that may itself be MAX_JSON_DEPTH deep.
MAX_DEPTH = MAX_JSON_DEPTH + 8

_CRC = slice(8, 16)
_BODY = 18  # where the checksummed bytes begin: after `{"crc":"7c13880a",`

_SPLIT_BYTES = 2**20
"""A file is split so much at a time: one call for 50 MB would stop every other thread for 30 ms."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def split_lines(data: bytes) -> list[bytes]:
    r"""Return `data.split(b"\n")`, with other threads let in between.

    >>> split_lines(b"a\nb\n")
    [b'a', b'b', b'']
    """
    lines: list[bytes] = []
    start = 0
    while (end := data.find(b"\n", start + _SPLIT_BYTES)) >= 0:
        lines += data[start:end].split(b"\n")
        start = end + 1
    lines += data[start:].split(b"\n")
    return lines


def encode_line(fields: JSONObject, crc: int) -> tuple[bytes, int]:
    """Return `fields` as a line that is chained to the checksum `crc`, and the line's own checksum.

    Raises InvalidArgumentError for fields that `decode_line` would refuse.
    """
    try:
        if "d" in fields:
            fields = {**fields, "d": dict(fields["d"])}
        body = json_text(fields)[1:].encode()
        crc = crc32(body, crc)
        line = b'{"crc":"%08x",%b' % (crc, body)
        parse_object(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"a record of section {shown(fields.get('sec', ''))} could not be read back: {error}; "
            "store plain JSON values"
        ) from None
    return line + b"\n", crc


def decode_line(line: bytes, crc: int) -> tuple[dict[str, Any], int]:
    """Return the fields of a line, `crc` included, and its checksum. Raises CorruptionError."""
    found = checksum(line, crc)
    return parse_object(line), found


def checksum(line: bytes, crc: int) -> int:
    """Return a line's checksum. Raises CorruptionError unless the line states the same."""
    found = crc32(line[_BODY:] if len(line) < 4096 else memoryview(line)[_BODY:], crc)
    if not line.startswith(b'{"crc":"%08x",' % found):
        raise CorruptionError("the checksum does not fit")
    return found


def chained_crc(line: bytes, crc: int) -> int:
    """Return the checksum that a line has after one whose checksum is `crc`, whatever it states."""
    return crc32(line[_BODY:], crc)


def stated_crc(line: bytes) -> int:
    """Return the checksum that a line states. Raises CorruptionError."""
    try:
        return int(line[_CRC], 16)
    except ValueError:
        raise CorruptionError("there is no checksum") from None


def parse_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that `line` is, read strictly.

    Raises CorruptionError for anything but UTF-8 JSON with finite floats, integers within 64 bits,
    no lone surrogates, no key twice, and within MAX_LINE_BYTES, MAX_DEPTH and MAX_CONTAINERS.
    """
    if len(line) > MAX_LINE_BYTES:
        raise CorruptionError(f"a line of {len(line)} bytes is over the limit of {MAX_LINE_BYTES}")
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        _check_nesting(line)
    try:
        text = line.decode()
        value, end = STRICT_JSON.raw_decode(text)
    except ValueError as error:
        raise CorruptionError(f"it is not strict JSON: {error}") from None
    if end != len(text) or type(value) is not dict:
        raise CorruptionError("it is not one JSON object")
    if "\\" in text and "\\u" in text and _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value)
    return value


def _check_nesting(line: bytes) -> None:
    brackets = _STRING.sub(b"", line).translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise CorruptionError(f"it holds more than {MAX_CONTAINERS} objects and lists")
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise CorruptionError(f"it is nested deeper than {MAX_DEPTH} levels")


def _check_surrogates(value: dict[str, Any]) -> None:
    try:
        json_text(value).encode()
    except UnicodeEncodeError:
        raise CorruptionError("a string holds a lone surrogate") from None
