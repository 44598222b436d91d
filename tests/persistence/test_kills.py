"""Processes killed at work, with kill -9: what they acknowledged is there, once, and a next one goes on from it."""

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kaosmem import NotFoundError, SessionOptions
from tests.persistence.killed_writer import mark, opened, text_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills are signals")

ROOT = Path(__file__).parents[2]
MOST_TURNS = 12


class Account:
    """What was acknowledged: the ids of items that are kept, and of those that were forgotten.

    pending: of what was to be saved and never acknowledged.
    """

    def __init__(self):
        self.kept = set()
        self.forgotten = set()
        self.pending = {"adds": [], "forgets": []}

    def hear(self, said):
        """Take what a process says."""
        if "saved" in said:
            self.settle()
        else:
            self.pending = said

    def settle(self):
        """Take what was pending for acknowledged."""
        self.kept = (self.kept | {*self.pending["adds"]}) - {*self.pending["forgets"]}
        self.forgotten |= {*self.pending["forgets"]}
        self.pending = {"adds": [], "forgets": []}


def run_and_kill(folder, account, seed):
    """Let a process work and kill it while it saves: at once, after a while, or once it has."""
    rng = random.Random(seed)
    turns = rng.randint(0, MOST_TURNS)
    patience_s = rng.uniform(0, 0.005)
    module = "tests.persistence.killed_writer"
    command = [sys.executable, "-m", module, str(folder), str(seed), str(MOST_TURNS + 1)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        saved = -1
        for line in process.stdout:
            said = json.loads(line)
            account.hear(said)
            saved = said.get("saved", saved)
            if "adds" in said and saved + 1 == turns:
                break
        select.select([process.stdout], [], [], patience_s)
        os.kill(process.pid, signal.SIGKILL)
        for line in process.stdout:
            if line.endswith(b"\n"):
                account.hear(json.loads(line))
        assert process.wait() == -signal.SIGKILL, process.stderr and process.stderr.read()


async def found_in(memory, item_ids):
    """Return which of these items are there, live or archived, each with its text."""
    found = set()
    for item_id in item_ids:
        try:
            item = await memory.fetch(item_id)
        except NotFoundError:
            continue
        assert item.content == text_of(item_id)
        found.add(item_id)
    return found


async def check(folder, account):
    """Check that all that was acknowledged is there, and of what was not all or nothing."""
    added = {*account.pending["adds"]}
    asked = account.kept | account.forgotten | added
    async with opened(folder, read_only=True, options=SessionOptions(missing_ok=True)) as memory:
        found = await found_in(memory, asked)
        live = [item.id for spec in memory.sections for item in memory[spec.name]]
    assert len(live) == len({*live})
    assert {*live} <= found
    if found != account.kept:
        account.settle()
    assert found == account.kept


async def go_on(folder, account, name):
    """Make the next commit, after which no file holds what was forgotten."""
    async with opened(folder) as memory:
        memory.add("documents", text_of(name), id=name)
        await memory.save()
    account.pending = {"adds": [name], "forgets": []}
    account.settle()
    gone = [mark(item_id).encode() for item_id in account.forgotten]
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not any(each in data for each in gone), f"{path} holds what was forgotten"


async def kill_often(folder, seeds):
    """Kill one process after the other, each going on with the session of those before."""
    account = Account()
    for seed in seeds:
        await asyncio.to_thread(run_and_kill, folder, account, seed)
        await check(folder, account)
        await go_on(folder, account, f"next-{seed}")
        await check(folder, account)


async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path):
    """Two processes work on a session, one after the other, and are killed."""
    await kill_often(tmp_path, range(2))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 1_500, 50))
async def test_five_hundred_kills_lose_nothing(first, tmp_path):
    sessions = (
        kill_often(tmp_path / str(each), range(each, each + 10))
        for each in range(first, first + 50, 10)
    )
    await asyncio.gather(*sessions)
