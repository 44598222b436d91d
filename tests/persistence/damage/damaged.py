"""Sessions that are damaged: what they were, what was done to their files, and what must be left."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import count, pairwise
from unittest.mock import patch

from hypothesis import strategies as st

from kaosmem import (
    SectionSpec,
    SessionMemory,
    SessionOptions,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.errors import SectionFullError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sections.substitution import Substitution
from kaosmem.tokens.counters import EstimateCounter
from tests.places import files_in, in_memory

COUNTER = EstimateCounter()
SPECS = (
    SectionSpec("role", 2_000, placement="static", eviction="none"),
    SectionSpec("messages", 90, 90, 0.35, placement="history", recent=2),
    SectionSpec("findings", 50, eviction="priority"),
    SectionSpec("actions", 40, eviction="lru"),
    SectionSpec("documents", eviction="none"),
)
FOLDER = "default/s"
_COMPACTS_FROM = 12
"""Lives from this seed on compact their sections."""
START = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "a long text " * 6_000

Files = dict[str, bytes]
Held = dict[tuple[str, str], str]
"""By section and id, what an item says."""


@dataclass
class Life:
    """A session as it was stored. states: after each commit. ever: all that any item ever said."""

    files: Files
    states: list[Held]
    ever: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    @property
    def state(self):
        return self.states[-1]


def opened(place, session_id="s", *, read_only=False):
    clock = partial(next, (START + timedelta(seconds=each) for each in count()))
    return SessionMemory.open(
        place,
        session_id,
        sections=SPECS,
        counter=COUNTER,
        read_only=read_only,
        options=SessionOptions(clock=None if read_only else clock),
    )


def held(memory):
    return {
        (spec.name, item.id): said(item.content)
        for spec in memory.sections
        for item in memory[spec.name]
    }


def said(content):
    return content if isinstance(content, str) else repr(content)


@cache
def life(seed):
    """A session of many turns, with snapshots, archives, units, long texts, updates, removals and evictions."""
    return asyncio.run(_lived(random.Random(seed), compacts=seed >= _COMPACTS_FROM))


async def _lived(rng, *, compacts):
    filesystem = IsolatedMemoryFileSystem()
    found = Life({}, [{}])
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", rng.choice([2_000, 4_000, 10**6])):
        for turn in range(rng.randrange(3, 14)):
            async with opened(filesystem) as memory:
                for number in range(rng.randrange(1, 5)):
                    for change in (_change, _compact) if compacts else (_change,):
                        with suppress(SectionFullError):
                            change(memory, rng, f"{turn}.{number}")
                        for key, content in held(memory).items():
                            found.ever.setdefault(key, set()).add(content)
                if rng.random() < 0.1 and turn and memory["findings"]:
                    await memory.forget(next(iter(memory["findings"])).id)
            found.states.append(held(memory))
    found.files = stored(filesystem)
    return found


def _change(memory, rng, name):
    live = [
        item for spec in memory.sections for item in memory[spec.name] if spec.name != "messages"
    ]
    text = " ".join(
        rng.choices(
            'termination notice fee {"crc":"01234567", é 漢 clause'.split(), k=rng.randrange(1, 9)
        )
    )
    match rng.randrange(9):
        case 0 | 1:
            memory.add(
                "messages", f"{name} {text}", role=rng.choice(["user", "assistant"]), id=f"m{name}"
            )
        case 2:
            memory.add(
                "messages",
                [TextBlock(text), ToolUseBlock(f"c{name}", "look", "{}")],
                role="assistant",
                id=f"t{name}",
            )
            memory.add("messages", [ToolResultBlock(f"c{name}", name)], role="tool", id=f"u{name}")
        case 3:
            memory.add("role", f"{name} {text}", id=f"r{name}")
        case 4:
            memory.add("actions", f"{name} {text}", id=f"a{name}")
            memory.search("notice")
        case 5 if live:
            memory.update(rng.choice(live).id, f"{name} again")
        case 6 if live:
            memory.remove(rng.choice(live).id)
        case 7:
            long = LONG if rng.random() < 0.15 else text
            memory.add(
                "documents",
                f"{name} {long}",
                id=f"d{name}",
                metadata={"x": [{"crc": "01234567", "n": text}]},
            )
        case _:
            memory.add("findings", f"{name} {text}", id=f"f{name}", priority=rng.randrange(3))


def _compact(memory, rng, name):
    """Put one item in the place of several."""
    section = memory[rng.choice(["messages", "documents"])]
    items = [*section]
    if len(items) > 2 and rng.random() < 0.5:
        start = rng.randrange(len(items) - 1)
        gone = tuple(item.id for item in items[start : start + rng.randrange(1, 4)])
        told = replace(
            items[start], id=f"s{name}", role="summary", content=f"{name} in short", sources=gone
        )
        section.compact(Substitution(gone, ((gone[0], told),)))


def stored(place):
    return files_in(place, FOLDER)


place_of = in_memory


KINDS = ("flip", "flip", "line", "file", "cut", "range", "newline", "nuls", "swap", "again", "crlf")


class Case:
    """A session and its files after damage.

    done: the kind of each, the file, and a seed for the rest.
    """

    def __init__(self, life_seed, done):
        self.life_seed = life_seed
        self.done = done
        self.life = life(life_seed)
        self.files = self.life.files
        for each in done:
            self.files = damaged(self.files, *each)

    def __repr__(self):
        return f"Case({self.life_seed}, {self.done})"


@st.composite
def cases(draw):
    """Return a session with damage in one to three places."""
    life_seed = draw(st.integers(0, 19))
    paths = st.sampled_from(sorted(life(life_seed).files))
    done = st.tuples(st.sampled_from(KINDS), paths, st.integers(0, 2**32))
    return Case(life_seed, draw(st.lists(done, min_size=1, max_size=3)))


def damaged(files, kind, path, seed):
    """Return files of which one is damaged, if it is there."""
    if path not in files:
        return files
    changed = _damaged(files[path], kind, random.Random(seed))
    return {name: data for name, data in files.items() if name != path} | (
        {} if changed is None else {path: changed}
    )


def _damaged(data, kind, rng):
    if kind == "file":
        return None
    if not data:
        return b"x"
    at = rng.randrange(len(data))
    size = rng.randrange(1, 200)
    lines = data.splitlines(keepends=True)
    line = rng.randrange(len(lines))
    match kind:
        case "flip":
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case "line":
            return b"".join(lines[:line] + lines[line + 1 :])
        case "cut":
            return data[:at]
        case "range":
            return data[:at] + rng.randbytes(size) + data[at + size :]
        case "nuls":
            return data[:at] + b"\0" * size + data[at + size :]
        case "newline":
            return (
                b"".join(lines[:line])
                + lines[line].replace(b"\n", rng.choice([b"x", b"", b"\0"]))
                + b"".join(lines[line + 1 :])
            )
        case "swap":
            return b"".join([*lines[:line], *reversed(lines[line : line + 2]), *lines[line + 2 :]])
        case "again":
            return b"".join([*lines[: line + 1], *lines[line:]])
        case _:
            return data.replace(b"\n", b"\r\n")


def must_be_served(life, broken):
    """The items that are live at the end, and whose newest line is valid in the newest whole snapshot or after it."""
    snapshots = sorted(
        (path for path in life.files if path.startswith("snap/") and path in broken), reverse=True
    )
    base = next((path for path in snapshots if broken[path] == life.files[path]), None)
    if base is None and not broken.get(f"log/{1:020d}.jsonl"):
        base = next(iter(snapshots), None)
    start = int(base[5:25]) if base else 0
    wanted = set()
    segments = sorted(name for name in life.files if name.startswith("log/"))
    newest = max((name for name in segments if broken.get(name)), default=None)
    has_header = base is not None and _first_line(life.files[base]) == _first_line(broken[base])
    for path, data in life.files.items():
        if path in broken and (path == base or path in segments):
            left = _without_torn(data, broken[path]) if path == newest else broken[path]
            first = int(path[4:24]) if path in segments else 1
            is_begun = first == 1 or (first == start + 1 and has_header)
            if not is_begun:
                before = max((name for name in segments if name < path), default="")
                is_begun = _ends_alike(life.files.get(before, b""), broken.get(before, b""))
            for line in _checkable(data, left, is_begun=is_begun):
                if path == base or json.loads(line)["seq"] > start:
                    for key, content in _says(path, line):
                        if life.state.get(key) == content:
                            wanted.add(key)
    return wanted


def _first_line(data):
    return data.partition(b"\n")[0]


def _ends_alike(data, broken):
    """Return whether a segment has as many lines as before, and the last one states its checksum."""
    lines = data.split(b"\n")
    left = broken.split(b"\n")
    return len(data) > 0 and len(lines) == len(left) and lines[-2][:18] == left[-2][:18]


def _without_torn(data, broken):
    """Return a log without what a crash might have left of its last commit."""
    whole = {line for line in data.split(b"\n") if b',"k":0,' in line[:60]}
    lines = broken.split(b"\n")
    ends = [number for number, line in enumerate(lines) if line in whole]
    after = ends[-1] + 1 if ends else 0
    if any(line not in data.split(b"\n") and b"\0" not in line for line in lines[after:-1]):
        return broken
    return b"\n".join([*lines[:after], b""])


def _checkable(data, broken, *, is_begun):
    """Yield the lines that are there still, and that follow one that states the checksum of their predecessor.

    is_begun: whether the checksum before the first line is known.
    """
    left = broken.split(b"\n")
    followed = {line: before[:18] for before, line in pairwise([b"", *left])}
    for before, line in pairwise([b"", *data.split(b"\n")[:-1]]):
        if followed.get(line) == before[:18] and (before or is_begun):
            yield line


def _says(path, line):
    """Yield what a line says of items: content is compared where it is a text in the line."""
    fields = json.loads(line)
    data = fields.get("d", {})
    entries = [data.get("item")] if path.startswith("log/") else [data]
    for entry in (
        *entries,
        *(entry for name in ("entries", "items", "versions") for entry in data.get(name, ())),
    ):
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            yield (fields["sec"], entry["id"]), entry["content"]
