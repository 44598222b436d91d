"""OpenAI's chat completions: messages in, messages out, counted as the API counts them.

Source of the counting rule: OpenAI's cookbook, "How to count tokens with tiktoken", extended to text parts, tool call
ids and tool calls; what the API adds for tool schemas belongs in `reserve`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidContentError
from kaosmem.formats.layout import BlockPlace, Mark, Rendered
from kaosmem.formats.text import BLOCK_BEGIN, BLOCK_END, mark_text
from kaosmem.names import shown
from kaosmem.tokens import IMAGE_TOKENS
from kaosmem.types import (
    ChatMessage,
    Content,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JSONValue,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)

if TYPE_CHECKING:
    from kaosmem.formats.layout import HistoryEntry, Layout
    from kaosmem.tokens import TokenCounter

MESSAGE_TOKENS = 3
NAME_TOKENS = 1
REPLY_TOKENS = 3

_NOT_IN_NAME = re.compile(r"[\s<|\\/>]+")
_MAX_NAME_CHARS = 64


class OpenAIFormat:
    """Messages of OpenAI's chat completions API, as dicts."""

    name = "openai"

    def entry_tokens(self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None) -> int:
        if known is not None and isinstance(entry, ChatMessage):
            return _message_tokens(_author(entry.role), counter) + known
        return sum(_message_tokens(message, counter) for message in _entry_messages(entry))

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return 0

    def frame_tokens(self, *, static: bool, history: bool, block: BlockPlace | None, counter: TokenCounter) -> int:
        tokens = REPLY_TOKENS if static or history or block else 0
        if static:
            tokens += MESSAGE_TOKENS + counter("system")
        if block:
            tokens += counter(BLOCK_BEGIN) + counter(BLOCK_END)
        if block is BlockPlace.OWN_MESSAGE:
            tokens += MESSAGE_TOKENS + counter("user")
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        messages = _entry_messages(entry)
        return not isinstance(entry, Mark) and messages[-1]["role"] == "user"

    def render(self, layout: Layout) -> Rendered:
        messages: list[dict[str, JSONValue]] = []
        if layout.static:
            messages.append({"role": "system", "content": "".join(layout.static)})
        for part in layout.history:
            for entry in part.entries:
                messages += _entry_messages(entry)
        if layout.block:
            block = "".join((BLOCK_BEGIN, *layout.block, BLOCK_END))
            if layout.block_place is BlockPlace.IN_MESSAGE:
                messages[-1]["content"] = [_text_part(block), *_as_parts(messages[-1]["content"])]
            else:
                messages.append({"role": "user", "content": block})
        return Rendered(messages=messages)

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        return messages_tokens(rendered.messages or [], counter)


