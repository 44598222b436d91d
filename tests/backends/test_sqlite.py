"""The SQLite file itself: errors that name a remedy, calls that are cancelled, loops, forks, several versions."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kaosmem import ChatMessage, CorruptionError, DurabilityError, SessionMemory, list_sessions
from kaosmem.backends import open_stores
from kaosmem.backends.sqlite import database as database_module
from kaosmem.backends.sqlite.database import MIGRATIONS, SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteHistoryProvider, SqliteShortTermMemory
from kaosmem.errors import InvalidNameError, NotOpenedError, UnsupportedVersionError
from kaosmem.sources import StateSource
from kaosmem.stores import VectorDocument


def said(*texts):
    return [ChatMessage("user", text) for text in texts]


def raw(path):
    return closing(sqlite3.connect(path, isolation_level=None))


async def filled(path, count=3):
    async with SqliteDatabase(path) as database:
        await SqliteHistoryProvider(database).append_many(
            "a", said(*map(str, range(count))), session_id="s"
        )


async def count_in(path):
    async with SqliteDatabase(path) as database:
        return await SqliteHistoryProvider(database).count_messages("a", session_id="s")


async def test_a_file_that_is_no_database_of_kaosmem_is_refused(tmp_path):
    """Other bytes, another program's database and a newer one each raise a typed error, and stay as they are."""
    text = tmp_path / "text"
    foreign = tmp_path / "foreign"
    newer = tmp_path / "newer"
    text.write_bytes(b"notes " * 1_000)
    with raw(foreign) as connection:
        connection.execute("CREATE TABLE invoices (id)")
    await filled(newer)
    with raw(newer) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    for path, kind, message in (
        (
            text,
            CorruptionError,
            "is no SQLite database, or a damaged one; restore a copy, or choose another file",
        ),
        (foreign, CorruptionError, "is a database of another program; choose another file"),
        (newer, UnsupportedVersionError, "install a newer kaosmem"),
    ):
        before = path.read_bytes()
        with pytest.raises(kind, match=message):
            await filled(path)
        assert path.read_bytes() == before


async def test_a_damaged_database_is_named(tmp_path):
    """Overwritten pages raise a CorruptionError, not an error of SQLite."""
    path = tmp_path / "a.sqlite"
    await filled(path, 2_000)
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    data[half:] = random.Random(1).randbytes(len(data) - half)
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match="restore"):
        async with SqliteDatabase(path) as database:
            await SqliteHistoryProvider(database).get_messages("a", session_id="s")


async def test_places_that_cannot_hold_a_database_are_refused(tmp_path):
    """A URL, a folder, a path below a file and a folder that can't be made; each message is short."""
    (tmp_path / "file").write_text("text")
    for place in ("s3://bucket/a.sqlite", None, 5, tmp_path / "a\0b"):
        with pytest.raises(InvalidNameError, match="is not on a local disk"):
            SqliteDatabase(place)
        with pytest.raises(InvalidNameError, match="is not on a local disk"):
            open_stores(place)
    for place in (tmp_path, tmp_path / "file" / "a.sqlite", "/proc/none/a.sqlite"):
        with pytest.raises(DurabilityError) as raised:
            await filled(Path(place))
        assert len(str(raised.value)) < 300


async def test_a_database_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    """Reading works, and a change is refused with advice."""
    path = tmp_path / "a.sqlite"
    connect = sqlite3.connect
    await filled(path)
    read_only = lambda place, **given: connect(f"file:{place}?mode=ro", uri=True, **given)  # noqa: E731
    monkeypatch.setattr(database_module.sqlite3, "connect", read_only)
    assert await count_in(path) == 3
    with pytest.raises(DurabilityError, match=r"readonly.*the permissions of its folder"):
        await filled(path)


async def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    """The call that does not fit raises, with all that shared its transaction; smaller ones go on."""
    path = tmp_path / "a.sqlite"
    await filled(path)
    monkeypatch.setattr(database_module, "_SETTINGS", ("PRAGMA max_page_count = 60",))
    async with SqliteDatabase(path) as database:
        history = SqliteHistoryProvider(database)
        with pytest.raises(DurabilityError, match="full; nothing has changed"):
            await history.append("a", *said("long " * 100_000), session_id="s")
        await history.append("a", *said("short"), session_id="s")
        assert await history.count_messages("a", session_id="s") == 4


async def test_a_change_waits_for_other_processes_and_no_longer_than_it_may(tmp_path):
    """Meanwhile the event loop and readers go on.

    Too long a wait raises a typed error and changes nothing.
    """
    path = tmp_path / "a.sqlite"
    await filled(path)
    async with (
        SqliteDatabase(path, busy_timeout_s=0.2) as database,
        SqliteDatabase(path) as patient,
    ):
        history = SqliteHistoryProvider(database)
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(history.append("a", *said("1"), session_id="s"))
            queued = asyncio.create_task(
                SqliteHistoryProvider(patient).append("a", *said("2"), session_id="s")
            )
            for _ in range(5):  # the loop is free
                await asyncio.sleep(0.01)
                assert await history.count_messages("a", session_id="s") == 3
            with pytest.raises(DurabilityError, match="raise busy_timeout_s"):
                await waiting
            assert not queued.done()
            other.execute("COMMIT")
        await queued
        assert [each.text for each in await history.get_messages("a", session_id="s")] == [
            "0",
            "1",
            "2",
            "2",
        ]


