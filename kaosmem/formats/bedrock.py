"""Amazon Bedrock's Converse: the system prompt beside messages, as `blocks` says.

Neighbours of one role are one message, since Converse wants the roles to alternate. Bytes are
base64 in the stored request; `sent` gives them to the SDK as bytes. Images by an address,
documents, and JSON values in results are texts. Reasoning stands before all else, and white space at the end of the
assistant's last text goes, as for the same models elsewhere.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence

from kaosmem.arguments import check_json, json_text
from kaosmem.formats.blocks import BlockFormat
from kaosmem.formats.fields import mapping_of
from kaosmem.formats.shapes import (
    ANY,
    ARGUMENTS,
    FAILED,
    ID,
    IMAGE_DATA,
    IMAGE_FORMAT,
    NAME,
    OUTPUT,
    RESULT_ID,
    SEALED,
    SIGNATURE,
    TEXT,
    THINKING,
    Shape,
)
from kaosmem.tokens.parts import IMAGE_TOKENS
from kaosmem.types import ContentBlock, JSONDict, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

_BLOBS = ("bytes", "redactedContent")
_WITH_FREE_NAMES = ("input", "json")
_REASONING = {"text": THINKING, "signature": SIGNATURE}
# A call and a result of a tool that the provider runs have a type.
_CALL = {"type": None, "toolUseId": ID, "name": NAME, "input": ARGUMENTS}
_RESULT = {"type": None, "toolUseId": RESULT_ID, "content": OUTPUT, "status": FAILED}
_IMAGE = {"format": IMAGE_FORMAT, "source": {"bytes": IMAGE_DATA}}


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


class BedrockFormat(BlockFormat):
    """A system prompt and messages of Amazon Bedrock's Converse API, as dicts."""

    name = "bedrock"
    message_name = "a bedrock message"
    shapes = (
        Shape(TextBlock, {"text": TEXT}),
        Shape(ThinkingBlock, {"reasoningContent": {"redactedContent": SEALED}}),
        Shape(ThinkingBlock, {"reasoningContent": {"reasoningText": _REASONING}}),
        Shape(ToolUseBlock, {"toolUse": _CALL}),
        Shape(OpaqueBlock, {"toolUse": {"type": ANY}}),
        Shape(OpaqueBlock, {"toolResult": {"type": ANY}}),
        Shape(ToolResultBlock, {"toolResult": _RESULT}),
        Shape(ImageBlock, {"image": _IMAGE}),
    )
    known_names = ("text", "toolUse", "toolResult", "reasoningContent")
    error_mark = "error"
    image_tokens = IMAGE_TOKENS
    takes_text = False
    merges = True
    binds_thinking = True
    """Thinking is valid only after the same instructions and tools."""

    def sent(self, messages: Iterable[JSONObject]) -> list[JSONDict]:
        """Return messages as the SDK takes them, with bytes."""
        return [{**message, "content": _with_bytes(message["content"])} for message in messages]

    def message_of(self, given: JSONObject) -> JSONObject:
        """Return the message of a response, and a message as it is."""
        output = given.get("output")
        if "role" not in given and isinstance(output, Mapping):
            return mapping_of(output.get("message"), self.message_name)
        return given

    def block_name(self, block: JSONObject) -> str | None:
        """Return the member of a block."""
        return next(iter(block), None)

    def read_parts(self, parts: Iterable[JSONObject]) -> list[ContentBlock]:
        """Return the blocks of a message as content blocks, without points of a cache."""
        return [self.read(_with_text(part)) for part in parts if "cachePoint" not in part]

    def read(self, block: JSONObject) -> ContentBlock:
        """Return a block as a content block, a JSON value as its text."""
        if block.keys() == {"json"}:
            return TextBlock(json_text(check_json(block["json"], "a result")))
        return super().read(block)

    def blocks_of(self, message: JSONObject) -> Sequence[JSONObject]:
        """Return the blocks of a message, with bytes as texts."""
        blocks: list[JSONObject] = _with_text(message["content"])
        return blocks
