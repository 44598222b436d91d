"""Messages of smolagents as messages of kaosmem, and back.

Its agents tell calls and results as texts.
"""

from __future__ import annotations

import json
from hashlib import sha256

from smolagents import ChatMessage, MessageRole

from kaosmem.integrations.part_tables import TEXT, PartTable
from kaosmem.types import items as chat
from kaosmem.types.content import ToolResultBlock, ToolUseBlock

Group = tuple[ChatMessage, ...]
"""A message, or a call and its results."""
_ROLES = {"system": "system", "assistant": "assistant", "tool": "tool-response"}
_PARTS = PartTable("type", {"type": "text", "text": TEXT})


def read_group(group: Group) -> list[chat.ChatMessage]:
    """Return the messages of a group."""
    first, *results = map(_read, group)
    if group[0].role != MessageRole.TOOL_CALL:
        return [first]
    told = "\n\n".join(each.text for each in results)
    if "final_answer" in first.text:
        # An answer in words: else the session takes the question for one that nobody answered.
        return [chat.ChatMessage("assistant", f"{first.text}\n\n{told}".rstrip())]
    call_id = sha256(first.text.encode()).hexdigest()[:16]
    call = ToolUseBlock(call_id, "call", {"text": first.text})
    result = ToolResultBlock(call_id, told)
    return [chat.ChatMessage("assistant", (call,)), chat.ChatMessage("tool", (result,))]


def _read(message: ChatMessage) -> chat.ChatMessage:
    role = message.role.value
    blocks = _PARTS.read(message.content or [])
    return chat.ChatMessage(role if role in _ROLES else "user", blocks)


def write_group(message: chat.ChatMessage) -> Group:
    """Return a message as a group of one."""
    block = message.blocks[0]
    role = _ROLES.get(message.role, "user")
    text = message.text
    if isinstance(block, ToolUseBlock):
        role = "tool-call"
        text = json.loads(block.arguments)["text"]
    return (ChatMessage(MessageRole(role), [{"type": "text", "text": text}]),)
