"""Neutral messages: the blocks that kaosmem stores, for frameworks with message types of their own.

`context.chat_messages` gives them as objects. Nothing is left out: reasoning of any provider,
errors, images, documents and opaque parts are blocks. The framework's code sends a block to its own
provider alone, which the block names. Texts are escaped as in all formats, and a result has the
name of its tool.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kaosmem.formats.delimiters import escaped_in_history, mark_text
from kaosmem.formats.fields import (
    check_has_content,
    json_object,
    mapping_of,
    plainest,
    text_field,
)
from kaosmem.formats.layout import HistoryEntry, Mark
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.parts import IMAGE_TOKENS, part_tokens, sealed_tokens
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import (
    DocumentBlock,
    TextBlock,
    ToolResultBlock,
    check_content,
    content_json,
)
from kaosmem.types.items import ChatMessage

_BINDING = ("anthropic", "bedrock")
"""Providers whose thinking is valid only after the same instructions and tools."""

_TEXTS = ("text", "title", "thinking", "id", "name", "arguments", "extra")
_RESULT_TEXTS = ("tool_use_id", "extra")
"""The name of a tool does not count in a result: `render` puts it there from the call."""


class NeutralFormat(OpenAIFormat):
    """Messages with kaosmem's own blocks, as dicts."""

    name = "blocks"
    binds_thinking = True

    def is_result(self, block: JSONObject) -> bool:
        """Return whether a block is the result of a call."""
        return bool(block["type"] == "tool_result")

    def is_binding(self, block: JSONObject) -> bool:
        """Return whether a block is thinking of a provider that binds it to instructions."""
        return block["type"] == "thinking" and block.get("provider", _BINDING[0]) in _BINDING

    def entry_messages(self, entry: HistoryEntry) -> list[JSONDict]:
        if isinstance(entry, Mark):
            return [{"role": "user", "content": mark_text(entry)}]
        content = plainest(tuple(map(_escaped, entry.blocks)))
        return [{"role": entry.role, "content": content_json(content)}]

    def content_tokens(self, block: JSONObject, counter: TokenCounter) -> int:
        """Return the tokens of a block, of which images and sealed data are estimates."""
        match block:
            case {"type": "image"}:
                return IMAGE_TOKENS
            case {"type": "opaque", "data": data}:
                return part_tokens(json_object(data) or {}, counter)
        names = _RESULT_TEXTS if self.is_result(block) else _TEXTS
        texts = [block.get(name) for name in names]
        tokens = sum(counter(text) for text in texts if isinstance(text, str) and text)
        tokens += self.parts_tokens(block.get("content") or (), counter)
        return tokens + sealed_tokens(block.get("data") or "")

    def parse(self, message: object) -> ChatMessage:
        given = mapping_of(message, "a message of blocks")
        check_has_content(given, "a message of blocks")
        role = text_field(given, "role", "a message of blocks")
        return ChatMessage(role, check_content(given["content"]))


def _escaped(block: Any) -> Any:
    """Return a block whose texts cannot forge a delimiter."""
    match block:
        case TextBlock():
            return replace(block, text=escaped_in_history(block.text))
        case DocumentBlock():
            title = escaped_in_history(block.title)
            return replace(block, text=escaped_in_history(block.text), title=title)
        case ToolResultBlock(content=str() as text):
            return replace(block, content=escaped_in_history(text))
        case ToolResultBlock(content=tuple() as parts):
            return replace(block, content=tuple(map(_escaped, parts)))
    return block
