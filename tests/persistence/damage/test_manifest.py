"""Files of a session that are missing, old, foreign or swapped: each is named, and nothing wrong is answered."""

from __future__ import annotations

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from kaosmem import SectionSpec, SessionMemory
from kaosmem.errors import CorruptionError, NotFoundError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.persistence.storage.places import list_sessions
from kaosmem.session.saving.repair import repair_session
from tests.persistence.damage.damaged import COUNTER, Files, place_of, stored
from tests.places import in_memory

SPECS = (SectionSpec("facts", 200), SectionSpec("notes", 40_000))
LONG = "a long text " * 6_000
Answers = dict[str, str]
"""By id, the text that `fetch` answers."""


@dataclass
class History:
    """A session with prices that were superseded and removed.

    answers: after each save. older: earlier states of its files. appends: it was on a local disk.
    """

    files: Files
    answers: list[Answers]
    older: list[Files] = field(default_factory=list)
    appends: bool = False


def opened(place, *, read_only=False, session_id="s"):
    return SessionMemory.open(
        place, session_id, sections=SPECS, counter=COUNTER, read_only=read_only
    )


async def answered(memory, ids, damage=None):
    answers = {}
    for item_id in ids:
        try:
            with suppress(NotFoundError):
                answers[item_id] = (await memory.fetch(item_id)).text
        except CorruptionError as error:
            if damage is not None:
                damage.append(error)
    return answers


@cache
def history(seed, kind):
    """Return a session on objects, on objects without snapshots, or on a local disk."""
    with TemporaryDirectory() as folder:
        place = Path(folder) if kind == "local" else IsolatedMemoryFileSystem()
        lived = _lived(place, random.Random(seed), str(seed), 10**9 if kind == "log" else 1_500)
        with ThreadPoolExecutor(1) as thread:  # a test may run a loop in this one
            return thread.submit(asyncio.run, lived).result()


async def _lived(place, rng, name, log_bytes):
    found = History({}, [{}], appends=isinstance(place, Path))
    ids = []
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", log_bytes):
        for turn in range(14):
            async with opened(place) as memory:
                for number in range(rng.randrange(1, 4)):
                    item_id = f"price{number}"
                    if item_id in memory and rng.random() < 0.2:
                        memory.remove(item_id)
                    elif item_id in memory:
                        memory.update(item_id, f"price {name}.{number} is {100 * turn}")
                    elif item_id not in ids:
                        ids.append(item_id)
                        memory.add("facts", f"price {name}.{number} is {100 * turn}", id=item_id)
                text = LONG if turn in (2, 9) else "words " * 40
                ids.append(f"note{turn}")
                memory.add("notes", f"{name}.{turn} {text}", id=f"note{turn}")
                if turn == 4:
                    memory.remove("note2")
                await memory.save()
                await memory._session.saver._checkpoints.finished()
                found.answers.append(await answered(memory, ids))
            files = stored(place)
            files.pop("lock", None)
            found.older.append(files)
    found.files = found.older.pop()
    return found


