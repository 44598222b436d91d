"""What a turn costs in a history that has evicted much: it ranks all of it, and walks none of it."""

from __future__ import annotations

import asyncio
from statistics import median
from time import process_time_ns

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import Reason, SectionSpec, SessionMemory

SPEC = SectionSpec("messages", 4_000, placement="history", low_water=0.5, recall=0.25)
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
        recalled = {decision.item_id for decision in context.decisions if decision.reason is Reason.RECALLED}
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
