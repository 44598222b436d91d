"""A trace on disk and on a real S3 server: kills, two writers, erasure, verification and repair."""

import asyncio
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem

from kaosmem import SessionMemory
from kaosmem.session.saving.repair import repair_session
from kaosmem.session.tracing import Replay
from kaosmem.trace.request import request_bytes
from tests.servers import S3

_CHILD = """
import asyncio, sys
from hashlib import sha256
from unittest.mock import patch
from tests.trace.test_servers import place_of, session_of

async def main():
    place = place_of(sys.argv[1:])
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", 3_000):
        async with session_of(place) as memory:
            while True:
                memory.add("messages", f"Which room costs {len(memory['messages'])} euros?")
                context = await memory.assemble_context(budget=400, window="main")
                await memory.save()
                print(sha256(context.text.encode()).hexdigest(), flush=True)

asyncio.run(main())
"""


def place_of(given):
    """Return a folder, or a place on an S3 server, from arguments of a command."""
    if len(given) == 1:
        return given[0]
    path, url, key, secret = given
    return DirFileSystem(path=path, fs=S3(url, key, secret).filesystem())


def session_of(place):
    return SessionMemory.open(place, "s", trace=True)


@pytest.fixture(params=["disk", "s3"])
def given(request, tmp_path):
    """The arguments of a place, new for each test."""
    if request.param == "disk":
        yield [str(tmp_path)]
        return
    s3 = request.getfixturevalue("s3_of_all")
    s3.filesystem().makedirs("traces", exist_ok=True)
    yield [f"traces/{request.node.name.partition('[')[0]}", s3.url, s3.key, s3.secret]


async def _digests(place):
    """Return the digests of all kept requests."""
    async with SessionMemory.open(place, "s", read_only=True) as memory:
        replay = Replay(memory._session)
        requests = [replay.request(turn.number) for turn in replay.turns]
    return [sha256(request_bytes(request)).hexdigest() for request in requests]


def test_no_acknowledged_turn_is_lost_by_a_kill(given):
    """After a SIGKILL every acknowledged turn is replayed, byte for byte, also on S3."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, *given],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as child:
        acknowledged = [child.stdout.readline().strip() for _ in range(6)]
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().split()
    found = asyncio.run(_digests(place_of(given)))
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1  # the last one may be stored and not acknowledged


async def test_two_writers_erasure_and_repair(given):
    """Both writers' turns stay, an erased item leaves all of them, and a copy has the turns."""
    async with session_of(place_of(given)) as one:
        one.add_many("documents", [f"Room {n} costs {n} euros." for n in range(20)])
        secret = one.add("findings", "The password of the safe is swordfish.")
        await one.save()
        async with session_of(place_of(given)) as two:
            for memory, query in ((one, "room 3"), (two, "password"), (one, "room 5")):
                await memory.assemble_context(query, budget=60, sections=_sections(query))
                await memory.save()
        receipt = await one.forget(secret.id)
        assert await one.admin.verify(receipt) == ()
    async with SessionMemory.open(place_of(given), "s", read_only=True) as memory:
        turns = Replay(memory._session).turns
        assert [turn.is_erased for turn in turns] == [False, True, False]
        assert "is in, " in str(memory.why("room 5 costs", turn=3))
    place = place_of(given)
    damage = _damage(place)
    report = await repair_session(place, "s")
    assert report.into is not None, damage
    async with SessionMemory.open(place, report.into, read_only=True) as memory:
        assert [turn.number for turn in Replay(memory._session).turns] == [1, 2, 3]
        assert "is in, " in str(memory.why("room 5 costs", turn=3))


def _sections(query):
    return ["findings" if query == "password" else "documents"]


def _damage(place):
    """Damage an item of the session's snapshot, and return the file."""
    if isinstance(place, str):
        path = str(max(Path(place).rglob("snap/*")))
        data = bytearray(Path(path).read_bytes())
        data[data.rindex(b"Room 7") + 2] ^= 1
        Path(path).write_bytes(bytes(data))
        return path
    place.invalidate_cache()
    path = max(each for each in place.find("") if "/snap/" in f"/{each}")
    data = bytearray(place.cat_file(path))
    data[data.rindex(b"Room 7") + 2] ^= 1
    place.pipe_file(path, bytes(data))
    return path
