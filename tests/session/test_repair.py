"""Rescuing a damaged session into a new one, by the API and the command."""

import asyncio
import json
import signal
import sys
from unittest.mock import patch

import pytest
from hypothesis import given, settings

from kaosmem import SessionMemory, list_sessions, repair_session
from kaosmem.cli import main
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    InvalidNameError,
    KaosmemError,
    NotFoundError,
    UnsupportedVersionError,
)
from kaosmem.formation import PatternFormer
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.session import RepairReport
from tests.persistence.damage.damaged import (
    LONG,
    SPECS,
    cases,
    held,
    opened,
    place_of,
    stored,
)
from tests.persistence.damage.turns import FIRST, added, forged, newer, turns, whole_log
from tests.places import files_in, put


async def filled(place, session_id="s"):
    """Store a session with a snapshot, an archive and a long text, and return what it holds."""
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", 3_000):
        for number in range(12):
            async with opened(place, session_id) as memory:
                memory.add(
                    "documents",
                    f"text {number}",
                    id=f"d{number}",
                    metadata={"source": f"{number}.md"},
                )
                memory.add("messages", "word " * 12, id=f"m{number}", role="user")
                if number % 3 == 2:
                    memory.update(f"d{number - 1}", f"newer {number}")
                    memory.remove(f"d{number - 2}")
    async with opened(place, session_id) as memory:
        memory.add("documents", LONG, id="long")
        memory.add("documents", "end", id="end")
        return held(memory)


def break_log(place, session_id="s"):
    """Damage the last record but one, of the long text."""
    path = max(path for path in files_in(place) if f"/{session_id}/log/" in path)
    data = bytearray(files_in(place)[path])
    data[data.rindex(b'"long"') + 1] ^= 1
    put(place, {path: bytes(data)})


async def archived(place, session_id, item_ids):
    async with opened(place, session_id, read_only=True) as memory:
        return [(await memory.fetch(item_id)).content for item_id in item_ids]


async def test_all_that_is_intact_is_in_the_new_session(place):
    """Items with their places, archived versions and evicted ones; the damaged session is left as it is."""
    whole = await filled(place)
    before_damage = await archived(place, "s", ["d0", "d3", "m0", "m1"])
    break_log(place)
    damaged = files_in(place)
    report = await repair_session(place, "s")
    assert (report.session_id, report.into) == ("s", "s-repaired")
    assert damaged.items() <= files_in(place).items()
    assert await list_sessions(place) == ["s", "s-repaired"]
    async with opened(place, "s-repaired") as memory:
        assert held(memory) == {key: content for key, content in whole.items() if key[1] != "long"}
        assert (memory.damage, memory.notices) == ((), ())
        assert report.items == {
            spec.name: len(memory[spec.name]) for spec in memory.sections if memory[spec.name]
        }
        assert report.archived == {
            spec.name: len(memory[spec.name].archive)
            for spec in memory.sections
            if len(memory[spec.name].archive)
        }
        memory.add("documents", "goes on", id="next")
    assert await archived(place, "s-repaired", ["d0", "d3", "m0", "m1"]) == before_damage
    assert [error.seq for error in report.damage] == [report.damage[0].seq]
    assert report.damage[0].file is not None
    again = await repair_session(place, "s-repaired")
    assert (again.into, again.damage) == (None, ())


@pytest.mark.parametrize("at", [-200, -1], ids=["a line", "its last byte"])
async def test_damage_in_the_archive_alone_is_repaired(place, at):
    """A session whose live items are whole is damaged all the same, as its archive has other bytes."""
    whole = await filled(place)
    path = min(path for path in files_in(place) if "/s/archive/" in path)
    data = bytearray(files_in(place)[path])
    data[at] = ord("x")
    put(place, {path: bytes(data)})
    report = await repair_session(place, "s")
    assert {error.file for error in report.damage} == {f"archive/{path.rpartition('/')[2]}"}
    async with opened(place, "s-repaired") as memory:
        assert held(memory) == whole
    gone = await filled(place, "t")
    path = min(path for path in files_in(place) if "/t/archive/" in path)
    put(place, {path: None})
    report = await repair_session(place, "t")
    assert report.into == "t-repaired"
    assert any(
        str(error).startswith(f"'archive/{path.rpartition('/')[2]}' is missing")
        for error in report.damage
    )
    async with opened(place, "t-repaired") as memory:
        assert held(memory) == gone


