"""Stored sessions changed by a forger, who repairs the checksums, so that what is changed gets past them."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from zlib import crc32

Files: TypeAlias = Mapping[str, bytes]
"""A session's files by path below its folder."""

_BODY = 18  # of a line: what follows `{"crc":"7c13880a",`

# What json.dumps would not write: each is put where a string of this one character stands.
_RAW = {
    chr(0xF8F0 + number): text
    for number, text in enumerate(
        (
            *(
                b"1e999",
                b"-0",
                b"01",
                b"1" * 400,
                b'"\\ud800"',
                b'"\\uD83D\\uDE00"',
                b"\xff\xfe",
                b"\xef\xbb\xbf1",
            ),
            *(b"[" * 70 + b"]" * 70, b"[" * 3_000 + b"]" * 3_000, b'{"a":' * 80 + b"1" + b"}" * 80),
            b"[" + b"{}," * 2_000 + b"{}]",
        )
    )
}
_RAW_STRING = re.compile('"([\uf8f0-\uf8ff])"'.encode())

_ARCHIVE = re.compile(r"(archive/([0-9]{20}))(?:-[0-9a-f]{8})?\.jsonl")

_NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    255,
    2**16,
    2**31,
    2**40,
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    2**70,
    10**30,
)
_OTHERS = (
    *(
        None,
        True,
        False,
        0.5,
        -1.5,
        1.0,
        1e300,
        float("nan"),
        float("inf"),
        "",
        " ",
        "\0",
        "x" * 300,
        "é\u2028\x85",
    ),
    *(
        "0",
        "-1",
        "messages",
        "role",
        "none",
        "m0",
        "2024-01-01T00:00:00",
        "9999-12-31T23:59:59+00:00",
        "text",
        "\ud800",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        ["m0"],
        [{}],
        {"id": "m0"},
        [0, 1],
        {"type": "text", "text": "x"},
    ),
    *({"lc": 1, "type": "constructor", "id": ["os", "system"]}, {"py/object": "os.system"}, *_RAW),
)


