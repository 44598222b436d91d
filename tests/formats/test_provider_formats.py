"""Responses, Gemini and Converse: requests that the SDKs take, and messages that come back as they went."""

import asyncio
import json
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseReasoningItem

from kaosmem import (
    ChatMessage,
    InvalidArgumentError,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.arguments import json_text
from kaosmem.formats import HistoryPart, Layout, count_messages, get_format, parse_message
from kaosmem.formats.gemini import UNCHECKED
from kaosmem.types.content import ImageBlock, OpaqueBlock
from tests.formats.any_layout import AnyLayout
from tests.formats.checked import check_context
from tests.formats.drawn import (
    CALL_LISTS,
    NAMES,
    PNG,
    REPRESENTABLE,
    ROLES,
    SPOKEN,
    TEXTS,
    several,
)
from tests.formats.provider_rules import CHECKS
from tests.lazily import Lazy

types = Lazy("google.genai.types")

FORMATS = sorted(CHECKS)
SIGNATURES = st.binary(min_size=1, max_size=9).map(lambda data: b64encode(data).decode())
ENCRYPTED = st.builds(
    lambda thinking, data, number: ThinkingBlock(
        thinking, data=data, provider="openai-responses", extra=json_text({"id": f"rs_{number}"})
    ),
    st.just("") | SPOKEN,
    SIGNATURES,
    st.integers(0, 99),
)
THOUGHTS = {
    "bedrock": st.builds(ThinkingBlock, SPOKEN, NAMES, provider=st.just("bedrock"))
    | st.builds(lambda data: ThinkingBlock("", data=data, provider="bedrock"), SIGNATURES),
    "gemini": st.builds(ThinkingBlock, SPOKEN, SIGNATURES, provider=st.just("gemini")),
    "openai-responses": ENCRYPTED,
}
SERVED = {
    "bedrock": {"document": {"name": "lease", "source": {"s3Location": {"uri": "s3://bucket1/l"}}}},
    "gemini": {"executableCode": {"language": "PYTHON", "code": "1+1"}},
    "openai-responses": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "fee"},
    },
}


def served(name):
    part = SERVED[name]
    kind = part.get("type") or next(iter(part))
    return OpaqueBlock(name, kind, json_text(part))


def signed(name, calls):
    """Return calls as the provider makes them: Gemini signs the first."""
    if name != "gemini":
        return calls
    first = replace(calls[0], extra='{"thoughtSignature":"c2VhbA=="}')
    return [replace(call, name=f"f{call.name}") for call in (first, *calls[1:])]


def signed_text(name):
    """Draw a text with the field that its provider wants back."""
    extra = {
        "gemini": '{"thoughtSignature":"c2VhbA=="}',
        "openai-responses": '{"phase":"commentary"}',
    }
    return st.builds(TextBlock, SPOKEN, extra=st.just(extra[name]))


def messages_of(name):
    """Draw messages that a format can hold in full."""
    images = [ImageBlock(PNG, "image/png", "auto" if name == "openai-responses" else "")]
    thoughts = THOUGHTS[name]
    lone = SPOKEN if name == "bedrock" else st.tuples(signed_text(name))

    def reply(parts):
        thinking, text, calls, is_served = parts
        own = [served(name)] if is_served else []
        return ChatMessage("assistant", (*thinking, *own, text, *signed(name, calls)))

    def result(parts):
        call_id, content, is_error, tool = parts
        is_error = is_error and name != "openai-responses"
        tool = f"f{tool}" if name == "gemini" else ""
        return ChatMessage("tool", (ToolResultBlock(call_id, content, is_error, name=tool),))

    return st.one_of(
        st.builds(ChatMessage, st.sampled_from(["user", "assistant"]) | ROLES, SPOKEN),
        st.builds(ChatMessage, st.just("assistant"), lone),
        st.builds(ChatMessage, st.just("user"), several(TEXTS, st.sampled_from(images))),
        st.tuples(st.lists(thoughts, max_size=2), TEXTS, CALL_LISTS, st.booleans()).map(reply),
        st.tuples(NAMES, SPOKEN, st.booleans(), NAMES).map(result),
        st.tuples(NAMES, st.tuples(TEXTS, st.sampled_from(images)), st.just(False), NAMES).map(
            result
        ),
    )


