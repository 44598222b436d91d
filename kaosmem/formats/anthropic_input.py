"""Reading messages of Anthropic's messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import named_speaker
from kaosmem.formats.payload import mapping_of, parts_of, plainest, text_field
from kaosmem.names import shown_name
from kaosmem.types import (
    ChatMessage,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JSONValue,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    check_content,
    json_text,
)

_MESSAGE = "an anthropic message"
_ROLES = ("user", "assistant", "system")


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A user's message of nothing but results has the role "tool", one under a speaker's line the speaker's. Cache
    breakpoints and citations are not kept. Raises InvalidArgumentError for a value that is no message, and for blocks
    of a type that can't be kept.
    """
    given = mapping_of(message, _MESSAGE)
    role, content = given.get("role"), given.get("content")
    if role not in _ROLES:
        raise InvalidArgumentError(f"{_MESSAGE} has a role of {', '.join(map(repr, _ROLES))}, not {shown_name(role)}")
    if isinstance(content, str):
        return ChatMessage(role, check_content(content))
    blocks = [_parse_block(block) for block in parts_of(content, _MESSAGE)]
    if role == "user" and blocks and all(isinstance(block, ToolResultBlock) for block in blocks):
        role = "tool"
    elif role == "user" and (speaker := _speaker(blocks)):
        role, blocks = speaker, blocks[1:]
    return ChatMessage(role, check_content(plainest(blocks)))


def _speaker(blocks: Sequence[ContentBlock]) -> str | None:
    first = blocks[0] if len(blocks) > 1 else None
    return named_speaker(first.text) if isinstance(first, TextBlock) else None


def _parse_block(block: Mapping[str, JSONValue]) -> ContentBlock:
    match block:
        case {"type": "thinking", "thinking": thinking, "signature": signature}:
            return ThinkingBlock(thinking, signature)
        case {"type": "redacted_thinking", "data": data}:
            return ThinkingBlock("", data=data)
        case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
            return ToolUseBlock(call_id, name, _arguments(arguments))
        case {"type": "tool_result"}:
            return _parse_result(block)
        case {"type": "document", "source": {"type": "text", "data": text}}:
            return DocumentBlock(text, block.get("title") or "")
    return _parse_part(block, _MESSAGE)


def _arguments(value: JSONValue) -> str:
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the input of a tool_use is not JSON: {error}") from None


def _parse_result(block: Mapping[str, JSONValue]) -> ToolResultBlock:
    what = "a tool_result"
    call_id, given = text_field(block, "tool_use_id", what), block.get("content") or ""
    content: str | tuple[TextBlock | ImageBlock, ...]
    if isinstance(given, str):
        content = given
    else:
        parts = [_parse_part(part, what) for part in parts_of(given, what)]
        content = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextBlock) else tuple(parts)
    return ToolResultBlock(call_id, content, bool(block.get("is_error")))


def _parse_part(part: Mapping[str, JSONValue], where: str) -> TextBlock | ImageBlock:
    match part:
        case {"type": "text", "text": text}:
            return TextBlock(text)
        case {"type": "image", "source": {"type": "base64", "media_type": str() as media_type, "data": str() as data}}:
            return ImageBlock(f"data:{media_type};base64,{data}", media_type)
        case {"type": "image", "source": {"type": "url", "url": url}}:
            return ImageBlock(url)
        case {"type": "image" | "document" as kind, "source": {"type": source}}:
            raise InvalidArgumentError(
                f"{kind} of source type {shown_name(source)} in {where} cannot be kept; give its text"
            )
    raise InvalidArgumentError(
        f"a block of type {shown_name(part.get('type'))} in {where} cannot be kept; give its text"
    )
