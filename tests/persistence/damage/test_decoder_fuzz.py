"""The decoder against files that were changed on purpose, with their checksums repaired."""

import asyncio
import json
import tracemalloc
from collections import Counter
from functools import cache

import pytest

from kaosmem import (
    BM25Ranker,
    CorruptionError,
    KaosmemError,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.language.query import Query
from kaosmem.persistence.files import lines as file_lines
from kaosmem.persistence.files.records import decode_record
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.archive import Archived
from kaosmem.sections.spec import MAX_SECTIONS
from kaosmem.session.saving.checkpoints import SnapshotContent
from kaosmem.session.saving.hydration import hydrate
from kaosmem.tokens.counters import EstimateCounter
from tests.persistence.damage.forgery import Forger, encoded, seal
from tests.persistence.worlds import newest
from tests.places import files_in, in_memory

SPECS = (
    SectionSpec("role", 400, placement="static", eviction="none"),
    SectionSpec("messages", 90, placement="history", recent=2),
    SectionSpec("findings", 40, eviction="priority"),
    SectionSpec("actions", 30, eviction="lru"),
    SectionSpec("plan", None, eviction="none"),
)
COUNTER = EstimateCounter()


async def live(memory, name):
    """Change everything that a log can be told of, a few things a turn."""
    memory.add("role", "You are careful.", tags=("a", "b"))
    memory.add(
        "messages",
        f"Who may end {name}?",
        id=f"{name}0",
        metadata={"source": "a.md", "n": [1, {"x": None}]},
    )
    await memory.save()
    blocks = [
        ThinkingBlock("hm", "seal"),
        TextBlock("Let me see"),
        ToolUseBlock("c1", "find", '{"q": 1}'),
    ]
    memory.add("messages", blocks, role="assistant", id=f"{name}1")
    memory.add(
        "messages", [ToolResultBlock("c1", (TextBlock("found"),))], role="tool", id=f"{name}2"
    )
    await memory.save()
    memory.add(
        "findings",
        "Either party, on 30 days' notice",
        priority=1,
        pinned=True,
        id=f"{name}f",
        key="k",
    )
    memory.add("findings", "So it says", sources=(f"{name}f",), id=f"{name}g")
    memory.update(f"{name}g", "So it said")
    for number in range(4):
        memory.add("actions", f"looked at page {number} and at the next", id=f"{name}a{number}")
    memory.get(f"{name}a3")
    memory.add("plan", "first this")
    await memory.save()
    for number in range(6):
        memory.add(
            "messages", f"and clause {number} of {name}, what of that one?", id=f"{name}m{number}"
        )
    memory.remove(f"{name}m5")
    await memory.save()


def stored(memory):
    files = files_in(memory.admin.fs, "default/s")
    return {path: data for path, data in files.items() if path.endswith(".jsonl")}


async def made():
    memory = SessionMemory.test_mode(session_id="s", sections=SPECS, counter=COUNTER)
    await live(memory, "m")
    plain = stored(memory)
    log, recovered = SessionLog.open(memory.admin.fs, "s")
    hydrated = hydrate(recovered, SPECS, COUNTER, None)
    frozen = SnapshotContent.of(hydrated, COUNTER)
    log.snapshot(frozen.header, frozen.items, archived=frozen.archived_entries, at=log.end)
    async with SessionMemory.open(memory.admin.fs, "s", sections=SPECS, counter=COUNTER) as again:
        await live(again, "n")
    whole = stored(again)
    (snapshot,) = (path for path in whole if path.startswith("snap/"))
    newest = {
        path: data
        for path, data in whole.items()
        if not path.startswith("log/") or path[4:] > snapshot[5:]
    }
    return [plain, whole, newest]


@cache
def sessions():
    """A session that is its log alone, one with a snapshot and an archive, and one whose older log is gone."""
    return asyncio.run(made())


def opened(files, *, read_only=False):
    log, recovered = SessionLog.open(in_memory(files), "s", read_only=read_only)
    return log, hydrate(recovered, SPECS, COUNTER, BM25Ranker())  # half the time of the default


def use(log, hydrated):
    """Touch all that was hydrated, as a first turn would; only the archive, read on demand, may be refused now."""
    sections = hydrated.sections
    for section in sections.values():
        show(section)
    try:
        newest(log, "ma0")
        versions = list(log.archives.all())
        for name, section in sections.items():
            section.load(
                (Archived.from_dict(data, other) for other, data in versions if other == name)
            )
            show(section)
    except KaosmemError:
        pass


def show(section):
    section.proposer.propose(Query("terminate notice"), cap=100)
    for item in section:
        json.dumps(item.to_dict())
        repr(item)
    json.dumps([section.state(), *section.held.entries()])


def fuzz(count, seed):
    """Open forged sessions, and what can't be opened again read-only; return how often each thing happened."""
    outcomes = Counter()
    forger = Forger(sessions(), seed)
    for _ in range(count):
        outcomes.update(attempt(forger.forged()))
    return outcomes


def attempt(files):
    """Open and use a session, read-only if it is refused, and return what happened."""
    outcomes = []
    for read_only in (False, True):
        try:
            use(*opened(files, read_only=read_only))
            return [*outcomes, "opened read-only" if read_only else "opened"]
        except KaosmemError as error:
            fault = "checksum" if "checksum" in str(error) else type(error).__name__
            outcomes.append(f"{fault}{' read-only' * read_only}")
    return outcomes


def test_what_the_forger_begins_with_is_sound():
    """The sessions that are forged are opened whole, and so they are when they are only sealed anew."""
    for files in sessions():
        for each in (files, seal({path: data.split(b"\n")[:-1] for path, data in files.items()})):
            log, hydrated = opened(each)
            assert hydrated.notices == []
            assert {
                name: len(section) > 0 for name, section in hydrated.sections.items()
            } == dict.fromkeys([spec.name for spec in SPECS], True)
            use(log, hydrated)


def test_forged_files_are_opened_or_refused():
    """Whatever a file whose checksums fit says, opening works or raises one of our errors; what opens can be used."""
    count = 200
    outcomes = fuzz(count, seed=1)
    print(f"\n{count} forged sessions: {dict(outcomes.most_common())}")
    assert outcomes["opened"] > count / 5
    assert outcomes["CorruptionError"] > count / 5
    assert outcomes["UnsupportedVersionError"] > 0
    # About 3 in 100: the forger seals what it has changed.
    assert outcomes["checksum"] < count / 10


@pytest.mark.soak
def test_many_forged_files_are_opened_or_refused():
    """So it is with 100,000 others."""
    outcomes = sum((fuzz(20_000, seed) for seed in range(2, 7)), Counter[str]())
    print(f"\n100,000 forged sessions: {dict(outcomes.most_common())}")
    assert outcomes["opened"] > 25_000


@pytest.mark.parametrize("number", [0, 2**62, 2**63 - 1])
def test_a_number_that_cannot_be_is_no_size_and_no_place(number):
    """A seq, a k or a count in one line of any file, whatever it is, is served or refused, and soon."""
    lines = {path: data.split(b"\n")[:-1] for path, data in sessions()[1].items()}
    places = [
        (path, at, name)
        for path in lines
        for at in (0, 1, -1)
        for name in ("seq", "k", "end", "purged")
    ]
    tried = 0
    for path, at, name in places:
        fields = json.loads(lines[path][at])
        if name in fields:
            changed = [*lines[path]]
            changed[at] = encoded(fields | {name: number})
            outcomes = attempt(seal({**lines, path: changed}))
            assert 0 < len(outcomes) <= 2
            tried += 1
    assert tried > 20


def peak_of(work):
    """The most bytes that were held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bombed(change, line=-1):
    """A sound log with the data of one record changed."""
    (*_, path), lines = (
        sessions()[0],
        {path: data.split(b"\n")[:-1] for path, data in sessions()[0].items()},
    )
    path = path if line < 0 else min(lines)
    fields = json.loads(lines[path][line])
    change(fields["d"])
    lines[path][line] = encoded(fields)
    return seal(lines)


OBJECTS = 50_000
"""At most so many may be in a line, here."""

# Each with how many times its size may be held: what is built before it is refused is larger than
# its text.
BOMBS = {
    "100,000 lists in each other": (10, lambda: raw_bomb(b"[" * 100_000 + b"]" * 100_000)),
    "twice as many objects": (10, lambda: raw_bomb(b"[" + b"{}," * 2 * OBJECTS + b"{}]")),
    "a number of 1,000,000 digits": (10, lambda: raw_bomb(b"1" * 1_000_000)),
    "objects as many as may be": (
        32,
        lambda: raw_bomb(b"[" + b"{}," * (OBJECTS - 10) + b"{}]"),
    ),
    "20,000 sections": (
        32,
        lambda: bombed(lambda data: data["sections"].update(many_sections()), line=0),
    ),
}


def raw_bomb(text):
    files = dict(bombed(lambda data: data.update(id="BOMB")))
    lines = {path: data.replace(b'"BOMB"', text).split(b"\n")[:-1] for path, data in files.items()}
    return seal(lines)


def many_sections():
    return {f"s{number}": {"name": f"s{number}"} for number in range(2 * MAX_SECTIONS)}


@pytest.mark.parametrize(("times", "bomb"), BOMBS.values(), ids=BOMBS)
def test_what_would_grow_in_memory_is_refused_first(times, bomb, monkeypatch):
    """A small file that would be a large heap is refused; what is held on the way is bounded by the file's size."""
    monkeypatch.setattr(file_lines, "MAX_CONTAINERS", OBJECTS)
    files = bomb()
    size = sum(map(len, files.values()))

    def work():
        with pytest.raises(CorruptionError):
            opened(files)

    assert peak_of(work) < times * size + 2**20


def test_a_line_over_the_limit_is_refused_unparsed(monkeypatch):
    """A line over the limit is refused by its length, and not copied."""
    monkeypatch.setattr(file_lines, "MAX_LINE_BYTES", 4 * 2**20)
    body = b'"seq":1,"k":0,"txn":"t","sec":"s","op":"add","d":{"t":"' + b"x" * 4 * 2**20 + b'"}}'
    (line,) = seal({f"log/{1:020d}.jsonl": [b'{"crc":"00000000",' + body]}).values()
    line = line[:-1]

    def work():
        with pytest.raises(CorruptionError, match="over the limit"):
            decode_record(line, seq=1, crc=0)

    assert peak_of(work) < 2**20