def sent(message, name):
    """Return what a format sends for one message after one of the other speaker."""
    role = "user" if message.role == "assistant" else "assistant"
    before = ChatMessage(role, "hello")
    entries = HistoryPart("messages", (before, message))
    rendered = get_format(name).render(Layout((), (entries,), ()))
    alone = get_format(name).render(Layout((), (HistoryPart("messages", (before,)),), ()))
    return (rendered.messages or [])[len(alone.messages or []) :]


@pytest.mark.parametrize("name", [*REPRESENTABLE, *FORMATS])
@given(st.data())
def test_messages_go_out_and_in_unchanged(name, data):
    """A message that a provider can hold in full comes back as it was, and goes out again as it came."""
    message = data.draw(REPRESENTABLE[name] if name in REPRESENTABLE else messages_of(name))
    items = sent(message, name)
    given_back = items if name == "openai-responses" else items[0]
    parsed = parse_message(given_back, name)
    assert parsed == message
    assert sent(parsed, name) == items


def test_arguments_of_a_call_hold_integers_of_any_usual_size():
    """A provider that gives the arguments as an object may give an id of 80 bits. One of 20,000 bits is refused."""
    call = {"functionCall": {"name": "f", "args": {"id": 1 << 80}}}
    parsed = parse_message({"role": "model", "parts": [call]}, "gemini")
    assert sent(parsed, "gemini")[0]["parts"][0]["functionCall"]["args"] == {"id": 1 << 80}
    call["functionCall"]["args"]["id"] = 1 << 20_000
    with pytest.raises(InvalidArgumentError, match="4300 digits"):
        parse_message({"role": "model", "parts": [call]}, "gemini")


@pytest.mark.parametrize("name", ["anthropic", "openai", *FORMATS])
def test_a_providers_state_reaches_no_other(name):
    """Reasoning and parts of four providers: each sees its own, counted, and notes for parts of others."""
    thoughts = [ThinkingBlock("hm", "c2VhbC1h", provider="anthropic")]
    for provider in FORMATS:
        seal = f"c2VhbC1{provider[0]}"
        data = seal if provider == "openai-responses" else ""
        thoughts.append(ThinkingBlock("hm", seal, data, provider=provider))
    parts = [served(provider) for provider in FORMATS]
    message = ChatMessage("assistant", (*thoughts, *parts, TextBlock("Found.")))
    text = json.dumps(sent(message, name))
    for thought in thoughts:
        assert (thought.signature in text) is (thought.provider == name)
    for part in parts:
        note = f"for {part.provider} alone]"
        assert (note in text) is (part.provider != name)
    without = ChatMessage("assistant", (*parts, TextBlock("Found.")))
    count = count_messages(sent(message, name), name)
    has_own = any(thought.provider == name for thought in thoughts)
    assert (count > count_messages(sent(without, name), name)) is has_own


def test_a_reply_of_the_responses_api_is_one_message():
    """A reply, an object of the SDK, is one stored message of several items, and goes back item by item."""
    output = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "First."},
                {"type": "summary_text", "text": "Then."},
            ],
            "encrypted_content": "c2VhbA==",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "shell", "input": "ls"},
    ]
    reply = Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "gpt-5.5",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    memory = SessionMemory.test_mode()
    item = memory.add_message(reply, format="openai-responses")
    assert [block.type for block in item.message.blocks] == ["thinking"] + ["text"] + 2 * [
        "tool_use"
    ]
    memory.add_message(
        {"type": "function_call_output", "call_id": "c1", "output": "Ann."},
        format="openai-responses",
    )
    memory.add_message(ChatMessage("tool", (ToolResultBlock("c2", "a.txt"),)))
    items = sent_of(memory, "openai-responses")
    assert items[1:] == [
        output[0],
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        output[2],
        output[3],
        {"type": "function_call_output", "call_id": "c1", "output": "Ann."},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "a.txt"},
    ]
    custom = sent_of(memory, "openai")[1]["tool_calls"][1]
    assert custom["type"] == "custom" and custom["custom"]["input"] == "ls"


