"""A damaged session, opened read-only: all that is intact is there, and what is missing is said."""

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import example, given, settings

from kaosmem import SessionMemory, ToolUseBlock
from kaosmem.errors import (
    CorruptionError,
    KaosmemError,
    NotFoundError,
    WindowTooSmallError,
)
from kaosmem.persistence.files.lines import stated_crc
from kaosmem.persistence.files.records import Change, encode_commit
from kaosmem.persistence.log import SessionLog
from tests.persistence.damage.damaged import (
    COUNTER,
    SPECS,
    Case,
    cases,
    held,
    must_be_served,
    opened,
    place_of,
    said,
    stored,
)
from tests.persistence.damage.turns import FIRST, added, flip, ids, lost, read, turns, whole_log
from tests.persistence.worlds import newest
from tests.simulation.power_loss import SECTOR


async def check(case):
    each = case.life
    broken = case.files
    with suppress(KaosmemError):
        async with opened(place_of(broken)) as memory:
            assert held(memory) in each.states, "open for writing, in a state that never was"
            return
    wanted = must_be_served(each, broken)
    try:
        async with opened(place_of(broken), read_only=True) as memory:
            found = held(memory)
            damage = memory.damage
            await check_reading(memory, each)
    except KaosmemError:
        assert not wanted, f"nothing is served, and this is intact: {wanted}"
        return
    assert damage, "it can't be opened for writing, and nothing is said"
    missing = wanted - {key for key, content in found.items() if content == each.state.get(key)}
    assert not missing, f"intact and not served: {missing}; {damage}"
    for key, content in found.items():
        assert content in each.ever.get(key, ()), f"never stored: {key}"


async def check_reading(memory, each):
    """Contexts can be made, and what is fetched is what was stored."""
    with suppress(WindowTooSmallError):
        await memory.assemble_context("notice", budget=300)
    for item_id in {item_id for _, item_id in each.ever}:
        with suppress(NotFoundError):
            item = await memory.fetch(item_id)
            assert said(item.content) in each.ever[item.section, item_id]


@settings(max_examples=2 * settings().max_examples)
@given(case=cases())
@example(
    Case(7, [("swap", "snap/00000000000000000012.jsonl", 178932668)])
)  # the header and an item
@example(Case(7, [("line", "snap/00000000000000000012.jsonl", 178932668)]))
def test_what_is_intact_is_served(case):
    """Whatever is done to the files, no item is served that never was, and none that is intact is missing unsaid."""
    asyncio.run(check(case))


async def test_one_damaged_byte_costs_one_record_at_most():
    """With any byte of a line damaged the records before and after are served; the damage has file, byte and seq."""
    lines = whole_log(stored(await turns(*(added(f"d{number}") for number in range(6)))))
    data = b"".join(lines)
    starts = [len(b"".join(lines[:number])) for number in range(len(lines))]
    for at in (at for at in range(len(lines[0]), len(data) - 1, 5) if data[at] != ord("\n")):
        number = max(each for each, start in enumerate(starts) if start <= at)
        found, damage = await read({FIRST: flip(data, at)})
        lost = [f"d{each}" for each in range(6) if f"d{each}" not in ids(found)]
        assert lost in ([], [f"d{number - 1}"])
        assert [(error.file, error.byte, error.seq) for error in damage] == [
            (FIRST, starts[number], number + 1)
        ]
        assert ("lost" in str(damage[0])) == bool(lost) or "nothing is lost" in str(damage[0])


async def test_a_torn_commit_is_left_out_beside_damage():
    """What a crash left of the last commit was never acknowledged, and is not served, whatever else is damaged."""
    lines = whole_log(stored(await turns(*(added(f"d{number}") for number in range(4)))))
    item = json.loads(lines[4])["d"]["item"]
    changes = [
        Change("documents", "add", {"item": item | {"id": each}, "evicted": []})
        for each in ("x", "y")
    ]
    first, last = encode_commit(changes, "torn", seq=5, crc=stated_crc(lines[4])).lines
    data = b"".join(lines)
    at = data.index(b'"d1"')
    hole = bytes(-len(data) % SECTOR)
    for torn in (first, first[:50], first + last[:-9], hole + b'":"half a line"}}\n'):
        found, damage = await read({FIRST: flip(data, at) + torn})
        assert ids(found) == ["d0", "d2", "d3"]
        assert [
            (error.byte, error.seq) for error in damage if "unfinished commit" in str(error)
        ] == [(len(data), 6)]
    assert ids((await read({FIRST: flip(data, at) + first + last}))[0]) == [
        "d0",
        "d2",
        "d3",
        "x",
        "y",
    ]


async def purged(monkeypatch, *changes):
    """Store a session as forgetting its item `secret` leaves it: a snapshot with no log before it.

    Return the place, the files before, the files after, and the path of the snapshot.
    """
    monkeypatch.setattr("kaosmem.persistence.log.MIN_LOG_BYTES", 10**9)
    place = await turns(added("secret"), *changes)
    older = stored(place)
    async with opened(place) as memory:
        await memory.forget("secret")
    files = stored(place)
    (path,) = (path for path in files if path.startswith("snap/"))
    return place, older, files, path


