"""Processes that write to one session at once: does each get its turn, and how long does a turn take.

A turn opens the session, adds a message, and saves it by leaving the block. With `--kept-open`, each process opens the
session once, and a turn adds a message and saves it. The time a turn is the time from the first turn's beginning to the
last one's end, divided by the number of all turns. A turn's own time is from its beginning to its saved end; it
includes the wait for other writers. One process and eight alternate, as the load of a machine changes. With `--s3` the
session is on an S3 server, SeaweedFS unless `KAOSMEM_TEST_S3_URL` names another.

    python -m benchmarks.bench_writers
    python -m benchmarks.bench_writers --processes 16 --turns 40 --rounds 5
    python -m benchmarks.bench_writers --s3 --kept-open
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, NamedTuple

import pytest
from fsspec.implementations.dirfs import DirFileSystem

from kaosmem import SectionSpec, SessionMemory
from tests.many_writers import processes, said
from tests.servers import s3_server

SESSION = "shared"
SECTIONS = (SectionSpec("messages", placement="history"),)


class Figures(NamedTuple):
    """The time a turn, the median and longest time of one turn, and the medians of each process, in ms."""

    turn_ms: float
    median_ms: float
    longest_ms: float
    medians_ms: list[float]

    @property
    def unfairness(self) -> float:
        """Return the longest turn in medians."""
        return self.longest_ms / self.median_ms


def write(tell: Callable[[Any], None], place: Any, name: str, turns: int, kept_open: bool) -> None:
    """Take turns, and tell of each when it began and ended."""

    def add(memory: SessionMemory, number: int) -> None:
        memory.add("messages", f"turn {number} of {name}", id=f"{name}-{number}", role="user")

    async def reopen() -> None:
        for number in range(turns):
            began = monotonic()
            async with _opened(place) as memory:
                add(memory, number)
            tell((began, monotonic()))

    async def keep_open() -> None:
        async with _opened(place) as memory:
            for number in range(turns):
                began = monotonic()
                add(memory, number)
                await memory.save()
                tell((began, monotonic()))

    if isinstance(place, DirFileSystem):
        place.exists(SESSION)  # to load the client and connect takes seconds, once for a process
    asyncio.run(keep_open() if kept_open else reopen())


def measured(place: Any, writers: int, turns: int, *, kept_open: bool = False) -> Figures:
    """Let processes take turns on a new session, check that nothing is lost, and return the times."""
    with processes(
        write, *((place, f"p{writer}", turns, kept_open) for writer in range(writers))
    ) as heard:
        taken = said(heard)
    expected = {f"p{writer}-{number}" for writer in range(writers) for number in range(turns)}
    assert {*asyncio.run(_stored(place))} == expected, "a turn is lost"
    began = min(began for each in taken for began, _ in each)
    ended = max(ended for each in taken for _, ended in each)
    took_ms = [[(ended - began) * 1_000 for began, ended in each] for each in taken]
    all_ms = [each for of_process in took_ms for each in of_process]
    turn_ms = (ended - began) * 1_000 / len(all_ms)
    return Figures(turn_ms, median(all_ms), max(all_ms), sorted(map(median, took_ms)))


async def _stored(place: Any) -> list[str]:
    async with _opened(place, read_only=True) as memory:
        return [item.id for item in memory["messages"]]


def _opened(place: Any, **options: Any) -> Any:
    return SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate", **options)


@contextmanager
def places(on_s3: bool) -> Iterator[Callable[[str], Any]]:
    """Yield how an empty place is made of a name: a folder, or a prefix of a bucket."""
    if on_s3:
        with s3_server() as s3:
            s3.filesystem().mkdir("writers")
            yield lambda name: DirFileSystem(f"writers/{name}", s3.filesystem())
        return
    with tempfile.TemporaryDirectory() as folder:
        yield lambda name: str(Path(folder, name))


@pytest.mark.timed
def test_eight_writers_are_served_fairly(tmp_path: Path) -> None:
    """A turn of eight takes at most 3 times the time of a turn of one, and the longest wait is under 500 ms."""
    alone = measured(str(tmp_path / "alone"), 1, 100)
    several = measured(str(tmp_path / "several"), 8, 12)
    assert several.turn_ms < 3 * alone.turn_ms
    assert several.longest_ms < 500


def main() -> None:
    """Print the figures of one process and of several, round by round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=25, help="of each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--s3", action="store_true", help="on an S3 server in place of a folder")
    parser.add_argument(
        "--kept-open", action="store_true", help="each process opens the session once"
    )
    given = parser.parse_args()
    print(
        "processes  ms a turn  of one process  median ms  longest ms  in medians  medians of "
        "processes, ms"
    )
    with places(given.s3) as place:
        for round_ in range(given.rounds):
            whole = given.turns * given.processes
            alone = measured(place(f"alone{round_}"), 1, whole, kept_open=given.kept_open)
            several = measured(
                place(f"several{round_}"), given.processes, given.turns, kept_open=given.kept_open
            )
            _print(1, alone, alone)
            _print(given.processes, several, alone)


def _print(writers: int, found: Figures, alone: Figures) -> None:
    times = found.turn_ms / alone.turn_ms
    medians = f"{found.medians_ms[0]:.0f} to {found.medians_ms[-1]:.0f}"
    print(
        f"{writers:9}  {found.turn_ms:9.1f}  {times:13.2f}x  {found.median_ms:9.1f}  "
        f"{found.longest_ms:10.0f}"
        f"  {found.unfairness:10.1f}  {medians}"
    )


if __name__ == "__main__":
    main()
