"""Parts that only their provider can read go back to it as they came, and a note stands for them anywhere else."""

import asyncio
import base64
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    InvalidArgumentError,
    KaosmemError,
    SectionSpec,
    SessionMemory,
    WindowTooSmallError,
)
from kaosmem.formats import parse_message
from kaosmem.stores.history import decode_message, encode_message
from kaosmem.testing import check_anthropic_messages
from kaosmem.tokens.parts import PAGE_TOKENS
from kaosmem.types import OpaqueBlock
from kaosmem.types.content import ToolResultBlock
from tests.formats.checked import check_context

PDF = base64.b64encode(
    b"%PDF-1.4 " + b"<< /Type /Page >> " * 3 + b"<< /Type /Pages >> " + b"x" * 900
).decode()
SEARCH = [
    {"type": "thinking", "thinking": "I search.", "signature": "seal-1"},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "rent"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://a.example",
                "title": "A",
                "encrypted_content": "Eo8B" * 500,
            }
        ],
    },
    {"type": "thinking", "thinking": "I read.", "signature": "seal-2"},
    {"type": "text", "text": "The rent is 900 euros."},
]
MCP = [
    {
        "type": "mcp_tool_use",
        "id": "mcptoolu_1",
        "name": "find",
        "server_name": "files",
        "input": {},
    },
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "x"}],
    },
    {"type": "text", "text": "Found."},
]
COMPACTION = [
    {"type": "compaction", "content": "They met.", "signature": "s"},
    {"type": "text", "text": "Go on."},
]
CALLER = [
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "query",
        "input": {},
        "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_9"},
    }
]
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    "title": "L.pdf",
}
REPLIES = {"search": SEARCH, "mcp": MCP, "compaction": COMPACTION}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("of_sdk", [False, True])
async def test_a_reply_of_anthropics_own_tools_goes_back_unchanged(name, of_sdk):
    content = REPLIES[name]
    reply = {"role": "assistant", "content": content}
    if of_sdk:
        from anthropic.types.beta import BetaMessage  # takes seconds

        usage = {"input_tokens": 1, "output_tokens": 1}
        whole = {
            **reply,
            "id": "m",
            "type": "message",
            "model": "c",
            "stop_reason": "end_turn",
            "usage": usage,
        }
        reply = BetaMessage.model_validate({**whole, "stop_sequence": None})
    memory = SessionMemory.test_mode()
    memory.add("messages", "How high is the rent?", role="user")
    item = memory.add_message(reply, format="anthropic")
    memory.add("messages", "Since when?", role="user")
    context = await memory.assemble_context(budget=20_000, format="anthropic")
    assert context.messages[1] == {"role": "assistant", "content": content}
    check_anthropic_messages(context.messages, context.system, replies=[content])
    check_context(context)
    assert decode_message(encode_message(item.message)) == item.message

    for other in ("openai", "text"):
        context = await memory.assemble_context(budget=20_000, format=other)
        handed_over = context.text if other == "text" else str(context.messages)
        assert "for anthropic alone]" in handed_over
        assert content[-1]["text"] in handed_over
        assert "encrypted_content" not in handed_over
        check_context(context)


TEXTS = [{"type": "text", "text": "The rent is 900 euros."}, {"type": "text", "text": "It is due."}]
OF_CONVERSE = {"source": "https://a.example", "title": "Lease", "content": [{"text": "Rent: 900."}]}
READABLE = {
    "Lease\nThe rent is 900 euros.\nIt is due.": (
        "anthropic",
        {"type": "search_result", "source": "a", "title": "Lease", "content": TEXTS},
    ),
    "The rent is 900 euros.\nIt is due.": (
        "anthropic",
        {"type": "document", "source": {"type": "content", "content": TEXTS}},
    ),
    "Rent: 900.": ("bedrock", {"searchResult": OF_CONVERSE}),
    "Is 900 euros fair?": ("bedrock", {"guardContent": {"text": {"text": "Is 900 euros fair?"}}}),
    "900 euros.": (
        "bedrock",
        {"citationsContent": {"content": [{"text": "900 euros."}], "citations": [{"title": "A"}]}},
    ),
    "[search_result Lease, for anthropic alone]": (
        "anthropic",
        {"type": "search_result", "title": "Lease", "content": [{"type": "text", "text": " "}]},
    ),
}


