"""Messages as dicts of the chat completions API, which many frameworks take and give.

Reasoning is in `thinking_blocks`, as LiteLLM has it: the API itself has no field for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kaosmem.formats import parse_message
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.integrations.model_calls import Calls
from kaosmem.types import ContentBlock, JSONValue
from kaosmem.types.content import ThinkingBlock, ToolResultBlock, ToolUseBlock, check_content
from kaosmem.types.items import ChatMessage

_FORMAT = OpenAIFormat()


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


def write_chat_dict(message: ChatMessage, calls: Calls | None = None) -> dict[str, Any]:
    """Return a message as a dict. A result of a tool is alone in its message.

    Ids stay as they are, so that they fit messages that a framework keeps itself.

    Args:
        calls: The calls of the request, which dicts do without.
    """
    (written,) = _FORMAT.entry_messages(message)
    written["content"] = _joined(written["content"])
    calls_sent = iter(written.get("tool_calls", ()))
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            written["tool_call_id"] = block.tool_use_id
        elif isinstance(block, ToolUseBlock):
            next(calls_sent)["id"] = block.id
        elif isinstance(block, ThinkingBlock):
            written.setdefault("thinking_blocks", []).append(_thinking_dict(block))
    return written


def _joined(content: JSONValue) -> JSONValue:
    """Return texts alone as one text, and other parts as they are."""
    if content is None:
        return ""
    if isinstance(content, str) or any(part["type"] != "text" for part in content):
        return content
    return "\n\n".join(part["text"] for part in content)


def _thinking(block: Mapping[str, JSONValue]) -> ContentBlock:
    if block.get("type") == "redacted_thinking":
        return ThinkingBlock("", data=str(block.get("data", "")))
    return ThinkingBlock(str(block.get("thinking", "")), str(block.get("signature") or ""))


def _thinking_dict(block: ThinkingBlock) -> dict[str, str]:
    if block.data:
        return {"type": "redacted_thinking", "data": block.data}
    return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
