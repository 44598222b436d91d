"""The parts of a framework's messages, read and written by a table of their shapes.

A framework gives its parts as dicts. Its table says how each kind of part looks:

    PartTable("type", {"type": "text", "text": TEXT}, ...)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from hashlib import sha256

from kaosmem.arguments import json_text
from kaosmem.formats.fields import json_object
from kaosmem.formats.shapes import (
    EMPTY,
    FUNCTION,
    IMAGE_DATA,
    OPTIONAL_ID,
    Field,
    Shape,
    Template,
    image_of,
    uncounted,
    values_by_name,
    values_in,
    values_of,
    written,
)
from kaosmem.formats.shapes import FAILED as FAILED
from kaosmem.formats.shapes import MEDIA_TYPE as MEDIA_TYPE
from kaosmem.formats.shapes import SEALED as SEALED
from kaosmem.formats.shapes import SIGNATURE as SIGNATURE
from kaosmem.formats.shapes import TEXT as TEXT
from kaosmem.formats.shapes import URL as URL
from kaosmem.types import ContentBlock, JSONDict, JSONObject, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)

ID = OPTIONAL_ID
NAME = FUNCTION
DATA = IMAGE_DATA
THINKING = Field("thinking", uncounted)
PROVIDER = Field("provider", uncounted, is_optional=True)
REASONING_ID = Field("extra", uncounted, is_optional=True)
"""The provider's id of sealed thinking. Formats pass it over, as it is no JSON object."""
ARGUMENTS = Field("arguments", uncounted, is_optional=True)
RESULT_ID = Field("tool_use_id", uncounted)
EXTRA = Field("extra", uncounted, is_optional=True)
"""A mapping of further fields of a call or a result, by which its provider knows it."""
RESULT = Field("content", uncounted, is_optional=True)
"""A text, content blocks, or a value that becomes JSON text."""
ERROR = Field("error", uncounted, is_optional=True)
"""The text of a result that is an error, absent from any other."""
OUTCOME = Field("outcome", uncounted)
"""The word "success" or "failed"."""
DATA_URL = Field("url", uncounted, prefix="data:")

_KINDS: dict[Field, type[ContentBlock]] = {
    TEXT: TextBlock,
    THINKING: ThinkingBlock,
    SEALED: ThinkingBlock,
    ARGUMENTS: ToolUseBlock,
    RESULT: ToolResultBlock,
    URL: ImageBlock,
    DATA_URL: ImageBlock,
    DATA: ImageBlock,
}
"""The kinds of blocks by the field that a part of each has."""
_NEEDED: dict[type[ContentBlock], JSONDict] = {
    ThinkingBlock: {"thinking": ""},
    ToolUseBlock: {"id": ""},
    ToolResultBlock: {"content": ""},
}
"""Values that a block needs, and a part may lack."""


class PartTable:
    """The shapes of a framework's parts.

    Args:
        name: The field that names the kind of a part.
        templates: The shapes, as `kaosmem.formats.shapes` has them. The first one that fits is
            taken.
    """

    def __init__(self, name: str, *templates: Template) -> None:
        self._name = name
        self._shapes = [Shape(_kind(template), template) for template in templates]

    def read(self, parts: str | Iterable[JSONObject | str]) -> tuple[ContentBlock, ...]:
        """Return a text, or parts and texts, as content blocks.

        A note stands for a part without a shape.
        """
        return tuple(map(self._read, [parts] if isinstance(parts, str) else parts))

    def write(self, blocks: Iterable[ContentBlock]) -> list[JSONDict]:
        """Return content blocks as parts. A block without a shape is a text.

        Thinking without a shape or a seal is left out: some frameworks would show it as a text.
        """
        parts = list(filter(None, map(self._write, blocks)))
        return parts or self.write([TextBlock(EMPTY)])

    def _read(self, part: JSONObject | str) -> ContentBlock:
        if isinstance(part, str):
            return TextBlock(part)
        for shape in self._shapes:
            found = values_in(shape.template, part)
            if found is not None:
                values = {**_NEEDED.get(shape.kind, {}), **values_by_name(found)}
                return _block(shape.kind, values)
        kind = str(part[self._name])
        digest = sha256(repr(part).encode()).hexdigest()  # tells the part from others
        return OpaqueBlock("framework", kind, json_text({"type": kind, "sha256": digest}))

    def _write(self, block: ContentBlock) -> JSONDict | None:
        part = written(self._shapes, type(block), _values(block))
        if part is not None or isinstance(block, ThinkingBlock):
            return part
        return self._write(TextBlock(block_text(block)))


def _kind(template: Template) -> type[ContentBlock]:
    """Return the kind of block whose field a template has."""
    fields_of_it = [value for value in template.values() if isinstance(value, Field)]
    return next(_KINDS[field] for field in fields_of_it if field in _KINDS)


def _block(kind: type[ContentBlock], values: JSONDict) -> ContentBlock:
    if kind is ImageBlock:
        return image_of(values)
    if kind is not ThinkingBlock and "extra" in values:
        values["extra"] = json_text(values["extra"])
    if kind is ToolResultBlock:
        failed = values.pop("outcome", "success") != "success"
        error = values.pop("error", "")
        content = values["content"] or error
        values["is_error"] = bool(error or values.get("is_error")) or failed
        values["content"] = content if isinstance(content, str | tuple) else json_text(content)
    made: ContentBlock = kind(**values)
    return made


def _values(block: ContentBlock) -> JSONDict:
    """Return the values of a block by the names of fields."""
    if isinstance(block, ImageBlock):
        values = values_of(block)
        values["media_type"] = values["media_type"] or "image/*"
        return values
    values = {each.name: getattr(block, each.name) for each in fields(block)}
    if isinstance(block, ThinkingBlock):
        values["thinking"] = block.thinking if block.signature else None
        values["data"] = block.data or None
        values["extra"] = block.extra or None
    if isinstance(block, ToolUseBlock | ToolResultBlock):
        values["extra"] = json_object(block.extra) or None
    if isinstance(block, ToolResultBlock):
        values["content"] = block_text(block)
        values["error"] = values["content"] if block.is_error else None
        values["outcome"] = "failed" if block.is_error else "success"
    return values
