"""The cost of keeping turns: time of an assembly by mode of the trace, and bytes of a stored turn.

`KAOSMEM_DATA=FOLDER python -m pytest benchmarks/bench_trace.py -m timed -s` prints the table, over
the real texts in the folder. Without the variable the texts are seeded ones.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from benchmarks.corpus import real_queries, real_texts, seeded_queries, seeded_texts
from kaosmem import SessionMemory
from kaosmem.arguments import json_text
from kaosmem.session.tracing import turns_of
from kaosmem.trace.trace import turn_entry

BUDGET = 4_000
TEXTS = 10_000
TURNS = 60
WAITING = 100
"""So many turns are not saved before those that are measured without saves."""
MODES = False, None, True


class Figures(NamedTuple):
    """Milliseconds of CPU of an assembly by mode, and of a save; bytes of a turn."""

    assembly: dict[bool | None, float]
    saving: float
    turn_bytes: float


async def _figures(place: Path, *, saves: bool) -> Figures:
    """Ask a session of each mode the same questions in turns.

    Args:
        saves: Save after each turn. Otherwise only the last turns count, for which many others wait
            to be saved.
    """
    texts = real_texts()[:TEXTS] or seeded_texts(TEXTS)
    turns = TURNS if saves else WAITING + TURNS
    queries = real_queries(texts[:turns]) if real_texts() else seeded_queries(turns, seed=3)
    times: dict[bool | None, list[float]] = {mode: [] for mode in MODES}
    saving = []
    async with AsyncExitStack() as stack:
        memories = {}
        for mode in MODES:
            opening = SessionMemory.open(place, f"s-{mode}", trace=mode)
            memories[mode] = await stack.enter_async_context(opening)
            memories[mode].add_many("documents", texts)
            await memories[mode].save()
        for query in queries:
            for mode, memory in memories.items():
                started = time.process_time()
                await memory.assemble_context(query, budget=BUDGET)
                times[mode].append(time.process_time() - started)
            if saves:
                started = time.process_time()
                await memories[True].save()
                saving.append(time.process_time() - started)
        stored = turns_of(memories[True]._session)[-TURNS:]
        size = sum(len(json_text(turn_entry(turn))) for turn in stored) / TURNS
    assembly = {mode: 1_000 * median(each[-TURNS:]) for mode, each in times.items()}
    return Figures(assembly, 1_000 * median(saving or [0.0]), size)


@pytest.mark.timed
def test_a_trace_costs_less_than_a_tenth_of_an_assembly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a trace, an assembly takes at most a tenth longer, however many turns are not saved."""
    with capsys.disabled():
        print(
            f"\n{'unsaved':>8}{'none, ms':>10}{'20 in memory, ms':>18}{'all, ms':>9}{'save, ms':>10}"
            f"{'KB a turn':>11}"
        )
        for saves in (True, False):
            found = asyncio.run(_figures(tmp_path / str(saves), saves=saves))
            without, last, every = found.assembly.values()
            print(
                f"{1 if saves else WAITING:>8,}{without:>10.2f}{last:>18.2f}{every:>9.2f}"
                f"{found.saving:>10.2f}{found.turn_bytes / 1_000:>11.1f}"
            )
            assert max(last, every) < 1.1 * without
