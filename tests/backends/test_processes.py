"""Several processes on the stores of one folder: nothing is lost, nothing is done twice, and kills lose nothing."""

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kaosmem.backends import open_stores
from tests.backends.workers import BATCH, TASKS, work
from tests.many_writers import processes, said

ROOT = Path(__file__).parents[2]


async def test_several_processes_share_a_folder(tmp_path):
    """Four processes make the database at once, and lose no message, name, document or task of each other."""
    names = ["a", "b", "c", "d"]
    turns = 5
    with processes(work, *((str(tmp_path), name, turns) for name in names)) as heard:
        taken = [each for (tasks,) in said(heard) for each in tasks]
    assert sorted(taken) == sorted(f"t{n}" for n in range(TASKS))
    async with open_stores(tmp_path) as stores:
        texts = [
            each.text for each in await stores.history.get_messages("agent", session_id="shared")
        ]
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        every = [f"{name}.{turn}" for name in names for turn in range(turns)]
        assert sorted(batches) == sorted(
            [f"{each}.{part}" for part in range(BATCH)] for each in every
        )
        assert {*await stores.state.get_state("shared")} == {*every}
        found = await stores.vectors.search((1, 0), limit=1_000)
        assert {each.id for each in found} == {"same", *every}


class Account:
    """What processes acknowledged."""

    def __init__(self):
        self.texts = []
        self.states = {}
        self.tasks = set()
        self.documents = set()
        self.file = None
        self.facts = []
        self.targets = set()

    @property
    def has_all(self):
        return all((self.texts, self.documents, self.facts, self.targets))

    def take(self, kind, *rest):
        match kind, rest:
            case "append", (texts,):
                self.texts += texts
            case "state", (name, turn):
                self.states[name] = turn
            case "task", (task,):
                self.tasks.add(task)
            case "vectors", (ids,):
                self.documents |= {*ids}
            case "files", (data,):
                self.file = data
            case "fact", (fact,):
                self.facts.append(fact)
            case "links", (targets,):
                self.targets |= {*targets}


def run_and_kill(folder, account, seed):
    """Let a process work, and be killed at some moment, or as soon as it has acknowledged something."""
    rng = random.Random(seed)
    last_line = rng.randint(1, 60)
    patience_s = rng.uniform(0, 0.02)
    command = [sys.executable, "-m", "tests.backends.workers", str(folder), f"p{seed}"]
    kills_itself = seed % 3 > 0
    if kills_itself:
        command.append(str(last_line))
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if line.endswith(b"\n"):
                account.take(*json.loads(line))
            if number == last_line and not kills_itself:
                time.sleep(patience_s)
                os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr and process.stderr.read()


async def check(folder, account):
    """Check that everything acknowledged is there, and of each call the whole or nothing."""
    async with open_stores(folder) as stores:
        texts = [
            each.text for each in await stores.history.get_messages("agent", session_id="shared")
        ]
        assert [each for each in texts if each in {*account.texts}] == account.texts
        assert len(texts) % BATCH == 0
        state = await stores.state.get_state("shared")
        assert all(
            state[name] == state[f"{name} again"] >= turn for name, turn in account.states.items()
        )
        board = await stores.tasks.get_task_list("c", "shared")
        started = (
            {task.id for task in board.tasks if task.status == "in_progress"} if board else set()
        )
        assert account.tasks <= started
        found = await stores.vectors.search((1, 0), limit=100_000)
        assert account.documents <= {each.id for each in found}
        versions = await stores.facts.versions("agent", "key")
        contents = [each.item.content for each in versions]
        assert [each for each in contents if each in {*account.facts}] == account.facts
        assert [each.is_current for each in versions] == [False] * (len(versions) - 1) + [
            True
        ] * bool(versions)
        hub = await stores.graph.get_neighbors("hub")
        assert account.targets <= {each.id for each in hub.entities}
        assert len(hub.relationships) % BATCH == 0
        if account.file:
            assert len({*(await stores.files.download("shared")).decode().split()}) == 1
    with sqlite3.connect(folder / "_stores.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def kill_often(folder, seeds, *, least):
    """Kill one process after another, so many at least, until each kind of change was acknowledged.

    When a process is killed, and so what it acknowledges before, depends on the load of the machine.
    """
    account = Account()
    for number, seed in enumerate(seeds):
        if number >= least and account.has_all:
            break
        await asyncio.to_thread(run_and_kill, folder, account, seed)
        await check(folder, account)
    assert account.has_all


@pytest.mark.skipif(sys.platform == "win32", reason="kills are signals")
async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path):
    """Processes, one after the other, change every kind of store, and are killed or kill themselves."""
    await kill_often(tmp_path, range(20), least=2)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="kills are signals")
@pytest.mark.parametrize("first", range(1_000, 1_200, 20))
async def test_two_hundred_kills_lose_nothing(first, tmp_path):
    await kill_often(tmp_path, range(first, first + 20), least=20)
