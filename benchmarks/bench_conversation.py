"""What the view of a conversation and its messages cost, by the length of the log, beside reading its lines.

CPU seconds, the least of several runs, without the garbage collector, as `timeit` measures: a pass of it costs by all
that a process holds, and when it comes is an accident. The exponent e is that of cost ~ length ** e.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log
from time import process_time

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import (
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    get_counter,
    render_messages,
)
from kaosmem.compaction import SlidingWindowCompaction, ToolResultCompaction
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    Condenser,
    ConversationEvent,
    ConversationMemory,
    ConversationView,
    EventLog,
    LLMSummarizingCondenser,
    ObservationEvent,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.formats import get_format
from kaosmem.sources import ConversationSource
from kaosmem.testing import ScriptedLLM, check_anthropic_messages, check_openai_messages

SIZES = 1_000, 10_000, 100_000
KINDS = "plain", "thinking", "one loop", "condensed"
RUNS = 3
FIRST = ActionEvent("message", "Make the tests pass.", source="user")
STEP = 10
APPENDED = 500


def conversation(length: int, kind: str) -> EventLog:
    """Return a log of a coding agent's work: a message of the user's, an answer of two calls, one of a call, words.

    kind: "plain"; "thinking", each answer under signed reasoning; "one loop", all answers of one loop; "condensed",
    a condensation every 200 events that leaves 50.
    """
    texts = seeded_texts(200, words=60)
    events = _turns(texts, kind)
    log = EventLog()
    while len(log) < length:
        log.append(next(events))
        if kind == "condensed" and len(log) % 200 == 199:
            log.append(_condensation(log))
    return log


def _turns(texts: list[str], kind: str) -> Iterator[ConversationEvent]:
    yield ActionEvent("system_message", "You write code.", source="environment")
    yield FIRST
    turn = 0
    while True:
        text = texts[turn % len(texts)]
        for answer, calls in ((0, 2), (1, 1)):
            response = f"r{turn}-{answer}"
            ids = [f"call-{turn}-{answer}-{number}" for number in range(calls)]
            reasons = kind != "plain" and kind != "condensed"
            said = (
                (ThinkingBlock("I look at the code first.", f"seal-{turn}"), TextBlock("I look."))
                if reasons
                else ""
            )
            for number, call in enumerate(ids):
                use = ToolUseBlock(call, "read_file", json.dumps({"path": f"src/{turn}.py"}))
                yield ActionEvent("tool_call", said if number == 0 else "", use, response)
            for call in ids:
                yield ObservationEvent("result", text, call)
        turn += 1
        if kind != "one loop":
            yield ActionEvent("message", f"Done with step {turn}.")
            yield ActionEvent("message", f"Now step {turn + 1}.", source="user")


def _condensation(log: EventLog) -> Condensation:
    view = log.view
    keep = view.cuts_from(0)[-min(20, len(view.cuts_from(0)))]
    forgotten = tuple(event.id for event in view[:keep])
    return Condensation(forgotten, summary="All is well so far.")


@dataclass(frozen=True)
class Row:
    """Costs at one length: seconds by what was done, and microseconds for each of the last events appended."""

    length: int
    seconds: dict[str, float]
    append_us: float


def measured(length: int, kind: str) -> Row:
    log = conversation(length, kind)
    lines = list(log.lines())
    events = list(log)
    counter = get_counter(None)
    counter("loads its vocabulary")
    openai = get_format("openai")
    view = ConversationView(events)
    seconds = {
        "json.loads": least(lambda: list(map(json.loads, lines))),
        "from_lines": least(lambda: EventLog.from_lines(lines)),
        "view": least(lambda: len(ConversationView(events))),
        "cut points": least(lambda: ConversationView(events).cuts_from(0)),
        "messages": min(messages_s(events) for _ in range(RUNS)),
        "counted first": least(
            lambda: sum(event.tokens(counter, openai) for event in view), runs=1
        ),
        "counted again": least(lambda: sum(event.tokens(counter, openai) for event in view)),
    }
    return Row(len(events), seconds, append_us(events))


def messages_s(events: list[ConversationEvent]) -> float:
    """Return what it costs to make messages of a view, none of whose events was a message before."""
    view = ConversationView(event.changed() for event in events)
    memory = ConversationMemory()
    return least(lambda: memory.process_events(view), runs=1)


def append_us(events: list[ConversationEvent]) -> float:
    """Return what it costs to append an event to a view of nearly all of them and to read its end."""

    def append() -> None:
        for event in events[-APPENDED:]:
            view.append(event)
            _ = view[-1] if len(view) else None

    best = float("inf")
    for _ in range(RUNS):
        view = ConversationView(events[:-APPENDED])
        assert len(view) > 0
        best = min(best, least(append, runs=1) / APPENDED * 1e6)
    return best


def least(action: Callable[[], object], runs: int = RUNS) -> float:
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        gc.disable()
        begin = process_time()
        try:
            action()
        finally:
            gc.enable()
        best = min(best, process_time() - begin)
    return best


def exponents(rows: list[Row], name: str) -> list[float]:
    return [
        log(more.seconds[name] / less.seconds[name]) / log(more.length / less.length)
        for less, more in pairwise(rows)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_messages_of_a_long_log_are_what_providers_take(kind: str) -> None:
    view = ConversationView(conversation(600, kind))
    messages = ConversationMemory().process_events(view)
    assert len(messages) > (20 if kind == "condensed" else 300)
    check_openai_messages(render_messages(messages, "openai").messages)
    check_anthropic_messages(render_messages(messages, "anthropic").messages)


@pytest.mark.timed
@pytest.mark.parametrize("kind", KINDS)
def test_cost_by_length(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [measured(length, kind) for length in SIZES]
    with capsys.disabled():
        print(
            f"\n{kind}: ms{''.join(f'{row.length:>12,}' for row in rows)}   exponents   x "
            "json.loads at the end"
        )
        for name in rows[0].seconds:
            exponent = "  ".join(f"{each:.2f}" for each in exponents(rows, name))
            ratio = rows[-1].seconds[name] / rows[-1].seconds["json.loads"]
            print(
                f"  {name:<16}{''.join(f'{row.seconds[name] * 1e3:>12.2f}' for row in rows)}   "
                f"{exponent}   {ratio:.1f}"
            )
        print(f"  {'append, us':<16}{''.join(f'{row.append_us:>12.2f}' for row in rows)}")
    for name in ("view", "messages"):
        assert max(exponents(rows, name)) <= 1.1
        assert rows[-1].seconds[name] <= 10 * rows[-1].seconds["json.loads"]
    assert rows[-1].seconds["counted again"] < rows[-1].seconds["counted first"] / 5
    assert rows[-1].append_us < 3 * rows[0].append_us


WINDOW = 8_000
TURNS = 8
BOUND = 1.5
CONDENSERS: dict[str, Callable[[], Condenser | None]] = {
    "no condenser": lambda: None,
    "forgetting": lambda: RollingCondenser(max_size=400),
    "summarizing": lambda: LLMSummarizingCondenser(ScriptedLLM(lambda _: "All is well so far.")),
    "recent events": lambda: StrategyCondenser(SlidingWindowCompaction(10)),
    "cut results": lambda: StrategyCondenser(ToolResultCompaction(50, keep_recent=50)),
}
LINEAR = "recent events", "cut results"
"""A strategy reads the whole view each time."""


async def turn_ms(length: int, kind: str, condenser: Condenser | None) -> tuple[float, float]:
    """Return what the first turn of a conversation costs, and each of the next, the least of several, in ms."""
    log = conversation(length, kind)
    memory = SessionMemory.test_mode()
    await memory.attach(ConversationSource(log, condenser))
    costs = []
    for number in range(TURNS):
        log.append(
            ActionEvent("tool_call", "", ToolUseBlock(f"late-{number}", "find"), f"late-{number}")
        )
        log.append(ObservationEvent("result", f"found {number}", f"late-{number}"))
        gc.collect()
        gc.disable()
        begin = process_time()
        context = await memory.assemble_context("what is found", budget=WINDOW, format="openai")
        costs.append((process_time() - begin) * 1e3)
        gc.enable()
        assert f"found {number}" in str(context.messages[-2:])
    return costs[0], min(costs[1:])


@pytest.mark.timed
@pytest.mark.parametrize("name", CONDENSERS)
@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_turn_by_the_length_of_its_log(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for strategies, which read the view anew, a turn costs the same however many events there are."""
    rows = [await turn_ms(length, kind, CONDENSERS[name]()) for length in SIZES]
    with capsys.disabled():
        print(
            f"\n{kind}, {name}, {WINDOW:,} tokens: ms of the first turn and of each after it, x of "
            "1,000 events"
        )
        for length, (first, each) in zip(SIZES, rows, strict=True):
            print(f"  {length:>9,}{first:>12.1f}{each:>12.2f}{each / rows[0][1]:>8.2f}")
    if name not in LINEAR:
        assert rows[-1][1] <= BOUND * rows[0][1]


