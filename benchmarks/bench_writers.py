"""Processes that reopen one session for every turn: does each get its turn, and how long does a turn take.

A turn opens the session, adds a message, and saves it by leaving the block. The time a turn is the time from the first
turn's beginning to the last one's end, divided by the number of all turns. A turn's own time is from its opening to its
saved end; it includes the wait for other writers. One process and eight alternate, as the load of a machine changes.

    python -m benchmarks.bench_writers
    python -m benchmarks.bench_writers --processes 16 --turns 40 --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, NamedTuple

import pytest

from kaosmem import SectionSpec, SessionMemory
from tests.many_writers import processes, said

SESSION = "shared"
SECTIONS = (SectionSpec("messages", placement="history"),)


class Figures(NamedTuple):
    """The time a turn, and the median and longest time of one turn, in ms."""

    turn_ms: float
    median_ms: float
    longest_ms: float


def write(tell: Callable[[Any], None], place: str, name: str, turns: int) -> None:
    """Take turns, and tell of each when it began and ended."""

    async def turn(number: int) -> None:
        async with SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate") as memory:
            memory.add("messages", f"turn {number} of {name}", id=f"{name}-{number}", role="user")

    async def run() -> None:
        for number in range(turns):
            began = monotonic()
            await turn(number)
            tell((began, monotonic()))

    asyncio.run(run())


def measured(place: str, writers: int, turns: int) -> Figures:
    """Let processes take turns on a new session, check that nothing is lost, and return the times."""
    with processes(write, *((place, f"p{writer}", turns) for writer in range(writers))) as heard:
        taken = [turn for each in said(heard) for turn in each]
    expected = {f"p{writer}-{number}" for writer in range(writers) for number in range(turns)}
    assert {*asyncio.run(_stored(place))} == expected, "a turn is lost"
    took_ms = [(ended - began) * 1_000 for began, ended in taken]
    whole_ms = (max(ended for _, ended in taken) - min(began for began, _ in taken)) * 1_000
    return Figures(whole_ms / len(taken), median(took_ms), max(took_ms))


async def _stored(place: str) -> list[str]:
    async with SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate", read_only=True) as memory:
        return [item.id for item in memory["messages"]]


@pytest.mark.timed
def test_eight_writers_are_served_fairly(tmp_path: Path) -> None:
    """A turn of eight takes at most 3 times the time of a turn of one, and the longest wait is under 500 ms."""
    alone, several = measured(str(tmp_path / "alone"), 1, 100), measured(str(tmp_path / "several"), 8, 12)
    assert several.turn_ms < 3 * alone.turn_ms
    assert several.longest_ms < 500


def main() -> None:
    """Print the figures of one process and of several, round by round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=25, help="of each process")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("processes  ms a turn  of one process  median ms  longest ms")
    for round_ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            whole = given.turns * given.processes
            alone = measured(str(Path(folder, f"alone{round_}")), 1, whole)
            several = measured(str(Path(folder, f"several{round_}")), given.processes, given.turns)
        for number, found in ((1, alone), (given.processes, several)):
            times = found.turn_ms / alone.turn_ms
            print(f"{number:9}  {found.turn_ms:9.1f}  {times:13.2f}x  {found.median_ms:9.1f}  {found.longest_ms:10.0f}")


if __name__ == "__main__":
    main()
