"""The cost of keeping turns: time of an assembly with and without a trace, and bytes of a stored turn.

`python -m pytest benchmarks/bench_trace.py -m timed -s` prints the table.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts
from kaosmem import SessionMemory
from kaosmem.arguments import json_text
from kaosmem.session.tracing import turns_of
from kaosmem.trace.trace import turn_entry

BUDGET = 4_000
TURNS = 60


async def _times(place: Path, number: int, *, trace: bool) -> tuple[float, float, float]:
    """Return the milliseconds of an assembly and of a save, and the bytes of a stored turn."""
    assemblies, saves = [], []
    async with SessionMemory.open(place, f"s-{trace}", trace=trace) as memory:
        memory.add_many("documents", seeded_texts(number))
        await memory.save()
        for query in seeded_queries(TURNS, seed=3):
            started = time.process_time()
            await memory.assemble_context(query, budget=BUDGET)
            asked = time.process_time()
            await memory.save()
            assemblies.append(asked - started)
            saves.append(time.process_time() - asked)
        turns = turns_of(memory._session)[-TURNS:]
        size = sum(len(json_text(turn_entry(turn))) for turn in turns) / TURNS
    return 1_000 * median(assemblies), 1_000 * median(saves), size


@pytest.mark.timed
def test_a_trace_costs_less_than_a_tenth_of_an_assembly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a trace, an assembly takes at most a tenth longer; the writing is part of the save."""
    with capsys.disabled():
        print(f"\n{'items':>8}{'without, ms':>13}{'with, ms':>10}{'save, ms':>10}{'KB a turn':>11}")
        for number in (1_000, 10_000):
            place = tmp_path / str(number)
            without, _, _ = asyncio.run(_times(place, number, trace=False))
            traced, saving, size = asyncio.run(_times(place, number, trace=True))
            print(
                f"{number:>8,}{without:>13.2f}{traced:>10.2f}{saving:>10.2f}{size / 1_000:>11.1f}"
            )
            assert traced < 1.1 * without + 0.1
