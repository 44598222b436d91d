"""Messages as dicts of the chat completions API, which many frameworks take and give.

Reasoning is in `thinking_blocks`, as LiteLLM has it: the API itself has no field for it.
"""

from __future__ import annotations

from dataclasses import replace

from kaosmem.formats.anthropic import AnthropicFormat
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import ThinkingBlock, check_content
from kaosmem.types.items import ChatMessage

_CHAT = OpenAIFormat()
_THINKING = AnthropicFormat()
"""The format of `thinking_blocks`."""


def read_chat_dict(message: JSONObject) -> list[ChatMessage]:
    """Return a dict as a message, in a list as `ModelCalls` takes it.

    Raises:
        InvalidArgumentError: If it is no message of the API.
    """
    blocks = message.get("thinking_blocks") or ()
    if not blocks:
        return [_CHAT.parse(message)]
    said = _CHAT.parse({**message, "reasoning_content": None})
    thinking = _THINKING.read_parts({"type": "thinking", **block} for block in blocks)
    return [replace(said, content=check_content((*thinking, *said.blocks)))]


def write_chat_dict(message: ChatMessage) -> JSONDict:
    """Return a message as a dict. A result of a tool is alone in its message."""
    (written,) = _CHAT.entry_messages(message)
    said = written["content"] or ""
    if not isinstance(said, str) and all(part["type"] == "text" for part in said):
        said = "\n\n".join(part["text"] for part in said)
    written["content"] = said
    thinking = [block for block in message.blocks if isinstance(block, ThinkingBlock)]
    if thinking:
        written["thinking_blocks"] = list(map(_THINKING.write, thinking))
    return written
