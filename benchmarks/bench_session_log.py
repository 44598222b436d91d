"""What the session log costs: saving one message beside a bare append of its bytes, opening beside json.loads."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import SessionMemory

SIZES = 100, 1_000, 10_000
ROUNDS = 5
MESSAGE = seeded_texts(1, seed=1, words=100)[0][:500]
MAX_BYTES = 1_500


def fill(root: Path, size: int) -> None:
    """Store a session of `size` documents, in one commit and, where that is long, a snapshot."""

    async def run() -> None:
        async with SessionMemory.open(str(root)) as memory:
            memory.add_many("documents", seeded_texts(size, words=30))

    asyncio.run(run())


@dataclass(frozen=True)
class Append:
    """What saving one message came to, in bytes written and seconds, and a bare append of as many bytes."""

    written: list[int]
    saving: list[float]
    bare: list[float]


def appended(root: Path) -> Append:
    """Save messages one by one into the session stored there, in turn with bare appends."""
    result = Append([], [], [])

    async def run() -> None:
        async with SessionMemory.open(str(root)) as memory:
            for _ in range(ROUNDS):
                before = stored(root)
                memory.add("messages", MESSAGE)
                started = time.perf_counter()
                await memory.save()
                result.saving.append(time.perf_counter() - started)
                result.written.append(stored(root) - before)
                result.bare.append(bare_append(root.parent / "bare", os.urandom(result.written[-1])))

    asyncio.run(run())
    return result


def bare_append(path: Path, data: bytes) -> float:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        started = time.perf_counter()
        os.write(descriptor, data)
        getattr(os, "fdatasync", os.fsync)(descriptor)
        return time.perf_counter() - started
    finally:
        os.close(descriptor)


def stored(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def without_snapshot(root: Path) -> Path:
    """Return a copy of a session that has nothing but its log."""
    copy = root.with_name(f"{root.name}-log")
    shutil.copytree(root, copy)
    for snapshot in copy.rglob("snap/*.jsonl"):
        snapshot.unlink()
    return copy


def newest(root: Path, folder: str) -> Path:
    return max(root.rglob(f"{folder}/*.jsonl"))


def hydrated(root: Path) -> list[str]:
    """Open a session and return its documents."""

    async def run() -> list[str]:
        async with SessionMemory.open(str(root)) as memory:  # read_only, it would be read but once
            return [item.text for item in memory["documents"]]

    return asyncio.run(run())


def parsed(path: Path) -> list[str]:
    """Return the documents in a file of the log or a snapshot, by json.loads alone."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    found = (fields["d"] for fields in lines if fields.get("sec") == "documents")
    return [data.get("item", data)["content"] for data in found]  # a record holds the item, a snapshot is made of them


def cpu_ms(action: Callable[[Path], object], path: Path) -> float:
    durations = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        action(path)
        durations.append((time.process_time_ns() - started) / 1e6)
    return median(durations)


def test_saving_a_message_writes_as_much_into_any_session(tmp_path: Path) -> None:
    written = []
    for size in SIZES:
        fill(tmp_path / str(size), size)
        written += appended(tmp_path / str(size)).written
    assert max(written) < MAX_BYTES
    assert max(written) - min(written) <= 16  # numbers have more digits in a longer log


def test_a_snapshot_and_the_log_alone_give_the_session_back(tmp_path: Path) -> None:
    root, texts = tmp_path / "session", seeded_texts(1_000, words=30)
    fill(root, len(texts))
    log_alone = without_snapshot(root)
    for session, folder in ((root, "snap"), (log_alone, "log")):
        assert hydrated(session) == parsed(newest(session, folder)) == texts


@pytest.mark.timed
def test_cost_of_saving_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{'items':>9}{'bytes':>8}{'save, ms':>11}{'write + fdatasync, ms':>24}{'ratio':>8}")
        for size in (*SIZES, 100_000):
            fill(tmp_path / str(size), size)
            result = appended(tmp_path / str(size))
            saving, bare = median(result.saving) * 1e3, median(result.bare) * 1e3
            print(f"{size:>9,}{max(result.written):>8,}{saving:>11.2f}{bare:>24.2f}{saving / bare:>8.1f}")
            assert max(result.written) < MAX_BYTES


@pytest.mark.timed
def test_cost_of_opening(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{'items':>9}{'from':>10}{'open, ms CPU':>15}{'json.loads, ms CPU':>21}{'ratio':>8}")
        for size in (1_000, 10_000, 100_000):
            root = tmp_path / str(size)
            fill(root, size)
            for session, folder in ((root, "snap"), (without_snapshot(root), "log")):
                assert hydrated(session) == parsed(newest(session, folder))
                opening, loading = cpu_ms(hydrated, session), cpu_ms(parsed, newest(session, folder))
                print(f"{size:>9,}{folder:>10}{opening:>15.1f}{loading:>21.1f}{opening / loading:>8.1f}")
