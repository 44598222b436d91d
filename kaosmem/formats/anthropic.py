"""Anthropic's messages: the system prompt beside messages by the API's rules, as `blocks` says.

White space at the end of the assistant's last text goes, as the API refuses it there. Reasoning
stands before all else, unless the reply has parts of the provider's own tools between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.blocks import (
    ID_TOKENS,
    Block,
    BlockFormat,
    Kind,
    arguments_of,
    fields_tokens,
    result_text,
    role_and_blocks,
)
from kaosmem.formats.delimiters import escaped_in_history
from kaosmem.formats.fields import (
    FIELDS_ELSEWHERE,
    check_has_content,
    extra_fields,
    extra_text,
    mapping_of,
    opaque_block,
    parts_of,
    plainest,
    sendable_url,
    split_data_url,
    text_field,
    tool_name,
)
from kaosmem.names import shown_name
from kaosmem.tokens.parts import part_tokens, sealed_tokens
from kaosmem.types import ContentBlock, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    ResultContent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    check_content,
)
from kaosmem.types.items import ChatMessage

if TYPE_CHECKING:
    from kaosmem.tokens.counters import TokenCounter


_MESSAGE = "an anthropic message"
_ROLES = ("user", "assistant", "system")


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A user's message of nothing but results has the role "tool", one under a speaker's line the
    speaker's. Cache breakpoints and citations are not kept. A block of any other type, such as a
    PDF or the result of a web search, is kept as it is. Raises InvalidArgumentError for a value
    that is no message, has no content, or could not be kept.
    """
    given = mapping_of(message, _MESSAGE)
    role = given.get("role")
    content = given.get("content")
    if role not in _ROLES:
        raise InvalidArgumentError(
            f"{_MESSAGE} has a role of {', '.join(map(repr, _ROLES))}, not {shown_name(role)}"
        )
    check_has_content(given, _MESSAGE)
    if isinstance(content, str):
        return ChatMessage(role, check_content(content))
    blocks = [_parse_block(block) for block in parts_of(content, _MESSAGE)]
    if role != "system":
        role, blocks = role_and_blocks(blocks, is_assistants=role == "assistant")
    return ChatMessage(role, check_content(plainest(blocks)))


def _parse_block(block: Mapping[str, JSONValue]) -> ContentBlock:
    match block:
        case {"type": "thinking", "thinking": thinking}:
            return ThinkingBlock(thinking, block.get("signature") or "")
        case {"type": "redacted_thinking", "data": data}:
            return ThinkingBlock("", data=data)
        case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
            return ToolUseBlock(
                call_id, name, _arguments(arguments), extra=extra_text(block, _call_fields(block))
            )
        case {"type": "tool_result"}:
            return _parse_result(block)
    return _parse_part(block, _MESSAGE)


def _call_fields(call: Mapping[str, JSONValue]) -> Iterator[str]:
    """Yield the further fields of a call that go back with it.

    A call by the model itself needs no caller.
    """
    for name in _CALL_FIELDS:
        if call.get(name) != {"type": "direct"}:
            yield name


def _arguments(value: JSONValue) -> str:
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the input of a tool_use is not JSON: {error}") from None


def _parse_result(block: Mapping[str, JSONValue]) -> ToolResultBlock:
    what = "a tool_result"
    call_id = text_field(block, "tool_use_id", what)
    if any(field in block for field in FIELDS_ELSEWHERE):
        check_has_content(block, what)
    given = block.get("content") or ""
    content: ResultContent
    if isinstance(given, str):
        content = given
    else:
        parts = [_parse_part(part, what) for part in parts_of(given, what)]
        content = (
            parts[0].text if len(parts) == 1 and isinstance(parts[0], TextBlock) else tuple(parts)
        )
    return ToolResultBlock(
        call_id, content, bool(block.get("is_error")), extra=extra_text(block, _RESULT_FIELDS)
    )


def _parse_part(
    part: Mapping[str, JSONValue], where: str
) -> TextBlock | ImageBlock | DocumentBlock | OpaqueBlock:
    match part:
        case {"type": "text", "text": text}:
            return TextBlock(text)
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str() as media_type, "data": str() as data},
        }:
            return ImageBlock(f"data:{media_type};base64,{data}", media_type)
        case {"type": "image", "source": {"type": "url", "url": url}}:
            return ImageBlock(url)
        case {"type": "document", "source": {"type": "text", "data": text}}:
            return DocumentBlock(text, part.get("title") or "")
    kind = part.get("type")
    has_source = isinstance(part.get("source"), Mapping)
    if kind in _KNOWN or (kind in ("image", "document") and not has_source):
        raise InvalidArgumentError(
            f"a block of type {kind!r} in {where} lacks a field; give it as the API has it"
        )
    return opaque_block(part, AnthropicFormat.name, where)