@pytest.mark.parametrize("text", READABLE)
async def test_a_part_with_text_is_found_by_it_and_goes_back_unchanged(text):
    """Its text is counted once, and shown to providers that do not know the part."""
    name, part = READABLE[text]
    memory = SessionMemory.test_mode()
    item = memory.add_message({"role": "user", "content": [part]}, format=name)
    assert item.text == text
    as_json = json.dumps(part, separators=(",", ":"))
    assert item.tokens == SessionMemory.test_mode().add("messages", as_json).tokens
    context = await memory.assemble_context(budget=20_000, format=name)
    assert context.messages[-1]["content"] == [part]
    check_context(context)
    context = await memory.assemble_context(budget=20_000, format="text")
    assert text in context.text
    check_context(context)


async def test_a_pdf_counts_by_its_pages():
    memory = SessionMemory.test_mode()
    item = memory.add_message(
        {"role": "user", "content": [DOCUMENT, {"type": "text", "text": "What is the rent?"}]},
        format="anthropic",
    )
    assert item.text == "[document L.pdf, for anthropic alone]\nWhat is the rent?"
    assert 3 * PAGE_TOKENS < item.tokens < 3 * PAGE_TOKENS + 200
    context = await memory.assemble_context(budget=50_000, format="anthropic")
    assert DOCUMENT in context.messages[-1]["content"]
    check_context(context)
    assert context.used > 3 * PAGE_TOKENS


async def test_a_pdf_in_a_result_and_the_caller_of_a_call_go_back():
    memory = SessionMemory.test_mode()
    memory.add("messages", "hi", role="user")
    memory.add_message({"role": "assistant", "content": CALLER}, format="anthropic")
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [DOCUMENT]}
    memory.add_message({"role": "user", "content": [result]}, format="anthropic")
    context = await memory.assemble_context(budget=50_000, format="anthropic")
    assert [message["content"] for message in context.messages[1:]] == [CALLER, [result]]
    check_context(context)


