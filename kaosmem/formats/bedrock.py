"""Amazon Bedrock's Converse: the system prompt beside messages, as `blocks` says.

Neighbours of one role are one message, since Converse wants the roles to alternate. Bytes are
base64 in the stored request; `sent` gives them to the SDK as bytes. Images by an address, and
documents, are texts. Reasoning stands before all else, and white space at the end of the
assistant's last text goes, as for the same models elsewhere.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.blocks import (
    ID_TOKENS,
    Block,
    BlockFormat,
    Kind,
    arguments_of,
    result_text,
    role_and_blocks,
)
from kaosmem.formats.delimiters import escaped_in_history
from kaosmem.formats.fields import (
    CallIds,
    check_has_content,
    extra_fields,
    extra_text,
    json_value,
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
from kaosmem.tokens.parts import IMAGE_TOKENS, part_tokens, sealed_tokens
from kaosmem.types import ContentBlock, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    ResultContent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

if TYPE_CHECKING:
    from kaosmem.tokens.counters import TokenCounter

_MESSAGE = "a bedrock message"
_MAX_ID_CHARS = 64
_MAX_TOOL_NAME_CHARS = 64
_BLOBS = ("bytes", "redactedContent")
_WITH_FREE_NAMES = ("input", "json")
_RESULT_FIELDS = ("is_json",)
"""Says of a result that its text is one JSON value."""
_OF_SERVERS = "server_tool_use"


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict, as a ChatMessage.

    A whole response is taken for its message. A user's message of nothing but results has the role
    "tool", one under a speaker's line the speaker's. Cache points are not kept. A block that only
    Bedrock can read, such as a document, is kept as it is. Raises InvalidArgumentError for a value
    that is no message, has no content, or could not be kept.
    """
    given = _message_of(mapping_of(message, _MESSAGE))
    role = given.get("role")
    if role not in ("user", "assistant"):
        raise InvalidArgumentError(
            f"{_MESSAGE} has a role of 'user' or 'assistant', not {shown_name(role)}"
        )
    check_has_content(given, _MESSAGE)
    parts = parts_of(given["content"], _MESSAGE)
    blocks = [_parse_block(_with_text(part)) for part in parts if "cachePoint" not in part]
    role, blocks = role_and_blocks(blocks, is_assistants=role == "assistant")
    return ChatMessage(role, check_content(plainest(blocks)))


def _message_of(given: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    output = given.get("output")
    if "role" not in given and isinstance(output, Mapping):
        return mapping_of(output.get("message"), _MESSAGE)
    return given


def _with_text(value: JSONValue) -> JSONValue:
    """Return a value with bytes as base64 texts."""
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _with_text(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_with_text, value))
    return value


def _with_bytes(value: JSONValue) -> JSONValue:
    """Return a value with the bytes that `_with_text` had. Names of an application's own stay."""
    if isinstance(value, Mapping):
        made = {}
        for name, member in value.items():
            if name in _BLOBS and isinstance(member, str):
                made[name] = b64decode(member)
            elif name in _WITH_FREE_NAMES:
                made[name] = member
            else:
                made[name] = _with_bytes(member)
        return made
    if isinstance(value, list):
        return list(map(_with_bytes, value))
    return value


def _parse_block(block: Mapping[str, JSONValue]) -> ContentBlock:
    match block:
        case {"reasoningContent": {"reasoningText": Mapping() as reasoning}}:
            text = text_field(reasoning, "text", "a reasoningText")
            seal = reasoning.get("signature") or ""
            return ThinkingBlock(text, seal, provider=BedrockFormat.name)
        case {"reasoningContent": {"redactedContent": str() as data}}:
            return ThinkingBlock("", data=data, provider=BedrockFormat.name)
        case {"toolUse": Mapping() as call} if call.get("type") != _OF_SERVERS:
            name = text_field(call, "name", "a toolUse")
            arguments = json_text(call.get("input") or {})
            return ToolUseBlock(text_field(call, "toolUseId", "a toolUse"), name, arguments)
        case {"toolResult": Mapping() as result} if "type" not in result:
            return _parse_result(result)
    return _parse_part(block)


def _parse_result(given: Mapping[str, JSONValue]) -> ToolResultBlock:
    what = "a toolResult"
    parts = parts_of(given.get("content") or [], what)
    extra = ""
    content: ResultContent
    match parts:
        case [{"json": value}]:
            content = json_text(value)
            extra = extra_text({"is_json": True}, _RESULT_FIELDS)
        case [{"text": str() as text}]:
            content = text
        case _:
            content = tuple(map(_parse_part, parts)) or ""
    return ToolResultBlock(
        text_field(given, "toolUseId", what), content, given.get("status") == "error", extra=extra
    )


