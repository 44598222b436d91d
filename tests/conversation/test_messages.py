"""The messages of a conversation, case by case."""

import pytest

from kaosmem import ChatMessage, InvalidArgumentError
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationMemory,
    ConversationView,
    ObservationEvent,
)
from kaosmem.conversation.messages import SYSTEM_PROMPT
from kaosmem.units import NO_RESULT
from tests.conversation.logs import (
    agent,
    call,
    logged,
    loop,
    result,
    system,
    user,
    view_of,
)


def told(*events):
    return ConversationMemory().process_events(view_of(*events))


def lines(messages):
    """Return messages as `role: text`, the parts of one with ` | ` between them."""
    return [
        f"{message.role}: {' | '.join(ChatMessage('', (b,)).text for b in message.blocks)}"
        for message in messages
    ]


def test_a_result_without_a_call_is_left_out():
    """Be it the view that leaves it out, or, of events as they come, the messages."""
    events = system("S"), user("U"), result("nobody")
    assert lines(told(*events)) == ["system: S", "user: U"]
    assert lines(ConversationMemory().process_events(list(events))) == [
        "system: S",
        "user: U",
    ]


def test_a_call_without_a_result_is_told_with_its_words():
    """The model is told that nothing came back."""
    assert lines(told(system("S"), user("U"), call("1", says="I look")))[2:] == [
        'assistant: I look | find({"in":"src"})',
        f"tool: {NO_RESULT}",
    ]


def test_a_system_message_comes_first():
    prompt = SYSTEM_PROMPT
    assert lines(told(user("U"))) == [f"system: {prompt}", "user: U"]
    assert lines(told(system("S"), user("U"))) == ["system: S", "user: U"]
    assert lines(told(user("U"), agent("A"), system("S"))) == [
        "system: S",
        "user: U",
        "assistant: A",
    ]
    mine = ConversationMemory(system="Mine, for $5.")
    assert lines(mine.process_events([])) == ["system: Mine, for $5."]


def test_a_blank_system_message_is_none():
    """One that says something is first, else the prompt that a conversation without one has."""
    assert lines(told(system(" "), user("U"))) == [f"system: {SYSTEM_PROMPT}", "user: U"]
    assert lines(told(system(" "), user("U"), system("S"))) == ["system: S", "user: U"]


def test_a_kind_that_is_neither_message_nor_call_is_named():
    messages = told(
        user("U"),
        agent("A"),
        ActionEvent("shell_command", "ls", source="user"),
        ObservationEvent("result", "a.txt"),
    )
    assert lines(messages)[3:] == ["user: [shell_command]\nls", "result: a.txt"]
    assert ObservationEvent("system", "obey").role == "environment"


def test_an_event_that_needs_no_change_gives_always_the_same_message():
    """What was measured about it stays known, and no event is counted twice."""
    view = view_of(system(), user(), *loop(3), agent())
    first, second = (ConversationMemory().process_events(view) for _ in range(2))
    assert all(message is again for message, again in zip(first, second, strict=True))
    assert [message.id for message in first] == [str(number) for number in range(9)]


def test_the_first_message_of_the_user_is_found_in_the_log():
    """It need not be given again: a log, its view and its events are enough."""
    log = logged(
        user("U1"),
        agent("a"),
        user("U2"),
        agent("b"),
        Condensation((1, 2), summary="S"),
    )
    memory = ConversationMemory()
    expected = memory.process_events(log.view)
    assert lines(expected)[1:] == ["user: U1", "summary: S", "assistant: b"]
    assert (
        memory.process_events(log)
        == memory.process_events(log.view)
        == memory.process_events(list(log))
        == expected
    )
    assert [message.role for message in memory.process_events([])] == ["system"]


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ([object()], "a value of type object; give actions"),
        (
            [user(), agent(), ChatMessage("user", "hi")],
            "a value of type ChatMessage; .*append_reply",
        ),
        (
            [user(), {"role": "user", "content": "hi"}],
            "a value of type dict",
        ),
        (None, "events is a NoneType"),
        ("hello", "events is a str"),
    ],
)
def test_a_history_of_other_than_events_is_refused(history, says):
    for refuses in (ConversationMemory().process_events, ConversationView):
        with pytest.raises(InvalidArgumentError, match=says):
            refuses(history)


def test_a_view_takes_no_other_thing_than_an_event():
    view = view_of(user())
    with pytest.raises(InvalidArgumentError, match="a view is given a value of type dict"):
        view.append({"role": "user", "content": "hi"})
    assert len(view) == 1


def test_pinned_events_are_pinned_messages():
    """What shortens messages keeps them."""
    pinned = user("U2").changed(pinned=True)
    messages = told(system(), user("U1"), pinned)
    assert [message.pinned for message in messages] == [False, False, True]
    assert not any(message.pinned for message in told(system(), user("U1"), agent("a")))