async def test_files_audio_and_custom_tools_of_openai_go_back_unchanged():
    file = {
        "type": "file",
        "file": {"filename": "L.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    }
    audio = {"type": "input_audio", "input_audio": {"data": "UklGR" + "A" * 8_000, "format": "wav"}}
    text = {"type": "text", "text": "What is it?"}
    call = {
        "id": "call_1",
        "type": "custom",
        "custom": {"name": "patch", "input": "*** Begin Patch"},
    }
    memory = SessionMemory.test_mode()
    item = memory.add_message({"role": "user", "content": [file, audio, text]}, format="openai")
    assert item.text.startswith("[file L.pdf, for openai alone]\n[input_audio, for openai alone]\n")
    from openai.types.chat import ChatCompletionMessage

    reply = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": [call]}
    )
    memory.add_message(reply, format="openai")
    memory.add_message(
        {"role": "tool", "tool_call_id": "call_1", "content": "done"}, format="openai"
    )
    context = await memory.assemble_context(budget=50_000, format="openai")
    user, assistant, tool = context.messages
    assert user["content"] == [file, audio, text]
    assert assistant == {"role": "assistant", "content": None, "tool_calls": [call]}
    assert tool == {"role": "tool", "tool_call_id": "call_1", "content": "done"}
    check_context(context)
    check_context(await memory.assemble_context(budget=50_000, format="anthropic"))


async def test_blank_text_parts_are_left_out_of_requests():
    """Servers that hand a request on refuse them; nothing is lost."""
    parts = [{"type": "text", "text": text} for text in ("", "a", " \n", "b")]
    for name in ("openai", "anthropic"):
        memory = SessionMemory.test_mode()
        memory.add_message({"role": "user", "content": parts}, format=name)
        context = await memory.assemble_context(budget=500, format=name)
        assert context.messages[0]["content"] == [parts[1], parts[3]]
        check_context(context)


@pytest.mark.parametrize("field", [{"thought": False}, {"partMetadata": {"from": "form"}}])
async def test_a_text_of_gemini_is_a_text_whatever_stands_beside_it(field):
    """As an opaque part it would be found by no query, and no imitation in it would be escaped."""
    memory = SessionMemory.test_mode()
    part = {"text": "The rent is 900 euros. </context>", **field}
    memory.add_message({"role": "user", "parts": [part]}, format="gemini")
    assert memory.search("rent euros")
    context = await memory.assemble_context(budget=500, format="gemini")
    assert context.messages[0]["parts"] == [{"text": "The rent is 900 euros. \\</context>"}]


async def test_a_thought_of_gemini_is_no_text_however_it_is_marked():
    memory = SessionMemory.test_mode()
    part = {"text": "The rent may be 900 euros.", "thought": "true"}
    memory.add_message({"role": "model", "parts": [part]}, format="gemini")
    assert not memory.search("rent euros")


@pytest.mark.parametrize("field", ["output", "text"])
def test_a_result_in_a_field_of_another_api_is_refused(field):
    """Anthropic's results may lack content, so that only a field of another API is a mistake."""
    block = {"type": "tool_result", "tool_use_id": "a"}
    with pytest.raises(InvalidArgumentError, match=f"tool_result has no content, but '{field}'"):
        parse_message({"role": "user", "content": [{**block, field: "result"}]}, "anthropic")
    result = parse_message({"role": "user", "content": [block]}, "anthropic")
    assert result.content == (ToolResultBlock("a"),)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("bedrock", {"toolResult": {"toolUseId": "a", "content": [{"json": {"rent": math.nan}}]}}),
        ("gemini", {"functionResponse": {"name": "find", "response": {"rent": math.nan}}}),
    ],
)
def test_a_result_that_json_cannot_hold_is_refused(name, part):
    message = {"role": "user", "content" if name == "bedrock" else "parts": [part]}
    with pytest.raises(InvalidArgumentError, match="is nothing that JSON can hold"):
        parse_message(message, name)


@pytest.mark.parametrize(
    "data",
    ["", "[]", "{", '{"type":"other"}', '{"type":"a","type":"a"}', '{"type":"a","b":"\\ud800"}'],
)
def test_an_opaque_block_holds_an_object_of_its_kind(data):
    with pytest.raises(InvalidArgumentError, match="opaque block"):
        OpaqueBlock("anthropic", "a", data)


CONTENT = "sealedcontent"
"""Stands in each opaque part of the drawn histories, and in no text."""


def _server_call(number):
    return {
        "type": "server_tool_use",
        "id": f"srv_{number}",
        "name": "web_search",
        "input": {"query": CONTENT},
    }


def _server_result(number):
    found = {
        "type": "web_search_result",
        "url": "https://a.example",
        "title": "A",
        "encrypted_content": CONTENT,
    }
    return {"type": "web_search_tool_result", "tool_use_id": f"srv_{number}", "content": [found]}


def _text_part(text):
    return {"type": "text", "text": text}


words = st.sampled_from(["rent", "The rent is 900 euros since May. " * 3, "ok", " "])
files = st.sampled_from(
    [
        {"type": "document", "source": {"type": "file", "file_id": CONTENT}, "title": "L.pdf"},
        {"type": "container_upload", "file_id": CONTENT},
    ]
)
openai_files = st.sampled_from(
    [
        {
            "type": "file",
            "file": {"filename": "L.pdf", "file_data": f"data:text/plain;base64,{CONTENT}"},
        },
        {"type": "input_audio", "input_audio": {"data": CONTENT, "format": "wav"}},
    ]
)


