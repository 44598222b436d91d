"""Anthropic's messages: the system prompt beside messages by the API's rules, as `blocks` says.

White space at the end of the assistant's last text goes, as the API refuses it there. Reasoning
stands before all else, unless the reply has parts of the provider's own tools between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.blocks import BlockFormat
from kaosmem.formats.fields import FIELDS_ELSEWHERE, check_has_content
from kaosmem.formats.shaped_blocks import ExtraNames
from kaosmem.formats.shapes import (
    ARGUMENTS,
    FAILED,
    ID,
    IMAGE_DATA,
    MEDIA_TYPE,
    NAME,
    OUTPUT,
    RESULT_ID,
    SEALED,
    SIGNATURE,
    TEXT,
    THINKING,
    TITLE,
    URL,
    Shape,
)
from kaosmem.types import ContentBlock, JSONObject
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

IMAGE_TOKENS = 1_600
"""The estimated tokens of an image.

Source: Anthropic, "Vision": width x height / 750; scaling keeps it below.
"""
_RESULT_FIELDS = ("toolset_name",)
_RESULT = {"tool_use_id": RESULT_ID, "content": OUTPUT, "is_error": FAILED}
_DATA = {"type": "base64", "media_type": MEDIA_TYPE, "data": IMAGE_DATA}
_DOCUMENT = {"type": "text", "media_type": "text/plain", "data": TEXT}


class AnthropicFormat(BlockFormat):
    """A system prompt and messages of Anthropic's messages API, as dicts."""

    name = "anthropic"
    message_name = "an anthropic message"
    shapes = (
        Shape(TextBlock, {"type": "text", "text": TEXT}),
        Shape(ThinkingBlock, {"type": "redacted_thinking", "data": SEALED}),
        Shape(ThinkingBlock, {"type": "thinking", "thinking": THINKING, "signature": SIGNATURE}),
        Shape(ToolUseBlock, {"type": "tool_use", "id": ID, "name": NAME, "input": ARGUMENTS}),
        Shape(ToolResultBlock, {"type": "tool_result", **_RESULT}),
        Shape(ImageBlock, {"type": "image", "source": _DATA}),
        Shape(ImageBlock, {"type": "image", "source": {"type": "url", "url": URL}}),
        Shape(DocumentBlock, {"type": "document", "source": _DOCUMENT, "title": TITLE}),
    )
    extra_names: ClassVar[ExtraNames] = {
        ToolUseBlock: ("caller", *_RESULT_FIELDS),
        ToolResultBlock: _RESULT_FIELDS,
    }
    known_names = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result")
    other_roles = ("system",)
    image_tokens = IMAGE_TOKENS
    max_tool_name_chars = 128
    binds_thinking = True
    """Thinking is valid only after the same instructions and tools."""
    tools_framing = 346
    """The tokens that the first tool adds beside its schema, for Claude 4.

    Source: Anthropic, "Tool use", pricing.
    """

    def read(self, block: JSONObject) -> ContentBlock:
        """Return a block as a content block. Raises InvalidArgumentError."""
        kind = block.get("type")
        if kind in ("image", "document") and not isinstance(block.get("source"), Mapping):
            raise InvalidArgumentError(
                f"a block of kind {kind!r} in {self.message_name} lacks its source; give it as the API "
                "has it"
            )
        if kind == "tool_result" and not block.keys().isdisjoint(FIELDS_ELSEWHERE):
            check_has_content(block, "a tool_result")
        return super().read(block)