def _parse_part(part: Mapping[str, JSONValue]) -> TextBlock | ImageBlock | OpaqueBlock:
    match part:
        case {"text": str() as text}:
            return TextBlock(text)
        case {"json": value}:
            return TextBlock(json_text(value))
        case {"image": {"format": str() as form, "source": {"bytes": str() as data}}}:
            return ImageBlock(f"data:image/{form};base64,{data}", f"image/{form}")
    kind = next(iter(part), None)
    if kind in (None, "text", "toolUse", "toolResult", "reasoningContent") and not _is_served(part):
        raise InvalidArgumentError(
            f"a block of kind {kind!r} in {_MESSAGE} lacks a field; give it as the API has it"
        )
    return opaque_block(part, BedrockFormat.name, _MESSAGE, kind=kind)


def _is_served(part: Mapping[str, JSONValue]) -> bool:
    """Return whether a part is of a tool that the provider runs."""
    inner = part.get("toolUse") or part.get("toolResult")
    return isinstance(inner, Mapping) and "type" in inner


class BedrockFormat(BlockFormat):
    """A system prompt and messages of Amazon Bedrock's Converse API, as dicts."""

    name = "bedrock"
    merges: ClassVar[bool] = True
    binds_thinking = True

    def sent(self, messages: Iterable[Mapping[str, JSONValue]]) -> list[dict[str, JSONValue]]:
        """Return messages as the SDK takes them, with bytes."""
        return [{**message, "content": _with_bytes(message["content"])} for message in messages]

    def text(self, text: str) -> Block:
        return {"text": text}

    def image(self, image: ImageBlock) -> Block | None:
        data_url = split_data_url(sendable_url(image.url) or "")
        if data_url is None:
            return None
        media_type, data = data_url
        form = media_type.removeprefix("image/")
        return {"image": {"format": form, "source": {"bytes": data}}}

    def thinking(self, block: ThinkingBlock) -> Block:
        if block.data:
            return {"reasoningContent": {"redactedContent": block.data}}
        text = {"text": block.thinking, "signature": block.signature}
        return {"reasoningContent": {"reasoningText": text}}

    def call(self, call: ToolUseBlock) -> Block:
        name = tool_name(call.name, max_chars=_MAX_TOOL_NAME_CHARS)
        return {"toolUse": {"toolUseId": call.id, "name": name, "input": arguments_of(call)}}

    def result(self, result: ToolResultBlock) -> Block:
        content = [self._value(result)]
        if not isinstance(result.content, str):
            content = self.shown_blocks(result.content)
        sent: Block = {"toolUseId": result.tool_use_id, "content": content}
        if result.is_error:
            sent["status"] = "error"
        return {"toolResult": sent}

    def _value(self, result: ToolResultBlock) -> Block:
        """Return a result of one text, or the JSON value that it was."""
        text = block_text(result)
        if extra_fields(result.extra, _RESULT_FIELDS):
            value = json_value(escaped_in_history(text))
            if value is not None:
                return {"json": value}
        return {"text": result_text(text)}

    def kind(self, block: Mapping[str, JSONValue]) -> str:
        match block:
            case {"text": _}:
                return Kind.TEXT
            case {"reasoningContent": _}:
                return Kind.THINKING
            case {"toolUse": _} if not _is_served(block):
                return Kind.CALL
            case {"toolResult": _} if not _is_served(block):
                return Kind.RESULT
        return Kind.OTHER

    def new_ids(self, taken: Iterable[str]) -> CallIds:
        return CallIds(taken, max_chars=_MAX_ID_CHARS)

    def id_place(self, block: Mapping[str, JSONValue]) -> tuple[Any, str]:
        return block["toolUse" if "toolUse" in block else "toolResult"], "toolUseId"

    def blocks_of(self, message: Mapping[str, JSONValue]) -> Sequence[Mapping[str, JSONValue]]:
        blocks: list[Mapping[str, JSONValue]] = _with_text(message["content"])
        return blocks

    def content_tokens(self, block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
        match block:
            case {"text": text}:
                return counter(text)
            case {"json": value}:
                return counter(json_text(value))
            case {"reasoningContent": {"reasoningText": {"text": text}}}:
                return counter(text)
            case {"reasoningContent": {"redactedContent": data}}:
                return sealed_tokens(data)
            case {"toolUse": call} if "type" not in call:
                return ID_TOKENS + counter(call["name"]) + counter(json_text(call["input"]))
            case {"toolResult": result} if "type" not in result:
                return ID_TOKENS + self.tokens(result["content"], counter)
            case {"image": _}:
                return IMAGE_TOKENS
        return part_tokens(block, counter)

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)
