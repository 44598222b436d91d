"""Streamed replies are stored as one message; requests and records go out as plain values."""

import json
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from kaosmem import (
    Decision,
    InvalidArgumentError,
    SessionMemory,
    SyncSessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from kaosmem.formats import parse_message
from kaosmem.sections.proposal import Hit
from tests.formats.provider_rules import CHECKS
from tests.lazily import Lazy

anthropic_types = Lazy("anthropic.types")
gemini_types = Lazy("google.genai.types")


STREAMS = json.loads(Path(__file__).with_name("streams.json").read_text())
"""The events of one reply, as each provider sends them."""


@cache
def events_of(name):
    """Return the events of a stream as the SDK of the provider gives them."""
    validated = {
        "anthropic": lambda: TypeAdapter(anthropic_types.RawMessageStreamEvent).validate_python,
        "gemini": lambda: gemini_types.GenerateContentResponse.model_validate,
        "openai": lambda: ChatCompletionChunk.model_validate,
    }
    read = validated.get(name, lambda: lambda event: event)()
    return [read(event) for event in STREAMS[name]]


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_is_stored_as_one_message(name):
    """The pieces of texts and arguments are one message, as the whole reply would be."""
    memory = SessionMemory.test_mode()
    async with memory.collecting(name) as reply:
        for event in events_of(name):
            reply.add(event)
        assert len(memory["messages"]) == 0
    (item,) = memory["messages"]
    assert reply.item == item
    assert item.role == "assistant" and not item.metadata
    blocks = [block for block in item.message.blocks if not isinstance(block, ThinkingBlock)]
    text, call = blocks
    assert isinstance(text, TextBlock) and text.text == "I look."
    assert isinstance(call, ToolUseBlock)
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "find", {"deal": 7})
    if name == "anthropic":
        assert item.message.blocks[0] == ThinkingBlock("hm", "seal")


@pytest.mark.parametrize("name", STREAMS)
async def test_an_interrupted_stream_stores_what_came(name):
    """At each place, by an error: the message is marked, its request obeys, and no call is cut."""
    for end in range(len(events_of(name))):
        memory = SessionMemory.test_mode()
        memory.add("messages", "Who?", role="user")
        with pytest.raises(ConnectionError):
            async with memory.collecting(name) as reply:
                for event in events_of(name)[:end]:
                    reply.add(event)
                raise ConnectionError
        if reply.item is None:
            assert len(memory["messages"]) == 1
            continue
        assert reply.item.metadata == {"interrupted": True}
        calls = [each for each in reply.item.message.blocks if isinstance(each, ToolUseBlock)]
        assert all(json.loads(call.arguments) == {"deal": 7} for call in calls)
        memory.add("messages", "Go on.", role="user")
        context = await memory.assemble_context(budget=4_000, format=name)
        if name in CHECKS:
            CHECKS[name](context.messages, context.rendered.system or "")
    assert reply.item is not None


def test_a_stream_is_collected_without_async():
    """The synchronous memory collects in the caller's thread."""
    with SyncSessionMemory.test_mode() as memory:
        with memory.collecting("openai") as reply:
            reply.add(events_of("openai")[0])
        assert reply.item is not None and reply.item.metadata == {"interrupted": True}


async def test_other_streams_are_refused():
    """A format without streams, an event that is no dict, and a second choice name what to give."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match="no streams in format 'text'"):
        async with memory.collecting("text"):
            pass
    with pytest.raises(InvalidArgumentError, match="an event of a stream"):
        async with memory.collecting("openai") as reply:
            reply.add("Ann")
    assert reply.item is None
    for provider, several in (("openai", "choices"), ("gemini", "candidates")):
        with pytest.raises(InvalidArgumentError, match=f"several {several}"):
            async with memory.collecting(provider) as reply:
                reply.add({several: [{"index": 1, "delta": {"content": "Bob"}}]})
    assert reply.item is None


@pytest.mark.parametrize(("name", "other"), list(permutations(STREAMS, 2)))
async def test_a_stream_of_another_format_is_refused(name, other):
    """It would be taken for an empty reply. The error names the format that it has."""
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError, match=f"format '{other}'"):
        async with memory.collecting(name) as reply:
            for event in events_of(other):
                reply.add(event)
    assert reply.item is None


async def test_a_whole_reply_is_no_event():
    """A server that streams nothing sends a message, which would be lost."""
    memory = SessionMemory.test_mode()
    message = {"role": "assistant", "content": "Ann owns it."}
    with pytest.raises(InvalidArgumentError, match="add_message"):
        async with memory.collecting("openai") as reply:
            reply.add({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("anthropic", {"system", "messages", "tools"}),
        ("bedrock", {"system", "messages", "toolConfig"}),
        ("gemini", {"contents", "config"}),
        ("openai", {"messages", "tools"}),
        ("openai-responses", {"input", "tools"}),
    ],
)
async def test_a_request_has_the_arguments_of_the_sdk(name, fields):
    """Messages, system prompt and tools under the SDK's names; marks change no message of the context."""
    memory = SessionMemory.test_mode()
    tools = memory.tools(name)
    marked = []
    for turn in range(4):
        memory.add("messages", f"question {turn}", role="user")
        context = await memory.assemble_context(
            budget=9_000, format=name, window="main", system="Be brief.", tools=tools
        )
        memory.add("messages", f"answer {turn}", role="assistant")
        plain = json.dumps(context.messages)
        request = context.render(cache=True)
        assert request.keys() == fields
        assert json.dumps(context.messages) == plain
        assert context.render().keys() == fields
        marked.append(
            json.dumps(request).count("cache_control") + json.dumps(request).count("cachePoint")
        )
        if name == "bedrock":
            CHECKS["bedrock"](request["messages"])
        if name in ("anthropic", "bedrock"):
            sent = [parse_message(message, name) for message in request["messages"]]
            assert sent == [parse_message(message, name) for message in context.messages]
    assert max(marked) == (4 if name in ("anthropic", "bedrock") else 0)
    own = {"anthropic": [{**tools[0], "cache_control": {}}], "bedrock": [{"cachePoint": {}}]}
    again = await memory.assemble_context(
        budget=9_000, format=name, window="main", system="Be brief.", tools=own.get(name, tools)
    )
    request = json.dumps(again.render(cache=True))
    assert request.count("cache_control") + request.count("cachePoint") == max(marked)
    text = await memory.assemble_context(budget=500, system="Be brief.")
    assert text.render() == {"prompt": text.text}


async def test_hits_and_decisions_are_plain_values_and_back():
    """JSON and back gives an equal hit and decision, with their items; other values are refused."""
    memory = SessionMemory.test_mode()
    memory.add_many("findings", [f"Room {n} costs {n} euros." for n in range(40)])
    hits = memory.search("What does room 7 cost?")
    assert [Hit.from_dict(json.loads(json.dumps(hit.to_dict()))) for hit in hits] == hits
    context = await memory.assemble_context("What does room 7 cost?", budget=120)
    for decision in context.decisions:
        again = Decision.from_dict(json.loads(json.dumps(decision.to_dict())))
        assert again == decision and again.item == decision.item
        assert again.why == decision.why
    for kind in (Hit, Decision):
        for stored in ({}, {"item": {}}):
            with pytest.raises(InvalidArgumentError):
                kind.from_dict(stored)