async def test_a_cancelled_call_changes_everything_or_nothing(tmp_path):
    """At whatever moment it is cancelled, and calls after it work.

    A call that had to wait has changed nothing.
    """
    path = tmp_path / "a.sqlite"
    rng = random.Random(1)
    async with SqliteDatabase(path) as database:
        history = SqliteHistoryProvider(database)
        for _ in range(30):
            call = asyncio.create_task(
                history.append_many("a", said(*"0123456789" * 20), session_id="s")
            )
            await asyncio.sleep(rng.uniform(0, 0.01))
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
        assert await history.count_messages("a", session_id="s") % 200 == 0
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            calls = [
                asyncio.create_task(history.append("b", *said("1"), session_id="s"))
                for _ in range(5)
            ]
            await asyncio.sleep(0.05)
            for call in calls[1:]:
                call.cancel()
            other.execute("COMMIT")
        await asyncio.gather(*calls, return_exceptions=True)
        assert await history.count_messages("b", session_id="s") == 1


async def test_a_call_that_is_refused_spoils_none_beside_it(tmp_path):
    """Of calls that share a transaction each is done, or refused, on its own."""
    async with open_stores(tmp_path) as stores:
        await stores.vectors.add([VectorDocument("a", "a", (1, 0))])
        calls = [
            stores.vectors.add([VectorDocument("b", f"b{n}", (1, 0) if n % 2 else (1, 0, 0))])
            for n in range(40)
        ]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, ValueError) for each in ended] == [n % 2 == 0 for n in range(40)]
        found = {each.id for each in await stores.vectors.search((1, 0), limit=99)}
        assert found == {"a", *(f"b{n}" for n in range(1, 40, 2))}


async def test_a_closed_store_says_so(tmp_path):
    """Closing waits for calls under way, may be done twice, and later calls raise a typed error."""
    stores = open_stores(tmp_path)
    calls = [asyncio.create_task(stores.state.update_state("s", {str(n): n})) for n in range(50)]
    await asyncio.sleep(0)
    for _ in range(2):
        await stores.close()
    await asyncio.gather(*calls)
    with pytest.raises(NotOpenedError, match="is closed; make a new one"):
        await stores.state.get_state("s")
    async with open_stores(tmp_path) as again:
        assert len(await again.state.get_state("s")) == 50


def test_stores_serve_several_event_loops(tmp_path):
    """One after the other, without being opened again."""
    stores = open_stores(tmp_path)
    for number in range(3):
        state = asyncio.run(stores.state.update_state("s", {str(number): number}))
        assert len(state) == number + 1
    asyncio.run(stores.close())


FORK = """
import asyncio, os, sys
from kaosmem.backends import open_stores

stores = open_stores(sys.argv[1])
asyncio.run(stores.state.update_state("s", {"parent": 1}))
child = os.fork()
asyncio.run(stores.state.update_state("s", {"child": 2} if child == 0 else {"parent": 2}))
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert asyncio.run(stores.state.get_state("s")) == {"parent": 2, "child": 2}
asyncio.run(stores.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_has_connections_of_its_own(tmp_path):
    """A server that opens its stores and then forks its workers works in each."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path)],
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


async def test_files_are_for_their_owner_alone(tmp_path):
    """No other user of the machine may read the database, its log or its folder."""
    async with open_stores(tmp_path / "agent") as stores:
        await stores.state.set_state("s", {"a": 1})
        await stores.files.upload("a", b"1", content_type="text/plain")
        for path in (tmp_path / "agent", *(tmp_path / "agent").rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path


async def test_sessions_and_stores_share_a_folder(tmp_path):
    """A session kept in the folder of the stores is listed alone, whatever its namespace, and shows a store."""
    async with open_stores(tmp_path) as stores:
        await stores.state.set_state("s", {"step": 2})
        await stores.files.upload("a", b"1", content_type="text/plain")
        for namespace in ("default", "blobs", "stores.sqlite"):
            async with SessionMemory.open(
                tmp_path, "deal-42", namespace=namespace, counter="estimate"
            ) as memory:
                await memory.attach(StateSource(stores.state, "s"))
                memory.add("messages", "Who signs?")
                assert "step: 2" in (await memory.assemble_context("next?", budget=500)).text
            assert await list_sessions(tmp_path, namespace=namespace) == ["deal-42"]


async def test_a_state_is_written_by_its_changes(tmp_path):
    """A patch of a large state writes as much as the patch, not the state."""
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        state = SqliteShortTermMemory(database)
        await state.set_state("s", {f"name {n}": "text " * 100 for n in range(1_000)})
        await database.write(lambda connection: None)
        size = (tmp_path / "a.sqlite-wal").stat().st_size
        await state.update_state("s", {"name 7": "new"})
        assert (tmp_path / "a.sqlite-wal").stat().st_size - size < 50_000


async def test_connections_that_begin_together_make_the_file_once(tmp_path, monkeypatch):
    """To close a second descriptor would release the locks that SQLite holds for the first one."""
    made = []

    class SlowDisk(database_module.Disk):
        def open(self, path, flags):
            made.append(path)
            time.sleep(0.1)
            return super().open(path, flags)

    monkeypatch.setattr(database_module, "Disk", SlowDisk)
    await asyncio.gather(*(count_in(tmp_path / "a.sqlite") for _ in range(3)))
    assert len(made) == 1
