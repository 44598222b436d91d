"""What a turn costs a worker that keeps nothing: open, ask, assemble and save, beside json.loads of the items.

In CPU time, all threads and child processes included, as the clock on the wall tells of what else a machine does.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import SessionMemory
from kaosmem.persistence.layout import INDEX
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TiktokenCounter, TokenCounter, ToktokCounter, has_toktok

SIZE = 100_000
NEW_SHARE = 50
"""One item in so many has come since the index was kept."""
ROUNDS = 5
BUDGET = 8_000
BOUND = 1.5
QUERY = (  # of `seeded_queries`, for which the import would make 60,000 words
    "tulcees crustmurtity vaintgloabing paiblaindpees stalogity "
    "pagchustdraxed meengness geard cleenfrugmaination geckclouness"
)

_FRESH = """
import sys
from benchmarks.bench_cold_turn import cold_turn
from kaosmem import tokens
cold_turn(sys.argv[1], getattr(tokens, sys.argv[2])())
"""


def fill(root: Path, size: int, *, words: int = 150) -> None:
    """Store a session of so many documents, with an index that lacks the last of them."""
    texts = seeded_texts(size, words=words)
    indexed = size - size // NEW_SHARE

    async def run() -> None:
        async with SessionMemory.open(root) as memory:
            memory.add_many("documents", texts[:indexed])
            await memory.assemble_context(QUERY, budget=BUDGET)
        async with SessionMemory.open(root) as memory:
            memory.add_many("documents", texts[indexed:])

    asyncio.run(run())


def cold_turn(root: Path | str, counter: TokenCounter) -> str:
    """Take a turn in a session that is not open, and return what the model would see."""

    async def run() -> str:
        async with SessionMemory.open(root, counter=counter) as memory:
            memory.add("messages", QUERY, role="user")
            context = await memory.assemble_context(budget=BUDGET)
        return context.text or ""

    return asyncio.run(run())


def newest_snapshot(root: Path) -> Path:
    return max(root.rglob("snap/*.jsonl"))


def parsed(path: Path) -> int:
    """Return how many lines a snapshot has, each read by json.loads alone."""
    return len([json.loads(line) for line in path.read_bytes().splitlines()])


def medians_s(*actions: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Return the median CPU seconds of each, taken in turns."""
    durations: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, own in zip(actions, durations, strict=True):
            started = sum(os.times()[:4])
            action()
            own.append(sum(os.times()[:4]) - started)
    return [*map(median, durations)]


def fresh_turn(root: Path, counter: str) -> None:
    """Take a cold turn in a process of its own."""
    subprocess.run([sys.executable, "-c", _FRESH, str(root), counter], check=True)


def test_a_cold_turn_sees_what_it_would_without_an_index(tmp_path: Path) -> None:
    """Its index is one of most of the items, and is not written anew for the rest."""
    fill(tmp_path / "kept", 1_000, words=20)
    shutil.copytree(tmp_path / "kept", tmp_path / "without")
    kept = list((tmp_path / "kept").rglob(f"{INDEX}/*"))
    assert len(kept) == 1
    for path in (tmp_path / "without").rglob(f"{INDEX}/*"):
        path.unlink()
    counter = get_counter()
    assert cold_turn(tmp_path / "kept", counter) == cold_turn(tmp_path / "without", counter)
    assert list((tmp_path / "kept").rglob(f"{INDEX}/*")) == kept


@pytest.mark.timed
def test_cost_of_a_cold_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, SIZE)
    counter = get_counter()
    cold_turn(tmp_path, counter)  # the encoding is loaded from now on
    snapshot = newest_snapshot(tmp_path)
    (index,) = tmp_path.rglob(f"{INDEX}/*")
    loading, turn = medians_s(lambda: parsed(snapshot), lambda: cold_turn(tmp_path, counter))
    rows = [("encoding loaded", turn)]
    for extra, name in (("fast", ToktokCounter.__name__), ("", TiktokenCounter.__name__)):
        if not extra or has_toktok():
            (seconds,) = medians_s(lambda name=name: fresh_turn(tmp_path, name), rounds=3)  # type: ignore[misc]
            rows.append((f"fresh, {'with' if extra else 'without'} fast", seconds))
    index.unlink()
    rows.append(("without index", *medians_s(lambda: cold_turn(tmp_path, counter), rounds=1)))
    with capsys.disabled():
        sizes = f"snapshot {snapshot.stat().st_size / 2**20:.0f} MiB"
        print(
            f"\n{SIZE:,} items, {SIZE // NEW_SHARE:,} not in the index; {sizes}, json.loads "
            f"{loading:.2f} s"
        )
        print(f"{'cold turn':>20}{'s':>8}{'ratio':>8}")
        for name, seconds in rows:
            print(f"{name:>20}{seconds:>8.2f}{seconds / loading:>8.1f}")
    assert turn / loading <= BOUND
