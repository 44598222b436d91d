"""Lines are read as strictly as the format says: the fast reader against a slow one written from the grammar alone."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files import lines as file_lines
from kaosmem.persistence.files.lines import MAX_DEPTH, decode_lines, parse_object, split_lines

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEXADECIMAL = re.compile("[0-9a-fA-F]{4}")


class _Reader:
    """A recursive descent over RFC 8259, with the format's own limits; slow, and plain to check by eye."""

    def __init__(self, line: bytes) -> None:
        self.text = line.decode()
        self.at = 0

    def read(self) -> dict[str, Any]:
        if self.text[:1] != "{":
            raise ValueError("not an object")
        value: dict[str, Any] = self.value(0)
        if self.at != len(self.text):
            raise ValueError("more than an object")
        return value

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def need(self, token: str) -> None:
        if not self.take(token):
            raise ValueError(f"no {token}")

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found
        self.at = found.end()

    def value(self, depth: int) -> Any:
        if self.text[self.at : self.at + 1] in ("{", "[") and depth >= MAX_DEPTH:
            raise ValueError("too deep")
        if self.take("{"):
            return self.members(depth + 1)
        if self.take("["):
            return self.elements(depth + 1)
        if self.take('"'):
            return self.string()
        for token, constant in (("true", True), ("false", False), ("null", None)):
            if self.take(token):
                return constant
        return self.number()

    def members(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.space()
        if self.take("}"):
            return found
        while True:
            self.space()
            self.need('"')
            key = self.string()
            if key in found:
                raise ValueError("a key twice")
            self.space()
            self.need(":")
            self.space()
            found[key] = self.value(depth)
            self.space()
            if self.take("}"):
                return found
            self.need(",")

    def elements(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.space()
        if self.take("]"):
            return found
        while True:
            self.space()
            found.append(self.value(depth))
            self.space()
            if self.take("]"):
                return found
            self.need(",")

    def string(self) -> str:
        units = b""  # UTF-16, in which an escape is half of a pair
        while not self.take('"'):
            character = self.text[self.at : self.at + 1]
            self.at += 1
            if character < " ":  # the end of the text too
                raise ValueError("a control character or the end")
            if character == "\\":
                letter = self.text[self.at : self.at + 1]
                self.at += 1
                if letter == "u":
                    code = _HEXADECIMAL.match(self.text, self.at)
                    if not code:
                        raise ValueError("no code")
                    self.at += 4
                    units += int(code.group(), 16).to_bytes(2, "little")
                    continue
                if letter not in _ESCAPES:
                    raise ValueError("no such escape")
                character = _ESCAPES[letter]
            units += character.encode("utf-16-le")
        return units.decode("utf-16-le")

    def number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if not found:
            raise ValueError("no value")
        self.at = found.end()
        if found[2] is None and found[3] is None:
            if not -(2**63) <= int(found[0]) < 2**63:
                raise ValueError("an integer beyond 64 bits")
            return int(found[0])
        if not math.isfinite(value := float(found[0])):
            raise ValueError("not finite")
        return value


def outcome(line: bytes) -> str | None:
    """Return what the slow reader makes of a line, in which 1, 1.0 and True differ, or None."""
    try:
        return repr(_Reader(line).read())
    except ValueError:  # that a text is not UTF-8, or not UTF-16, is one
        return None


def check(line: bytes) -> None:
    expected = outcome(line)
    if expected is None:
        with pytest.raises(CorruptionError):
            parse_object(line)
    else:
        assert repr(parse_object(line)) == expected


_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.sampled_from(
    ["a", '":', "[[", "{", "\\"]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**18, 10**19])
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_HOSTILE = st.sampled_from(
    [
        *(b'"a":1,', b'"a":2,', b'"a" :3,', b'"\\u0061":4,', b'{"a":{"b":1}}', b"\\", b" ", b"\t"),
        *(
            b",",
            b":",
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b"},{",
            b'},"b":{',
            b"}],[{",
            b'{"a":[{}',
            b"{}]}",
        ),
        *(
            b"NaN",
            b"-Infinity",
            b"Infinity",
            b"1e999",
            b"-1e999",
            b"-0",
            b"-",
            b"01",
            b"1.",
            b".5",
            b"1e5",
            b"0x1",
        ),
        *(
            b"9223372036854775807",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"1" * 5000,
            b"true",
            b"nul",
        ),
        *(
            b'"\\ud800"',
            b'"\\uD83D\\uDE00"',
            b'"\\ude00\\ud83d"',
            b"\\ud83d",
            b"\\u12",
            b'"\\x"',
            b"\\u0000",
        ),
        *(
            b"\x00",
            b"\x1f",
            b"\x7f",
            b"\xff",
            b"\xed\xa0\x80",
            b"\xc0\x80",
            b"\xef\xbb\xbf",
            "٣é\u2028".encode(),
        ),
        *(b'{"a":' * 36, b"[" * 72, b"]" * 72, b"}" * 36, b"[" * 73, b"]" * 73),
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Make a JSON object's text, most often with a few pieces cut out of it and others put in."""
    fields = draw(st.dictionaries(_TEXTS, _VALUES, max_size=4))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    line = json.dumps(fields, ensure_ascii=draw(st.booleans()), separators=separators).encode()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 4)))
        line = line[:start] + draw(_HOSTILE | st.just(b"")) + line[end:]
    return line


