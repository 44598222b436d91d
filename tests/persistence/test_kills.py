"""Processes killed at work, with kill -9: what they acknowledged is there, once, and a next one goes on from it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kaosmem import NotFoundError, SessionMemory, SessionOptions
from kaosmem.persistence.log import SessionLog
from kaosmem.sections.substitution import compacted_in
from tests.persistence.killed_writer import SECTIONS, SESSION, Plan, text_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills are signals")

ROOT = Path(__file__).parents[2]
MOST_TURNS = 12


class Account:
    """What was acknowledged: texts by the ids of items, and the ids of those that were forgotten.

    marks: by id, what no file may hold once it is forgotten.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.marks: dict[str, set[str]] = {}

    def texts_after(self, plan: Plan) -> dict[str, str]:
        return {
            key: text
            for key, text in {**self.texts, **plan.texts}.items()
            if key not in plan.forgotten
        }

    def take(self, plan: Plan) -> None:
        self.texts = self.texts_after(plan)
        self.forgotten |= {*plan.forgotten}
        for item_id, text in plan.texts.items():
            self.marks.setdefault(item_id, set()).add(text.partition(" ")[0])


def run_and_kill(folder: Path, account: Account, seed: int) -> Plan:
    """Let a process work and kill it at some moment; return what it was about to save."""
    rng = random.Random(seed)
    turns = rng.randint(0, MOST_TURNS)
    patience_s = rng.uniform(0, 0.005)
    command = [
        sys.executable,
        "-m",
        "tests.persistence.killed_writer",
        str(folder),
        str(seed),
        str(MOST_TURNS + 1),
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pending = Plan()
        saved = -1
        for line in process.stdout:
            said = json.loads(line)
            if "plan" in said:
                pending = Plan(**said["plan"])
                if saved + 1 == turns:
                    break
            elif "saved" in said:
                account.take(pending)
                pending = Plan()
                saved = said["saved"]
        # While it saves: at once, after a while, or as soon as it says that it has.
        select.select([process.stdout], [], [], patience_s)
        os.kill(process.pid, signal.SIGKILL)
        for line in process.stdout:
            said = json.loads(line) if line.endswith(b"\n") else {}
            if "plan" in said:
                pending = Plan(**said["plan"])
            elif "saved" in said:
                account.take(pending)
                pending = Plan()
        assert process.wait() == -signal.SIGKILL, process.stderr and process.stderr.read()
    return pending


async def texts_in(memory: SessionMemory, item_ids: set[str]) -> dict[str, str]:
    """Return the newest text of these items, as far as they are there, live or archived."""
    found = {}
    for item_id in item_ids:
        try:
            found[item_id] = str((await memory.fetch(item_id)).content)
        except NotFoundError:
            continue
    return found


async def check(folder: Path, account: Account, pending: Plan) -> str:
    """Check that all that was acknowledged is there once, and of what was not all or nothing; return which of these."""
    asked = {*account.texts, *pending.texts, *pending.forgotten, *account.forgotten}
    async with SessionMemory.open(
        folder,
        SESSION,
        sections=SECTIONS,
        counter="estimate",
        read_only=True,
        options=SessionOptions(missing_ok=True),
    ) as memory:
        found = await texts_in(memory, asked)
        live = Counter(
            item.id for spec in SECTIONS for item in memory[spec.name] if not item.sources
        )
        archives = (memory[spec.name].archive for spec in SECTIONS)
        left = {
            each.item.id
            for archive in archives
            for each in archive.in_memory()
            if not each.item.sources
        }
        for summary in compacted_in(memory["talk"]):
            assert {item.id for item in await memory.archive.expand(summary.id)} <= {*found}
    stored = SessionLog.open(folder, SESSION, read_only=True)[0].archive()
    left |= {data["id"] for _, data in stored if "sources" not in data}
    assert found in (account.texts, account.texts_after(pending))
    has_landed = found != account.texts
    if has_landed:
        account.take(pending)
    assert {*live, *(left - account.forgotten)} == {
        *found
    }  # a file may hold what a killed process had yet to erase
    assert {*live.values()} <= {1}
    never_replaced = {item_id for item_id, marks in account.marks.items() if len(marks) == 1}
    assert not {*live} & left & never_replaced
    return "all" if has_landed else "nothing"


async def go_on(folder: Path, account: Account, name: str) -> None:
    """Make the next commit, after which no file holds what was forgotten."""
    async with SessionMemory.open(folder, SESSION, sections=SECTIONS, counter="estimate") as memory:
        memory.add("documents", text_of(name), id=name)
        await memory.save()
    account.take(Plan({name: text_of(name)}))
    gone = {mark.encode() for item_id in account.forgotten for mark in account.marks[item_id]}
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not [mark for mark in gone if mark in data], (
            f"{path.relative_to(folder)} holds what was forgotten"
        )


async def kill_often(folder: Path, seeds: range) -> Counter[str]:
    """Kill one process after the other, each going on with the session of those before; count what their last left."""
    account = Account()
    left = Counter[str]()
    for seed in seeds:
        pending = await asyncio.to_thread(run_and_kill, folder, account, seed)
        kind = "forgetting" if pending.forgotten else "saving" if pending.texts else "between"
        left[f"{kind}: {await check(folder, account, pending)}"] += 1
        await go_on(folder, account, f"next-{seed}")
        await check(folder, account, Plan())
    return left


async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Two sessions side by side, each worked on by two processes killed one after the other."""
    sessions = (
        kill_often(tmp_path / str(first), range(first, first + 2)) for first in range(0, 4, 2)
    )
    left = sum(await asyncio.gather(*sessions), Counter())
    assert left.total() == 4


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 1_500, 50))
async def test_five_hundred_kills_lose_nothing(first: int, tmp_path: Path) -> None:
    sessions = (
        kill_often(tmp_path / str(each), range(each, each + 10))
        for each in range(first, first + 50, 10)
    )
    print(dict(sum(await asyncio.gather(*sessions), Counter())))
