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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import mark_text, named_speaker, speaker_line
from kaosmem.formats.fields import (
    extra_fields,
    extra_text,
    mapping_of,
    opaque_block,
    parts_of,
    plain_id,
    plainest,
    sent_part,
    text_field,
    tool_name,
)
from kaosmem.formats.layout import Mark
from kaosmem.formats.openai import (
    MAX_TOOL_NAME_CHARS,
    MESSAGE_TOKENS,
    OpenAIFormat,
    Part,
    content_tokens,
    parse_part,
    result_content,
    shown_text,
)
from kaosmem.formats.shapes import EMPTY, result_text
from kaosmem.names import shown_name
from kaosmem.tokens.parts import part_tokens, sealed_tokens
from kaosmem.types import ContentBlock, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

if TYPE_CHECKING:
    from kaosmem.formats.layout import HistoryEntry, Layout, Rendered
    from kaosmem.tokens.counters import TokenCounter

_ITEM = "an openai-responses item"
_MAX_CALL_ID_CHARS = 64
_CALL_FIELDS = ("namespace", "caller", "async")
_CUSTOM = ("custom", "custom_tool_call")
_COUNTED_ITEMS = (
    "message",
    "function_call",
    "custom_tool_call",
    "function_call_output",
    "custom_tool_call_output",
)
_COUNTED_TEXTS = ("role", "call_id", "name", "arguments", "input")
_REASONING_FIELDS = ("id", "summary", "content")

_Item = dict[str, JSONValue]