async def test_nothing_is_overwritten(place):
    """A taken id is refused, the default one and the session's own included."""
    await filled(place)
    break_log(place)
    assert (await repair_session(place, "s")).into == "s-repaired"
    before = files_in(place)
    for into in ("s", "s-repaired", None):
        with pytest.raises(ConflictError, match="another id"):
            await repair_session(place, "s", into)
    assert files_in(place) == before
    long = "l" * 128
    await filled(place, long)
    break_log(place, long)
    assert (await repair_session(place, long)).into == "l" * 119 + "-repaired"


async def test_an_interrupted_repair_is_taken_up_by_the_next(place):
    """Wherever it is cut short, a repair leaves a session that holds nothing, and the next puts all into that."""
    await filled(place)
    break_log(place)

    class KilledError(Exception):
        pass

    def killed(*_, **__):
        raise KilledError

    with patch.object(SessionLog, "purge", killed), pytest.raises(KilledError):
        await repair_session(place, "s")
    async with opened(place, "s-repaired", read_only=True) as memory:
        assert held(memory) == {}
    report = await repair_session(place, "s")
    assert (report.into, await list_sessions(place)) == ("s-repaired", ["s", "s-repaired"])
    async with opened(place, "s-repaired") as memory:
        assert len(held(memory)) == sum(report.items.values()) > 0


async def test_what_is_no_session_or_a_newer_one_is_refused(place):
    """A missing session, bad names, a newer version and a session of which nothing is intact are typed errors."""
    await filled(place)
    with pytest.raises(NotFoundError, match="no session 'gone'"):
        await repair_session(place, "gone")
    for names in (("..", None), ("s", "a/b")):
        with pytest.raises(InvalidNameError):
            await repair_session(place, *names)
    with pytest.raises(InvalidNameError):
        await repair_session(place, "s", namespace="../x")
    memory = place_of({f"log/{1:020d}.jsonl": b"nothing of ours\n" * 3})
    with pytest.raises(CorruptionError):
        await repair_session(memory, "s")
    files = {FIRST: b"".join(whole_log(stored(await turns(added("a"), added("b")))))}
    for field, seq in (("version", 1), ("open", 3), ("v", 2)):
        newer_place = place_of(forged(files, FIRST, newer(field, seq)))
        with pytest.raises(UnsupportedVersionError, match="newer kaosmem"):
            await repair_session(newer_place, "s")
        assert await list_sessions(newer_place) == ["s"]


async def test_a_session_with_its_own_counter_and_sections_keeps_them(tmp_path):
    """Specs are those that were stored. A counter that is not here counts all again when it opens the new session."""

    def words(text):
        return len(text.split())

    async with SessionMemory.open(tmp_path, "s", sections=SPECS, counter=words) as memory:
        for number in range(3):
            memory.add("documents", "three words here", id=f"d{number}")
        memory.add("documents", LONG, id="long")
    break_log(tmp_path)
    report = await repair_session(tmp_path, "s")
    assert report.items == {"documents": 3}
    async with SessionMemory.open(tmp_path, "s-repaired", sections=SPECS, counter=words) as memory:
        assert memory["documents"].used == 9
        assert len(memory.notices) == 1
        assert "counted again" in memory.notices[0]
    log, recovered = SessionLog.open(tmp_path, "s-repaired")
    assert recovered.header["sections"] == {spec.name: spec.to_dict() for spec in SPECS}
    log.close()


async def check(case):
    place = place_of(case.files)
    before = files_in(place)
    try:
        async with opened(place, read_only=True) as memory:
            found = held(memory)
    except KaosmemError:
        return
    try:
        report = await repair_session(place, "s")
    except NotFoundError:
        assert not found
        return
    assert before.items() <= files_in(place).items()
    if report.into is None:
        assert files_in(place) == before
        return
    assert report.damage
    async with opened(place, report.into) as memory:
        assert (held(memory), memory.damage) == (found, ())
        assert sum(report.items.values()) == len(found)
        for spec in memory.sections:
            assert len(memory[spec.name].archive) == report.archived.get(spec.name, 0)
    assert (await repair_session(place, report.into)).into is None


@settings(max_examples=2 * settings().max_examples)
@given(case=cases())
def test_what_can_be_read_can_be_rescued(case):
    """The new session opens strictly with just what the damaged one showed read-only, and needs no repair."""
    asyncio.run(check(case))