def sent_of(memory, name):
    memory.add("messages", "Go on.", role="user")
    context = asyncio.run(memory.assemble_context(budget=10_000, format=name))
    *messages, _ = context.messages
    first = {"role": "user", "content": "?"}
    return messages if messages[0].get("role") == "user" else [first, *messages]


async def test_a_list_of_items_is_synced_message_by_message():
    """Items of one reply are one message; the list is known again; a call stays with its result."""
    memory = SessionMemory.test_mode()
    items = [{"role": "user", "content": "Who owns it?"}]
    assert len(await memory.sync_messages(items, format="openai-responses")) == 1
    items += [
        ResponseReasoningItem(id="rs_1", type="reasoning", summary=[], encrypted_content="c2Vh"),
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Ann."},
        {"role": "assistant", "content": "Ann owns it."},
    ]
    added = await memory.sync_messages(items, format="openai-responses")
    assert [item.role for item in added] == ["assistant", "tool", "assistant"]
    assert await memory.sync_messages(items, format="openai-responses") == []


async def test_a_call_that_the_application_runs_stays_with_its_output():
    """A computer call without its screenshot is a note; with it, both go back as they came."""
    memory = SessionMemory.test_mode()
    call = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "screenshot"},
    }
    output = {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": PNG},
    }
    memory.add("messages", "Look.", role="user")
    memory.add_message(call, format="openai-responses")
    context = await memory.assemble_context(budget=5_000, format="openai-responses")
    assert context.messages[1]["content"] == "[computer_call, whose result is missing]"
    memory.add_message(output, format="openai-responses")
    context = await memory.assemble_context(budget=5_000, format="openai-responses")
    assert context.messages[1:] == [call, output]


async def test_a_foreign_call_is_one_that_gemini_does_not_check():
    """Gemini refuses an unsigned first call; a result has the name of its call, whoever stored it."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Who?", role="user")
    memory.add_message(
        ChatMessage("assistant", (ToolUseBlock("c1", "find"), ToolUseBlock("c2", "read")))
    )
    for call_id in ("c2", "c1"):
        memory.add_message(
            {"role": "tool", "tool_call_id": call_id, "content": call_id}, format="openai"
        )
    context = await memory.assemble_context(budget=5_000, format="gemini")
    check_context(context)
    contents = context.messages
    calls = contents[1]["parts"]
    assert [part.get("thoughtSignature") for part in calls] == [UNCHECKED, None]
    results = contents[2]["parts"]
    assert [part["functionResponse"]["name"] for part in results] == ["find", "read"]


def test_contents_of_the_package_are_read_and_sent_as_they_came():
    """Calls without ids, signatures as bytes, objects as results, the names of dicts and of objects."""
    model = types.Content(
        role="model",
        parts=[
            types.Part(text="Hm.", thought=True),
            types.Part(text="I look.", thought_signature=b"\xfb\xff"),
            types.Part(
                function_call=types.FunctionCall(name="find", args={"snake_case": 1}),
                thought_signature=b"\xfb\xfe",
            ),
            types.Part(function_call=types.FunctionCall(name="find", args={})),
        ],
    )
    answer = {
        "role": "user",
        "parts": [
            {"function_response": {"name": "find", "response": {"some_key": [1]}}},
            {"function_response": {"name": "find", "response": {"error": "gone"}}},
        ],
    }
    history = [ChatMessage("user", "Who?")]
    history += [parse_message(each, "gemini") for each in (model, answer)]
    rendered = get_format("gemini").render(
        Layout((), (HistoryPart("messages", tuple(history)),), ())
    )
    _, called, answered = rendered.messages or []
    assert called["parts"] == [
        {"text": "I look.", "thoughtSignature": "+/8="},
        {
            "functionCall": {"name": "find", "args": {"snake_case": 1}},
            "thoughtSignature": "+/4=",
        },
        {"functionCall": {"name": "find", "args": {}}},
    ]
    assert types.Content.model_validate(called).parts == (model.parts or [])[1:]
    responses = [part["functionResponse"]["response"] for part in answered["parts"]]
    assert responses == [{"some_key": [1]}, {"error": "gone"}]


async def test_bytes_of_converse_are_bytes_again():
    """An image and redacted reasoning come as bytes and go as bytes; a tool's own `bytes` stay text."""
    memory = SessionMemory.test_mode()
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    memory.add_message({"role": "user", "content": [image, {"text": "?"}]}, format="bedrock")
    call = {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"bytes": "AAAA"}}}
    thought = {"reasoningContent": {"redactedContent": b"\x00\x01"}}
    reply = {"output": {"message": {"role": "assistant", "content": [thought, call]}}}
    memory.add_message(reply, format="bedrock")
    result = {"toolResult": {"toolUseId": "c1", "content": [{"json": {"n": 1}}]}}
    memory.add_message({"role": "user", "content": [result]}, format="bedrock")
    context = await memory.assemble_context(budget=5_000, format="bedrock")
    assert [message["content"] for message in context.messages] == [
        [image, {"text": "?"}],
        [thought, call],
        [{"toolResult": {"toolUseId": "c1", "content": [{"text": '{"n":1}'}]}}],
    ]
    check_context(context)


