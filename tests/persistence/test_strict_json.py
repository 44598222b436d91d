"""Lines are read as strictly as the format says: against the standard library and a plain check of each value."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem.errors import CorruptionError
from kaosmem.persistence.files import lines as file_lines
from kaosmem.persistence.files.lines import MAX_DEPTH, parse_object, split_lines


def _distinct(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def _refused(constant):
    raise ValueError(f"{constant} is not JSON")


def _check_value(value, depth=1):
    """Raise ValueError for a value that the format does not allow."""
    match value:
        case dict() | list() if depth > MAX_DEPTH:
            raise ValueError("too deep")
        case dict():
            for key, each in value.items():
                key.encode()
                _check_value(each, depth + 1)
        case list():
            for each in value:
                _check_value(each, depth + 1)
        case str():
            value.encode()
        case int() if not -(2**63) <= value < 2**63:
            raise ValueError("an integer beyond 64 bits")
        case float() if not math.isfinite(value):
            raise ValueError("not finite")


def outcome(line):
    """Return what the standard library and the rules make of a line, or None if it is refused.

    In the text 1, 1.0 and True differ.
    """
    try:
        text = line.decode()
        if text[:1] != "{" or text[-1:] != "}":
            return None
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refused)
        _check_value(value)
    except ValueError:  # UnicodeError is one
        return None
    return repr(value)


def check(line):
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
def lines(draw):
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
def test_a_line_is_read_as_the_grammar_says_or_refused(line):
    """Whatever a line holds, it is read as the standard library reads it, or refused by a rule."""
    check(line)


@given(st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"\n\n"])).map(b"".join), st.integers(0, 4))
def test_a_file_is_split_at_the_same_places_in_parts(data, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "_SPLIT_BYTES", size)
        assert split_lines(data) == data.split(b"\n")
