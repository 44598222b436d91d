"""Events and their log: what is taken, what is refused, and that nothing of what was said shows in errors."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import hypothesis
import pytest

from kaosmem import (
    InvalidArgumentError,
    NotFoundError,
    TextBlock,
    ToolResultBlock,
)
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationEvent,
    EventLog,
    ObservationEvent,
    SummaryEvent,
)
from kaosmem.conversation.log import event_json, event_of
from tests.conversation.logs import LOGS, call, ids, logged, result, system, user

SECRET = "the password is hunter2"


def test_a_log_gives_ids_that_ascend_and_times():
    log = logged(user("a"), user("b"))
    assert ids(log) == [0, 1]
    assert log[0].timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert log.get(1).text == "b"
    assert [event.text for event in log[1:]] == ["b"]
    with pytest.raises(NotFoundError, match="no event 2"):
        log.get(2)


def test_a_log_goes_on_after_the_last_id_that_it_was_read_with():
    """An id that a log has lost is not given again while a later one is there."""
    log = EventLog([logged(user(), user(), user())[2]])
    assert log.append(user()).id == 3
    assert log.get(3) is log[1]
    with pytest.raises(NotFoundError):
        log.get(0)


def test_a_log_takes_new_events_alone():
    log = logged(user())
    with pytest.raises(InvalidArgumentError, match="in a log already"):
        log.append(log[0])
    with pytest.raises(InvalidArgumentError, match="ascend"):
        EventLog([log[0], log[0]])
    with pytest.raises(InvalidArgumentError, match="no log has taken it yet; append it"):
        EventLog([user()])
    for other in (SummaryEvent("all is well"), ConversationEvent(), "text", None):
        with pytest.raises(InvalidArgumentError, match="a log keeps no"):
            log.append(other)
    assert len(log) == 1
    with pytest.raises(InvalidArgumentError, match="UTC"):
        EventLog(clock=lambda: datetime(2026, 1, 1)).append(user())


def test_a_kind_that_is_not_known_is_kept():
    """A log of somebody's own kinds, or of a later version's, loses nothing."""
    stored = {"type": "action", "id": 3, "source": "agent", "kind": "paint", "content": "blue"}
    assert event_json(event_of(stored)) == stored


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        {"type": "summary", "content": SECRET},
        {"type": "action", "kind": "message", SECRET: 1},
        {"type": "action", "kind": "message", "content": 1},
        {"type": "action", "kind": "message", "content": "\ud800"},
        {
            "type": "action",
            "kind": "message",
            "content": [{"type": "text", "text": SECRET, "more": 1}],
        },
        {"type": "action", "kind": "a\nb"},
        {"type": "action", "kind": "tool_call", "call": {"type": "text", "text": SECRET}},
        {"type": "action", "kind": "message", "id": -2},
        {"type": "action", "kind": "message", "timestamp": "2026-01-01T00:00:00"},
        {
            "type": "observation",
            "kind": "result",
            "content": [{"type": "thinking", "thinking": SECRET}],
        },
        {"type": "condensation"},
        {"type": "condensation", "forgotten_ids": ["1"]},
        {"type": "condensation", "forgotten_ids": [], "summary_offset": 1},
    ],
    ids=lambda stored: json.dumps(stored)[:60],
)
def test_what_is_no_stored_event_is_refused(stored):
    with pytest.raises(InvalidArgumentError) as error:
        event_of(stored)
    assert "hunter2" not in str(error.value).replace(repr(SECRET), "")
    assert error.value.__cause__ is None


def test_a_line_that_is_no_event_is_named_by_its_number():
    lines = [*logged(user()).lines(), "{" + SECRET]
    with pytest.raises(
        InvalidArgumentError, match="line 2 of a log can't be read: it is no JSON"
    ) as error:
        EventLog.from_lines(lines)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"type":"action","id":0,"kind":"message","content":"pay","content":"' + SECRET + '"}',
            "a key twice",
        ),
        ('{"type":"action","id":0,"kind":"message","pinned":NaN}', "NaN is not a number"),
        ('{"type":"action","id":0,"kind":"message","pinned":1e999}', "a number is too large"),
    ],
    ids=["a key twice", "NaN", "too large"],
)
def test_a_line_is_read_as_strictly_as_one_of_a_session(line, reason):
    """Of two values under one key nobody knows which one was meant: other readers take the other."""
    for given in (line, line.encode()):
        with pytest.raises(
            InvalidArgumentError, match=f"line 1 of a log can't be read: .*{reason}"
        ) as error:
            EventLog.from_lines([given])
        assert SECRET not in str(error.value)


def test_a_line_that_goes_too_deep_is_refused_like_any_other():
    with pytest.raises(InvalidArgumentError, match="line 1 of a log can't be read: it is no JSON"):
        EventLog.from_lines(["[" * 100_000])


def test_what_no_event_can_be_is_refused_at_once():
    with pytest.raises(InvalidArgumentError, match="give them as its call or call_id"):
        ActionEvent("message", [ToolResultBlock("1", "x")])
    with pytest.raises(InvalidArgumentError, match="ToolUseBlock"):
        ActionEvent("tool_call", "", TextBlock("find"))
    with pytest.raises(InvalidArgumentError, match="aware"):
        ActionEvent("message", timestamp=datetime(2026, 1, 1))
    for given in (5, ["1"], "12"):
        with pytest.raises(InvalidArgumentError, match="whole numbers"):
            Condensation(given)
    with pytest.raises(InvalidArgumentError, match="blank"):
        Condensation((), summary=" ")


def test_nothing_that_was_said_shows_in_a_repr():
    summary = SummaryEvent(SECRET, id=7)
    events = (
        user(SECRET),
        result("1", SECRET),
        Condensation((1,), summary=SECRET),
        summary,
    )
    assert "hunter2" not in "".join(map(repr, events))
    assert repr(user("hello")) == "<ActionEvent -1 message, user>"


def test_an_event_is_frozen_and_a_copy_in_a_log_is_another():
    event = call("1")
    message = event.message
    taken = logged(event)[0]
    with pytest.raises(FrozenInstanceError):
        taken.id = 5
    assert (event.id, message.id, taken.message.id) == (-1, "", "0")
    assert taken.message is taken.message


def test_an_event_is_shown_under_the_role_of_who_did_it():
    """Whatever its kind says, no observation is anybody's word."""
    roles = [
        event.message.role
        for event in (system(), user(), call("1"), result("1"), ObservationEvent("error", "x"))
    ]
    assert roles == ["system", "user", "assistant", "tool", "error"]
    assert ActionEvent("message", "x", source="environment").message.role == "environment"
    assert {
        ObservationEvent(kind, "x").message.role for kind in ("user", "assistant", "tool", "paint")
    } == {"environment"}


@hypothesis.given(LOGS)
def test_an_event_is_trusted_as_its_message(log):
    """Told without making the message, which takes longer."""
    for event in (*log, *log.view):
        assert event.authority == event.message.authority