class _Twin(str):
    """A key that an object may hold beside an equal one."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class Forger:
    """Makes broken sessions of sound ones: the same ones for the same seed.

    sessions: the log of each ends in its last files, in the order of their names.
    """

    def __init__(self, sessions: Sequence[Files], seed: int) -> None:
        self._rng = random.Random(seed)
        self._sessions = [
            {path: data.split(b"\n")[:-1] for path, data in files.items()} for files in sessions
        ]
        self._donors: dict[str, list[Any]] = {}
        for lines in self._sessions:
            for line in (line for each in lines.values() for line in each):
                for holder, key in _places(json.loads(line)):
                    self._donors.setdefault(str(key), []).append(holder[key])

    def forged(self) -> dict[str, bytes]:
        """Return one of the sessions with one to four changes, its checksums repaired."""
        files = {path: list(lines) for path, lines in self._rng.choice(self._sessions).items()}
        chained = self._rng.random() < 0.97
        for _ in range(self._rng.choice((1, 1, 1, 2, 4))):
            pick = self._rng.random()
            if pick < 0.75:
                self._change_value(files)
            elif pick < 0.83:
                self._change_bytes(files)
            elif pick < 0.95:
                self._change_lines(files)
            else:
                self._change_files(files)
        sealed = seal(files, chained=chained)
        if self._rng.random() < 0.03:
            path = self._rng.choice(list(sealed))
            cut = self._rng.randrange(len(sealed[path]) + 1)
            sealed[path] = sealed[path][:cut] + self._rng.choice(
                (b"", b"\0" * 600, b"\n", b"\0", b"}\n")
            )
        return sealed

    def _line(self, files: dict[str, list[bytes]]) -> tuple[list[bytes], int]:
        lines = self._rng.choice(
            [lines for lines in files.values() if lines] or [[b'{"crc":"00000000",}']]
        )
        return lines, self._rng.randrange(len(lines))

    def _change_value(self, files: dict[str, list[bytes]]) -> None:
        lines, at = self._line(files)
        try:
            fields = json.loads(lines[at])
        except ValueError:
            return
        places = [place for place in _places(fields) if place[1] != "crc"]
        if not places:
            return
        holder, key = self._rng.choice(places)
        pick = self._rng.random()
        if pick < 0.35:
            holder[key] = self._near(holder[key])
        elif pick < 0.6:
            holder[key] = self._rng.choice(_OTHERS if self._rng.random() < 0.7 else _NUMBERS)
        elif pick < 0.8:
            donors = self._donors.get(str(key), _OTHERS)
            holder[key] = copy.deepcopy(self._rng.choice(donors))
        elif pick < 0.88:
            del holder[key]
        elif pick < 0.94:
            there, other = self._rng.choice(places)
            if isinstance(there, dict) or there is not holder:
                value = copy.deepcopy(there[other]) if other in _keys(there) else None
                holder[key] = value
        elif isinstance(holder, dict):
            name = self._rng.choice(
                (_Twin(str(key)), "v", "", "__proto__", self._rng.choice(list(self._donors)))
            )
            holder[name] = copy.deepcopy(holder[key])
        lines[at] = encoded(fields, escaped=self._rng.random() < 0.1)

    def _near(self, value: Any) -> Any:
        """Return a value that is nearly right."""
        if isinstance(value, bool) or value is None:
            return self._rng.choice((0, 1, "", [], {}, not value))
        if isinstance(value, int):
            return self._rng.choice(
                (
                    -value,
                    value + 1,
                    value - 1,
                    2 * value + 1,
                    value << 40,
                    str(value),
                    float(value),
                    [value],
                    True,
                )
            )
        if isinstance(value, float):
            return self._rng.choice(
                (-value, int(value) if math.isfinite(value) else 0, 1 - value, str(value))
            )
        if isinstance(value, str):
            return self._rng.choice(
                (
                    value[:-1],
                    value + "x",
                    value.upper(),
                    [value],
                    {value: value},
                    value.encode("utf-8", "replace").hex(),
                )
            )
        if isinstance(value, list):
            members = list(value)
            self._rng.shuffle(members)
            return self._rng.choice(
                (members, value + value, value[1:], [value], dict.fromkeys(map(str, value)), [])
            )
        keys = list(value)
        self._rng.shuffle(keys)
        return self._rng.choice(
            (
                dict(zip(keys, value.values(), strict=True)),
                list(value.values()),
                list(value),
                {"d": value},
                {},
            )
        )

    def _change_bytes(self, files: dict[str, list[bytes]]) -> None:
        lines, at = self._line(files)
        body = bytearray(lines[at][_BODY:])
        start = self._rng.randrange(len(body) + 1)
        end = min(len(body), start + self._rng.choice((0, 1, 1, 2, 9, 40)))
        filling = self._rng.choice(
            (
                b"",
                b"\0",
                b"\r",
                b"\xff",
                b"{",
                b"}",
                b"]",
                b'"',
                b",",
                b"\\",
                b" ",
                b"\xed\xa0\x80",
                bytes(body[end : end + 30]),
            )
        )
        body[start:end] = filling or self._rng.randbytes(end - start).replace(b"\n", b"")
        lines[at] = lines[at][:_BODY] + bytes(body)

    def _change_lines(self, files: dict[str, list[bytes]]) -> None:
        lines, at = self._line(files)
        there, other = self._line(files)
        pick = self._rng.randrange(6)
        if pick == 0:
            del lines[at]
        elif pick == 1:
            lines.insert(at, lines[at])
        elif pick == 2:
            lines[at], there[other] = there[other], lines[at]
        elif pick == 3:
            there.insert(other, lines[at])
        elif pick == 4:
            del lines[at:]
        else:
            lines.insert(
                at, self._rng.choice((b"", b"\0" * 40, b"{}", b'{"crc":"00000000"}', b"null"))
            )
        if self._rng.random() < 0.7:
            _renumber(files)

    def _change_files(self, files: dict[str, list[bytes]]) -> None:
        path = self._rng.choice(list(files))
        lines = files.pop(path)
        folder, _, name = path.rpartition("/")
        number = int(name[:20])
        pick = self._rng.randrange(4)
        if pick == 0:
            return
        if pick == 1:
            files[path] = []
        elif pick == 2:
            other = self._rng.choice((number + 1, max(number - 1, 0), 0, 10**20 - 1, 2**63))
            files[f"{folder}/{other:020d}.jsonl"] = lines
        else:
            files[f"{self._rng.choice(('log', 'snap', 'archive'))}/{number:020d}.jsonl"] = lines


def encoded(fields: Any, *, escaped: bool = False) -> bytes:
    """Return fields as a line whose checksum is wrong; fields that are no object stand for themselves."""
    text = json.dumps(fields, ensure_ascii=escaped, separators=(",", ":"))
    line = _RAW_STRING.sub(
        lambda match: _RAW[match[1].decode()], text.encode("utf-8", "surrogatepass")
    )
    return (
        b'{"crc":"00000000",' + line[_BODY:]
        if line.startswith(b'{"crc":"')
        else b'{"crc":"00000000",' + line[1:]
    )


def seal(files: Mapping[str, Sequence[bytes]], *, chained: bool = True) -> dict[str, bytes]:
    """Return the bytes of files with the checksum of every line repaired.

    chained: repair as well what snapshots say of the record that they follow.
    """
    crcs: dict[int, int] = {}
    sealed = {}
    listed: dict[bytes, bytes] = {}  # of archives, what a snapshot says of each by its number
    crc = 0
    by_kind = sorted(files, key=lambda path: (not path.startswith("log"), path))
    logs = [path for path in by_kind if path.startswith("log/")]
    if logs and not logs[0].endswith(f"{1:020d}.jsonl"):
        crc = 0xC0FFEE  # the log before it is gone: what the snapshot says decides
        crcs[int(logs[0][4:24]) - 1] = crc
    for path in by_kind:
        if not path.startswith("log/"):
            crc = 0
        out = []
        for at, line in enumerate(files[path]):
            body = line[_BODY:]
            if path.startswith("snap/") and at == 0:
                body = re.sub(
                    rb"\[(\d+),\d+,\d+,\d+,\{", lambda found: listed.get(found[1], found[0]), body
                )
            if path.startswith("snap/") and at == 0 and chained:
                body = re.sub(
                    rb'"chain":"[0-9a-f]{8}"',
                    b'"chain":"%08x"' % crcs.get(int(path[5:25]), 0),
                    body,
                )
            crc = crc32(body, crc)
            out.append(b'{"crc":"%08x",%b\n' % (crc, body))
            if path.startswith("log/") and (seq := re.match(rb'"seq":([0-9]{1,18}),', body)):
                crcs[int(seq[1])] = crc
        data = b"".join(out)
        archive = _ARCHIVE.fullmatch(path)
        if archive and out:
            path = f"{archive[1]}-{crc:08x}.jsonl"
            number = b"%d" % int(archive[2])
            listed[number] = b"[%b,%d,%d,%d,{" % (number, crc, len(data), len(data) - len(out[-1]))
        sealed[path] = data
    return sealed


def _renumber(files: dict[str, list[bytes]]) -> None:
    """Number the records of the log again, and say anew how many lines each file of items has."""
    for path, lines in files.items():
        first = int(path.rpartition("/")[2][:20])
        for at, line in enumerate(lines):
            if path.startswith("log/"):
                lines[at] = re.sub(rb'"seq":[0-9]+,', b'"seq":%d,' % (first + at), line, count=1)
            elif at == len(lines) - 1:
                lines[at] = re.sub(rb'"end":[0-9]+', b'"end":%d' % (len(lines) - 2), line)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place inside a JSON value, as what holds it and its key or index."""
    for key in _keys(value):
        yield value, key
        yield from _places(value[key])


def _keys(value: Any) -> list[Any]:
    return (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
