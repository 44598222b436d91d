"""OpenAI's chat completions: a layout as messages that satisfy the API's rules, counted as the API counts them.

Source of the counting rule: OpenAI's cookbook, "How to count tokens with tiktoken", extended to text parts, tool call
ids and tool calls; the tokens of tool schemas belong in `reserve`. An image is an estimate.

The request differs from the stored messages where the API lacks a kind of content. Reasoning is left out. A document is
a text. An image outside a user's message, or one that no provider takes, is a text that stands for it. An error is its
text alone. Ids and names get the characters and lengths that are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    BLOCK_BEGIN,
    BLOCK_END,
    PROVIDERS_ROLES,
    escaped_in_history,
    mark_text,
    speaker_name,
)
from kaosmem.formats.fields import (
    mapping_of,
    media_type_of,
    parts_of,
    plain_id,
    plainest,
    sendable_url,
    text_field,
    tool_name,
)
from kaosmem.formats.layout import BlockPlace, Mark, Rendered
from kaosmem.names import shown, shown_name
from kaosmem.tokens import IMAGE_TOKENS
from kaosmem.types import (
    ChatMessage,
    Content,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JSONValue,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)

if TYPE_CHECKING:
    from kaosmem.formats.layout import HistoryEntry, Layout
    from kaosmem.tokens import TokenCounter


_MESSAGE = "an openai message"


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A whole reply is taken for the message of its only choice.
    A developer's message is a system message; a named user's role is the name, unless that is a role of the API's.
    `reasoning_content`, as compatible servers give it, is reasoning without a seal. A refusal is text, audio of the
    assistant its transcript. Raises InvalidArgumentError for a value that is no message or that could not be kept.
    """
    given = _message_of(mapping_of(message, _MESSAGE))
    role = given.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidArgumentError(f"{_MESSAGE} needs a role, such as 'user'; this one has {shown_name(role)}")
    content = given.get("content")
    if role == "tool":
        text = "\n".join(block_text(block) for block in _parse_content(content))
        return ChatMessage("tool", check_content((ToolResultBlock(text_field(given, "tool_call_id", _MESSAGE), text),)))
    if given.get("function_call"):
        raise InvalidArgumentError(f"{_MESSAGE} with a function_call cannot be kept, as it has no id; use tool_calls")
    calls = given.get("tool_calls") or ()
    blocks = [
        *_parse_reasoning(given),
        *_parse_content(content),
        *_parse_spoken(given),
        *(_parse_call(call) for call in (parts_of(calls, "tool_calls") if calls else ())),
    ]
    return ChatMessage(_role(role, given.get("name")), check_content(plainest(blocks)))


def _message_of(given: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    """Return the message of a reply, and a message as it is."""
    if "role" in given or "choices" not in given:
        return given
    choices = parts_of(given["choices"], "an openai reply")
    if len(choices) != 1:
        raise InvalidArgumentError(f"an openai reply has {len(choices)} choices; give the message of one")
    return mapping_of(choices[0].get("message"), _MESSAGE)


def _role(role: str, name: JSONValue) -> str:
    if role == "developer":
        return "system"
    return name if role == "user" and isinstance(name, str) and name and name not in PROVIDERS_ROLES else role


def _parse_reasoning(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    reasoning = given.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        yield ThinkingBlock(reasoning)


def _parse_spoken(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    """Yield the assistant's refusal and the transcript of its audio, which are not content."""
    refusal, audio = given.get("refusal"), given.get("audio")
    if isinstance(refusal, str) and refusal:
        yield TextBlock(refusal)
    if audio is not None:
        yield TextBlock(text_field(mapping_of(audio, "audio"), "transcript", "audio"))


def _parse_content(content: JSONValue) -> list[ContentBlock]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextBlock(content)]
    return [_parse_part(part) for part in parts_of(content, _MESSAGE)]


def _parse_part(part: Mapping[str, JSONValue]) -> ContentBlock:
    match part:
        case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
            return TextBlock(text)
        case {"type": "image_url", "image_url": {"url": str() as url, **rest}}:
            return ImageBlock(url, media_type_of(url), str(rest.get("detail") or ""))
    raise InvalidArgumentError(
        f"a part of type {shown_name(part.get('type'))} of {_MESSAGE} cannot be kept; give its text"
    )


def _parse_call(call: Mapping[str, JSONValue]) -> ToolUseBlock:
    match call:
        case {"id": call_id, "function": {"name": name, "arguments": arguments}}:
            return ToolUseBlock(call_id, name, arguments)
    raise InvalidArgumentError(
        f"a tool call needs an id and a function with name and arguments; this one has {', '.join(map(shown, call))}"
    )


MESSAGE_TOKENS = 3
NAME_TOKENS = 1
REPLY_TOKENS = 3

_MAX_CALL_ID_CHARS = 40
_CALL_ID = re.compile(rf"[\w.:-]{{1,{_MAX_CALL_ID_CHARS}}}", re.ASCII)
_MAX_TOOL_NAME_CHARS = 64
_DETAILS = ("auto", "low", "high", "original")


class OpenAIFormat:
    """Messages of OpenAI's chat completions API, as dicts."""

    name = "openai"

    def entry_tokens(self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None) -> int:
        messages = _entry_messages(entry)
        if known is not None and isinstance(entry, ChatMessage) and messages[0]["content"] == entry.content:
            return _message_tokens({**messages[0], "content": None}, counter) + known
        return sum(_message_tokens(message, counter) for message in messages)

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return 0

    def frame_tokens(
        self, *, static: bool, first: HistoryEntry | None, block: BlockPlace | None, counter: TokenCounter
    ) -> int:
        tokens = REPLY_TOKENS if static or first is not None or block else 0
        if static:
            tokens += MESSAGE_TOKENS + counter("system")
        if block:
            tokens += counter(BLOCK_BEGIN) + counter(BLOCK_END)
        if block is BlockPlace.OWN_MESSAGE:
            tokens += MESSAGE_TOKENS + counter("user")
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        return isinstance(entry, ChatMessage) and _entry_messages(entry)[-1]["role"] == "user"

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, JSONValue]] = ()) -> Rendered:
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
        messages = rendered.messages or []
        return sum(_message_tokens(message, counter) for message in messages) + (REPLY_TOKENS if messages else 0)

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)


