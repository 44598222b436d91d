"""What a view and its messages cost beside those of openhands-sdk, of the same log in the same run.

CPU seconds, the least of several runs, as in `bench_conversation`. openhands-sdk needs Python 3.12,
so it is part of no
extra: install it to run this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from benchmarks.bench_conversation import conversation, least, messages_s
from kaosmem import TextBlock, ThinkingBlock
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationEvent,
    ConversationMemory,
    ConversationView,
    EventLog,
    ObservationEvent,
)

LENGTH = 10_000
KINDS = "plain", "thinking", "condensed"
MOST = 1.1
"""How much longer ours may take: runs differ by a tenth."""


def openhands_events(log: EventLog) -> list[Any]:
    """Return the events of a log as those of openhands-sdk."""
    from openhands.sdk import event as theirs

    names = {
        each.call.id: each.call.name
        for each in log
        if isinstance(each, ActionEvent) and each.call is not None
    }
    events: list[Any] = []
    for each in log:
        if isinstance(each, ActionEvent):
            events.append(_action(each))
        elif isinstance(each, ObservationEvent):
            given = {"tool_name": names[each.call_id], "tool_call_id": each.call_id}
            events.append(theirs.AgentErrorEvent(id=_id(each), error=each.text, **given))
        elif isinstance(each, Condensation):
            ids = {_shown_id(log, event_id) for event_id in each.forgotten_ids}
            given = {"summary": each.summary, "summary_offset": 0}
            events.append(
                theirs.Condensation(
                    id=_id(each), forgotten_event_ids=ids, llm_response_id="condenser", **given
                )
            )
    return events


def _action(action: ActionEvent) -> Any:
    from openhands.sdk import event as theirs
    from openhands.sdk import llm

    texts = [
        llm.TextContent(text=block.text)
        for block in _blocks(action)
        if isinstance(block, TextBlock)
    ]
    call = action.call
    if call is None:
        message = llm.Message(role=action.role, content=[llm.TextContent(text=action.text)])
        return theirs.MessageEvent(
            id=_id(action), source="user" if action.role == "user" else "agent", llm_message=message
        )
    thinking = [
        llm.ThinkingBlock(thinking=block.thinking, signature=block.signature)
        for block in _blocks(action)
        if isinstance(block, ThinkingBlock)
    ]
    return theirs.ActionEvent(
        id=_id(action),
        thought=texts,
        thinking_blocks=thinking,
        tool_name=call.name,
        tool_call_id=call.id,
        tool_call=llm.MessageToolCall(
            id=call.id, name=call.name, arguments=call.arguments, origin="completion"
        ),
        llm_response_id=action.response or _id(action),
    )


def _blocks(action: ActionEvent) -> Iterable[object]:
    return () if isinstance(action.content, str) else action.content


def _id(event: ConversationEvent) -> str:
    return f"event-{event.id}"


def _shown_id(log: EventLog, event_id: int) -> str:
    """Return the id under which a view of theirs shows an event, or the summary of a condensation."""
    event = log.get(event_id)
    return f"{_id(event)}-summary" if isinstance(event, Condensation) else _id(event)


@pytest.mark.timed
@pytest.mark.parametrize("kind", KINDS)
def test_views_and_messages_beside_openhands(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours take no longer, of a view made anew and of the first messages of its events."""
    theirs = pytest.importorskip(
        "openhands.sdk.context.view", reason="openhands-sdk is not installed"
    )
    from openhands.sdk.event import LLMConvertibleEvent

    log = conversation(LENGTH, kind)
    events = list(log)
    their_events = openhands_events(log)
    view = ConversationView(events)
    their_view = theirs.View.from_events(their_events)
    assert len(view) == len(their_view)
    assert len(ConversationMemory().process_events(view)) > 1
    rows = {
        "view": (
            least(lambda: len(ConversationView(events))),
            least(lambda: len(theirs.View.from_events(their_events))),
        ),
        "messages": (
            min(messages_s(events) for _ in range(3)),
            least(lambda: LLMConvertibleEvent.events_to_messages(their_view.events)),
        ),
    }
    with capsys.disabled():
        for name, (ours, other) in rows.items():
            figures = f"kaosmem {ours * 1e3:8.1f} ms, openhands-sdk {other * 1e3:8.1f} ms, x {ours / other:.2f}"
            print(f"\n{kind}, {LENGTH:,} events, {name:<9}{figures}", end="")
    assert all(ours <= MOST * other for ours, other in rows.values())