@given(lines())
@example(b'{"a":1,"a":1}')
@example(b'{"a":{"b":1,"c":[{"d":1,"\\u0064":2}]}}')
@example(b'{"a":"\\ud83d\\ude00"}')
@example(b'{"a":"\\ud83d"}')
@example(b'{"\\udc00":1}')
@example(b'{"a":9223372036854775808}')
@example(b'{"a":[-9223372036854775809]}')
@example(b'{"a":1e999}')
@example(b'{"a":NaN}')
@example(b' {"a":1}')
@example(b'{"a":1} ')
@example(b'{"a":' + b"[" * 71 + b"]" * 71 + b"}")
@example(b'{"a":' + b"[" * 72 + b"]" * 72 + b"}")
def test_a_line_is_read_as_the_grammar_says_or_refused(line: bytes) -> None:
    """Whatever a line holds, the fast reader gives what a plain recursive descent gives, or refuses what it refuses."""
    check(line)


def chained(objects: Sequence[bytes], crc: int) -> list[bytes]:
    """Return objects' texts as the lines of a file, each with its checksum, whatever they are."""
    lines = []
    for text in objects:
        body = text[1:]
        crc = crc32(body, crc)
        lines.append(b'{"crc":"%08x",%b' % (crc, body))
    return lines


@given(
    st.lists(lines().filter(lambda line: b"\n" not in line), max_size=5),
    st.randoms(use_true_random=False),
)
def test_many_lines_are_read_as_each_alone(objects: list[bytes], rng: random.Random) -> None:
    """Of a file's lines, parsed together, each gives what it gives alone, up to the first that is refused."""
    if objects and rng.random() < 0.5:  # two lines that are an object only together
        at = rng.randrange(len(objects))
        cut = rng.randrange(len(objects[at]) + 1)
        objects[at : at + 1] = [objects[at][:cut], b"{" + objects[at][cut:]]
    given_lines = chained(objects, 7)
    expected = []
    for line in given_lines:
        value = outcome(line)
        if value is None:
            break
        expected.append(value)
    decoded = decode_lines(given_lines, 7)
    assert [repr(next(decoded)[0]) for _ in expected] == expected
    with pytest.raises(CorruptionError if len(expected) < len(objects) else StopIteration):
        next(decoded)


@pytest.mark.parametrize(
    "objects",
    [
        [b'{"a":[{}', b'{"b":1}]}'],
        [b'{"a":{"b":{}', b'{"c":1}}}'],
        [b'{"a":[{}', b'{"b":1}]}', b'{"a":1},{"b":2}'],
        [b'{"a":[{}', b'{"b":1}]}', b'{"a":1},"x",{"b":2}'],
        [b'{"a":1},"x",{"b":2}', b'{"a":[{}', b'{"b":1}]}'],
        [b'{"a":1}]', b'[{"b":2}'],
        [b'{"a":1}],{"b":2}'],
        [b'{"a":1} ', b'{"b":2}'],
        [b'{"a":"', b'{"b":1}'],
    ],
)
def test_lines_that_are_json_only_together_are_refused(objects: list[bytes]) -> None:
    """A line that runs on into the next is refused, though the text of all would be sound."""
    with pytest.raises(CorruptionError):
        list(decode_lines(chained(objects, 0), 0))


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"\\ud800"}',
        b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
        b'{"a":1,"a":1}',
        b'{"a":9223372036854775808}',
        b'{"a":1e999}',
        b'{"a":"\xff"}',
    ],
)
def test_what_is_refused_alone_is_refused_among_others(line: bytes) -> None:
    """A line that breaks a limit is refused where it stands, after those before it have been read."""
    sound = [b'{"a":%d}' % number for number in range(100)]
    decoded = decode_lines(chained([*sound, line, *sound], 0), 0)
    assert [next(decoded)[0]["a"] for _ in sound] == list(range(100))
    with pytest.raises(CorruptionError):
        next(decoded)


def test_the_slow_reader_tells_lines_apart() -> None:
    """What the fast reader is held against reads what is sound and refuses what is not."""
    assert outcome(b'{"a":[1,-0.5e1,true,null,"\\u00e9\\n"],"b":{}}') == repr(
        {"a": [1, -5.0, True, None, "é\n"], "b": {}}
    )
    assert outcome(b'{"a":"\\ud83d\\ude00"}') == repr({"a": "\U0001f600"})
    for line in (
        b'{"a":1,"a":2}',
        b'{"a":"\\ud83d"}',
        b'{"a":1e999}',
        b'{"a":9223372036854775808}',
        b"{}}",
        b"[]",
    ):
        assert outcome(line) is None


@given(st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"\n\n"])).map(b"".join), st.integers(0, 4))
def test_a_file_is_split_at_the_same_places_in_parts(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "_SPLIT_BYTES", size)
        assert split_lines(data) == data.split(b"\n")