def broken(case, other, path):
    """Yield the files with one of them missing, cut, old, another session's, or in the place of another."""
    files = case.files
    rest = {name: data for name, data in files.items() if name != path}
    yield "deleted", rest
    yield "cut", rest | {path: files[path][: len(files[path]) // 2]}
    yield "emptied", rest | {path: b""}
    older = {each[path] for each in case.older if path in each and path != "session.json"} - {
        files[path]
    }
    for data in older:
        yield "older", rest | {path: data}
    folder = path.rpartition("/")[0]
    foreign = [name for name in other.files if name.rpartition("/")[0] == folder]
    if foreign:
        data = other.files.get(path, other.files[foreign[-1]])
        yield "foreign", rest | {path: data}
    for name in sorted(files):
        if name > path and name.rpartition("/")[0] == folder:
            yield "swapped", files | {path: files[name], name: files[path]}


async def check(case, kind, path, files):
    """Check that the damage is named in both modes, and that each answer was once true."""
    place = place_of(files)
    ids = list(case.answers[-1])
    what = f"{kind} {path}"
    try:
        async with opened(place) as memory:
            damage = []
            got = await answered(memory, ids, damage)
            damage += memory.damage
    except CorruptionError as error:
        damage = [error]
        got = {}
        assert path in str(error) or kind == "swapped" or path.startswith("log/"), (
            f"{what}: {error}"
        )
        got = await _read_only(case, what, place, ids)
    else:
        assert damage or got in case.answers, f"{what} is not named, and something else is answered"
        assert damage or not is_needed(case, kind, path), f"{what} is not named"
        if not damage:
            return
    for item_id, text in got.items():
        assert text == case.answers[-1][item_id] or damage, (
            f"{what}: {text[:50]!r} is answered for {item_id!r}"
        )


async def _read_only(case, what, place, ids):
    try:
        async with opened(place, read_only=True) as memory:
            got = await answered(memory, ids)
            assert memory.damage, f"{what} is not named, read-only"
    except CorruptionError:  # nothing that could be served
        return {}
    known = {text for answers in case.answers for text in answers.values()}
    assert {*got.values()} <= known, f"{what}: another session's text is answered"
    report = await repair_session(place, "s")
    async with SessionMemory.open(
        place, report.into or "s", sections=SPECS, counter=COUNTER
    ) as memory:
        assert (await answered(memory, ids)) == got, f"{what}: a repair changes what is readable"
    return got


def is_needed(case, kind, path):
    """Return whether damage to a file has to be named.

    A log that ends with an earlier commit cannot be told from one that never went on, unless a
    whole segment of a local disk is gone. Of snapshots only the newest one is read, and without it
    the one before and more of the log say the same.
    """
    folder = path.partition("/")[0]
    names = sorted(name for name in case.files if name.startswith(f"{folder}/"))
    if folder == "snap":
        return path == names[-1] and kind != "deleted"
    snapshots = sorted(name for name in case.files if name.startswith("snap/"))
    is_after = not snapshots or path[4:] > snapshots[-1][5:]
    return folder != "log" or (
        is_after and (path != names[-1] or (case.appends and kind in ("deleted", "emptied")))
    )


def cases(seed, kind_of_place):
    case = history(seed, kind_of_place)
    other = history(seed + 100, kind_of_place)
    for path in sorted(case.files):
        if not path.startswith("index/"):
            for kind, files in broken(case, other, path):
                yield case, kind, path, files


@pytest.mark.parametrize("place", ["objects", "log", "local"])
def test_each_damaged_file_is_named(place):
    """A file that is missing, cut, old, foreign or swapped is named to readers and writers, and no answer is wrong."""
    found = [*cases(1, place)]
    for case, kind, path, files in random.Random(1).sample(found, 20):
        asyncio.run(check(case, kind, path, files))


def test_a_damaged_table_of_an_archive_is_named():
    """A bit of the last line of the file differs, in its form or in its values."""
    case = history(1, "objects")
    path = max(name for name in case.files if name.startswith("archive/"))
    for at in (-2, -20):
        data = bytearray(case.files[path])
        data[at] ^= 1
        asyncio.run(check(case, "flipped", path, case.files | {path: bytes(data)}))


@pytest.mark.soak
@pytest.mark.parametrize("place", ["objects", "log", "local"])
def test_each_damaged_file_of_many_sessions_is_named(place):
    """So it is with each file of twenty sessions."""
    for seed in range(20):
        for case, kind, path, files in cases(seed, place):
            asyncio.run(check(case, kind, path, files))


async def refused(place, match):
    """Check that a writer is refused, and return what a reader is told; nothing of the session is served."""
    with pytest.raises(CorruptionError, match=match):
        async with opened(place):
            pass
    try:
        async with opened(place, read_only=True) as memory:
            assert not any(memory[name] for name in ("facts", "notes"))
            return [*memory.damage]
    except CorruptionError as error:
        return [error]


@pytest.mark.parametrize("kind", ["objects", "log", "local"])
async def test_a_session_whose_log_is_gone_is_not_empty(kind):
    """It is listed still, and readers and writers are told that its log is missing."""
    files = {
        name: data
        for name, data in history(1, kind).files.items()
        if not name.startswith(("log/", "snap/"))
    }
    place = place_of(files)
    assert list_sessions(place) == ["s"]
    damage = await refused(place, "log/[0-9]{20}.jsonl' is missing")
    assert any("log/" in str(error) for error in damage)


async def test_an_archive_without_its_session_is_named():
    """Where the identity is gone too, the archive tells that there was a session."""
    files = {
        name: data
        for name, data in history(1, "objects").files.items()
        if name.startswith("archive/")
    }
    assert await refused(place_of(files), "neither a log nor a snapshot")


@pytest.mark.parametrize("kind", ["log", "local"])
async def test_a_whole_log_of_another_session_is_refused(kind):
    """It is named, and nothing of it is served."""
    own = history(1, kind).files
    other = history(2, kind).files
    files = {
        name: data
        for name, data in own.items()
        if not name.startswith(("log/", "snap/", "archive/"))
    }
    files |= {
        name: data for name, data in other.items() if name.startswith(("log/", "snap/", "archive/"))
    }
    assert await refused(place_of(files), "session")


async def test_a_lost_identity_is_written_anew():
    """Without `session.json` a session opens and says so; the next save stores it again."""
    files = history(1, "objects").files
    place = place_of({name: data for name, data in files.items() if name != "session.json"})
    async with opened(place) as memory:
        assert [error.file for error in memory.damage] == ["session.json"]
        memory.add("notes", "more")
    async with opened(place_of(stored(place))) as memory:
        assert memory.damage == ()
    stated = [json.loads(each["session.json"]) for each in (files, stored(place))]
    assert [(each["session"], each["log"]) for each in stated] == [("s", stated[0]["log"])] * 2


async def test_a_copied_session_is_the_same_session_under_its_own_id():
    """A backup opens where it is restored; under another id it is named, and a repair makes a session of its own."""
    case = history(1, "objects")
    async with opened(place_of(case.files)) as memory:
        whole = await answered(memory, case.answers[-1])
        assert (whole, memory.damage) == (case.answers[-1], ())
    place = in_memory(case.files, "default/copy")
    with pytest.raises(CorruptionError, match="created as 's', not as 'copy'"):
        async with opened(place, session_id="copy"):
            pass
    async with opened(place, session_id="copy", read_only=True) as memory:
        assert await answered(memory, case.answers[-1]) == whole
        assert [error.file for error in memory.damage] == ["session.json"]
    await repair_session(place, "copy", "own")
    async with opened(place, session_id="own") as memory:
        assert (await answered(memory, case.answers[-1]), memory.damage) == (whole, ())
