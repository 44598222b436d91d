"""Sessions of one commit a turn, and ways to damage them, so that a test can say what must be left."""

import json

import pytest

from kaosmem.errors import CorruptionError, ReadOnlyError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.damage.damaged import COUNTER, held, opened, place_of
from tests.persistence.damage.forgery import encoded, seal

FIRST = f"log/{1:020d}.jsonl"


async def turns(*changes, place=None):
    """Store a session of one commit for each change, and return where."""
    place = IsolatedMemoryFileSystem() if place is None else place
    for change in changes:
        async with opened(place) as memory:
            change(memory)
    return place


def added(item_id, content="text", section="documents"):
    return lambda memory: memory.add(section, content, id=item_id)


async def read(files):
    with pytest.raises(CorruptionError, match=r"kaosmem repair|another session|from a copy"):
        async with opened(place_of(files)):
            pass
    async with opened(place_of(files), read_only=True) as memory:
        with pytest.raises(ReadOnlyError):
            memory.add("documents", "no")
        return held(memory), memory.damage


def ids(found):
    return [item_id for _, item_id in found]


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def whole_log(files):
    """The lines of the whole log of a session in memory, of a commit a file."""
    return [
        line
        for path in sorted(files)
        if path.startswith("log/")
        for line in files[path].splitlines(keepends=True)
    ]


def lost(files, *seqs):
    """The session with some records damaged."""
    data = b"".join(whole_log(files))
    for seq in seqs:
        data = flip(data, data.index(b'"seq":%d,' % seq) + 60)
    return {path: content for path, content in files.items() if not path.startswith("log/")} | {
        FIRST: data
    }


def forged(files, path, change):
    """The session with the lines of a file changed and their checksums made to fit."""
    lines = {name: data.splitlines() for name, data in files.items()}
    changed = []
    for line in lines[path]:
        fields = json.loads(line)
        change(fields)
        changed.append(encoded(fields))
    return seal(lines | {path: changed})


def newer(field, seq):
    def change(fields):
        if fields.get("seq") == seq and field == "v":
            fields["v"] = 99
        elif fields.get("seq") == seq and field == "open":
            fields |= {
                "sec": "",
                "op": "open",
                "d": {"version": 99, "counter": COUNTER.name, "sections": {}},
            }
        elif fields.get("seq") == seq and "k" in fields:
            fields["d"]["version"] = 99
        elif "version" in fields:
            fields["version"] = 99

    return change
