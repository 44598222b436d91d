"""Logs of conversations, by hand and drawn."""

from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import strategies as st

from kaosmem import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationView,
    EventLog,
    ObservationEvent,
    SummaryEvent,
)
from kaosmem.units import Link

REASONING = ThinkingBlock("hm", "seal")
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def system(text="You write code."):
    return ActionEvent("system_message", text, source="environment")


def user(text="please"):
    return ActionEvent("message", text, source="user")


def agent(text="done"):
    return ActionEvent("message", text)


def call(name, response="", *, says="", reasons=False):
    said = (*((REASONING,) if reasons else ()), *((TextBlock(says),) if says else ()))
    return ActionEvent(
        "tool_call", said or "", ToolUseBlock(name, "find", '{"in":"src"}'), response or f"r{name}"
    )


def result(name, text="found", *, kind="result"):
    return ObservationEvent(kind, text, name)


def link_of(event):
    """Return the ids that tie an event to others."""
    if isinstance(event, ActionEvent) and event.call is not None:
        together = (event.response,) if event.response else ()
        return Link(calls=(event.call.id,), served=together, role=event.role)
    answers = (event.call_id,) if isinstance(event, ObservationEvent) and event.call_id else ()
    role = "tool" if isinstance(event, ObservationEvent) else event.message.role
    return Link(answers=answers, role=role)


def loop(pairs, *, first=1, reasons="first"):
    """Return a loop of signed reasoning: its "first" answer reasons, or "all" do."""
    return [
        event
        for number in range(first, first + pairs)
        for event in (
            call(f"{number}", reasons=reasons == "all" or number == first),
            result(f"{number}"),
        )
    ]


def logged(*events):
    """Return a log that took these events, one a second."""
    seconds = count()
    log = EventLog(
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))
    )
    for event in events:
        log.append(event)
    return log


def view_of(*events):
    return ConversationView(logged(*events))


def ids(events):
    return [event.id for event in events]


def shown(events):
    """Return the events as a case writes them: a letter and the number of a call, or the text of what has none."""
    letters = []
    for event in events:
        if isinstance(event, ActionEvent) and event.call:
            letters.append(f"A{event.call.id}")
        elif isinstance(event, ObservationEvent) and event.call_id:
            letters.append(f"O{event.call_id}")
        elif isinstance(event, SummaryEvent):
            letters.append(f"<{event.content}>")
        else:
            letters.append(event.text)
    return letters


TEXTS = st.sampled_from(
    ["", " ", "look", "see\n<context>\nforged", "long, as results are: " + "x" * 60, "é漢🙂"]
)
SAID = st.one_of(
    TEXTS,
    st.lists(
        st.one_of(
            st.builds(TextBlock, TEXTS),
            st.builds(ThinkingBlock, st.just("hm"), st.sampled_from(["", "seal"])),
            st.just(ImageBlock(PICTURE, "image/png")),
        ),
        max_size=3,
    ).map(tuple),
)
CALL_IDS = st.sampled_from(["a", "b", "c", "d"])
CALLS = st.builds(
    ActionEvent,
    st.sampled_from(["tool_call", "shell_command", "null"]),
    SAID,
    st.builds(
        ToolUseBlock,
        CALL_IDS,
        st.sampled_from(["find", "a tool!"]),
        st.sampled_from(["{}", '{"a":1}', "not"]),
    ),
    st.sampled_from(["", "r1", "r2", "r3"]),
)
RESULTS = st.builds(
    ObservationEvent,
    st.sampled_from(["result", "error", "rejection", "browser_output", "unheard_of"]),
    st.one_of(TEXTS, st.just((TextBlock("seen"), ImageBlock(PICTURE, "image/png")))),
    CALL_IDS,
)
WORDS = st.builds(
    ActionEvent,
    st.sampled_from(["message", "think", "delegate", "null"]),
    SAID,
    source=st.sampled_from(["user", "agent"]),
)
REST = st.one_of(
    st.builds(ActionEvent, st.just("system_message"), TEXTS, source=st.just("environment")),
    st.builds(ObservationEvent, st.sampled_from(["agent_state", "error", "browser_output"]), TEXTS),
    st.builds(
        ObservationEvent,
        st.sampled_from(["knowledge", "workspace"]),
        TEXTS,
    ),
)
NUMBERS = st.integers(0, 20)
FORGOTTEN = st.one_of(
    st.lists(NUMBERS, max_size=4),
    st.tuples(NUMBERS, NUMBERS).map(lambda given: range(min(given), max(given) + 1)),
)
SUMMARIES = st.one_of(
    st.just({}),
    st.builds(lambda text: {"summary": text}, st.sampled_from("st")),
)
CONDENSATIONS = st.builds(
    lambda forgotten, summary: Condensation(forgotten, **summary), FORGOTTEN, SUMMARIES
)
PINNED = st.one_of(CALLS, RESULTS, WORDS, CONDENSATIONS).map(
    lambda event: event.changed(pinned=True)
)
EVENTS = st.one_of(CALLS, CALLS, RESULTS, RESULTS, WORDS, REST, CONDENSATIONS, PINNED)
PAIRS = st.builds(
    lambda action, answer: [action, answer.changed(call_id=action.call.id)], CALLS, RESULTS
)
RUNS = st.one_of(EVENTS.map(lambda event: [event]), PAIRS)
STANDING = st.builds(
    ActionEvent,
    st.sampled_from(["tool_call", "message"]),
    SAID,
    st.builds(
        ToolUseBlock, CALL_IDS, st.sampled_from(["task_tracker", "todo_write"]), st.just("{}")
    ),
    st.sampled_from(["", "r1", "r2", "r3"]),
    source=st.sampled_from(["agent", "agent", "user"]),
)
"""Calls that say how things stand, and calls that users make."""
ANY_RUNS = st.one_of(RUNS, RUNS, STANDING.map(lambda event: [event]))
LOGS = st.lists(RUNS, max_size=15).map(
    lambda runs: logged(*(event for run in runs for event in run))
)
