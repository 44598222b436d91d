"""OpenAI's Responses: a layout as input items, counted as chat messages are.

A stored message may become several items, in their order: reasoning, texts, calls. The system
message is the first item, so that `input=context.messages` is the whole request. The request
differs from the stored messages where the API lacks a kind of content:

- Reasoning is sent only to this API, with its encrypted content, before an item that follows from it.
- A message of any other role than system, user and assistant is a user's, under a line that names the
  speaker.
- Items of the provider's own tools go back as they came. In another format a note stands for them.
- Ids of messages and calls are left out: the API needs none, and refuses some without their
  reasoning.
- Documents, images that no provider takes, and parts of other providers are texts. Blank texts are
  left out. An error is its text alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar, TypeGuard

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import speaker_line
from kaosmem.formats.fields import (
    extra_fields,
    extra_text,
    mapping_of,
    parts_of,
    sent_part,
    text_field,
)
from kaosmem.formats.openai import (
    CHAT_PARTS,
    ITEM_PARTS,
    MESSAGE_TOKENS,
    OpenAIFormat,
)
from kaosmem.formats.shaped_blocks import ExtraNames, named_message
from kaosmem.formats.shapes import (
    CALL_ID,
    CALL_TEXT,
    CUSTOM,
    EMPTY,
    FUNCTION,
    OPTIONAL_SEALED,
    OUTPUT,
    OUTPUT_ID,
    Shape,
    shown_text,
)
from kaosmem.names import shown_name
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import ContentBlock, JSONDict, JSONObject, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)
from kaosmem.types.items import ChatMessage

_ITEM = "an openai-responses item"
_REASONING_FIELDS = ("id", "summary", "content")
_CALL = {"type": "function_call", "call_id": CALL_ID, "name": FUNCTION, "arguments": CALL_TEXT}
_OUTPUT = {"call_id": OUTPUT_ID, "output": OUTPUT}
_CUSTOM_CALL = {"type": CUSTOM, "call_id": CALL_ID, "name": FUNCTION, "input": CALL_TEXT}


class ResponsesFormat(OpenAIFormat):
    """Input items of OpenAI's Responses API, as dicts."""

    name = "openai-responses"
    message_name = _ITEM
    shapes = (
        *ITEM_PARTS,
        *CHAT_PARTS,
        Shape(ToolUseBlock, _CUSTOM_CALL),
        Shape(ToolUseBlock, _CALL),
        Shape(ToolResultBlock, {"type": "function_call_output", **_OUTPUT}),
        Shape(ToolResultBlock, {"type": "custom_tool_call_output", **_OUTPUT}),
        # The summary is for people; the model reads the encrypted content.
        Shape(ThinkingBlock, {"type": "reasoning", "encrypted_content": OPTIONAL_SEALED}),
    )
    extra_names: ClassVar[ExtraNames] = {
        ToolUseBlock: ("namespace", "caller", "async"),
        ToolResultBlock: ("caller",),
    }
    known_names = (
        *OpenAIFormat.known_names,
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "custom_tool_call_output",
    )
    custom_type = "custom_tool_call"
    empty = EMPTY

    def parse(self, message: object) -> ChatMessage:
        """Return items of the API as a ChatMessage: one item, a reply, or a list of its items.

        All items that the model made for one reply are one message: reasoning, texts, calls. Items
        of the provider's own tools, files, and outputs of other than functions and custom tools are
        kept as they are. Annotations and log probabilities of texts are not kept. A developer's
        message is a system message.

        Raises:
            InvalidArgumentError: If the value is no item, or is a reference, which has no content,
                or if the items are of several messages.
        """
        items = _items_of(message)
        roles = {_role(item) for item in items}
        if len(roles) != 1:
            raise InvalidArgumentError(
                f"{len(items)} items of openai-responses are {len(roles)} messages; add each message "
                "by itself, or use sync_messages"
            )
        role = roles.pop()
        blocks: list[ContentBlock] = []
        for item in items:
            blocks += self._read_item(item)
        return named_message(role, blocks)

    def _read_item(self, item: JSONObject) -> Iterator[ContentBlock]:
        if item.get("type") not in (None, "message"):
            yield self.read(item)
            return
        extra = extra_text(item, ("phase",))
        for block in self.read_content(item.get("content")):
            if isinstance(block, TextBlock):
                block = TextBlock(block.text, extra=extra)
            yield block

    def read(self, block: JSONObject) -> ContentBlock:
        """Return an item, or a part of one, as a content block. Raises InvalidArgumentError."""
        if block.get("type") == "reasoning":
            return _reasoning(block)
        return super().read(block)

    def values_of(self, block: ContentBlock) -> JSONDict:
        """Return the values of a content block as they are sent, by the names of fields."""
        values = super().values_of(block)
        if isinstance(block, ImageBlock):
            values["detail"] = values["detail"] or "auto"
        return values

    def groups(self, messages: Sequence[object]) -> list[object]:
        """Return a list of items with one element a message: items of one reply are together."""
        grouped: list[object] = []
        for is_reply, items in groupby(messages, _is_of_reply):
            run = list(items)
            grouped += [run] if is_reply else run
        return grouped

    def joined(self, messages: list[JSONDict], after: Sequence[JSONObject]) -> list[JSONDict]:
        """Return items, of which the outputs of custom tools get their type."""
        custom: set[str] = set()
        for item in messages:
            kind = item.get("type")
            if kind == "custom_tool_call":
                custom.add(item["call_id"])
            elif kind == "function_call":
                custom.discard(item["call_id"])
            elif kind == "function_call_output" and item["call_id"] in custom:
                item["type"] = "custom_tool_call_output"
        return messages

    def users_messages(
        self,
        role: str,
        results: Sequence[ToolResultBlock],
        content: Sequence[ContentBlock],
    ) -> list[JSONDict]:
        """Return outputs, and what a speaker said: parts are one item, other items stay apart.

        `joined` gives outputs of custom tools their type.
        """
        items = [self.write(result) or {} for result in results]
        said: list[ContentBlock] = []
        for block in content:
            if _is_item(block):
                items.append(sent_part(block, self.name) or {})
            elif not isinstance(block, ThinkingBlock):
                said.append(block)
        parts = self.shown(said, is_assistants=role == "system")
        if items and not parts:
            return items
        if role not in ("system", "user"):
            parts.insert(0, self.text(speaker_line(role)))
            role = "user"
        return [*items, {"role": role, "content": self.plain(parts)}]

    def message_tokens(self, message: JSONObject, counter: TokenCounter) -> int:
        if message.get("type", "message") != "message":
            return MESSAGE_TOKENS + self.content_tokens(message, counter)
        return super().message_tokens(message, counter)

    def assistants_messages(self, content: Sequence[ContentBlock]) -> list[JSONDict]:
        """Return items for reasoning, texts and calls, in their order."""
        items = list(filter(None, map(self._assistants_item, content)))
        # Reasoning is refused without an item that follows from it.
        while items and items[-1].get("type") == "reasoning":
            del items[-1]
        return items or [{"role": "assistant", "content": EMPTY}]

    def _assistants_item(self, block: ContentBlock) -> JSONDict | None:
        match block:
            case ThinkingBlock():
                if block.is_sealed_by(self.name):
                    return _reasoning_item(block)
                return None
            case ToolUseBlock():
                return self.write(block)
            case OpaqueBlock() if _is_item(block):
                return sent_part(block, self.name)
        shown = shown_text(block_text(block))
        if not shown:
            return None
        item: JSONDict = {"role": "assistant", "content": shown}
        if isinstance(block, TextBlock):
            item |= extra_fields(block.extra, ("phase",))
        return item