# the command

ROOT = "kept"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGINT)
    yield tmp_path / ROOT
    signal.signal(signal.SIGINT, handler)


def run(capsys, *args):
    """Run the command as its script does, in this process."""
    capsys.readouterr()
    with patch.object(sys, "argv", ["kaosmem", *args]), pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code)), *capsys.readouterr()


def test_the_command_prints_what_was_rescued_and_what_is_missing(folder, capsys):
    """The numbers of items by section, a line for each damage, exit code 0, or JSON; `show` says the damage too."""
    asyncio.run(filled(folder))
    break_log(folder)
    code, out, err = run(capsys, "show", f"{ROOT}/s", "--limit", "1")
    assert (code, err) == (0, "")
    assert "is lost" in out
    shown = json.loads(run(capsys, "show", f"{ROOT}/s", "--json")[1])
    assert [set(each) for each in shown["damage"]] == [{"file", "byte", "seq", "message"}]
    code, _, err = run(capsys, "assemble", "x", "-q", "x", "--session", f"{ROOT}/s")
    assert (code, "kaosmem repair" in err) == (2, True)
    code, out, err = run(capsys, "repair", f"{ROOT}/s")
    assert (code, err) == (0, "")
    assert out.startswith("session: s\nstate: damaged\ninto: s-repaired\nitems: ")
    assert "documents" in out
    assert f"damage: {shown['damage'][0]['message']}" in out
    assert run(capsys, "show", f"{ROOT}/s-repaired")[0] == 0
    command = "repair", f"{ROOT}/s", "--into", "new"
    report = json.loads(run(capsys, *command, "--json")[1])
    assert (report["session"], report["into"]) == ("s", "new")
    assert set(report["items"]) == {"documents", "messages"}
    code, out, err = run(capsys, *command)
    assert (code, out, "another id" in err) == (2, "", True)


def test_the_command_on_a_sound_missing_or_newer_session(folder, capsys):
    """Nothing to repair is said with exit code 0; what can't be repaired is one line on stderr, exit code 2."""
    asyncio.run(filled(folder))
    before = files_in(folder)
    code, out, err = run(capsys, "repair", f"{ROOT}/s")
    assert (code, err) == (0, "")
    assert out.startswith("session: s\nstate: sound\nitems: ")
    assert json.loads(run(capsys, "repair", f"{ROOT}/s", "--json")[1])["into"] is None
    code, out, err = run(capsys, "repair", f"{ROOT}/gone")
    assert (code, out) == (2, "")
    assert "the nearest of 1 is 's'" in err
    log = SessionLog.open(folder, "new")[0]
    log.commit([Change("", "open", {"version": 1, "counter": "x", "sections": {}})])
    log.commit([Change("", "open", {"version": 2, "counter": "x", "sections": {}})])
    log.close()
    code, _, err = run(capsys, "repair", f"{ROOT}/new")
    assert (code, "newer kaosmem" in err) == (2, True)
    assert before.items() <= files_in(folder).items()


def test_reports_show_no_content():
    """The repr of a report has names and counts."""
    report = RepairReport("s", "t", {"documents": 1}, {}, (CorruptionError("secret"),))
    assert "secret" not in repr(report)


@pytest.mark.parametrize("lost", ["I live in Oslo.", "I prefer tea.", "Good night."])
async def test_a_repaired_session_forms_only_what_it_lost(lost, tmp_path):
    """Marks of formation come along. Where a formed item is lost, its message is formed again."""
    async with SessionMemory.open(tmp_path, "s") as memory:
        for text in ("I live in Oslo.", "I prefer tea.", "Good night."):
            memory.add("messages", text, role="Ann")
            await memory.form(PatternFormer())
        formed = [item.text for item in memory["findings"]]
    (log,) = tmp_path.glob("*/s/log/*")
    data = log.read_bytes()
    place = data.rindex(lost.encode())
    log.write_bytes(data[:place] + b"X" + data[place + 1 :])
    report = await repair_session(tmp_path, "s")
    async with SessionMemory.open(tmp_path, str(report.into)) as memory:
        changes = [str(change) for change in await memory.form(PatternFormer())]
        assert changes == ([lost] if lost in formed else [])
        assert sorted(item.text for item in memory["findings"]) == sorted(formed)
        assert await memory.form(PatternFormer()) == []