@pytest.mark.parametrize("name", FORMATS)
async def test_windows_only_grow_and_obey(name):
    """Turns with tools, thinking and turns without a reply: each request begins with the one before."""
    memory = SessionMemory.test_mode()
    memory.add("role", "Be brief.")
    thought = replace(ThinkingBlock("hm", "c2VhbA==", provider=name), data="")
    if name == "openai-responses":
        thought = ThinkingBlock("hm", data="c2VhbA==", provider=name, extra='{"id":"rs_1"}')
    before = []
    for turn in range(12):
        memory.add("findings", f"Fact {turn}: the fee of room {turn} is {turn} euros.")
        memory.add("messages", f"What is the fee of room {turn}?", role="user")
        context = await memory.assemble_context(budget=8_000, format=name, window="main")
        messages = context.messages
        assert messages[: len(before)] == before
        check_context(context)
        before = messages
        if turn % 4 == 3:
            continue  # nobody replied
        call = ToolUseBlock(f"c{turn}", "look", {"room": turn})
        memory.add_message(ChatMessage("assistant", (thought, call)))
        memory.add_message(ChatMessage("tool", (ToolResultBlock(f"c{turn}", f"{turn} euros"),)))
    assert context.epoch == 1


@pytest.mark.parametrize(
    ("name", "message", "reason"),
    [
        ("gemini", {"role": "user", "content": "x"}, "parts"),
        ("gemini", {"role": "system", "parts": []}, "role"),
        ("gemini", {"role": "user", "parts": [{}]}, "needs a type"),
        ("bedrock", {"role": "user", "parts": []}, "content"),
        ("bedrock", {"role": "tool", "content": []}, "role"),
        ("bedrock", {"role": "user", "content": [{"toolUse": {"name": "x"}}]}, "'toolUse'"),
        ("openai-responses", {"type": "item_reference", "id": "x"}, "reference"),
        ("openai-responses", {"content": "x"}, "role"),
        ("openai-responses", SimpleNamespace(type="message"), "dict or an object"),
        (
            "openai-responses",
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
            "2 messages",
        ),
    ],
)
def test_other_values_are_refused(name, message, reason):
    """A value that is no message of the format is refused, and the error says what it lacks."""
    with pytest.raises(InvalidArgumentError, match=reason):
        parse_message(message, name)


class TestResponsesFormat(AnyLayout):
    """Input items of the Responses API."""

    examples = 15

    def make(self):
        return get_format("openai-responses")


class TestGeminiFormat(AnyLayout):
    """Contents with parts."""

    examples = 15

    def make(self):
        return get_format("gemini")


class TestBedrockFormat(AnyLayout):
    """Messages of Converse."""

    examples = 15

    def make(self):
        return get_format("bedrock")
