"""Processes and threads that fail a session."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.stored import folder_of, ids_at, memory_at, session


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_session_does_not_tear_the_log(tmp_path):
    """Parent and child that go on with one opened session both save, or are refused; every record is whole."""
    await session(tmp_path, "a")
    code = """
import asyncio, os, sys
from tests.stored import memory_at
from kaosmem import KaosmemError
async def add(memory, name):
    for number in range(5):
        memory.add("messages", "text", id=f"{name}{number}")
        try:
            await memory.save()
        except KaosmemError:
            return number
    return 5
context = memory_at(sys.argv[1])
memory = asyncio.new_event_loop().run_until_complete(context.__aenter__())
reading, writing = os.pipe()
child = os.fork()
count = asyncio.run(add(memory, "child" if child == 0 else "parent"))
if child == 0:
    os.write(writing, bytes([count]))
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
print(count, os.read(reading, 1)[0])
"""
    root = Path(__file__).parents[2]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    of_parent, of_child = map(int, done.stdout.split())
    assert of_parent + of_child > 0
    held = await ids_at(tmp_path)
    for name, count in (("parent", of_parent), ("child", of_child)):
        assert [item_id for item_id in held if item_id.startswith(name)] == [
            f"{name}{n}" for n in range(count)
        ]


async def test_two_threads_with_one_session_do_not_tear_the_log(tmp_path):
    """Saves from event loops in two threads are made one after the other, or refused; what is acknowledged is there."""
    await session(tmp_path, "a")
    acknowledged = []
    async with memory_at(tmp_path) as memory:

        def work(name):
            for number in range(10):
                try:
                    memory.add("messages", "text", id=f"{name}{number}")
                    asyncio.run(memory.save())
                except RuntimeError:
                    return
                acknowledged.append(f"{name}{number}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        memory.save = partial(ids_at, tmp_path)
    held = await ids_at(tmp_path)
    assert held[0] == "a"
    assert len(held) == len(set(held))
    assert set(acknowledged) <= set(held)


HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="flock")
async def test_the_lock_of_a_killed_writer_is_free(tmp_path):
    """A writer that waits for the lock goes on when its holder is killed."""
    await session(tmp_path, "a")
    lock = folder_of(tmp_path) / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        waiting = asyncio.create_task(session(tmp_path, "b"))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        holder.send_signal(signal.SIGKILL)
        await asyncio.wait_for(waiting, 60)
    assert await ids_at(tmp_path) == ["a", "b"]