_KNOWN = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result")
_RESULT_FIELDS = ("toolset_name",)
_CALL_FIELDS = ("caller", *_RESULT_FIELDS)

IMAGE_TOKENS = 1_600
"""The estimated tokens of an image.

Source: Anthropic, "Vision": width x height / 750; scaling keeps it below.
"""

_MAX_TOOL_NAME_CHARS = 128
_MAX_TITLE_CHARS = 500
_KINDS = {
    "text": Kind.TEXT,
    "thinking": Kind.THINKING,
    "redacted_thinking": Kind.THINKING,
    "tool_use": Kind.CALL,
    "tool_result": Kind.RESULT,
}


class AnthropicFormat(BlockFormat):
    """A system prompt and messages of Anthropic's messages API, as dicts."""

    name = "anthropic"
    binds_thinking = True
    tools_framing = 346
    """Source: Anthropic, "Tool use", pricing: the system prompt that tools add, for Claude 4."""

    def text(self, text: str) -> Block:
        return {"type": "text", "text": text}

    def image(self, image: ImageBlock) -> Block | None:
        url = sendable_url(image.url)
        if url is None:
            return None
        data_url = split_data_url(url)
        if data_url is None:
            return {"type": "image", "source": {"type": "url", "url": url}}
        media_type, data = data_url
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": data},
        }

    def document(self, document: DocumentBlock) -> Block | None:
        text = result_text(document.text)
        source = {"type": "text", "media_type": "text/plain", "data": text}
        block: Block = {"type": "document", "source": source}
        title = escaped_in_history(document.title)[:_MAX_TITLE_CHARS]
        if title.strip():
            block["title"] = title
        return block

    def thinking(self, block: ThinkingBlock) -> Block:
        if block.data:
            return {"type": "redacted_thinking", "data": block.data}
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}

    def call(self, call: ToolUseBlock) -> Block:
        return {
            "type": "tool_use",
            "id": call.id,
            "name": tool_name(call.name, max_chars=_MAX_TOOL_NAME_CHARS),
            "input": arguments_of(call),
            **extra_fields(call.extra, _CALL_FIELDS),
        }

    def result(self, result: ToolResultBlock) -> Block:
        content: JSONValue
        if isinstance(result.content, str):
            content = result_text(result.content)
        else:
            content = _plain(self.shown_blocks(result.content))
        block: Block = {
            "type": "tool_result",
            "tool_use_id": result.tool_use_id,
            "content": content,
        }
        if result.is_error:
            block["is_error"] = True
        return block | extra_fields(result.extra, _RESULT_FIELDS)

    def kind(self, block: Mapping[str, JSONValue]) -> str:
        return _KINDS.get(block["type"], Kind.OTHER)

    def id_place(self, block: Mapping[str, JSONValue]) -> tuple[Any, str]:
        return block, "id" if block["type"] == "tool_use" else "tool_use_id"

    def content_of(self, blocks: list[Block]) -> JSONValue:
        return _plain(blocks)

    def blocks_of(self, message: Mapping[str, JSONValue]) -> Sequence[Mapping[str, JSONValue]]:
        return self._inner(message["content"])

    def _inner(self, content: JSONValue) -> list[Mapping[str, JSONValue]]:
        return [self.text(content)] if isinstance(content, str) else list(content or ())

    def content_tokens(self, block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
        match block:
            case {"type": "text", "text": text} | {"type": "thinking", "thinking": text}:
                return counter(text)
            case {"type": "redacted_thinking", "data": data}:
                return sealed_tokens(data)
            case {"type": "tool_use", "name": name, "input": arguments}:
                tokens = counter(name) + counter(json_text(arguments))
                return ID_TOKENS + tokens + _extra_tokens(block, counter)
            case {"type": "tool_result"}:
                tokens = self.tokens(self._inner(block.get("content")), counter)
                return ID_TOKENS + tokens + _extra_tokens(block, counter)
            case {"type": "image"}:
                return IMAGE_TOKENS
            case {"type": "document", "source": {"type": "text", "data": text}}:
                return counter(text) + counter(block.get("title") or "")
        return part_tokens(block, counter)

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)


def _plain(blocks: list[Block]) -> JSONValue:
    """Return blocks in the API's plainest form: one text is a string."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _extra_tokens(block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    return fields_tokens({name: block[name] for name in _CALL_FIELDS if name in block}, counter)
