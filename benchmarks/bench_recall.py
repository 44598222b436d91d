"""What was evicted is not forgotten: what a turn costs in a history that has evicted much, and what it recalls.

A turn ranks all that was evicted, and walks none of it; of a stored session, it reads the texts that it proposes. With
KAOSMEM_DATA=FOLDER (see evidence_recall.py) the last table says how much of the evidence in long conversations comes
back from behind a budget of 32,000 tokens.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import NamedTuple

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import DEFAULT_SECTIONS, Reason, SectionSpec, SessionMemory, SessionOptions
from kaosmem.evaluation import evaluate, read_corpora
from kaosmem.evaluation.assemblers import SessionAssembler

DATA = os.environ.get("KAOSMEM_DATA", "")
LONG = "beam-100k", "beam-500k", "beam-1m"
SPEC = SectionSpec("messages", 4_000, placement="history", recall=0.25)
MESSAGES = next(spec for spec in DEFAULT_SECTIONS if spec.name == "messages")
FACT = "The zebrafish licence QX-7741 expires in March."
QUESTIONS = "When does the zebrafish licence expire?", "zzyzx"
TURNS = 15


def told(messages: int) -> tuple[SessionMemory, str]:
    """Return a session that was told a fact and then so much else, and the fact's id."""
    memory = SessionMemory.test_mode(sections=(SPEC,))
    fact = memory.add("messages", FACT)
    for text in seeded_texts(messages, words=12):
        memory.add("messages", text)
    return memory, fact.id


async def turns(memory: SessionMemory, fact: str) -> dict[str, float]:
    """Return the median CPU milliseconds of a turn by question; the fact comes back for the one about it."""
    costs = {}
    for question in QUESTIONS:
        await memory.assemble_context(question, budget=3_000)  # makes the index
        milliseconds = []
        for text in seeded_texts(TURNS, seed=3, words=12):
            started = process_time_ns()
            memory.add("messages", text)
            context = await memory.assemble_context(question, budget=3_000)
            milliseconds.append((process_time_ns() - started) / 1e6)
            assert context.used <= 3_000
        recalled = {
            decision.item_id for decision in context.decisions if decision.reason is Reason.RECALLED
        }
        assert (fact in recalled) == (question == QUESTIONS[0])
        costs[question] = median(milliseconds)
    return costs


def test_what_was_evicted_long_ago_comes_back() -> None:
    asyncio.run(turns(*told(600)))


@pytest.mark.timed
def test_a_turn_by_what_was_evicted(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{'messages':>10}{'known words, ms':>18}{'no known word, ms':>20}")
        for messages in (1_000, 10_000, 100_000):
            known, unknown = asyncio.run(turns(*told(messages))).values()
            print(f"{messages:>10,}{known:>18.2f}{unknown:>20.2f}")


async def fill(place: Path, messages: int) -> None:
    """Store a session that was told a fact and then so much else, with its index."""
    async with SessionMemory.open(
        place, sections=(MESSAGES,), options=SessionOptions(single_writer=True)
    ) as memory:
        memory.add("messages", FACT)
        for number, text in enumerate(seeded_texts(messages, words=12)):
            memory.add("messages", text)
            if number % 50_000 == 49_999:
                await memory.save()
        await memory.save()
        await memory.assemble_context(QUESTIONS[0], budget=8_000)


async def asked(memory: SessionMemory, question: str) -> float:
    """Return the CPU milliseconds of a turn that asks and packs a context."""
    started = process_time_ns()
    memory.add("messages", question)
    await memory.assemble_context(question, budget=8_000)
    return (process_time_ns() - started) / 1e6


async def behind(place: Path) -> Behind:
    """Return what the stored session costs beside one that holds the same and has nothing behind it."""
    async with SessionMemory.open(place, sections=(MESSAGES,), read_only=True) as stored:
        held = [item.content for item in stored["messages"]]
    alone = SessionMemory.test_mode(sections=(MESSAGES,))
    alone.add_many("messages", held)
    await asked(alone, "zzyzx")  # makes the index, and loads the counter
    started = process_time_ns()
    resident = _resident_mb()
    async with SessionMemory.open(
        place, sections=(MESSAGES,), options=SessionOptions(single_writer=True)
    ) as memory:
        context = await memory.assemble_context(QUESTIONS[0], budget=8_000)
        first = (process_time_ns() - started) / 1e9
        assert FACT in context.text
        evicted = len(memory["messages"].archive)
        costs = [
            (await asked(memory, text), await asked(alone, text))
            for text in seeded_texts(TURNS, seed=3, words=12)
        ]
        turn, beside = map(median, zip(*costs, strict=True))
        return Behind(evicted, first, turn, beside, _resident_mb() - resident)


class Behind(NamedTuple):
    """Of a session with so many evicted items: seconds to the first context, milliseconds of a turn, megabytes."""

    evicted: int
    first_s: float
    turn_ms: float
    alone_ms: float
    resident_mb: float


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _run_fill(place: Path, messages: int) -> None:
    asyncio.run(fill(place, messages))


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="resident memory is read where Linux says it"
)
def test_a_stored_session_recalls_what_is_behind_it(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, 2_000))
    assert asyncio.run(behind(tmp_path)).evicted > 500


@pytest.mark.timed
@pytest.mark.parametrize("messages", [100_000, 1_000_000])
def test_a_turn_by_what_is_behind_in_the_archive(
    messages: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts stay in the archive; what was evicted costs its ranking, and what is known of it by heart."""
    child = get_context("spawn").Process(target=_run_fill, args=(tmp_path, messages))
    child.start()
    child.join()
    assert child.exitcode == 0
    found = asyncio.run(behind(tmp_path))
    with capsys.disabled():
        print(
            f"\n{found.evicted:,} behind: open and first context {found.first_s:.1f} s, a turn "
            f"{found.turn_ms:.1f} ms, "
            f"{found.alone_ms:.1f} ms with nothing behind; {found.resident_mb:,.0f} MB"
        )


@pytest.mark.timed
@pytest.mark.skipif(not DATA, reason="KAOSMEM_DATA names no folder of data sets")
def test_a_budget_forgets_nothing_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a long conversation almost as much comes back as if its section had no budget, in both placements."""
    placements = {"history": MESSAGES, "query": replace(MESSAGES, placement="query", recall=1.0)}
    corpora = read_corpora(DATA, datasets=LONG)
    bounded = [SessionAssembler(f"{name}, 32,000", spec=spec) for name, spec in placements.items()]
    unbounded = [
        SessionAssembler(f"{name}, unbounded", spec=replace(each, budget=None))
        for name, each in placements.items()
    ]
    report = asyncio.run(evaluate(corpora, budgets=[8_192], assemblers=[*bounded, *unbounded]))
    recalls = {
        each.name: report.figures(each.name, 8_192).recall for each in (*bounded, *unbounded)
    }
    with capsys.disabled():
        print("\nrecall at 8,192 tokens")
        for name, recall in recalls.items():
            print(f"{name:>20}{recall:>8.3f}")
    assert all(
        recalls[f"{name}, 32,000"] >= recalls[f"{name}, unbounded"] - 0.03 for name in placements
    )