def parse_message(message: object) -> ChatMessage:
    """Return items of the API as a ChatMessage: one item, a reply, or a list of its items.

    All items that the model made for one reply are one message: reasoning, texts, calls. Items of
    the provider's own tools, files, and outputs of other than functions and custom tools are kept
    as they are. Annotations and log probabilities of texts are not kept. A developer's message is a
    system message. Raises InvalidArgumentError for a value that is no item, for items of several
    messages, and for a reference, which has no content.
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
        blocks += _parse_item(item)
    first = blocks[0] if len(blocks) > 1 else None
    speaker = named_speaker(first.text) if isinstance(first, TextBlock) else None
    if role == "user" and speaker:
        role = speaker
        blocks = blocks[1:]
    return ChatMessage(role, check_content(plainest(blocks)))


def _items_of(message: object) -> list[Mapping[str, JSONValue]]:
    if isinstance(message, list | tuple):
        return parts_of(message, _ITEM)
    given = mapping_of(message, _ITEM)
    if "output" in given and given.get("object") == "response":
        return parts_of(given["output"], "an openai-responses reply")
    return [given]


def _role(item: Mapping[str, JSONValue]) -> str:
    """Return the role of the message that an item is of."""
    kind = item.get("type")
    if kind in (None, "message"):
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise InvalidArgumentError(
                f"{_ITEM} needs a type or a role, such as 'user'; this one has {shown_name(role)}"
            )
        return "system" if role == "developer" else str(role)
    if kind == "item_reference":
        raise InvalidArgumentError(
            f"{_ITEM} is a reference, which has no content; give the item itself"
        )
    if not isinstance(kind, str):
        raise InvalidArgumentError(f"the type of {_ITEM} is {shown_name(kind)}; give a str")
    return "tool" if _is_output(kind) else "assistant"


def _is_output(kind: str) -> bool:
    return kind.endswith("_call_output") or kind in ("mcp_approval_response", "tool_search_output")


def _parse_item(item: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    kind = item.get("type")
    match kind:
        case None | "message":
            yield from _parse_message_item(item)
        case "reasoning":
            yield _parse_reasoning(item)
        case "function_call" | "custom_tool_call":
            is_custom = kind == "custom_tool_call"
            fields = {name: item.get(name) for name in _CALL_FIELDS}
            if fields["caller"] == {"type": "direct"}:
                fields["caller"] = None
            typed = {"type": kind} if is_custom else {}
            yield ToolUseBlock(
                text_field(item, "call_id", _ITEM),
                text_field(item, "name", _ITEM),
                text_field(item, "input" if is_custom else "arguments", _ITEM),
                extra=extra_text({**typed, **fields}, ("type", *_CALL_FIELDS)),
            )
        case "function_call_output" | "custom_tool_call_output":
            yield _parse_output(item)
        case _:
            yield opaque_block(item, ResponsesFormat.name, _ITEM)


def _parse_message_item(item: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    content = item.get("content")
    extra = extra_text(item, ("phase",))
    if isinstance(content, str):
        yield TextBlock(content, extra=extra)
        return
    for part in parts_of(content, _ITEM):
        parsed = _parse_part(part)
        yield TextBlock(parsed.text, extra=extra) if isinstance(parsed, TextBlock) else parsed


def _parse_part(part: Mapping[str, JSONValue]) -> Part:
    return parse_part(part, ResponsesFormat.name, _ITEM)


def _parse_reasoning(item: Mapping[str, JSONValue]) -> ThinkingBlock:
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


def _parse_output(item: Mapping[str, JSONValue]) -> ToolResultBlock:
    output = item.get("output")
    given = [{"type": "text", "text": output}] if isinstance(output, str) else output
    parts = map(_parse_part, parts_of(given, _ITEM))
    return ToolResultBlock(
        text_field(item, "call_id", _ITEM),
        result_content(parts),
        extra=extra_text(item, ("caller",)),
        name=str(item.get("name") or ""),
    )


class ResponsesFormat(OpenAIFormat):
    """Input items of OpenAI's Responses API, as dicts."""

    name = "openai-responses"
    text_type = "input_text"
    empty = EMPTY

    def groups(self, messages: Sequence[object]) -> list[object]:
        """Return a list of items with one element a message: items of one reply are together."""
        grouped: list[object] = []
        reply: list[object] = []
        for message in messages:
            if _is_of_reply(message):
                reply.append(message)
                continue
            if reply:
                grouped.append(reply)
                reply = []
            grouped.append(message)
        return [*grouped, reply] if reply else grouped

    def image_part(self, url: str, detail: str) -> _Item:
        return {"type": "input_image", "image_url": url, "detail": detail or "auto"}

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, JSONValue]] = ()) -> Rendered:
        rendered = super().render(layout, after=after)
        custom: set[str] = set()
        for item in rendered.messages or ():
            kind = item.get("type")
            if kind == "custom_tool_call":
                custom.add(item["call_id"])
            elif kind == "function_call":
                custom.discard(item["call_id"])
            elif kind == "function_call_output" and item["call_id"] in custom:
                item["type"] = "custom_tool_call_output"
        return rendered

    def entry_messages(self, entry: HistoryEntry) -> list[_Item]:
        if isinstance(entry, Mark):
            return [{"role": "user", "content": mark_text(entry)}]
        items = []
        rest: list[ContentBlock] = []
        for block in entry.blocks:
            if isinstance(block, ToolResultBlock):
                items.append(self._output(block))
            else:
                rest.append(block)
        has_calls = any(isinstance(block, ToolUseBlock) for block in rest)
        if entry.role == "assistant" or has_calls:
            items += _assistants_items(rest)
        elif rest or not items:
            items += self._users_items(entry.role, rest)
        return items or [{"role": "assistant", "content": EMPTY}]

    def _output(self, result: ToolResultBlock) -> _Item:
        output: JSONValue
        if isinstance(result.content, str):
            output = result_text(result.content)
        else:
            output = self.plain(self.parts(result.content, images=True))
        call_id = _call_id(result.tool_use_id)
        # `render` gives the outputs of custom tools their type.
        sent: _Item = {"type": "function_call_output", "call_id": call_id, "output": output}
        return sent | extra_fields(result.extra, ("caller",))

    def _users_items(self, role: str, content: Iterable[ContentBlock]) -> list[_Item]:
        """Return items of a user's message: its parts are one item, other items stay apart."""
        is_system = role == "system"
        items: list[_Item] = []
        parts: list[_Item] = []
        for block in content:
            if _is_item(block):
                items.append(sent_part(block, self.name) or {})
            else:
                parts += self.parts((block,), images=not is_system)
        if items and not parts:
            return items
        if not is_system and role != "user":
            parts.insert(0, self.text_part(speaker_line(role)))
        sent = {"role": "system" if is_system else "user", "content": self.plain(parts)}
        return [*items, sent]

    def message_tokens(self, message: Mapping[str, JSONValue], counter: TokenCounter) -> int:
        kind = message.get("type", "message")
        if kind == "reasoning":
            # The summary is for people; the model reads the encrypted content.
            return MESSAGE_TOKENS + sealed_tokens(message.get("encrypted_content") or "")
        if kind not in _COUNTED_ITEMS:
            return MESSAGE_TOKENS + part_tokens(message, counter)
        tokens = MESSAGE_TOKENS
        for name, value in message.items():
            if name in _COUNTED_TEXTS:
                tokens += counter(value)
            elif name in ("content", "output"):
                tokens += content_tokens(value, counter)
            elif name in _CALL_FIELDS:
                tokens += counter(json_text({name: value}))
        return tokens

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)