def _entry_messages(entry: HistoryEntry) -> list[dict[str, JSONValue]]:
    """Return the API's messages for one entry of a history."""
    if isinstance(entry, Mark):
        return [{"role": "user", "content": mark_text(entry)}]
    if isinstance(entry.content, str):
        return [{**_author(entry.role), "content": escaped_in_history(entry.content)}]
    messages = [_result_message(block) for block in entry.content if isinstance(block, ToolResultBlock)]
    calls = [block for block in entry.content if isinstance(block, ToolUseBlock)]
    author = {"role": "assistant"} if calls else _author(entry.role)
    parts = _parts(entry.content, images=author["role"] == "user")
    if calls:
        tool_calls = list(map(_call, calls))
        messages.append({**author, "content": _plain(parts) if parts else None, "tool_calls": tool_calls})
    elif parts or not messages:
        messages.append({**author, "content": _plain(parts)})
    return messages


def _author(role: str) -> dict[str, JSONValue]:
    if role in ("system", "user", "assistant"):
        return {"role": role}
    return {"role": "user", "name": speaker_name(role)}


def _call(call: ToolUseBlock) -> dict[str, JSONValue]:
    function = {"name": tool_name(call.name, max_chars=_MAX_TOOL_NAME_CHARS), "arguments": call.arguments}
    return {"id": _call_id(call.id), "type": "function", "function": function}


def _result_message(result: ToolResultBlock) -> dict[str, JSONValue]:
    content = escaped_in_history(block_text(result))
    return {"role": "tool", "tool_call_id": _call_id(result.tool_use_id), "content": content}


def _call_id(call_id: str) -> str:
    return call_id if _CALL_ID.fullmatch(call_id) else plain_id(call_id, max_chars=_MAX_CALL_ID_CHARS)


def _parts(content: Content, *, images: bool) -> list[dict[str, JSONValue]]:
    """Return content as parts of the API, images as such where they are allowed."""
    parts: list[dict[str, JSONValue]] = []
    for block in content:
        match block:
            case TextBlock() | DocumentBlock():
                parts.append(_text_part(escaped_in_history(block_text(block))))
            case ImageBlock() if images and (url := sendable_url(block.url)):
                detail = {"detail": block.detail} if block.detail in _DETAILS else {}
                parts.append({"type": "image_url", "image_url": {"url": url, **detail}})
            case ImageBlock():
                parts.append(_text_part(escaped_in_history(block_text(block))))
    return parts


def _plain(parts: Sequence[dict[str, JSONValue]]) -> JSONValue:
    """Return parts in the API's plainest form: one text part is a string, and so is nothing."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else list(parts)


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
        tokens += counter(part[part["type"]]) if part["type"] in ("text", "refusal") else IMAGE_TOKENS
    if "name" in message:
        tokens += NAME_TOKENS + counter(message["name"])
    if "tool_call_id" in message:
        tokens += counter(message["tool_call_id"])
    for call in message.get("tool_calls") or ():
        function = call["function"]
        tokens += counter(call["id"]) + counter(function["name"]) + counter(function["arguments"])
    return tokens