def _items_of(message: object) -> list[JSONObject]:
    """Return the items of a message: one, a list of them, or those of a reply."""
    if isinstance(message, list | tuple):
        return parts_of(message, _ITEM)
    given = mapping_of(message, _ITEM)
    if "output" in given and given.get("object") == "response":
        return parts_of(given["output"], "an openai-responses reply")
    return [given]


def _role(item: JSONObject) -> str:
    """Return the role of the message that an item is of."""
    kind = item.get("type")
    if kind in (None, "message"):
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise InvalidArgumentError(
                f"{_ITEM} needs a type or a role, such as 'user'; this one has {shown_name(role)}"
            )
        if role == "developer":
            return "system"
        return str(role)
    if kind == "item_reference":
        raise InvalidArgumentError(
            f"{_ITEM} is a reference, which has no content; give the item itself"
        )
    if _is_output(str(kind)):
        return "tool"
    return "assistant"


def _is_output(kind: str) -> bool:
    """Return whether items of a kind are results, which the application sends."""
    return kind.endswith("_call_output") or kind in ("mcp_approval_response", "tool_search_output")


def _reasoning(item: JSONObject) -> ThinkingBlock:
    """Return reasoning, its summary as its text.

    A summary of one part is made of the text again. Others are kept as they are.
    """
    texts = []
    for name in ("summary", "content"):
        parts = parts_of(item.get(name) or [], "reasoning")
        texts += [text_field(part, "text", "reasoning") for part in parts]
    fields = {"id": item.get("id"), "summary": None, "content": None}
    if len(texts) > 1 or item.get("content"):
        fields["summary"] = item.get("summary")
        fields["content"] = item.get("content") or None
    return ThinkingBlock(
        "\n\n".join(texts),
        data=item.get("encrypted_content") or "",
        provider=ResponsesFormat.name,
        extra=extra_text(fields, _REASONING_FIELDS),
    )


def _is_of_reply(message: object) -> bool:
    """Return whether an item, of a dict or an object, is one that the model made."""
    given = message if isinstance(message, Mapping) else vars(message)
    return _role(given) == "assistant"


def _is_item(block: ContentBlock) -> TypeGuard[OpaqueBlock]:
    """Return whether a block was an item of its own, not a part of a message."""
    if not isinstance(block, OpaqueBlock) or block.provider != ResponsesFormat.name:
        return False
    return not block.kind.startswith("input_")


def _reasoning_item(block: ThinkingBlock) -> JSONDict:
    """Return reasoning as an item, with its own summary if that was kept."""
    summary = []
    if block.thinking:
        summary.append({"type": "summary_text", "text": block.thinking})
    sent = {"type": "reasoning", "summary": summary, "encrypted_content": block.data}
    return sent | extra_fields(block.extra, _REASONING_FIELDS)
