"""The cost of keeping turns: time of an assembly with and without a trace, and bytes of a stored turn.

`python -m pytest benchmarks/bench_trace.py -m timed -s` prints the table.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts
from kaosmem import SessionMemory
from kaosmem.arguments import json_text
from kaosmem.session.tracing import turns_of
from kaosmem.trace.trace import turn_entry

BUDGET = 4_000
TURNS = 60
WAITING = 100
"""So many turns are not saved before those that are measured without saves."""


class Figures(NamedTuple):
    """Milliseconds of CPU of an assembly without and with a trace, of a save, and bytes of a turn."""

    without: float
    traced: float
    saving: float
    turn_bytes: float


async def _figures(place: Path, number: int, *, saves: bool) -> Figures:
    """Ask two sessions the same questions in turns.

    Args:
        saves: Save after each turn. Otherwise only the last turns count, for which many others wait
            to be saved.
    """
    times: dict[bool, list[float]] = {False: [], True: []}
    saving = []
    async with AsyncExitStack() as stack:
        memories = {}
        for trace in times:
            opening = SessionMemory.open(place, f"s-{trace}", trace=trace)
            memories[trace] = await stack.enter_async_context(opening)
            memories[trace].add_many("documents", seeded_texts(number))
            await memories[trace].save()
        for query in seeded_queries(TURNS if saves else WAITING + TURNS, seed=3):
            for trace, memory in memories.items():
                started = time.process_time()
                await memory.assemble_context(query, budget=BUDGET)
                times[trace].append(time.process_time() - started)
            if saves:
                started = time.process_time()
                await memories[True].save()
                saving.append(time.process_time() - started)
        turns = turns_of(memories[True]._session)[-TURNS:]
        size = sum(len(json_text(turn_entry(turn))) for turn in turns) / TURNS
    without, traced = (1_000 * median(each[-TURNS:]) for each in times.values())
    return Figures(without, traced, 1_000 * median(saving or [0.0]), size)


@pytest.mark.timed
def test_a_trace_costs_less_than_a_tenth_of_an_assembly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a trace, an assembly takes at most a tenth longer, however many turns are not saved."""
    with capsys.disabled():
        print(
            f"\n{'items':>8}{'unsaved':>9}{'without, ms':>13}{'with, ms':>10}{'save, ms':>10}"
            f"{'KB a turn':>11}"
        )
        for number in (1_000, 10_000):
            for saves in (True, False):
                place = tmp_path / f"{number}-{saves}"
                found = asyncio.run(_figures(place, number, saves=saves))
                unsaved = 1 if saves else WAITING
                print(
                    f"{number:>8,}{unsaved:>9,}{found.without:>13.2f}{found.traced:>10.2f}"
                    f"{found.saving:>10.2f}{found.turn_bytes / 1_000:>11.1f}"
                )
                assert found.traced < 1.1 * found.without + 0.1
