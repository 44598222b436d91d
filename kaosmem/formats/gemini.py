"""Gemini's contents: the system instruction beside contents with parts, as `blocks` says.

Contents have the names of the REST API, which the package google-genai takes too. Neighbours of one
role are one content. A signature goes back in the part that it came in. A call without one, of
another provider or made by the application, gets the value that tells Gemini to check none, if it
is the first of its content. Source: Gemini API, "Thought signatures", frequently asked questions.

A result whose text is a JSON object is that object, any other is `{"output": text}`, and an error
`{"error": text}`. A document is a text. An image by
its address needs a media type.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from kaosmem.arguments import check_json, json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.blocks import BlockFormat
from kaosmem.formats.delimiters import escaped_in_history
from kaosmem.formats.fields import (
    json_object,
    mapping_of,
    only_one,
    parts_of,
    sent_part,
)
from kaosmem.formats.shaped_blocks import Block, ExtraNames
from kaosmem.formats.shapes import (
    ARGUMENTS,
    COUNTED_SIGNATURE,
    ID_TOKENS,
    IMAGE_DATA,
    MEDIA_TYPE,
    NAME,
    OPTIONAL_ID,
    OUTPUT,
    RESPONSE,
    TEXT,
    THINKING,
    URL,
    Field,
    Shape,
    result_text,
)
from kaosmem.names import shown_name
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.parts import sealed_tokens
from kaosmem.types import ContentBlock, JSONDict, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)

IMAGE_TOKENS = 1_120
"""The estimated tokens of an image. Source: Gemini API, "Media resolution": high for Gemini 3."""

NAME_TOKENS = 6
"""The estimated tokens of the name in a result: it is that of the call, which stands elsewhere."""

UNCHECKED = "skip_thought_signature_validator"
"""Stands for the signature of a call that Gemini did not make."""

_SIGNATURE = "thoughtSignature"
_BASE64 = (_SIGNATURE, "data")
_STANDARD = str.maketrans("-_", "+/")
"""The standard letters of base64; the SDK writes the ones for addresses."""
_WITHOUT_ID = "gemini:"
"""The stored id of a call that came without one begins so: its name and number follow."""
_MEMBERS = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "text",
)
"""The fields of a part of which each part has one."""
_WITH_FREE_NAMES = ("args", "response")
_SNAKE = re.compile(r"_([a-z])")
_CALL = {"id": OPTIONAL_ID, "name": NAME, "args": ARGUMENTS}
_RESULT_NAME = Field("name", lambda name, counter: ID_TOKENS + NAME_TOKENS)
_RESULT_ID = Field("tool_use_id", is_optional=True)
_RESULT = {"id": _RESULT_ID, "name": _RESULT_NAME, "response": RESPONSE, "parts": OUTPUT}
_DATA = {"mimeType": MEDIA_TYPE, "data": IMAGE_DATA}
_FILE = {"mimeType": MEDIA_TYPE, "fileUri": URL}


def _plain(value: JSONValue) -> JSONValue:
    """Return a value with the names of the REST API, its bytes in base64.

    Arguments and results of an application's tools stay as they are.
    """
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        plain = {}
        for name, member in value.items():
            camel = _SNAKE.sub(lambda found: found[1].upper(), str(name))
            if camel in _BASE64 and isinstance(member, str) and member != UNCHECKED:
                plain[camel] = member.translate(_STANDARD)
            elif camel in _WITH_FREE_NAMES:
                plain[camel] = member
            elif camel != "thought" or member:
                plain[camel] = _plain(member)
        return plain
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return value


class GeminiFormat(BlockFormat):
    """A system instruction and contents of Gemini's API, as dicts.

    Contents that are read may have the names of the REST API or of the package google-genai. A call
    without an id gets one by its name and number.
    """

    name = "gemini"
    message_name = "a gemini content"
    shapes = (
        Shape(ThinkingBlock, {"text": THINKING, "thought": True, _SIGNATURE: COUNTED_SIGNATURE}),
        Shape(TextBlock, {"text": TEXT, "thought": None}),
        Shape(ToolUseBlock, {"functionCall": _CALL}),
        Shape(ToolResultBlock, {"functionResponse": _RESULT}),
        Shape(ImageBlock, {"inlineData": _DATA}, is_whole=True),
        Shape(ImageBlock, {"fileData": _FILE}, is_whole=True),
    )
    extra_names: ClassVar[ExtraNames] = {TextBlock: (_SIGNATURE,), ToolUseBlock: (_SIGNATURE,)}
    known_names = ("functionCall", "functionResponse")
    image_tokens = IMAGE_TOKENS
    takes_text = False
    kept_ids = (_WITHOUT_ID,)
    merges = True
    is_arranged = False
    roles = ("user", "model")
    other_roles = ("function",)
    content_name = "parts"

    def message_of(self, given: JSONObject) -> JSONObject:
        """Return the content of a response, and a content as it is, with the names of the API."""
        content = _plain(given)
        if "candidates" in content:
            candidate = only_one(content["candidates"], "the candidates of a gemini response")
            found = mapping_of(candidate.get("content"), self.message_name)
            content = {"role": "model", "parts": [], **found}
        return {**content, "role": content.get("role") or "user"}

    def check_content(self, given: JSONObject) -> None:
        """Check that a content has parts. Raises InvalidArgumentError."""
        if "content" in given or not isinstance(given.get("parts", ""), list | None):
            raise InvalidArgumentError(f"{self.message_name} has no parts; give 'parts', a list")

    def block_name(self, block: JSONObject) -> str | None:
        """Return the member of a part."""
        return next((name for name in (*_MEMBERS, *block) if name in block), None)

    def tool_name(self, name: str) -> str:
        """Return the name of a tool, which begins with a letter or `_`."""
        plain = super().tool_name(name)
        if plain[0].isalpha() or plain[0] == "_":
            return plain
        return super().tool_name(f"_{plain}")

    def read_parts(self, parts: Iterable[JSONObject]) -> list[ContentBlock]:
        """Return parts as content blocks. Results without ids stand in the order of the calls."""
        numbers: Counter[tuple[str, str]] = Counter()
        named = []
        for part in parts:
            for member in ("functionCall", "functionResponse"):
                inner = part.get(member)
                if isinstance(inner, Mapping) and not inner.get("id"):
                    name = str(inner.get("name"))
                    numbers[member, name] += 1
                    call_id = f"{_WITHOUT_ID}{name}:{numbers[member, name]}"
                    part = {**part, member: {**inner, "id": call_id}}
            named.append(part)
        return super().read_parts(named)

    def read(self, block: JSONObject) -> ContentBlock:
        """Return a part as a content block. Raises InvalidArgumentError."""
        if block.get(_SIGNATURE) == UNCHECKED:
            block = {name: value for name, value in block.items() if name != _SIGNATURE}
        return super().read(block)

    def call_id(self, call_id: str) -> str | None:
        """Return the id of a call; None for one that came without."""
        if call_id.startswith(_WITHOUT_ID):
            return None
        return call_id

    def result_values(self, values: JSONDict) -> JSONDict:
        """Return the attributes of a result, of the values of its part."""
        values = dict(values)
        response = values.pop("response", None) or {}
        is_error = False
        match response:
            case {"output": str() as text} if len(response) == 1:
                pass
            case {"error": str() as text} if len(response) == 1:
                is_error = True
            case Mapping():
                text = json_text(check_json(response, "a response"))
            case _:
                raise InvalidArgumentError(
                    f"the response of {shown_name(values['name'])} is no object; give "
                    "{'output': text}"
                )
        content: Any = text
        if values.get("content"):
            parts = self.read_parts(parts_of(values["content"], "a functionResponse"))
            content = (TextBlock(text), *parts)
        return {**values, "content": content, "is_error": is_error}

    def values_of(self, block: ContentBlock) -> JSONDict:
        """Return the values of a content block as they are sent, by the names of fields."""
        values = super().values_of(block)
        if isinstance(block, ToolResultBlock):
            values["response"] = self._response(block)
        return values

    def output(self, result: ToolResultBlock) -> JSONValue:
        """Return the images and files of a result, None for none."""
        parts = () if isinstance(result.content, str) else result.content
        return list(filter(None, map(self._inner, parts))) or None

    def _response(self, result: ToolResultBlock) -> JSONDict:
        """Return the texts of a result as an object: the one that they are, or one with them."""
        text = result.content
        if not isinstance(text, str):
            text = "\n".join(block_text(part) for part in text if self._inner(part) is None)
        if result.is_error:
            return {"error": result_text(text)}
        if text.strip():
            response = json_object(escaped_in_history(text))
            if response is not None:
                return response
        return {"output": result_text(text)}

    def _inner(self, part: ContentBlock) -> Block | None:
        """Return an image or a file in a result; None for what is shown as a text."""
        if isinstance(part, OpaqueBlock):
            return sent_part(part, self.name)
        if isinstance(part, ImageBlock):
            return self.write(part)
        return None

    def extra_tokens(self, fields: JSONObject, counter: TokenCounter) -> int:
        """Return the tokens of a signature."""
        return sealed_tokens(str(fields[_SIGNATURE]))

    def finished(self, blocks: list[Block]) -> list[Block]:
        """Return a model's parts. The first call has a signature, or says that it has none."""
        for block in blocks:
            if "functionCall" in block:
                block.setdefault(_SIGNATURE, UNCHECKED)
                break
        return blocks
