"""Content of messages: texts and blocks, and the trust of each origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from kaosmem.arguments import (
    STRICT_JSON,
    JSONObject,
    JSONValue,
    check_text,
    checked_json_text,
    json_text,
)
from kaosmem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_MAX_REASON_CHARS = 200
_MAX_NOTE_CHARS = 120
_PLACES_OF_TEXT = {
    "search_result": ("content",),
    "document": ("source", "content"),
    "searchResult": ("searchResult", "content"),
    "guardContent": ("guardContent", "text"),
    "citationsContent": ("citationsContent", "content"),
}
"""The fields in which an opaque part of a kind has its text, or a list of texts."""
_NOT_IN_NOTE = re.compile(r"[\[\]]+")


class _Block:
    """The common part of blocks. A repr shows the length of the text, not the text."""

    __slots__ = ()
    # Pydantic is imported when the first block is checked, not with kaosmem.
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "revalidate_instances": "always",
    }

    def __repr__(self: Any) -> str:
        return f"<{type(self).__name__} {len(block_text(self)):,} characters>"


@dataclass(frozen=True, slots=True, repr=False)
class TextBlock(_Block):
    """Plain text.

    Attributes:
        extra: JSON text of further fields by which its provider knows the text, such as a
            signature.
    """

    text: str
    type: Literal["text"] = "text"
    extra: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ThinkingBlock(_Block):
    """A model's reasoning. It is no text: only the provider that gave it is shown it, in its place.

    Attributes:
        signature: The provider's seal. Without a seal or data, the block may not be sent back.
        data: Encrypted reasoning.
        provider: Name of the format that takes it back.
        extra: JSON text of further fields by which its provider knows the block, such as an id.
    """

    thinking: str
    signature: str = ""
    data: str = ""
    type: Literal["thinking"] = "thinking"
    provider: str = "anthropic"
    extra: str = ""

    @property
    def is_sealed(self) -> bool:
        """Return whether its provider takes it back."""
        return bool(self.signature or self.data)

    def is_sealed_by(self, provider: str) -> bool:
        """Return whether the format of this name sends it. No other provider sees it."""
        return self.provider == provider and self.is_sealed


@dataclass(frozen=True, slots=True, repr=False)
class ToolUseBlock(_Block):
    """A call of a tool.

    `arguments` is JSON text as the model wrote it, so that it goes back unchanged.

    A mapping is accepted and becomes JSON text. Raises InvalidArgumentError for values that JSON
    can't hold.

    Attributes:
        extra: JSON text of further fields by which its provider knows the call, such as that of a
            custom tool.

    >>> ToolUseBlock("call-1", "search", {"query": "notice period"}).arguments
    '{"query":"notice period"}'
    """

    id: str
    name: str
    arguments: str = "{}"
    type: Literal["tool_use"] = "tool_use"
    extra: str = ""

    if TYPE_CHECKING:  # what the generated one takes

        def __init__(
            self,
            id: str,
            name: str,
            arguments: str | JSONObject = "{}",
            type: Literal["tool_use"] = "tool_use",
            extra: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.arguments, Mapping):
            object.__setattr__(self, "arguments", _arguments(self.arguments))


@dataclass(frozen=True, slots=True, repr=False)
class ImageBlock(_Block):
    """An image, by web address or `data:` URL.

    `detail` sets how closely OpenAI's models look at it.
    """

    url: str
    media_type: str = ""
    detail: str = ""
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True, repr=False)
class DocumentBlock(_Block):
    """A document inside a message."""

    text: str
    title: str = ""
    type: Literal["document"] = "document"


@dataclass(frozen=True, slots=True, repr=False)
class OpaqueBlock(_Block):
    """A part of a message that only its provider can read, such as a PDF or a web search.

    It goes back to that provider as it came. In any other format, and where it is recalled, its
    text stands for it, or a note if it has none that can be read.

    Attributes:
        provider: Name of the format that takes it back.
        kind: The type of the part, or the name of its field for providers whose parts have no type.
        data: The part as JSON text.
        name: Name of a file or a tool, for the note.

    Raises:
        InvalidArgumentError: If data is no JSON object of that type.

    >>> data = '{"type":"file","file":{"file_id":"f1"}}'
    >>> block_text(OpaqueBlock("openai", "file", data, "lease.pdf"))
    '[file lease.pdf, for openai alone]'
    """

    provider: str
    kind: str
    data: str
    name: str = ""
    type: Literal["opaque"] = "opaque"

    def __post_init__(self) -> None:
        try:
            part = STRICT_JSON.decode(self.data)
            json_text(part).encode()  # no lone surrogates
        except (TypeError, ValueError, RecursionError):
            part = None
        if not isinstance(part, dict) or part.get("type", self.kind) != self.kind:
            part = None
        if part is None or ("type" not in part and self.kind not in part):
            raise InvalidArgumentError(
                "an opaque block has data that is no JSON object of its kind; give the provider's "
                "part as JSON text"
            )


ResultContent: TypeAlias = str | tuple[TextBlock | ImageBlock | DocumentBlock | OpaqueBlock, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ToolResultBlock(_Block):
    """The result of the call with the id `tool_use_id`.

    Attributes:
        content: A text, or texts, images, documents and opaque parts.
        extra: JSON text of further fields by which its provider knows the result.
        name: The name of the tool, "" if only the call says it.
    """

    tool_use_id: str
    content: ResultContent = ""
    is_error: bool = False
    type: Literal["tool_result"] = "tool_result"
    extra: str = ""
    name: str = ""


ContentBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | OpaqueBlock
)
_BLOCK_TYPES = frozenset(
    get_args(ContentBlock)
)  # a look-up takes a fifth of `isinstance` of a union
Content: TypeAlias = str | tuple[ContentBlock, ...]


def block_text(block: ContentBlock) -> str:
    """Return the text of a block, which is searched, summarised and recalled.

    It also stands for the block in a format without such blocks. Thinking has no text: a model's
    reasoning never stands where anybody's words could.
    """
    match block:
        case TextBlock() | DocumentBlock(title=""):
            return block.text
        case DocumentBlock():
            return f"{block.title}\n{block.text}"
        case ThinkingBlock():
            return ""
        case ToolUseBlock():
            return f"{block.name}({block.arguments})"
        case ToolResultBlock():
            if isinstance(block.content, str):
                return block.content
            return "\n".join(map(block_text, block.content))
        case ImageBlock():
            return f"[image {block.media_type}]".replace(" ]", "]")
        case OpaqueBlock() if texts := _readable_texts(block):
            return "\n".join([block.name, *texts] if block.name else texts)
        case OpaqueBlock():
            named = " ".join(_NOT_IN_NOTE.sub(" ", f"{block.kind} {block.name}").split())
            return f"[{named[:_MAX_NOTE_CHARS]}, for {block.provider} alone]"


def _readable_texts(block: OpaqueBlock) -> list[str]:
    """Return the texts of an opaque part whose kind has them in a known place."""
    if block.kind not in _PLACES_OF_TEXT:
        return []
    value = json.loads(block.data)
    for name in _PLACES_OF_TEXT[block.kind]:
        value = value.get(name) if isinstance(value, dict) else None
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def content_text(content: Content) -> str:
    """Return content as one text, a block a paragraph. Thinking is no text.

    >>> content_text((ThinkingBlock("The user may mean Ann."), TextBlock("Which Ann?")))
    'Which Ann?'
    """
    if isinstance(content, str):
        return content
    return "\n".join(block_text(block) for block in content if not isinstance(block, ThinkingBlock))


def said_text(content: Content) -> str:
    """Return content as one text, without the results of tools."""
    if isinstance(content, str):
        return content
    return content_text(tuple(each for each in content if not isinstance(each, ToolResultBlock)))


def unshown_chars(content: Content) -> int:
    """Return the number of characters that only a provider sees: of thinking and opaque parts."""
    chars = 0
    if isinstance(content, str):
        return chars
    for block in content:
        match block:
            case ThinkingBlock():
                chars += len(block.thinking) + len(block.data)
            case OpaqueBlock():
                chars += max(0, len(block.data) - len(block_text(block)))
            case ToolResultBlock():
                chars += unshown_chars(block.content)
    return chars


def is_block(value: object) -> bool:
    """Return whether a value is a content block."""
    return type(value) in _BLOCK_TYPES or isinstance(value, ContentBlock)


def check_content(content: str | Iterable[ContentBlock | JSONObject]) -> Content:
    """Return content as a str or a tuple of blocks. Raises InvalidArgumentError."""
    if isinstance(content, str):
        return check_text(content, "content")
    try:
        given = tuple(map(_with_arguments, content))
    except TypeError:
        raise InvalidArgumentError(
            f"content is a {type(content).__name__}; give a str or content blocks, such as "
            "TextBlock"
        ) from None
    try:
        checked = _adapter().validate_python(given)
    except ValueError as error:
        if hasattr(error, "errors"):
            reason = _reason(error.errors()[0])
        else:
            reason = type(error).__name__
        raise InvalidArgumentError(
            f"content is neither a str nor content blocks: {reason}"
        ) from None
    try:
        _adapter().dump_json(checked)
    except ValueError as error:
        raise InvalidArgumentError(
            f"content has a text that UTF-8 cannot hold: {error}; decode it with errors='replace'"
        ) from None
    return checked


def _arguments(given: JSONObject) -> str:
    return checked_json_text(given, "arguments of a tool call")


def _with_arguments(block: Any) -> Any:
    """Return a block, or the mapping of one, with the arguments of a call as JSON text."""
    if isinstance(block, Mapping) and isinstance(arguments := block.get("arguments"), Mapping):
        return {**block, "arguments": _arguments(arguments)}
    return block


def _reason(problem: Mapping[str, Any]) -> str:
    """Return which field of which block is wrong, and why.

    An unknown type or field is not shown, as it may be content.
    """
    block, *fields = problem["loc"] or ("?",)
    match problem["type"]:
        case "union_tag_invalid":
            return f"block {block}: its type is none of {problem['ctx']['expected_tags']}"
        case "unexpected_keyword_argument":
            return f"block {block}: it has a field that a block of its type does not have"
    where = f"block {block}"
    if len(fields) > 1:
        where += f", field {fields[-1]!r}"
    return f"{where}: {problem['msg'][:_MAX_REASON_CHARS]}"


def stored_blocks(stored: JSONValue) -> tuple[ContentBlock, ...]:
    """Return the blocks that `content_json` gave. Raises ValueError."""
    return _adapter().validate_python(stored)


def content_json(content: Content) -> JSONValue:
    """Return content as JSON values, of which `check_content` makes it again."""
    if isinstance(content, str):
        return content
    return list(_adapter().dump_python(content))


@cache
def _adapter() -> TypeAdapter[tuple[ContentBlock, ...]]:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(tuple[Annotated[ContentBlock, Field(discriminator="type")], ...])


class Trust(IntEnum):
    """The origin of a text, least trusted first."""

    EXTERNAL = 0
    TOOL = 1
    MODEL = 2
    USER = 3
    APPLICATION = 4


_ROLE_TRUST = {
    "system": Trust.APPLICATION,
    "user": Trust.USER,
    "assistant": Trust.MODEL,
    "tool": Trust.TOOL,
}


def trust_of(role: str, content: Content) -> Trust:
    """Return the trust of a role.

    A message with a tool's result has at most the trust of a tool.
    """
    of_role = _ROLE_TRUST.get(role, Trust.MODEL)
    holds_results = not isinstance(content, str) and any(
        isinstance(block, ToolResultBlock) for block in content
    )
    if holds_results:
        return min(of_role, Trust.TOOL)
    return of_role
