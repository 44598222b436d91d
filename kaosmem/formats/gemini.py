"""Gemini's contents: the system instruction beside contents with parts, as `blocks` says.

Contents have the names of the REST API, which the package google-genai takes too. Neighbours of one
role are one content. A signature goes back in the part that it came in. A call without one, of
another provider or made by the application, gets the value that tells Gemini to check none, if it
is the first of its content. Source: Gemini API, "Thought signatures", frequently asked questions.

A text result is `{"output": text}`, an error `{"error": text}`. A document is a text. An image by
its address needs a media type.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

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
    CallIds,
    extra_fields,
    extra_text,
    json_object,
    mapping_of,
    opaque_block,
    parts_of,
    plainest,
    sendable_url,
    sent_part,
    split_data_url,
    text_field,
    tool_name,
)
from kaosmem.names import shown_name
from kaosmem.tokens.parts import part_tokens, sealed_tokens
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

IMAGE_TOKENS = 1_120
"""The estimated tokens of an image. Source: Gemini API, "Media resolution": high for Gemini 3."""

NAME_TOKENS = 6
"""The estimated tokens of the name in a result: it is that of the call, which stands elsewhere."""

UNCHECKED = "skip_thought_signature_validator"
"""Stands for the signature of a call that Gemini did not make."""

_CONTENT = "a gemini content"
_SIGNATURE = "thoughtSignature"
_RESULT_FIELDS = ("is_object",)
"""Says of a result that its text is the whole response, which is a JSON object."""
_MAX_TOOL_NAME_CHARS = 64
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

_Inner: TypeAlias = TextBlock | ImageBlock | OpaqueBlock


def parse_message(message: object) -> ChatMessage:
    """Return a content of the API, a dict or an object of its SDK, as a ChatMessage.

    A whole response is taken for the content of its only candidate. The fields of a dict may have
    the names of the REST API or of the package google-genai. A content of nothing but function
    responses has the role "tool", one under a speaker's line the speaker's. A call without an id
    gets one by its name and number. A part that only Gemini can read, such as a file or code that
    it ran, is kept as it is. Raises InvalidArgumentError for a value that is no content, has no
    parts, or could not be kept.
    """
    given = _content_of(_plain(mapping_of(message, _CONTENT)))
    role = given.get("role") or "user"
    if role not in ("user", "model", "function"):
        raise InvalidArgumentError(
            f"{_CONTENT} has a role of 'user' or 'model', not {shown_name(role)}"
        )
    if "content" in given or "parts" not in given:
        raise InvalidArgumentError(f"{_CONTENT} has no parts; give 'parts', a list")
    parts = parts_of(given["parts"] or [], _CONTENT)
    numbers: Counter[tuple[str, str]] = Counter()
    blocks = [_parse_part(part, numbers) for part in parts]
    role, blocks = role_and_blocks(blocks, is_assistants=role == "model")
    return ChatMessage(role, check_content(plainest(blocks)))


def _content_of(given: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    """Return the content of a response, and a content as it is."""
    if "candidates" not in given:
        return given
    candidates = parts_of(given["candidates"], "a gemini response")
    if len(candidates) != 1:
        raise InvalidArgumentError(
            f"a gemini response has {len(candidates)} candidates; give the content of one"
        )
    content = mapping_of(candidates[0].get("content"), _CONTENT)
    return {"role": "model", "parts": [], **content}


def _plain(value: JSONValue, *, is_free: bool = False) -> JSONValue:
    """Return a value with the names of the REST API, its bytes in base64.

    Args:
        is_free: Whether the names are an application's own, in arguments and results of its tools.
    """
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        plain = {}
        for name, member in value.items():
            camel = name if is_free else _SNAKE.sub(lambda found: found[1].upper(), str(name))
            inner = member
            if camel == _SIGNATURE and isinstance(member, str):
                inner = _standard(member)
            plain[camel] = _plain(inner, is_free=is_free or camel in _WITH_FREE_NAMES)
        return plain
    if isinstance(value, list | tuple):
        return [_plain(each, is_free=is_free) for each in value]
    return value


def _standard(data: str) -> str:
    """Return base64 in its standard letters; the SDK writes the ones for addresses."""
    if data == UNCHECKED or not {"-", "_"} & set(data):
        return data
    try:
        return b64encode(urlsafe_b64decode(data)).decode()
    except (Base64Error, ValueError):
        return data


def _parse_part(part: Mapping[str, JSONValue], numbers: Counter[tuple[str, str]]) -> ContentBlock:
    """Return a part as a block.

    Args:
        numbers: The calls and the results without ids so far, by kind and name. The part is added.
    """
    extra = extra_text(part, (_SIGNATURE,)) if part.get(_SIGNATURE) != UNCHECKED else ""
    match part:
        case {"thought": True, "text": str() as text}:
            signature = part.get(_SIGNATURE) or ""
            return ThinkingBlock(text, signature, provider=GeminiFormat.name)
        case {"functionCall": Mapping() as call}:
            name = text_field(call, "name", "a functionCall")
            arguments = json_text(call.get("args") or {})
            call_id = _id_of(call, "call", name, numbers)
            return ToolUseBlock(call_id, name, arguments, extra=extra)
        case {"functionResponse": Mapping() as response}:
            return _parse_response(response, numbers)
    inner = _parse_inner(part)
    if isinstance(inner, TextBlock):
        return TextBlock(inner.text, extra=extra)
    return inner


def _id_of(
    given: Mapping[str, JSONValue], kind: str, name: str, numbers: Counter[tuple[str, str]]
) -> str:
    """Return the id of a call or a result. Results without ids stand in the order of the calls."""
    given_id = given.get("id")
    if isinstance(given_id, str) and given_id:
        return given_id
    numbers[kind, name] += 1
    return f"{_WITHOUT_ID}{name}:{numbers[kind, name]}"


def _parse_response(
    given: Mapping[str, JSONValue], numbers: Counter[tuple[str, str]]
) -> ToolResultBlock:
    name = text_field(given, "name", "a functionResponse")
    response = given.get("response") or {}
    is_error = False
    extra = ""
    match response:
        case {"output": str() as text} if len(response) == 1:
            pass
        case {"error": str() as text} if len(response) == 1:
            is_error = True
        case Mapping():
            text = json_text(response)
            extra = extra_text({"is_object": True}, _RESULT_FIELDS)
        case _:
            raise InvalidArgumentError(
                f"the response of {shown_name(name)} is no object; give {{'output': text}}"
            )
    content: ResultContent = text
    if given.get("parts"):
        parts = parts_of(given["parts"], "a functionResponse")
        content = (TextBlock(text), *map(_parse_inner, parts))
    call_id = _id_of(given, "result", name, numbers)
    return ToolResultBlock(call_id, content, is_error, extra=extra, name=name)


def _parse_inner(part: Mapping[str, JSONValue]) -> _Inner:
    """Return a part that is neither a call nor a result nor a thought."""
    match part:
        case {"text": str() as text} if not part.keys() - {"text", "thought", _SIGNATURE}:
            return TextBlock(text)
        case {"inlineData": {"mimeType": str() as media_type, "data": str() as data}} if (
            media_type.startswith("image/") and len(part) == 1
        ):
            return ImageBlock(f"data:{media_type};base64,{_standard(data)}", media_type)
        case {"fileData": {"mimeType": str() as media_type, "fileUri": str() as url}} if (
            media_type.startswith("image/") and len(part) == 1 and sendable_url(url)
        ):
            return ImageBlock(url, media_type)
    kind = next((name for name in (*_MEMBERS, *part) if name in part), None)
    if kind is None or (kind == "text" and not isinstance(part["text"], str)):
        raise InvalidArgumentError(f"a part of {_CONTENT} is empty; give it as the API has it")
    return opaque_block(part, GeminiFormat.name, _CONTENT, kind=kind)


class GeminiFormat(BlockFormat):
    """A system instruction and contents of Gemini's API, as dicts."""

    name = "gemini"
    merges = True
    is_trimmed = False
    has_thinking_first = False
    roles = ("user", "model")
    content_name = "parts"

    def text(self, text: str) -> Block:
        return {"text": text}

    def said(self, block: TextBlock) -> Block | None:
        signature = extra_fields(block.extra, (_SIGNATURE,))
        shown = escaped_in_history(block.text)
        if not shown.strip() and not signature:
            return None
        return {"text": shown, **signature}

    def image(self, image: ImageBlock) -> Block | None:
        url = sendable_url(image.url)
        if url is None:
            return None
        data_url = split_data_url(url)
        if data_url is not None:
            return {"inlineData": {"mimeType": data_url[0], "data": data_url[1]}}
        if not image.media_type:
            return None
        return {"fileData": {"mimeType": image.media_type, "fileUri": url}}

    def thinking(self, block: ThinkingBlock) -> Block:
        return {"text": block.thinking, "thought": True, _SIGNATURE: block.signature}

    def call(self, call: ToolUseBlock) -> Block:
        sent = {"id": call.id, "name": _name(call.name), "args": arguments_of(call)}
        return {"functionCall": sent, **extra_fields(call.extra, (_SIGNATURE,))}

    def result(self, result: ToolResultBlock) -> Block:
        text = result.content if isinstance(result.content, str) else ""
        parts: list[Block] = []
        if not isinstance(result.content, str):
            texts = []
            for part in result.content:
                shown = self._inner(part)
                if shown is None:
                    texts.append(block_text(part))
                else:
                    parts.append(shown)
            text = "\n".join(texts)
        # `set_id` puts the name of the call here.
        sent: Block = {"id": result.tool_use_id, "name": _name(result.name)}
        sent["response"] = _response(result, text)
        if parts:
            sent["parts"] = parts
        return {"functionResponse": sent}

    def _inner(self, part: ContentBlock) -> Block | None:
        """Return an image or a file in a result; None for what is shown as a text."""
        shown = None
        if isinstance(part, ImageBlock):
            shown = self.image(part)
        elif isinstance(part, OpaqueBlock):
            shown = sent_part(part, self.name)
        return shown

    def finished(self, blocks: list[Block]) -> list[Block]:
        for block in blocks:
            if "functionCall" in block:
                block.setdefault(_SIGNATURE, UNCHECKED)
                break
        return blocks

    def kind(self, block: Mapping[str, JSONValue]) -> str:
        if "functionCall" in block:
            return Kind.CALL
        if "functionResponse" in block:
            return Kind.RESULT
        if "text" in block:
            return Kind.THINKING if block.get("thought") else Kind.TEXT
        return Kind.OTHER

    def id_place(self, block: Mapping[str, JSONValue]) -> tuple[Any, str]:
        return block["functionCall" if "functionCall" in block else "functionResponse"], "id"

    def set_id(self, block: Block, ids: CallIds) -> None:
        inner, _ = self.id_place(block)
        stored = inner["id"]
        if "functionCall" in block:
            ids.names[stored] = inner["name"]
        inner["name"] = ids.names.get(stored, inner["name"])
        if stored.startswith(_WITHOUT_ID):
            del inner["id"]
        else:
            super().set_id(block, ids)

    def content_tokens(self, block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
        signature = block.get(_SIGNATURE)
        tokens = sealed_tokens(signature) if isinstance(signature, str) else 0
        match block:
            case {"functionCall": call}:
                tokens += ID_TOKENS + counter(call["name"]) + counter(json_text(call["args"]))
            case {"functionResponse": response}:
                tokens += ID_TOKENS + NAME_TOKENS
                tokens += fields_tokens(response["response"], counter)
                tokens += self.tokens(response.get("parts", ()), counter)
            case {"text": text}:
                tokens += counter(text)
            case {"inlineData": {"mimeType": kind}} | {"fileData": {"mimeType": kind}} if str(
                kind
            ).startswith("image/"):
                tokens += IMAGE_TOKENS
            case _:
                tokens += part_tokens(block, counter)
        return tokens

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)


def _name(name: str) -> str:
    plain = tool_name(name, max_chars=_MAX_TOOL_NAME_CHARS)
    if plain[0].isalpha() or plain[0] == "_":
        return plain
    return f"_{plain}"[:_MAX_TOOL_NAME_CHARS]


def _response(result: ToolResultBlock, text: str) -> dict[str, JSONValue]:
    """Return a result as an object: the one that it was, or one with its text."""
    shown = escaped_in_history(text)
    if extra_fields(result.extra, _RESULT_FIELDS):
        response = json_object(shown)
        if response is not None:
            return response
    return {"error" if result.is_error else "output": result_text(text)}
