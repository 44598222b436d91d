"""Small sessions, and their files to break."""

import json

from kaosmem import SectionSpec, SessionMemory, SessionOptions
from kaosmem.tokens.counters import EstimateCounter
from tests.persistence.damage.forgery import encoded, seal

SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", 10_000, placement="history"),
    SectionSpec("documents", eviction="none"),
)
COUNTER = EstimateCounter()
LOG = f"log/{1:020d}.jsonl"


def memory_at(place, session_id="s", **options):
    """A session to be entered, with sections and a counter that cost nothing."""
    return SessionMemory.open(place, session_id, sections=SPECS, counter=COUNTER, **options)


async def ids_at(place, session_id="s", **options):
    """The ids that a session holds now, section by section; none if it is not stored."""
    async with memory_at(
        place, session_id, read_only=True, options=SessionOptions(missing_ok=True), **options
    ) as memory:
        return [item.id for spec in SPECS for item in memory[spec.name]]


async def session(place, *item_ids, session_id="s", text="text"):
    """Store a session with messages of these ids, a commit each."""
    async with memory_at(place, session_id) as memory:
        for item_id in item_ids:
            memory.add("messages", text, id=item_id)
            await memory.save()


def folder_of(place, session_id="s"):
    return place / "default" / session_id


def segment_of(place):
    """The newest segment of the session's log on a disk."""
    return max((folder_of(place) / "log").glob("*.jsonl"))


def lines_of(files):
    return {path: data.split(b"\n")[:-1] for path, data in files.items()}


async def logged(place, *item_ids):
    """The files of a session of one segment, as it lies on a disk."""
    await session(place, *item_ids)
    return {LOG: segment_of(place).read_bytes()}


def changed(files, line, change):
    """A log with one record changed and its checksums repaired."""
    lines = lines_of(files)
    fields = json.loads(lines[LOG][line])
    change(fields)
    lines[LOG][line] = encoded(fields)
    return seal(lines)


def rewritten(files, line, old, new):
    """A log with bytes of one record replaced and its checksums repaired."""
    lines = lines_of(files)
    assert old in lines[LOG][line]
    lines[LOG][line] = lines[LOG][line].replace(old, new)
    return seal(lines)
