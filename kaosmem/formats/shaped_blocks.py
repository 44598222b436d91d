"""The blocks of a format, read, written and counted by a table of their shapes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    escaped_in_history,
    named_speaker,
)
from kaosmem.formats.fields import (
    NOT_PLAIN,
    extra_fields,
    extra_text,
    opaque_block,
    parts_of,
    plainest,
    sent_part,
)
from kaosmem.formats.shapes import (
    CUSTOM,
    EMPTY,
    OUTPUT,
    Field,
    Shape,
    image_of,
    result_text,
    values_by_name,
    values_in,
    values_of,
    written,
)
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.parts import part_tokens
from kaosmem.types import ContentBlock, JSONDict, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

Block = JSONDict
"""A block of content as the provider has it."""
ExtraNames = Mapping[type[ContentBlock], tuple[str, ...]]
"""Names of further fields by the class of the content block that keeps them."""

_BY_THE_MODEL = {"type": "direct"}
"""The caller of a call that no program made."""
_UNKNOWN = Shape(OpaqueBlock, {})
"""The shape of blocks that have none of a format's shapes."""


class ShapedBlocks(ABC):
    """The blocks of a format.

    Attributes:
        name: The name of the format, under which it also takes back its own blocks.
        message_name: The name of a message in errors, such as "an anthropic message".
        shapes: The shapes of blocks. The first one of a kind that fits is written.
        extra_names: The further fields of a call, a text or a result that go back with it.
        known_names: The names of blocks that have to have a shape. Others are kept as they are.
        image_names: The names of blocks that count as an image.
        image_tokens: The estimated tokens of an image.
        block_framing: The tokens of a block beside its content.
        takes_text: Whether content of one text is that text.
        error_mark: Says in a result that it is an error.
        success_mark: Says that it is none.
        max_tool_name_chars: The length of a tool's name.
    """

    name: str
    message_name: str
    shapes: tuple[Shape, ...]
    extra_names: ClassVar[ExtraNames] = MappingProxyType({})
    known_names: tuple[str, ...] = ()
    image_names: tuple[str, ...] = ("image",)
    image_tokens: int
    block_framing = 0
    takes_text = True
    error_mark: JSONValue = True
    success_mark: JSONValue = None
    max_tool_name_chars = 64

    def block_name(self, block: JSONObject) -> str | None:
        """Return the name by which the provider knows the kind of a block."""
        name: str | None = block.get("type")
        return name

    def tool_name(self, name: str) -> str:
        """Return the name of a tool with an underscore for each character that is refused."""
        return NOT_PLAIN.sub("_", name)[: self.max_tool_name_chars] or "_"

    def call_id(self, call_id: str) -> str | None:
        """Return the id of a call with the characters and the length that are allowed."""
        return call_id

    def extra_tokens(self, fields: JSONObject, counter: TokenCounter) -> int:
        """Return the tokens of the further fields of a block."""
        return counter(json_text(fields))

    def text(self, text: str) -> Block:
        """Return a text that kaosmem made as a block."""
        return written(self.shapes, TextBlock, {"text": text}) or {}

    def write(self, block: ContentBlock) -> Block | None:
        """Return a block as the provider has it. None: it has no such block."""
        values = self.values_of(block)
        sent = written(self.shapes, type(block), values)
        names = self.extra_names.get(type(block), ())
        if sent is not None and names:
            sent |= extra_fields(getattr(block, "extra", ""), names)
        return sent

    def values_of(self, block: ContentBlock) -> JSONDict:
        """Return the values of a content block as they are sent, by the names of fields."""
        values = values_of(block)
        if isinstance(block, ToolUseBlock):
            values["id"] = self.call_id(block.id)
            values["name"] = self.tool_name(block.name)
        if isinstance(block, ToolResultBlock):
            values["tool_use_id"] = self.call_id(block.tool_use_id)
            values["name"] = self.tool_name(block.name)
            values["content"] = self.output(block)
            values["is_error"] = self.error_mark if block.is_error else self.success_mark
        return values

    def output(self, result: ToolResultBlock) -> JSONValue:
        """Return the content of a result as it is sent."""
        if isinstance(result.content, str):
            return self.plain([self.text(result_text(result.content))])
        return self.plain(self.shown_blocks(result.content))

    def shape_of(self, block: JSONObject) -> tuple[Shape, dict[Field, JSONValue]]:
        """Return the shape of a block, and the values that it has."""
        for shape in self.shapes:
            values = values_in(shape.template, block)
            if values is None:
                continue
            names = self.extra_names.get(shape.kind, ())
            if not shape.is_whole or block.keys() <= {*shape.template, *names}:
                return shape, values
        return _UNKNOWN, {}

    def kind(self, block: JSONObject) -> type[ContentBlock]:
        """Return the class of the content block that a block is."""
        shape, _ = self.shape_of(block)
        return shape.kind

    def read(self, block: JSONObject) -> ContentBlock:
        """Return a provider's block as a content block. Raises InvalidArgumentError."""
        shape, found = self.shape_of(block)
        name = self.block_name(block)
        if shape is _UNKNOWN and name in self.known_names:
            raise InvalidArgumentError(
                f"a block of kind {name!r} in {self.message_name} lacks a field; give it as the API "
                "has it"
            )
        if shape.kind is OpaqueBlock:
            return opaque_block(block, self.name, self.message_name, kind=name)
        values = values_by_name(found)
        if shape.kind is ImageBlock:
            return image_of(values)
        if shape.kind is ThinkingBlock:
            values = {"thinking": "", "provider": self.name, **values}
        if shape.kind is ToolResultBlock:
            values = self.result_values(values)
        names = self.extra_names.get(shape.kind, ())
        if values.pop(CUSTOM.name, None):
            names = ("type", *names)
        if names:
            fields = {name: block.get(name) for name in names if block.get(name) != _BY_THE_MODEL}
            values["extra"] = extra_text(fields, names)
        made: ContentBlock = shape.kind(**values)
        return made

    def result_values(self, values: JSONDict) -> JSONDict:
        """Return the attributes of a result, of the values of its block."""
        content = plainest(self.read_content(values.get("content") or ""))
        is_error = values.get("is_error") == self.error_mark
        return {**values, "content": content, "is_error": is_error}

    def shown(self, content: Iterable[ContentBlock], *, is_assistants: bool) -> list[Block]:
        """Return content as the provider is shown it. Blank texts and others' reasoning are left out."""
        shown = (self._shown_block(block, is_assistants=is_assistants) for block in content)
        return [block for block in shown if block is not None]

    def _shown_block(self, block: ContentBlock, *, is_assistants: bool) -> Block | None:
        """Return a block as the provider is shown it, None if it is left out."""
        sent: Block | None = None
        match block:
            case OpaqueBlock():
                sent = sent_part(block, self.name)
            case ThinkingBlock():
                if is_assistants and block.is_sealed_by(self.name):
                    return self.write(block)
                return None
            case ToolUseBlock() if is_assistants:
                sent = self.write(block)
            case ImageBlock() | DocumentBlock() if not is_assistants:
                sent = self.write(block)
            case TextBlock() if block.extra:
                sent = self.write(block)
        if sent is None:
            sent = self.text(escaped_in_history(block_text(block)))
        text = sent.get("text")
        # A blank text with a signature goes back.
        if isinstance(text, str) and not text.strip() and sent == self.text(text):
            return None
        return sent

    def content_tokens(self, block: JSONObject, counter: TokenCounter) -> int:
        """Return the estimated tokens of a block without its share of the framing."""
        shape, values = self.shape_of(block)
        if shape.kind is ImageBlock or self.block_name(block) in self.image_names:
            return self.image_tokens
        if shape.kind is OpaqueBlock:
            return part_tokens(block, counter)
        tokens = sum(field.tokens(value, counter) for field, value in values.items())
        if shape.kind is ToolResultBlock:
            tokens += self.parts_tokens(values.get(OUTPUT), counter)
        names = self.extra_names.get(shape.kind, ())
        extra = {name: block[name] for name in names if name in block}
        if extra:
            return tokens + self.extra_tokens(extra, counter)
        return tokens

    def parts_tokens(self, content: JSONValue, counter: TokenCounter) -> int:
        """Return the tokens of a text or of blocks, with their framing."""
        if isinstance(content, str):
            return self.block_framing + counter(content)
        tokens = 0
        for block in content or ():
            tokens += self.block_framing + self.content_tokens(block, counter)
        return tokens

    def shown_blocks(self, content: Iterable[ContentBlock]) -> list[Block]:
        """Return blocks of a user's message or of a result, at least one."""
        return self.shown(content, is_assistants=False) or [self.text(EMPTY)]

    def plain(self, blocks: list[Block]) -> JSONValue:
        """Return blocks as the content of a message or of a result, in the plainest form."""
        if self.takes_text and len(blocks) == 1 and self.kind(blocks[0]) is TextBlock:
            return blocks[0]["text"]
        return blocks

    def read_content(self, content: JSONValue) -> list[ContentBlock]:
        """Return a text, or the blocks of a message, as content blocks."""
        if isinstance(content, str):
            return [TextBlock(content)]
        return self.read_parts(parts_of(content, self.message_name))

    def read_parts(self, parts: Iterable[JSONObject]) -> list[ContentBlock]:
        """Return the blocks of a message as content blocks."""
        return list(map(self.read, parts))


def named_message(role: str, blocks: Sequence[ContentBlock]) -> ChatMessage:
    """Return a message with checked blocks. Its role is the speaker whom its first line names.

    Raises:
        InvalidArgumentError: If the blocks cannot be kept.
    """
    content = check_content(plainest(blocks))
    if role == "user" and len(content) > 1 and isinstance(content[0], TextBlock):
        speaker = named_speaker(content[0].text)
        if speaker is not None:
            return ChatMessage(speaker, plainest(blocks[1:]))
    return ChatMessage(role, content)