async def test_sections_without_a_description_are_given_or_dormant(
    monkeypatch,
):
    """Where the header is lost a section has the spec given for its name, or is kept and not shown."""
    place, _, _, path = await purged(
        monkeypatch,
        *(added(f"d{number}", f"text {number}") for number in range(1, 5)),
        added("m0", section="messages"),
        added("f0", section="findings"),
    )
    await turns(added("d9"), place=place)
    async with opened(place) as memory:
        whole = held(memory)
    files = stored(place)
    place = place_of(files | {path: flip(files[path], 60)})
    given = [spec for spec in SPECS if spec.name != "findings"]
    async with SessionMemory.open(
        place, "s", sections=given, counter=COUNTER, read_only=True
    ) as memory:
        whole.pop(("documents", "d9"))  # the record after the snapshot cannot be checked
        assert held(memory) == whole
        assert memory["messages"].spec == SPECS[1]
        assert (memory["findings"].spec.in_context, len(memory["findings"])) == (False, 1)
        assert any("'findings'" in notice for notice in memory.notices)


async def test_a_section_that_lost_its_only_call_is_served(monkeypatch):
    """A snapshot says that a call waits for its result. If the call is lost, the rest is served."""
    call = [ToolUseBlock("c1", "look", "{}")]
    asked = lambda memory: memory.add("messages", call, role="assistant", id="m")  # noqa: E731
    _, _, files, path = await purged(monkeypatch, added("d"), asked)
    found, _ = await read(files | {path: flip(files[path], files[path].index(b'"id":"m"'))})
    assert ids(found) == ["d"]


async def sound(files):
    async with opened(place_of(files)) as memory:
        return held(memory)


async def test_what_was_forgotten_stays_so():
    """A tombstone erases what remains, also where the record of its item's newest content is lost."""
    place = await turns(
        added("a", "one"), lambda memory: memory.update("a", "two"), added("b"), added("c")
    )
    log, _ = SessionLog.open(place, "s")
    log.commit([Change("documents", "forget", {"ids": ["a"], "archived": 1, "evicted": 0})])
    for seqs in ((3,), (2,), (4,)):
        async with opened(place_of(lost(stored(place), *seqs)), read_only=True) as memory:
            assert "a" not in ids(held(memory))
            with pytest.raises(NotFoundError, match="damage"):
                await memory.fetch("a")


async def test_what_a_crash_left_undeleted_is_not_brought_back(
    monkeypatch,
):
    """Where a snapshot is damaged that was to be all there is, nothing older stands in for what it lacks."""
    _, older, files, path = await purged(monkeypatch, added("b"), added("c"))
    left = files | {name: data for name, data in older.items() if name.startswith("log/")}
    item = files[path].index(b'"id":"b"')
    header = 60
    found, _ = await read(left | {path: flip(files[path], item)})
    assert ids(found) == ["c"]
    found, _ = await read(
        left | {path: flip(flip(files[path], header), item), "purge": b"unfinished"}
    )
    assert ids(found) == ["c"]


async def test_the_order_stays_where_items_are_lost():
    """Items keep their order, whatever is lost between."""
    files = stored(await turns(*(added(f"m{number}", section="messages") for number in range(8))))
    async with opened(place_of(lost(files, 3, 4, 7)), read_only=True) as memory:
        entries = list(memory["messages"].held.entries())
        assert [entry["id"] for entry in entries] == ["m0", "m3", "m4", "m6", "m7"]
        assert [entry["position"] for entry in entries] == [0, 1, 2, 3, 4]


async def test_what_was_evicted_can_still_be_recalled():
    """Messages that a damaged session has evicted keep their places in the history."""
    files = stored(
        await turns(*(added(f"m{number}", "word " * 20, section="messages") for number in range(9)))
    )
    async with opened(place_of(lost(files, 3)), read_only=True) as memory:
        evicted = memory["messages"].archive.in_memory()
        assert len(evicted) > 2
        assert all(version.position is not None for version in evicted)
        assert len({version.position for version in evicted}) == len(evicted)


async def test_damaged_archives_cost_their_damaged_lines(monkeypatch):
    """Read-only, all intact versions can be fetched, and the damage is said once read; a writer is refused them."""
    monkeypatch.setattr("kaosmem.persistence.log.MIN_LOG_BYTES", 10)
    files = stored(
        await turns(
            *(added(f"d{number}", f"text {number}") for number in range(4)),
            *(lambda memory, number=number: memory.remove(f"d{number}") for number in range(4)),
            added("end", "word " * 500),
        )
    )
    path = max(
        (path for path in files if path.startswith("archive/")), key=lambda path: len(files[path])
    )
    number = int(files[path].partition(b'"id":"d')[2][:1])
    place = place_of(files | {path: flip(files[path], files[path].index(b"text %d" % number))})
    async with opened(place, read_only=True) as memory:
        assert memory.damage == ()
        for other in set(range(4)) - {number}:
            assert (await memory.fetch(f"d{other}")).content == f"text {other}"
        with pytest.raises(NotFoundError, match=r"memory\.damage"):
            await memory.fetch(f"d{number}")
        assert {error.file for error in memory.damage} == {path}
        said_once = memory.damage
        with suppress(NotFoundError):
            await memory.fetch(f"d{number}")
        assert memory.damage == said_once
    log, _ = SessionLog.open(place, "s")
    with pytest.raises(CorruptionError):
        newest(log, f"d{number}")


async def test_a_sound_session_has_no_damage():
    """Damage is empty, and what is said of a torn tail is in it and among the notices, once."""
    place = await turns(added("a"), added("b"))
    async with opened(place, read_only=True) as memory:
        assert (memory.damage, memory.notices) == ((), ())
    files = stored(place)
    path = max(files)
    async with opened(place_of(files | {path: files[path][:-20]})) as memory:
        assert [error.file for error in memory.damage] == [path]
        assert memory.notices == tuple(map(str, memory.damage))