RECORDS = 8
FORGOTTEN = 20


def record_us(length: int, summary: str | None) -> float:
    """Return what a record costs that forgets a few of the newest events, the least of several, in us."""
    log = conversation(length, "plain")
    best = float("inf")
    for number in range(RECORDS):
        view = log.view
        first = len(view) - 2 * FORGOTTEN * (number + 1)
        ids = tuple(event.id for event in view[first : first + FORGOTTEN])
        record = Condensation(ids, summary)
        best = min(best, least(lambda record=record: (log.append(record), log.view[-1]), runs=1))
    return best * 1e6


@pytest.mark.timed
def test_a_record_by_the_length_of_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    """It costs what the view has."""
    kinds = {"no summary": None, "a summary": "All is well."}
    rows = {
        name: [record_us(length, summary) for length in SIZES] for name, summary in kinds.items()
    }
    with capsys.disabled():
        print(
            f"\na record that forgets {FORGOTTEN} events: "
            f"us{''.join(f'{length:>12,}' for length in SIZES)}"
        )
        for name, costs in rows.items():
            print(f"  {name:<35}{''.join(f'{cost:>12.0f}' for cost in costs)}")
    for costs in rows.values():
        assert costs[-1] <= 1.5 * costs[0] * SIZES[-1] / SIZES[0]