def _is_of_reply(message: object) -> bool:
    """Return whether an item, of a dict or an object, is one that the model made."""
    given = message if isinstance(message, Mapping) else vars(message)
    return _role(given) == "assistant"


def _is_item(block: ContentBlock) -> TypeGuard[OpaqueBlock]:
    """Return whether a block was an item of its own, not a part of a message."""
    is_own = isinstance(block, OpaqueBlock) and block.provider == ResponsesFormat.name
    return is_own and not block.kind.startswith("input_")  # type: ignore[union-attr]


def _assistants_items(content: Iterable[ContentBlock]) -> list[_Item]:
    items = []
    for block in content:
        item = _assistants_item(block)
        if item is not None:
            items.append(item)
    # Reasoning is refused without an item that follows from it.
    while items and items[-1].get("type") == "reasoning":
        del items[-1]
    return items


def _assistants_item(block: ContentBlock) -> _Item | None:
    match block:
        case ThinkingBlock():
            return _reasoning(block) if block.is_sealed_by(ResponsesFormat.name) else None
        case ToolUseBlock():
            return _call(block)
        case OpaqueBlock() if _is_item(block):
            return sent_part(block, ResponsesFormat.name)
    shown = shown_text(block_text(block))
    if not shown:
        return None
    phase = extra_fields(block.extra, ("phase",)) if isinstance(block, TextBlock) else {}
    return {"role": "assistant", "content": shown, **phase}


def _reasoning(block: ThinkingBlock) -> _Item:
    fields = extra_fields(block.extra, _REASONING_FIELDS)
    summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    sent = {"type": "reasoning", "summary": summary, "encrypted_content": block.data}
    return sent | fields


def _call(call: ToolUseBlock) -> _Item:
    name = tool_name(call.name, max_chars=MAX_TOOL_NAME_CHARS)
    sent: _Item = {"call_id": _call_id(call.id), "name": name}
    fields = extra_fields(call.extra, _CALL_FIELDS)
    if _is_custom(call.extra):
        return {"type": "custom_tool_call", **sent, "input": call.arguments, **fields}
    return {"type": "function_call", **sent, "arguments": call.arguments, **fields}


def _is_custom(extra: str) -> bool:
    return extra_fields(extra, ("type",)).get("type") in _CUSTOM


def _call_id(call_id: str) -> str:
    is_plain = 0 < len(call_id) <= _MAX_CALL_ID_CHARS and call_id.isascii()
    if is_plain and call_id.isprintable():
        return call_id
    return plain_id(call_id, max_chars=_MAX_CALL_ID_CHARS)
