"""Stored sessions changed by a forger, who repairs the checksums, so that what is changed gets past them."""

import copy
import json
import random
import re
from zlib import crc32

_BODY = 18  # of a line: what follows `{"crc":"7c13880a",`

_ARCHIVE = re.compile(r"(archive/([0-9]{20}))(?:-[0-9a-f]{8})?\.jsonl")

_VALUES = (
    None,
    True,
    0,
    1,
    -1,
    255,
    2**40,
    2**63 - 1,
    -(2**63),
    0.5,
    1e300,
    "",
    "\0",
    "x" * 300,
    "0",
    "messages",
    "none",
    "m0",
    "9999-12-31T23:59:59+00:00",
    [],
    {},
    [None],
    ["m0"],
    {"id": "m0"},
    {"type": "text", "text": "x"},
)


class Forger:
    """Makes broken sessions of sound ones: the same ones for the same seed.

    sessions: the log of each ends in its last files, in the order of their names.
    """

    def __init__(self, sessions, seed):
        self._rng = random.Random(seed)
        self._sessions = [
            {path: data.split(b"\n")[:-1] for path, data in files.items()} for files in sessions
        ]
        self._donors = {}
        for lines in self._sessions:
            for line in (line for each in lines.values() for line in each):
                for holder, key in _places(json.loads(line)):
                    self._donors.setdefault(str(key), []).append(holder[key])

    def forged(self):
        """Return one of the sessions with one to four changes, its checksums repaired."""
        files = {path: list(lines) for path, lines in self._rng.choice(self._sessions).items()}
        for _ in range(self._rng.choice((1, 1, 1, 2, 4))):
            pick = self._rng.random()
            if pick < 0.8:
                self._change_value(files)
            elif pick < 0.95:
                self._change_lines(files)
            else:
                self._change_files(files)
        return seal(files, chained=self._rng.random() < 0.97)

    def _line(self, files):
        lines = self._rng.choice([lines for lines in files.values() if lines] or [[b"{}"]])
        return lines, self._rng.randrange(len(lines))

    def _change_value(self, files):
        lines, at = self._line(files)
        fields = json.loads(lines[at])
        places = [place for place in _places(fields) if place[1] != "crc"]
        if not places:
            return
        holder, key = self._rng.choice(places)
        pick = self._rng.random()
        if pick < 0.35:
            holder[key] = self._rng.choice(_near(holder[key]))
        elif pick < 0.65:
            holder[key] = self._rng.choice(_VALUES)
        elif pick < 0.9:
            holder[key] = copy.deepcopy(self._rng.choice(self._donors.get(str(key), _VALUES)))
        else:
            del holder[key]
        lines[at] = encoded(fields)

    def _change_lines(self, files):
        lines, at = self._line(files)
        there, other = self._line(files)
        pick = self._rng.randrange(4)
        if pick == 0:
            del lines[at]
        elif pick == 1:
            lines[at], there[other] = there[other], lines[at]
        elif pick == 2:
            there.insert(other, lines[at])
        else:
            del lines[at:]
        if self._rng.random() < 0.7:
            _renumber(files)

    def _change_files(self, files):
        path = self._rng.choice(list(files))
        lines = files.pop(path)
        folder, _, name = path.rpartition("/")
        number = int(name[:20])
        other = self._rng.choice((number + 1, max(number - 1, 0), 0, 2**63))
        if self._rng.random() < 0.5:
            files[f"{folder}/{other:020d}.jsonl"] = lines


def _near(value):
    """Return values that are nearly right."""
    match value:
        case int():
            return -value, value + 1, value - 1, value << 40, str(value), float(value), [value]
        case str():
            return value[:-1], f"{value}x", value.upper(), [value], {value: value}
        case list():
            return value[::-1], value + value, value[1:], [value], dict.fromkeys(map(str, value))
        case dict():
            return list(value.values()), list(value), {"d": value}, {}
    return 0, "", [], {}


def encoded(fields):
    """Return fields as a line whose checksum is wrong."""
    rest = {name: value for name, value in fields.items() if name != "crc"}
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    return b'{"crc":"00000000",' + text.encode()[1:]


def seal(files, *, chained=True):
    """Return the bytes of files with the checksum of every line repaired.

    chained: repair as well what snapshots say of the record that they follow.
    """
    crcs = {}
    sealed = {}
    listed = {}  # of archives, what a snapshot says of each by its number
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


def _renumber(files):
    """Number the records of the log again, and say anew how many lines each file of items has."""
    for path, lines in files.items():
        first = int(path.rpartition("/")[2][:20])
        for at, line in enumerate(lines):
            if path.startswith("log/"):
                lines[at] = re.sub(rb'"seq":[0-9]+,', b'"seq":%d,' % (first + at), line, count=1)
            elif at == len(lines) - 1:
                lines[at] = re.sub(rb'"end":[0-9]+', b'"end":%d' % (len(lines) - 2), line)


def _places(value):
    """Yield every place inside a JSON value, as what holds it and its key or index."""
    for key in _keys(value):
        yield value, key
        yield from _places(value[key])


def _keys(value):
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []
