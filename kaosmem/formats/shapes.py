"""Shapes of a provider's blocks: templates by which they are read, written and counted.

A template looks like a block in the provider's documentation, with a `Field` in place of each value
that a content block of kaosmem has:

    {"type": "tool_use", "id": ID, "name": NAME, "input": ARGUMENTS}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from kaosmem.arguments import json_text
from kaosmem.formats.delimiters import escaped_in_history
from kaosmem.formats.fields import json_object, sendable_url, split_data_url
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.parts import sealed_tokens
from kaosmem.types import ContentBlock, JSONDict, JSONObject, JSONValue
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

ID_TOKENS = 8
"""The estimated tokens of the id in a call, and in its result."""
EMPTY = "(empty)"
"""Stands where a text is blank and nothing else is there, since providers refuse blank texts."""
_MAX_TITLE_CHARS = 500
_DETAILS = ("auto", "low", "high", "original")


def uncounted(value: JSONValue, counter: TokenCounter) -> int:
    """Return no tokens: the value is counted elsewhere, or not at all."""
    return 0


class Field(NamedTuple):
    """The place of a value in a template.

    Attributes:
        name: The attribute of the content block.
        tokens: Returns the estimated tokens of a value.
        is_optional: Whether a block may lack it.
        prefix: How each value begins.
    """

    name: str
    tokens: Callable[[Any, TokenCounter], int] = uncounted
    is_optional: bool = False
    prefix: str = ""

    def takes(self, value: JSONValue) -> bool:
        """Return whether a value may stand here."""
        return value is not None and (not self.prefix or str(value).startswith(self.prefix))


def _of_text(text: str, counter: TokenCounter) -> int:
    return counter(text)


def _of_json(value: JSONValue, counter: TokenCounter) -> int:
    return counter(json_text(value))


def _of_data(data: str, counter: TokenCounter) -> int:
    return sealed_tokens(data)


def _of_call(name: str, counter: TokenCounter) -> int:
    """Return the tokens of a call's name and of its id, which some calls get only in a request."""
    return ID_TOKENS + counter(name)


def _of_id(call_id: str, counter: TokenCounter) -> int:
    """Return the tokens of an id, which a request may number."""
    return ID_TOKENS


TEXT = Field("text", _of_text)
TITLE = Field("title", _of_text, is_optional=True)
THINKING = Field("thinking", _of_text)
SIGNATURE = Field("signature", is_optional=True)
COUNTED_SIGNATURE = Field("signature", _of_data, is_optional=True)
SEALED = Field("data", _of_data)
OPTIONAL_SEALED = Field("data", _of_data, is_optional=True)
ID = Field("id")
OPTIONAL_ID = Field("id", is_optional=True)
RESULT_ID = Field("tool_use_id", _of_id)
NAME = Field("name", _of_call)
ARGUMENTS = Field("arguments", _of_json, is_optional=True)
RESPONSE = Field("response", _of_json, is_optional=True)
MEDIA_TYPE = Field("media_type", prefix="image/")
IMAGE_FORMAT = Field("format")
IMAGE_DATA = Field("data")
URL = Field("url", prefix="http")
ANY_URL = Field("url")
DETAIL = Field("detail", is_optional=True)
CALL_ID = Field("id", _of_text)
OUTPUT_ID = Field("tool_use_id", _of_text)
FUNCTION = Field("name", _of_text)
CALL_TEXT = Field("arguments", _of_text)
OUTPUT = Field("content", is_optional=True)
"""The content of a result: a text or blocks, which are counted as such."""
FAILED = Field("is_error", is_optional=True)
CUSTOM = Field("custom", prefix="custom")
"""The type of a call of a custom tool."""
ANY = Field("type")
"""A field that a block has, with any value."""

Template: TypeAlias = JSONObject
"""Fields, constants and templates by the names of the API. A name with None is absent."""


class Shape(NamedTuple):
    """The template of one kind of block.

    Attributes:
        kind: The class of content blocks that have the shape.
        is_whole: Whether a block with further fields has another shape.
    """

    kind: type[ContentBlock]
    template: Template
    is_whole: bool = False


def values_in(template: Template, block: JSONObject) -> dict[Field, JSONValue] | None:
    """Return the values of a block by the fields of a template; None if it has another shape."""
    values: dict[Field, JSONValue] = {}
    for name, wanted in template.items():
        given = block.get(name)
        if isinstance(wanted, Field):
            if wanted.takes(given):
                values[wanted] = given
            elif not wanted.is_optional:
                return None
        elif isinstance(wanted, Mapping):
            if not isinstance(given, Mapping):
                return None
            inner = values_in(wanted, given)
            if inner is None:
                return None
            values |= inner
        elif given != wanted:
            return None
    return values


def values_by_name(values: Mapping[Field, JSONValue]) -> JSONDict:
    """Return values by the names of their fields."""
    return {field.name: value for field, value in values.items()}


def filled(template: Template, values: JSONObject) -> JSONDict | None:
    """Return a block with values in place of the fields; None if a needed one is missing."""
    block: JSONDict = {}
    for name, wanted in template.items():
        value = wanted
        if isinstance(wanted, Field):
            value = values.get(wanted.name)
            if not wanted.takes(value) and not (value is None and wanted.is_optional):
                return None
        elif isinstance(wanted, Mapping):
            value = filled(wanted, values)
            if value is None:
                return None
        if value is not None:
            block[name] = value
    return block


def written(
    shapes: Iterable[Shape],
    kind: type[ContentBlock],
    values: JSONObject,
) -> JSONDict | None:
    """Return a block with values in the first shape that fits, None if there is none."""
    for shape in shapes:
        if shape.kind is kind:
            block = filled(shape.template, values)
            if block is not None:
                return block
    return None


def values_of(block: ContentBlock) -> JSONDict:
    """Return the values of a content block as they are shown, by the names of fields."""
    match block:
        case TextBlock():
            return {"text": escaped_in_history(block.text)}
        case ThinkingBlock():
            sealed = {"signature": block.signature or None, "data": block.data or None}
            return {"thinking": block.thinking, **sealed}
        case ToolUseBlock():
            return {"id": block.id, "name": block.name, "arguments": _arguments(block)}
        case DocumentBlock():
            title = escaped_in_history(block.title)[:_MAX_TITLE_CHARS]
            shown_title = title if title.strip() else None
            return {"text": result_text(block.text), "title": shown_title}
        case ImageBlock():
            return _image_values(block)
    return {}


def _image_values(image: ImageBlock) -> JSONDict:
    """Return the values of an image, of one with a `data:` URL its data."""
    url = sendable_url(image.url)
    data_url = split_data_url(url or "")
    detail = image.detail if image.detail in _DETAILS else None
    values = {"url": url, "detail": detail}
    if data_url is None:
        return {**values, "media_type": image.media_type or None}
    media_type, data = data_url
    values |= {"media_type": media_type, "data": data}
    return {**values, "format": media_type.removeprefix("image/")}


def image_of(values: JSONObject) -> ImageBlock:
    """Return the image with the values of a block."""
    media_type = values.get("media_type") or ""
    if "format" in values:
        media_type = f"image/{values['format']}"
    if "data" in values:
        return ImageBlock(f"data:{media_type};base64,{values['data']}", media_type)
    url = values["url"]
    if not media_type:
        media_type, _ = split_data_url(str(url)) or ("", "")
    return ImageBlock(url, media_type, str(values.get("detail") or ""))


def _arguments(call: ToolUseBlock) -> JSONDict:
    """Return a call's arguments as an object: {} for none.

    A text that is no JSON object is kept as text.
    """
    arguments = json_object(call.arguments)
    if arguments is None:
        return {"arguments": call.arguments}
    return arguments


def shown_text(text: str) -> str:
    """Return a text as it is shown, "" for a blank one."""
    shown = escaped_in_history(text)
    if shown.strip():
        return shown
    return ""


def result_text(text: str) -> str:
    """Return the text of a result as it is shown, "(empty)" for a blank one."""
    return shown_text(text) or EMPTY
