"""Providers' replies as events: what is appended, and that a reply goes back as it came."""

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ChatMessage, InvalidArgumentError, TextBlock, ToolUseBlock, render_messages
from kaosmem.conversation import ConversationMemory, EventLog, ObservationEvent
from kaosmem.testing import check_anthropic_messages
from tests.conversation.logs import logged, user

if TYPE_CHECKING:
    pass


def said(text):
    return {"type": "text", "text": text}


def called(name, **arguments):
    return {"type": "tool_use", "id": name, "name": "find", "input": arguments}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "seal"}


def anthropic_reply(*content):
    from anthropic.types import Message  # takes seconds, which each process of a run would wait

    usage = {"input_tokens": 1, "output_tokens": 1}
    given = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "usage": usage,
    }
    return Message.model_validate({**given, "stop_reason": "tool_use", "stop_sequence": None})


def openai_message(content, *names):
    function = {"name": "find", "arguments": '{"path": "src"}'}
    calls = [{"id": name, "type": "function", "function": function} for name in names]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def openai_reply(*messages):
    from openai.types.chat import ChatCompletion

    choices = [
        {"index": number, "finish_reason": "stop", "message": message, "logprobs": None}
        for number, message in enumerate(messages)
    ]
    given = {
        "id": "chatcmpl",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": choices,
    }
    return ChatCompletion.model_validate(given)


def answered(log, actions):
    for action in actions:
        if action.call is not None:
            log.append(ObservationEvent("result", "found", action.call.id))


@pytest.mark.parametrize(
    ("reply", "format"),
    [
        pytest.param(openai_message("I look.", "a", "b"), "openai", id="a message of OpenAI"),
        pytest.param(
            lambda: openai_reply(openai_message("I look.", "a", "b")),
            "openai",
            id="a reply of OpenAI",
        ),
        pytest.param(
            lambda: openai_reply(openai_message("I look.", "a", "b")).model_dump(),
            "openai",
            id="its dict",
        ),
        pytest.param(
            lambda: anthropic_reply(said("I look."), called("a"), called("b")),
            "anthropic",
            id="of Anthropic",
        ),
        pytest.param(
            ChatMessage(
                "assistant",
                (TextBlock("I look."), ToolUseBlock("a", "find"), ToolUseBlock("b", "find")),
            ),
            None,
            id="a ChatMessage",
        ),
    ],
)
def test_a_reply_is_an_action_for_each_call(reply, format):
    """The words stand with the first call, and the calls belong to one answer."""
    log = logged(user())
    actions = log.append_reply(reply() if callable(reply) else reply, format=format)
    assert [action.call.id for action in actions if action.call] == ["a", "b"]
    assert [action.content for action in actions] == ["I look.", ""]
    assert actions[0].response == actions[1].response
    assert log[1:] == actions


def test_a_reply_of_words_is_a_message():
    log = logged(user())
    for reply, provider in (
        (openai_message("done"), "openai"),
        (anthropic_reply(said("done")), "anthropic"),
    ):
        (action,) = log.append_reply(reply, format=provider)
        assert (action.kind, action.content, action.source, action.response) == (
            "message",
            "done",
            "agent",
            "",
        )


def test_replies_with_one_id_are_two_answers():
    """A provider that repeats its ids, or gives none, makes no two replies one."""
    log = logged(user())
    for name in "ab":
        answered(log, log.append_reply(anthropic_reply(called(name)), format="anthropic"))
    roles = [message.role for message in ConversationMemory().process_events(log)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


CONTENT = st.lists(st.sampled_from([said("I look."), said("So."), THOUGHT]), max_size=2)
CALLS = st.lists(CONTENT, min_size=1, max_size=3).map(
    lambda parts: [
        block
        for number, part in enumerate(parts)
        for block in (*part, called(f"call-{number}", at=number))
    ]
)


@given(st.lists(CALLS, min_size=1, max_size=3))
def test_a_reply_goes_back_as_it_came(replies):
    """Thinking, words and calls of each reply are sent in their order, unchanged, once they have results."""
    log = EventLog()
    log.append(user())
    sent = []
    for number, blocks in enumerate(replies):
        content = [
            {**block, "id": f"{number}-{block['id']}"} if "id" in block else block
            for block in blocks
        ]
        content.sort(
            key=lambda block: block is not THOUGHT
        )  # as the format sends it: reasoning first
        sent.append(content)
        answered(
            log, log.append_reply({"role": "assistant", "content": content}, format="anthropic")
        )
    messages = render_messages(ConversationMemory().process_events(log), "anthropic").messages
    check_anthropic_messages(messages)
    assert [message["content"] for message in messages if message["role"] == "assistant"] == sent


UNSAYABLE = ToolUseBlock("b", "find", "\ud800")


@pytest.mark.parametrize(
    ("reply", "format", "error", "says"),
    [
        (
            openai_message("hi"),
            None,
            InvalidArgumentError,
            "needs its format=; use one of anthropic",
        ),
        (openai_message("hi"), "cohere", InvalidArgumentError, "no format 'cohere'"),
        (
            {"role": "user", "content": "hi"},
            "openai",
            InvalidArgumentError,
            "not 'user'; append an Action",
        ),
        (
            lambda: openai_reply(),
            "openai",
            InvalidArgumentError,
            "choices of an openai reply are 0",
        ),
        (
            lambda: openai_reply(openai_message("a"), openai_message("b")),
            "openai",
            InvalidArgumentError,
            "choices of an openai reply are 2",
        ),
        (
            lambda: anthropic_reply(called("a"), called("b")).content,
            "anthropic",
            InvalidArgumentError,
            "not a list",
        ),
        (
            ChatMessage("assistant", (ToolUseBlock("a", "find"), UNSAYABLE)),
            None,
            InvalidArgumentError,
            "UTF-8",
        ),
    ],
)
def test_a_reply_that_cannot_be_kept_appends_nothing(reply, format, error, says):
    log = logged(user())
    with pytest.raises(error, match=says):
        log.append_reply(reply() if callable(reply) else reply, format=format)
    assert len(log) == 1


def test_arguments_stay_as_the_model_wrote_them():
    """OpenAI's arguments are a text, which goes back byte for byte."""
    log = logged(user())
    answered(log, log.append_reply(openai_message(None, "a"), format="openai"))
    (message,) = [
        m
        for m in render_messages(ConversationMemory().process_events(log), "openai").messages
        if "tool_calls" in m
    ]
    assert message == openai_message(None, "a")
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"path": "src"}