def gone_wrong(length: int) -> dict[str, list[ConversationEvent]]:
    """Return logs of that many calls that no agent should write, but some do."""
    calls = [_call(str(number), f"r{number}") for number in range(length)]
    same = [_call("a", f"r{number}") for number in range(length)]
    batch = [_call(str(number), "r") for number in range(length)]
    results = [
        ObservationEvent("result", "found", action.call.id) for action in calls if action.call
    ]
    return {
        "never answered": calls,
        "answered late": [*calls, *results],
        "answered in reverse": [*calls, *reversed(results)],
        "never called": results,
        "one id": [*same, *(ObservationEvent("result", "found", "a") for _ in same)],
        "one answer": [*batch, *results],
    }


def _call(name: str, response: str) -> ActionEvent:
    return ActionEvent(
        "tool_call", (ThinkingBlock("hm", "seal"),), ToolUseBlock(name, "find"), response
    )


@pytest.mark.timed
@pytest.mark.parametrize("kind", gone_wrong(0))
def test_what_went_wrong_costs_linear_time(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = []
    for length in (5_000, 50_000):
        events = gone_wrong(length)[kind]
        seconds.append(least(lambda events=events: ConversationMemory().process_events(events)))
    exponent = log(seconds[1] / seconds[0]) / log(10)
    with capsys.disabled():
        print(
            f"\n{kind}: {seconds[0] * 1e3:.0f} ms, {seconds[1] * 1e3:.0f} ms of ten times as many, "
            f"e {exponent:.2f}"
        )
    assert exponent <= 1.1
