"""What a commit costs: beside a bare write and fdatasync of as many bytes, and in bytes over a session's whole life."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import SessionMemory
from kaosmem.persistence.files.records import FORMAT_VERSION, Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.steps import Append, Draft, Step, Write
from kaosmem.persistence.storage.local import LocalStorage

ROUNDS = 300
MESSAGE = seeded_texts(1, seed=1, words=100)[0][:500]
MAX_BYTES = 1_024
MAX_AMPLIFICATION = 3.0


class Bare:
    """Appends to a file with one write and one fdatasync each."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, data: bytes) -> None:
        os.write(self._descriptor, data)
        getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def seconds(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def message(number: int) -> Change:
    """Return a message of 500 characters, as a session logs it."""
    item = {
        "id": f"{number:016x}",
        "role": "user",
        "content": MESSAGE,
        "tokens": 103,
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return Change("messages", "add", {"item": item, "evicted": []})


def log_of(root: Path, size: int) -> SessionLog:
    """Return the log of a session that holds `size` items, with a snapshot of them."""
    log, _ = SessionLog.open(root, "s")
    log.commit([Change("", "open", {"version": FORMAT_VERSION})])
    for start in range(0, size, 1_000):
        log.commit([message(number) for number in range(start, min(size, start + 1_000))])
    items = [("messages", dict(message(number).data["item"])) for number in range(size)]  # type: ignore[arg-type, call-overload]
    log.snapshot({}, items, at=log.end)
    return log


class CountedWrites:
    """How many bytes local storages write, in the log and in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = self.all = 0
        perform = LocalStorage.perform

        def counted(storage: LocalStorage, step: Step) -> object:
            if isinstance(step, Append):
                self.log += len(step.data)
                self.all += len(step.data)
            elif isinstance(step, Write | Draft):
                chunks = list(step.chunks)
                self.all += sum(map(len, chunks))
                step = replace(step, chunks=chunks)
            return perform(storage, step)

        monkeypatch.setattr(LocalStorage, "perform", counted)

    @property
    def amplification(self) -> float:
        """Bytes written for each byte that was to be kept: what the log alone takes."""
        return self.all / self.log


def live(root: Path, turns: int) -> int:
    """Let a session live for some turns of two messages that evict older ones; return how many it keeps."""

    async def run() -> int:
        texts = seeded_texts(2 * turns, seed=3, words=60)
        async with SessionMemory.open(root, counter="estimate") as memory:
            for turn in range(turns):
                memory.add("messages", texts[2 * turn], role="user")
                await memory.save()
                memory.add("messages", texts[2 * turn + 1], role="assistant")
                await memory.save()
        async with SessionMemory.open(root, counter="estimate") as memory:
            section = memory["messages"]
            return len(section) + len(section.archive)

    return asyncio.run(run())


def test_one_message_writes_less_than_a_kilobyte_into_any_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (100, 5_000):
        log = log_of(tmp_path / str(size), size)
        with monkeypatch.context() as patched:
            written = CountedWrites(patched)
            log.commit([message(size)])
        assert 0 < written.all < MAX_BYTES


def test_a_life_long_each_byte_is_written_at_most_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log, in an archive once it is evicted, and in snapshots."""
    written = CountedWrites(monkeypatch)
    assert live(tmp_path, 600) == 1_200
    assert written.all > 1.2 * written.log  # there were snapshots and archives
    assert written.amplification <= MAX_AMPLIFICATION


@pytest.mark.timed
def test_cost_of_a_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commits and bare appends take turns, so that both meet the same machine; the ratio is of their medians."""
    bare = Bare(tmp_path / "bare")
    with capsys.disabled():
        print(f"\n{'items':>9}{'commit, us':>13}{'write + fdatasync, us':>24}{'ratio':>8}")
        for size in (100, 10_000, 100_000):
            log = log_of(tmp_path / str(size), size)
            committing = []
            appending = []
            for number in range(size, size + ROUNDS):
                committing.append(
                    seconds(lambda log=log, number=number: log.commit([message(number)]))
                )  # type: ignore[misc]
                data = os.urandom(700)
                appending.append(seconds(lambda data=data: bare.append(data)))  # type: ignore[misc]
            ours = median(committing)
            reference = median(appending)
            print(f"{size:>9,}{ours * 1e6:>13.0f}{reference * 1e6:>24.0f}{ours / reference:>8.2f}")
            assert log.seq == size + ROUNDS + 1
            log.close()
    bare.close()


@pytest.mark.timed
def test_amplification_over_a_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{'messages':>9}{'log, MB':>11}{'written, MB':>14}{'times':>8}")
        for turns in (1_000, 5_000, 20_000):
            with monkeypatch.context() as patched:
                written = CountedWrites(patched)
                live(tmp_path / str(turns), turns)
            print(
                f"{2 * turns:>9,}{written.log / 1e6:>11.1f}{written.all / 1e6:>14.1f}{written.amplification:>8.2f}"
            )
            assert written.amplification <= MAX_AMPLIFICATION
