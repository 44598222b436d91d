"""What the session log costs: saving one message beside a bare append of its bytes, opening beside json.loads."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import DEFAULT_SECTIONS, SectionSpec, SessionMemory
from kaosmem.persistence.files.items import ItemFile, encode_items

T = TypeVar("T")
SIZES = 100, 1_000, 10_000
ROUNDS = 5
MOMENTS = 11
"""At how many moments between two snapshots, which are some 600 messages apart, a long session is opened."""
MESSAGE = seeded_texts(1, seed=1, words=100)[0][:500]
MAX_BYTES = 1_500
LIVE = 500
HISTORY = [
    replace(spec, budget=None, max_items=LIVE) if spec.name == "messages" else spec
    for spec in DEFAULT_SECTIONS
]


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
                result.bare.append(
                    bare_append(root.parent / "bare", os.urandom(result.written[-1]))
                )

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


def converse(root: Path, messages: int, *, per_save: int) -> None:
    """Add messages to a history that holds LIVE of them, so many to a commit."""

    async def run() -> None:
        async with SessionMemory.open(str(root), sections=HISTORY) as memory:
            texts = iter(seeded_texts(messages, seed=messages, words=30))
            while chunk := list(islice(texts, per_save)):
                memory.add_many("messages", chunk)
                await memory.save()

    asyncio.run(run())


def remembered(root: Path) -> list[str]:
    """Open a long session and return its messages."""
    return ask(root, lambda memory: [item.text for item in memory["messages"]], HISTORY)


def counted(root: Path) -> int:
    """Open a long session and return how many messages it holds, reading none."""
    return ask(root, lambda memory: len(memory["messages"]), HISTORY)


def write_live(root: Path, path: Path) -> None:
    """Write the lines that a snapshot would have of the messages that a session holds."""
    entries = ask(root, lambda memory: [*memory["messages"].held.entries()], HISTORY)
    path.write_bytes(
        b"".join(encode_items(ItemFile(1), (("messages", entry) for entry in entries)))
    )


def parsed_live(path: Path) -> list[str]:
    """Return the messages in a file that `write_live` wrote, by json.loads alone."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [fields["d"]["content"] for fields in lines if fields.get("sec") == "messages"]


def replayed(root: Path) -> int:
    """Return how many records follow a session's newest snapshot."""
    after = int(newest(root, "snap").stem)
    lines = (line for path in root.rglob("log/*.jsonl") for line in path.read_bytes().splitlines())
    return sum(json.loads(line)["seq"] > after for line in lines)


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


class LeaveError(Exception):
    """Leaves a session unsaved: to save it would store a snapshot where one is due, and opening again would use it."""


def ask(
    root: Path,
    question: Callable[[SessionMemory], T],
    specs: Sequence[SectionSpec] = DEFAULT_SECTIONS,
) -> T:
    """Open a session and return what is asked of it, with nothing written."""
    answers: list[T] = []

    async def run() -> None:
        async with SessionMemory.open(
            str(root), sections=specs
        ) as memory:  # read_only, it would be read but once
            answers.append(question(memory))
            raise LeaveError

    with suppress(LeaveError):
        asyncio.run(run())
    return answers[0]


def hydrated(root: Path) -> list[str]:
    """Open a session and return its documents."""
    return ask(root, lambda memory: [item.text for item in memory["documents"]])


def parsed(path: Path) -> list[str]:
    """Return the documents in a file of the log or a snapshot, by json.loads alone."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    found = (fields["d"] for fields in lines if fields.get("sec") == "documents")
    return [
        data.get("item", data)["content"] for data in found
    ]  # a record holds the item, a snapshot is made of them


def cpu_ms(action: Callable[[Path], object], path: Path, *, rounds: int = ROUNDS) -> float:
    durations = []
    for _ in range(rounds):
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
    assert (
        max(written) - min(written) <= 32
    )  # a longer log has longer numbers, and its first record names the snapshot


def test_a_snapshot_and_the_log_alone_give_the_session_back(tmp_path: Path) -> None:
    root = tmp_path / "session"
    texts = seeded_texts(1_000, words=30)
    fill(root, len(texts))
    log_alone = without_snapshot(root)
    for session, folder in ((root, "snap"), (log_alone, "log")):
        assert hydrated(session) == parsed(newest(session, folder)) == texts


def test_a_long_session_gives_back_what_it_still_holds(tmp_path: Path) -> None:
    root = tmp_path / "session"
    lines = tmp_path / "live.jsonl"
    converse(root, LIVE + 100, per_save=100)
    converse(root, 10, per_save=2)
    write_live(root, lines)
    texts = seeded_texts(LIVE + 100, seed=LIVE + 100, words=30) + seeded_texts(
        10, seed=10, words=30
    )
    assert remembered(root) == parsed_live(lines) == texts[-LIVE:]


@pytest.mark.timed
def test_cost_of_saving_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(
            f"\n{'items':>9}{'bytes':>8}{'save, ms':>11}{'write + fdatasync, ms':>24}{'ratio':>8}"
        )
        for size in (*SIZES, 100_000):
            fill(tmp_path / str(size), size)
            result = appended(tmp_path / str(size))
            saving = median(result.saving) * 1e3
            bare = median(result.bare) * 1e3
            print(
                f"{size:>9,}{max(result.written):>8,}{saving:>11.2f}{bare:>24.2f}{saving / bare:>8.1f}"
            )
            assert max(result.written) < MAX_BYTES


@pytest.mark.timed
def test_cost_of_opening(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(
            f"\n{'items':>9}{'from':>10}{'open, ms CPU':>15}{'json.loads, ms CPU':>21}{'ratio':>8}"
        )
        for size in (1_000, 10_000, 100_000):
            root = tmp_path / str(size)
            fill(root, size)
            for session, folder in ((root, "snap"), (without_snapshot(root), "log")):
                assert hydrated(session) == parsed(newest(session, folder))
                assert any(session.rglob("snap/*.jsonl")) == (folder == "snap")
                opening = cpu_ms(hydrated, session)
                loading = cpu_ms(parsed, newest(session, folder))
                print(
                    f"{size:>9,}{folder:>10}{opening:>15.1f}{loading:>21.1f}{opening / loading:>8.1f}"
                )


@pytest.mark.timed
def test_cost_of_opening_what_a_long_session_still_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "session"
    lines = tmp_path / "live.jsonl"
    converse(root, 100_000, per_save=100)
    ratios = []
    unread_ratios = []
    with capsys.disabled():
        print(
            f"\n{'live':>9}{'replayed':>10}{'open, ms CPU':>15}{'json.loads, ms CPU':>21}{'ratio':>8}{'unread':>8}"
        )
        for _ in range(MOMENTS):
            write_live(root, lines)
            assert remembered(root) == parsed_live(lines)
            opening = cpu_ms(remembered, root, rounds=25)
            loading = cpu_ms(parsed_live, lines, rounds=25)
            ratios.append(opening / loading)
            unread_ratios.append(cpu_ms(counted, root, rounds=25) / loading)
            shown = f"{opening:>15.1f}{loading:>21.1f}{ratios[-1]:>8.1f}{unread_ratios[-1]:>8.1f}"
            print(f"{LIVE:>9,}{replayed(root):>10,}{shown}")
            converse(root, 60, per_save=2)
        print(f"median {median(ratios):.1f}, worst {max(ratios):.1f}")
        print(f"unread: median {median(unread_ratios):.1f}, worst {max(unread_ratios):.1f}")
