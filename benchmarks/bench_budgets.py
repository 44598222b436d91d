"""How full a window gets and that its budget holds: contexts counted again from scratch, beside what they say they use.

On sessions of seeded texts, and on real ones where KAOSMEM_DATA names a folder as `evidence_recall.py` reads it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from statistics import mean, median

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts
from kaosmem import DEFAULT_SECTIONS, Context, SessionMemory, WindowTooSmallError
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.evidence import Corpus
from kaosmem.formats import count_messages

BUDGETS = 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 128_000
FORMATS = "text", "openai"
DATA = os.environ.get("KAOSMEM_DATA", "")
HEADER = f"{'budget':>9}{'contexts':>10}{'used':>10}{'fill':>8}{'least':>8}{'items':>8}{'violations':>12}{'ms':>8}"


@dataclass(frozen=True)
class Row:
    """What the contexts of one budget came to, each with what is wrong with it and the milliseconds that it took."""

    budget: int
    contexts: list[Context]
    violations: list[str]
    ms: list[float]

    @property
    def fills(self) -> list[float]:
        return [context.used / self.budget for context in self.contexts]

    def __str__(self) -> str:
        used, items = (
            mean(values)
            for values in zip(*((c.used, len(c.items)) for c in self.contexts), strict=True)
        )
        return (
            f"{self.budget:>9,}{len(self.contexts):>10,}{used:>10,.0f}{mean(self.fills):>8.1%}{min(self.fills):>8.1%}"
            f"{items:>8.1f}{len(self.violations):>12}{median(self.ms):>8.2f}"
        )


def filled(documents: int, *, turns: int = 60) -> SessionMemory:
    """Return a session in which an agent has worked: every section that is shown by default holds something."""
    memory = SessionMemory.test_mode()
    texts = cycle(seeded_texts(documents + 400))
    short = cycle(seeded_texts(400, seed=1, words=20))
    memory.add("role", next(short))
    memory.add_many("playbooks", islice(texts, 4))
    memory.add_many("plan_examples", islice(texts, 4))
    memory.add_many("documents", islice(texts, documents))
    for section, count in (
        ("findings", 60),
        ("lessons", 20),
        ("graph", 40),
        ("actions", 40),
        ("reflection", 10),
    ):
        memory.add_many(section, islice(short, count))
    for section in ("plan_history", "working", "planning_context"):
        memory.add_many(section, islice(texts, 5))
    memory.add("last_intent", next(short))
    for turn in range(turns):
        memory.add("messages", next(short), role="user")
        calls = [f"call-{turn}-{number}" for number in range(turn % 4)]
        if calls:
            arguments = [json.dumps({"query": next(short)}) for _ in calls]
            uses = zip(calls, arguments, strict=True)
            memory.add(
                "messages", [tool_use(call, given) for call, given in uses], role="assistant"
            )
        for call in calls:
            memory.add(
                "messages",
                [{"type": "tool_result", "tool_use_id": call, "content": next(texts)}],
                role="tool",
            )
        memory.add("messages", next(texts), role="assistant")
    memory.add("messages", "And what about " + next(short), role="user")
    return memory


def tool_use(call: str, arguments: str) -> dict[str, str]:
    return {"type": "tool_use", "id": call, "name": "look_up", "arguments": arguments}


def told(corpus: Corpus) -> SessionMemory:
    """Return a session with all that a corpus holds: what somebody said as messages, the rest as documents."""
    specs = [
        replace(spec, budget=None, eviction="none") if spec.name == "messages" else spec
        for spec in DEFAULT_SECTIONS
    ]
    memory = SessionMemory.test_mode(sections=specs)
    for item in corpus.items:
        metadata = {"source": item.session, "timestamp": item.timestamp}
        section = "messages" if item.role else "documents"
        memory.add(section, item.text, id=item.id, role=item.role, metadata=metadata)
    return memory


def measured(memory: SessionMemory, queries: Sequence[str], budget: int) -> Row:
    """Assemble each query in each format; a budget that can't hold what must be shown is left out."""
    row = Row(budget, [], [], [])
    for format_name in FORMATS:
        for query in queries:
            started = time.process_time_ns()
            try:
                context = asyncio.run(
                    memory.assemble_context(query, budget=budget, format=format_name)
                )
            except WindowTooSmallError:
                continue
            row.ms.append((time.process_time_ns() - started) / 1e6)
            row.contexts.append(context)
            row.violations.extend(violations(context, memory, budget))
    return row


def violations(context: Context, memory: SessionMemory, budget: int) -> Iterator[str]:
    """Yield what is wrong with a context, counted again from scratch."""
    handed_over = context.text if context.format == "text" else context.messages
    counted = count_messages(handed_over, context.format)
    if counted != context.used:
        yield f"{counted} tokens are handed over, and the context says {context.used}"
    if counted > budget:
        yield f"{counted} tokens are handed over at a budget of {budget}"
    if sum(use.used for use in context.by_section.values()) + context.frame != context.used:
        yield "the sections and the frame do not add up"
    for name, use in context.by_section.items():
        cap = memory[name].spec.budget
        if cap is not None and use.used > cap:
            yield f"section {name} takes {use.used} tokens of its {cap}"


@pytest.mark.parametrize("budget", BUDGETS[:5])
def test_every_context_is_within_its_budget_and_fills_it(budget: int) -> None:
    row = measured(filled(100, turns=20), seeded_queries(2), budget)
    assert len(row.contexts) == 4
    assert row.violations == []
    assert min(row.fills) > 0.9
    assert mean(row.fills) > 0.95


@pytest.mark.timed
def test_fill_of_seeded_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    memory = filled(1_000)
    queries = seeded_queries(10)
    measured(memory, queries[:1], BUDGETS[0])  # the first question makes the index
    with capsys.disabled():
        print(f"\nseeded session of {memory.admin.used:,} tokens\n{HEADER}")
        for budget in BUDGETS:
            row = measured(memory, queries, budget)
            print(row)
            assert len(row.contexts) == 20
            assert row.violations == []
            assert min(row.fills) > 0.95


@pytest.mark.timed
@pytest.mark.skipif(not DATA, reason="KAOSMEM_DATA names no folder of data sets")
def test_fill_of_real_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    corpora: dict[str, Corpus] = {}
    for corpus in read_corpora(DATA):
        corpora.setdefault(corpus.dataset, corpus)  # the first of each data set
    for corpus in corpora.values():
        memory = told(corpus)
        queries = [question.query for question in corpus.questions[:5]]
        measured(memory, queries[:1], BUDGETS[-1])
        with capsys.disabled():
            print(f"\n{corpus.name}: {memory.admin.used:,} tokens\n{HEADER}")
            for budget in BUDGETS:
                if (
                    budget < memory.admin.used
                    and (row := measured(memory, queries, budget)).contexts
                ):
                    print(row)
                    assert row.violations == []
