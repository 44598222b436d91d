"""Messages as dicts of the chat completions API, which many frameworks take and give.

Reasoning is in `thinking_blocks`, as LiteLLM has it: the API itself has no field for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kaosmem.formats import parse_message
from kaosmem.types import ContentBlock, JSONValue
from kaosmem.types.content import (
    ImageBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

ROLES = ("system", "user", "assistant", "tool")


def read_chat_dict(message: Mapping[str, JSONValue]) -> list[ChatMessage]:
    """Return a dict as a message, in a list as `ModelCalls` takes it.

    Raises:
        InvalidArgumentError: If it is no message of the API.
    """
    thinking = [_thinking(block) for block in message.get("thinking_blocks") or ()]
    if not thinking:
        return [parse_message(message, "openai")]
    plain = {name: value for name, value in message.items() if name != "reasoning_content"}
    said = parse_message(plain, "openai")
    return [replace(said, content=check_content((*thinking, *said.blocks)))]


def write_chat_dict(message: ChatMessage) -> dict[str, Any]:
    """Return a message as a dict. A result of a tool is alone in its message."""
    role = message.role if message.role in ROLES else "user"
    written: dict[str, Any] = {"role": role}
    if role != message.role:
        written["name"] = message.role
    parts: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case ToolResultBlock():
                return {**written, "tool_call_id": block.tool_use_id, "content": message.text}
            case ToolUseBlock():
                function = {"name": block.name, "arguments": block.arguments}
                call = {"id": block.id, "type": "function", "function": function}
                written.setdefault("tool_calls", []).append(call)
            case ThinkingBlock():
                written.setdefault("thinking_blocks", []).append(_thinking_dict(block))
            case ImageBlock():
                parts.append({"type": "image_url", "image_url": {"url": block.url}})
            case _:
                parts.append({"type": "text", "text": block_text(block)})
    if all(part["type"] == "text" for part in parts):
        return {**written, "content": "\n\n".join(part["text"] for part in parts)}
    return {**written, "content": parts}


def _thinking(block: Mapping[str, JSONValue]) -> ContentBlock:
    if block.get("type") == "redacted_thinking":
        return ThinkingBlock("", data=str(block.get("data", "")))
    return ThinkingBlock(str(block.get("thinking", "")), str(block.get("signature") or ""))


def _thinking_dict(block: ThinkingBlock) -> dict[str, str]:
    if block.data:
        return {"type": "redacted_thinking", "data": block.data}
    return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
