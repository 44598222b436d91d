"""Messages as dicts of the chat completions API, which many frameworks take and give.

Reasoning is in `thinking_blocks`, as LiteLLM has it: the API itself has no field for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kaosmem.formats.anthropic import AnthropicFormat
from kaosmem.formats.fields import plainest
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.types import ContentBlock, JSONDict, JSONObject
from kaosmem.types.content import (
    ImageBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

_CHAT = OpenAIFormat()
_THINKING = AnthropicFormat()
"""The format of `thinking_blocks`."""


def read_chat_dict(message: JSONObject, *, is_error: bool = False) -> list[ChatMessage]:
    """Return a dict as a message, in a list as `ModelCalls` takes it.

    Args:
        is_error: Whether it is the result of a call that failed, which the API does not tell.

    Raises:
        InvalidArgumentError: If it is no message of the API.
    """
    thinking = message.get("thinking_blocks")
    said = _CHAT.parse({**message, "reasoning_content": None} if thinking else message)
    blocks = said.blocks
    if is_error and isinstance(blocks[0], ToolResultBlock):
        blocks = (replace(blocks[0], is_error=True),)
    if thinking:
        thoughts = _THINKING.read_parts({"type": "thinking", **block} for block in thinking)
        blocks = (*map(_thought, thoughts), *blocks)
    return [replace(said, content=check_content(plainest(blocks)))]


def _thought(block: Any) -> ContentBlock:
    """Return thinking, of another provider than Anthropic if it has no seal.

    Anthropic's is left out where the instructions change. Others need theirs back.
    """
    if block.signature or block.data:
        return block
    return replace(block, provider=_CHAT.name)


def write_chat_dict(message: ChatMessage) -> JSONDict:
    """Return a message as a dict, its texts as they are. A result is alone in its message."""
    written: JSONDict = {"role": message.role}
    parts: list[JSONDict] = []
    for block in message.blocks:
        match block:
            case ToolResultBlock():
                return {**written, "tool_call_id": block.tool_use_id, "content": message.text}
            case ToolUseBlock():
                function = {"name": block.name, "arguments": block.arguments}
                call = {"id": block.id, "type": "function", "function": function}
                written.setdefault("tool_calls", []).append(call)
            case ThinkingBlock():
                if block.is_sealed_by(_THINKING.name):
                    written.setdefault("thinking_blocks", []).append(_THINKING.write(block))
            case ImageBlock():
                parts.append({"type": "image_url", "image_url": {"url": block.url}})
            case _:
                parts.append({"type": "text", "text": block_text(block)})
    if all(part["type"] == "text" for part in parts):
        return {**written, "content": "\n\n".join(part["text"] for part in parts)}
    return {**written, "content": parts}
