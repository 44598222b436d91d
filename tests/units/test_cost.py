"""Units cost time in proportion to their entries, however many calls one answer makes."""

import sys

import pytest

from kaosmem import ChatMessage, SessionMemory, ToolResultBlock, ToolUseBlock
from kaosmem.compaction.outline import Outline
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationMemory,
    ConversationView,
    ObservationEvent,
)
from kaosmem.conversation.outline import ViewOutline
from kaosmem.units import Link, Units


def steps(action):
    """Return how many instructions of Python an action executes."""
    count = 0

    def trace(frame, event, _arg):
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def one_batch(calls):
    """Return an answer of an entry for each call, and as many results."""
    return [
        *(Link((str(at),), served=("p",), role="assistant") for at in range(calls)),
        *(Link(answers=(str(at),), role="tool") for at in range(calls)),
    ]


def results_in_twos(calls):
    """Return an answer of an entry for each call, and entries of two results."""
    names = [str(at) for at in range(calls)]
    twos = zip(names[::2], names[1::2], strict=True)
    asked = [Link((name,), served=("p",), role="assistant") for name in names]
    return [*asked, *(Link(answers=two, role="tool") for two in twos)]


def one_message(calls):
    """Return a message that makes all calls, and a result for each."""
    names = tuple(str(at) for at in range(calls))
    return [Link(names, role="assistant"), *(Link(answers=(name,), role="tool") for name in names)]


def one_id(calls):
    """Return calls that share an id, and a result for each."""
    return [
        *[Link(("a",), role="assistant")] * calls,
        *[Link(answers=("a",), role="tool")] * calls,
    ]


def add(links):
    units = Units()
    for ordinal, link in enumerate(links):
        units.add(ordinal, link)
    assert not units.awaited
    everything = range(len(links))
    list(units.of(everything))
    Units.restore(zip(everything, links, units.firsts(everything), strict=True), asking=None)
    units.remove(everything)


def add_events(calls, *, answered):
    """Make a view of an answer with so many calls, all that is made of it, and condense it."""
    uses = [ToolUseBlock(str(at), "find") for at in range(calls)]
    events = [ActionEvent("tool_call", "", use, "r", id=at) for at, use in enumerate(uses)]
    view = ConversationView(events)
    for use in uses[: calls if answered else 0]:
        view.append(ObservationEvent("result", "found", use.id, id=len(view)))
    assert len(view.cuts_from(0)) == 2
    assert len(ViewOutline(view).protected) == len(view)
    ConversationMemory().process_events(view)
    view.append(Condensation(tuple(event.id for event in view), id=len(view)))
    assert not len(view)


def add_items(calls):
    memory = SessionMemory.test_mode()
    uses = [ToolUseBlock(str(at), "find") for at in range(calls)]
    memory.add("messages", uses, role="assistant")
    for use in uses:
        memory.add("messages", [ToolResultBlock(use.id, "found")], role="tool")


def outline(calls):
    uses = [ToolUseBlock(str(at), "find") for at in range(calls)]
    results = [ChatMessage("tool", (ToolResultBlock(use.id, "found"),)) for use in uses]
    made = Outline([ChatMessage("assistant", tuple(uses)), *results])
    assert len(made.protected) == len(made.messages)
    assert len(made.cuts_beside(())) == 2


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(lambda calls: add(one_batch(calls)), id="a batch"),
        pytest.param(lambda calls: add(results_in_twos(calls)), id="results in twos"),
        pytest.param(lambda calls: add(one_message(calls)), id="one message"),
        pytest.param(lambda calls: add(one_id(calls)), id="one id"),
        pytest.param(lambda calls: add_events(calls, answered=True), id="events"),
        pytest.param(lambda calls: add_events(calls, answered=False), id="events without results"),
        pytest.param(add_items, id="items"),
        pytest.param(outline, id="messages"),
    ],
)
def test_twice_as_many_calls_in_one_answer_take_twice_as_many_steps(action):
    """Nothing is looked at again for each call or result of its answer."""
    # What is made once is made then. Python 3.13 counts a function from its second tracing on.
    steps(lambda: action(4))
    few = steps(lambda: action(100))
    assert steps(lambda: action(200)) <= 2.1 * few