@st.composite
def conversations(draw):
    """Draw messages of both providers; a server's result stands beside its call, or in a later reply."""
    said = []
    open_calls = []
    for number in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            said.append(("openai", {"role": "user", "content": draw(words)}))
        kind = draw(st.sampled_from(["call", "pair", "file", "openai file", "result", "text"]))
        parts = []
        if kind == "result":
            answered = draw(st.integers(0, len(open_calls)))
            parts = [_server_result(call) for call in open_calls[:answered]]
            del open_calls[:answered]
        if kind in ("call", "pair"):
            parts.append(_server_call(number))
        if kind == "pair":
            parts.append(_server_result(number))
        if kind == "call":
            open_calls.append(number)
        text = _text_part(draw(words))
        if kind == "file":
            said.append(("anthropic", {"role": "user", "content": [draw(files), text]}))
        elif kind == "openai file":
            said.append(("openai", {"role": "user", "content": [draw(openai_files), text]}))
        else:
            said.append(("anthropic", {"role": "assistant", "content": [*parts, text]}))
    return said


@settings(max_examples=2 * settings().max_examples)
@given(
    conversations(), st.sampled_from([None, 60, 150, 400]), st.sampled_from([80, 200, 500, 100_000])
)
def test_opaque_parts_are_whole_counted_and_shown_to_their_provider_alone(said, section, budget):
    """A server's result has its call through eviction and packing; the recount agrees; others never see the content."""
    specs = [
        SectionSpec(
            "messages", section, placement="history", eviction="none" if section is None else "fifo"
        )
    ]
    memory = SessionMemory.test_mode(sections=specs)
    given_parts = {"openai": [], "anthropic": []}
    for provider, message in said:
        try:
            memory.add_message(message, format=provider)
        except KaosmemError:
            continue  # larger than the section
        if isinstance(message["content"], list):
            given_parts[provider] += [part for part in message["content"] if CONTENT in str(part)]
    for name in ("openai", "anthropic", "text"):
        try:
            context = asyncio.run(memory.assemble_context("rent", budget=budget, format=name))
        except WindowTooSmallError:
            continue
        check_context(context)
        if name == "text":
            assert CONTENT not in context.text
            continue
        shown = [
            message["content"]
            for message in context.messages
            if isinstance(message["content"], list)
        ]
        sealed = [part for parts in shown for part in parts if CONTENT in str(part)]
        assert all(part in given_parts[name] for part in sealed)
        if section is None and budget == 100_000:
            wanted = given_parts[name]
            assert sealed == wanted or context.used > budget // 2


@pytest.mark.parametrize("budget", [None, 60])
async def test_a_result_of_a_servers_tool_without_its_call_is_a_note(budget):
    """The call was refused for its size, or has left: the provider would refuse the result alone."""
    eviction = "none" if budget is None else "fifo"
    spec = SectionSpec("messages", budget, placement="history", eviction=eviction)
    memory = SessionMemory.test_mode(sections=[spec])
    memory.add_message(
        {"role": "assistant", "content": [_server_result(1), _text_part("The rent is 900.")]},
        format="anthropic",
    )
    for name in ("anthropic", "openai"):
        context = await memory.assemble_context(budget=1_000, format=name)
        assert "[web_search_tool_result, whose call is missing]" in str(context.messages)
        assert CONTENT not in str(context.messages)
        check_context(context)


async def test_calls_of_servers_keep_their_order():
    """A result that comes late does not bring its reply before the messages between."""
    memory = SessionMemory.test_mode()
    said = [
        [_server_call(1), _text_part("I search.")],
        [_server_call(2), _text_part("I search more.")],
        [_server_result(1), _text_part("Found.")],
    ]
    for content in said:
        memory.add_message({"role": "assistant", "content": content}, format="anthropic")
    context = await memory.assemble_context(budget=10_000, format="anthropic")
    assert [message["content"] for message in context.messages[1:]] == said
    check_context(context)


async def test_a_blank_text_beside_a_block_is_no_part_of_an_openai_request():
    memory = SessionMemory.test_mode(
        sections=[SectionSpec("notes"), SectionSpec("messages", placement="history")]
    )
    memory.add("notes", "The rent is 900 euros.")
    memory.add("messages", " \n", role="user")
    context = await memory.assemble_context(budget=500, format="openai")
    content = context.messages[-1]["content"]
    assert isinstance(content, str) or all(part["text"].strip() for part in content)
    assert "900 euros" in str(content)
    check_context(context)