def messages_tokens(messages: list[dict[str, JSONValue]], counter: TokenCounter) -> int:
    """Return the tokens of messages as the API would take them; none is 0."""
    return sum(_message_tokens(message, counter) for message in messages) + (REPLY_TOKENS if messages else 0)


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    Raises InvalidContentError for what is not one.
    """
    given = message if isinstance(message, Mapping) else _dumped(message)
    role = given.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidContentError(f"an openai message needs a role, such as 'user'; this one has {shown(role)}")
    content = given.get("content")
    if role == "tool":
        result = ToolResultBlock(_str_of(given, "tool_call_id"), _text_of(content))
        return ChatMessage("tool", check_content((result,)))
    calls = [_parse_call(call) for call in given.get("tool_calls") or ()]
    name = given.get("name")
    if role == "user" and isinstance(name, str) and name:
        role = name
    if not calls and (content is None or isinstance(content, str)):
        return ChatMessage(role, check_content(content or ""))
    return ChatMessage(role, check_content((*_parse_parts(content), *calls)))


def _dumped(message: object) -> Mapping[str, JSONValue]:
    dump = getattr(message, "model_dump", None)
    if dump is None:
        raise InvalidContentError(
            f"an openai message is a dict or an object of the openai package, not a {type(message).__name__}"
        )
    dumped: Mapping[str, JSONValue] = dump(exclude_none=True)
    return dumped


def _parse_parts(content: JSONValue) -> list[ContentBlock]:
    if not content:
        return []
    if isinstance(content, str):
        return [TextBlock(content)]
    blocks: list[ContentBlock] = []
    for part in content:
        match part:
            case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
                blocks.append(TextBlock(text))
            case {"type": "image_url", "image_url": {"url": url}}:
                blocks.append(ImageBlock(url))
            case _:
                raise InvalidContentError(f"cannot keep this part of an openai message: {shown(part)}")
    return blocks


def _parse_call(call: JSONValue) -> ToolUseBlock:
    match call:
        case {"id": call_id, "function": {"name": name, "arguments": arguments}}:
            return ToolUseBlock(call_id, name, arguments)
    raise InvalidContentError(f"a tool call needs an id and a function with name and arguments, not {shown(call)}")


def _str_of(given: Mapping[str, JSONValue], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise InvalidContentError(f"an openai message of role 'tool' needs a {key}")
    return value


def _text_of(content: JSONValue) -> str:
    return "\n".join(block_text(block) for block in _parse_parts(content))


def _entry_messages(entry: HistoryEntry) -> list[dict[str, JSONValue]]:
    """Return the API's messages for one entry of a history."""
    if isinstance(entry, Mark):
        return [{"role": "user", "content": mark_text(entry)}]
    if isinstance(entry.content, str):
        return [{**_author(entry.role), "content": entry.content}]
    results = [block for block in entry.content if isinstance(block, ToolResultBlock)]
    calls = [block for block in entry.content if isinstance(block, ToolUseBlock)]
    parts = _parts(entry.content)
    messages: list[dict[str, JSONValue]] = [
        {"role": "tool", "tool_call_id": result.tool_use_id, "content": result.content} for result in results
    ]
    if calls:
        message: dict[str, JSONValue] = {"role": "assistant", "content": _plain(parts) if parts else None}
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
        messages.append(message)
    elif parts or not results:
        messages.append({**_author(entry.role), "content": _plain(parts)})
    return messages


def _author(role: str) -> dict[str, JSONValue]:
    if role in ("system", "user", "assistant"):
        return {"role": role}
    return {"role": "user", "name": _NOT_IN_NAME.sub("_", role)[:_MAX_NAME_CHARS] or "_"}


def _parts(content: Content) -> list[dict[str, JSONValue]]:
    """Return what the API shows of content as parts; reasoning is not sent back."""
    parts: list[dict[str, JSONValue]] = []
    for block in content:
        match block:
            case TextBlock() | DocumentBlock():
                parts.append(_text_part(block_text(block)))
            case ImageBlock():
                parts.append({"type": "image_url", "image_url": {"url": block.url}})
    return parts


def _plain(parts: list[dict[str, JSONValue]]) -> JSONValue:
    """Return parts in the API's plainest form: one text part is a string."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _as_parts(content: JSONValue) -> list[dict[str, JSONValue]]:
    return [_text_part(content)] if isinstance(content, str) else content


def _text_part(text: str) -> dict[str, JSONValue]:
    return {"type": "text", "text": text}


def _message_tokens(message: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    tokens = MESSAGE_TOKENS + counter(message["role"])
    content = message.get("content")
    if isinstance(content, str):
        tokens += counter(content)
    for part in content if isinstance(content, list) else ():
        tokens += counter(part["text"]) if part["type"] == "text" else IMAGE_TOKENS
    if "name" in message:
        tokens += NAME_TOKENS + counter(message["name"])
    if "tool_call_id" in message:
        tokens += counter(message["tool_call_id"])
    for call in message.get("tool_calls") or ():
        function = call["function"]
        tokens += counter(call["id"]) + counter(function["name"]) + counter(function["arguments"])
    return tokens
