"""Neutral messages: all that is stored comes out of a context as it went in."""

from dataclasses import replace

import pytest

from kaosmem import (
    ChatMessage,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.formats import FORMATS, get_format
from kaosmem.formats.delimiters import BLOCK_BEGIN
from kaosmem.types.content import DocumentBlock, ImageBlock, OpaqueBlock, block_text
from tests.formats.any_layout import AnyLayout
from tests.formats.drawn import PNG

PART = OpaqueBlock("gemini", "executableCode", '{"executableCode":{"code":"1+1"}}')
CALL = ToolUseBlock("c1", "find", {"deal": 7}, extra='{"thoughtSignature":"c2VhbA=="}')
THINKING = [
    ThinkingBlock("hm", "seal"),
    ThinkingBlock("", data="c2VhbA==", provider="openai-responses", extra='{"id":"rs_1"}'),
]
RESULT = ToolResultBlock("c1", (TextBlock("gone"), ImageBlock(PNG, "image/png")), is_error=True)
HISTORY = [
    ChatMessage("user", (TextBlock("Who?"), DocumentBlock("All of it.", "lease"), ImageBlock(PNG))),
    ChatMessage("assistant", (*THINKING, PART, TextBlock("I look."), CALL)),
    ChatMessage("tool", (RESULT,)),
    ChatMessage("critic", "No."),
]


@pytest.mark.parametrize("window", [None, "main"])
async def test_a_context_gives_the_stored_messages(window):
    """Thinking of two providers, a part of a third, an error and images: each message is the stored one."""
    memory = SessionMemory.test_mode()
    memory.add("role", "Be brief.")
    memory.add("documents", "The fee of the deal is 7 euros.")
    context = await memory.assemble_context(budget=8_000, format="blocks", window=window)
    for message in HISTORY:
        memory.add_message(message)
    memory.add("messages", "So what is the fee of the deal?", role="user")
    context = await memory.assemble_context(
        budget=8_000, format="blocks", window=window, system="Plan."
    )
    system, *messages = context.chat_messages
    assert system.role == "system" and system.text.startswith("Plan.")
    shown = [message for message in messages if message.role != "system"]
    expected = [*HISTORY[:2], ChatMessage("tool", (replace(RESULT, name="find"),)), HISTORY[3]]
    thought = HISTORY[1]
    if window:
        # The reply belongs to no request of the window.
        blocks = tuple(each for each in thought.blocks if not isinstance(each, ThinkingBlock))
        expected[1] = replace(thought, content=blocks)
    assert [said for said in shown if BLOCK_BEGIN not in said.text][: len(expected)] == expected
    assert any(BLOCK_BEGIN in said.text for said in shown) or window


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"text"}))
async def test_every_format_reads_its_own_request(name):
    """The words of a request are those of its neutral messages, the system message first."""
    memory = SessionMemory.test_mode()
    memory.add("role", "Be brief.")
    for message in HISTORY:
        memory.add_message(message)
    context = await memory.assemble_context(budget=8_000, format=name)
    messages = context.chat_messages
    assert messages[0].role == "system"
    calls = [block for each in messages for block in each.blocks]
    (call,) = [block for block in calls if isinstance(block, ToolUseBlock)]
    (result,) = [block for block in calls if isinstance(block, ToolResultBlock)]
    assert call.id == result.tool_use_id
    assert "gone" in block_text(result)


async def test_a_text_has_no_messages():
    """The error names the format to ask for."""
    context = await SessionMemory.test_mode().assemble_context(budget=100)
    with pytest.raises(AttributeError, match="format='blocks'"):
        _ = context.chat_messages


class TestNeutralFormat(AnyLayout):
    """Dicts with kaosmem's own blocks."""

    examples = 15

    def make(self):
        return get_format("blocks")
