"""Anthropic's messages: the system prompt beside messages by the API's rules.

Tokens are an estimate.

Anthropic publishes no tokenizer, so tokens are an **estimate**: the session's counter for every text, plus a constant
for each content block, each id and each image. It is the sum over the blocks, however they are spread over messages.

The request differs from the stored messages where the API lacks a kind of content:

- Static pieces are the system prompt. A context of static sections alone has no messages.
- The results of a batch of calls stand in one user message after it.
- A message of any other role than user and assistant is a user's under a line that names the speaker. That holds for
  system messages too, since older models take none between others.
- A history that begins with the assistant gets an opening.
- Blank texts are left out, or "(empty)" where nothing else is left. White space at the end of the assistant's last
  text goes, as the API refuses it there.
- Reasoning is sent only to its assistant message, sealed, and before all else, unless the reply has parts of the
  provider's own tools between.
- A part of another provider is a text that stands for it.
- Images and documents that the assistant sends, and images that no provider takes, are texts.
- Arguments that are no JSON object become `{"arguments": their text}`.
- Ids get the characters that are allowed. An id that was used before is numbered, in a call and its result alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    BLOCK_BEGIN,
    BLOCK_END,
    OPENING,
    escaped_in_history,
    mark_text,
    named_speaker,
    speaker_line,
)
from kaosmem.formats.fields import (
    FIELDS_ELSEWHERE,
    CallIds,
    check_has_content,
    extra_fields,
    extra_text,
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
from kaosmem.formats.layout import BlockPlace, Mark, Rendered
from kaosmem.names import shown_name
from kaosmem.tokens.parts import part_tokens, sealed_tokens
from kaosmem.types import ContentBlock, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    DocumentBlock,
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
    from kaosmem.formats.layout import HistoryEntry, Layout
    from kaosmem.tokens.counters import TokenCounter


_MESSAGE = "an anthropic message"
_ROLES = ("user", "assistant", "system")


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A user's message of nothing but results has the role "tool", one under a speaker's line the
    speaker's. Cache breakpoints and citations are not kept. A block of any other type, such as a
    PDF or the result of a web search, is kept as it is. Raises InvalidArgumentError for a value
    that is no message, has no content, or could not be kept.
    """
    given = mapping_of(message, _MESSAGE)
    role = given.get("role")
    content = given.get("content")
    if role not in _ROLES:
        raise InvalidArgumentError(
            f"{_MESSAGE} has a role of {', '.join(map(repr, _ROLES))}, not {shown_name(role)}"
        )
    check_has_content(given, _MESSAGE)
    if isinstance(content, str):
        return ChatMessage(role, check_content(content))
    blocks = [_parse_block(block) for block in parts_of(content, _MESSAGE)]
    if role == "user" and blocks and all(isinstance(block, ToolResultBlock) for block in blocks):
        role = "tool"
    elif role == "user" and (speaker := _speaker(blocks)):
        role = speaker
        blocks = blocks[1:]
    return ChatMessage(role, check_content(plainest(blocks)))


def _speaker(blocks: Sequence[ContentBlock]) -> str | None:
    first = blocks[0] if len(blocks) > 1 else None
    return named_speaker(first.text) if isinstance(first, TextBlock) else None


def _parse_block(block: Mapping[str, JSONValue]) -> ContentBlock:
    match block:
        case {"type": "thinking", "thinking": thinking}:
            return ThinkingBlock(thinking, block.get("signature") or "")
        case {"type": "redacted_thinking", "data": data}:
            return ThinkingBlock("", data=data)
        case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
            return ToolUseBlock(
                call_id, name, _arguments(arguments), extra=extra_text(block, _call_fields(block))
            )
        case {"type": "tool_result"}:
            return _parse_result(block)
    return _parse_part(block, _MESSAGE)


def _call_fields(call: Mapping[str, JSONValue]) -> Iterator[str]:
    """Yield the further fields of a call that go back with it.

    A call by the model itself needs no caller.
    """
    for name in _CALL_FIELDS:
        if call.get(name) != {"type": "direct"}:
            yield name


def _arguments(value: JSONValue) -> str:
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the input of a tool_use is not JSON: {error}") from None


def _parse_result(block: Mapping[str, JSONValue]) -> ToolResultBlock:
    what = "a tool_result"
    call_id = text_field(block, "tool_use_id", what)
    if any(field in block for field in FIELDS_ELSEWHERE):
        check_has_content(block, what)
    given = block.get("content") or ""
    content: ResultContent
    if isinstance(given, str):
        content = given
    else:
        parts = [_parse_part(part, what) for part in parts_of(given, what)]
        content = (
            parts[0].text if len(parts) == 1 and isinstance(parts[0], TextBlock) else tuple(parts)
        )
    return ToolResultBlock(
        call_id, content, bool(block.get("is_error")), extra=extra_text(block, _RESULT_FIELDS)
    )


def _parse_part(
    part: Mapping[str, JSONValue], where: str
) -> TextBlock | ImageBlock | DocumentBlock | OpaqueBlock:
    match part:
        case {"type": "text", "text": text}:
            return TextBlock(text)
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str() as media_type, "data": str() as data},
        }:
            return ImageBlock(f"data:{media_type};base64,{data}", media_type)
        case {"type": "image", "source": {"type": "url", "url": url}}:
            return ImageBlock(url)
        case {"type": "document", "source": {"type": "text", "data": text}}:
            return DocumentBlock(text, part.get("title") or "")
    kind = part.get("type")
    has_source = isinstance(part.get("source"), Mapping)
    if kind in _KNOWN or (kind in ("image", "document") and not has_source):
        raise InvalidArgumentError(
            f"a block of type {kind!r} in {where} lacks a field; give it as the API has it"
        )
    return opaque_block(part, AnthropicFormat.name, where)


_KNOWN = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result")
_RESULT_FIELDS = ("toolset_name",)
_CALL_FIELDS = ("caller", *_RESULT_FIELDS)

BLOCK_TOKENS = 4
"""The estimated tokens of a content block beside its text, with its share of the framing."""
ID_TOKENS = 8
"""The estimated tokens of the id in a call, and in its result."""
REPLY_TOKENS = 3
IMAGE_TOKENS = 1_600
"""The estimated tokens of an image.

Source: Anthropic, "Vision": width x height / 750; scaling keeps it below.
"""

EMPTY = "(empty)"
"""Stands where a text is blank and nothing else is there, since the API refuses blank texts."""

_MAX_TOOL_NAME_CHARS = 128
_MAX_TITLE_CHARS = 500

_Block = dict[str, JSONValue]


class AnthropicFormat:
    """A system prompt and messages of Anthropic's messages API, as dicts."""

    name = "anthropic"

    def entry_tokens(
        self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None
    ) -> int:
        """Return the estimated tokens of one entry of a history."""
        blocks = [block for _, blocks in _entry_messages(entry) for block in blocks]
        if (
            known is not None
            and isinstance(entry, ChatMessage)
            and blocks[-1].get("text") == entry.content
        ):
            return known + BLOCK_TOKENS + _tokens(blocks[:-1], counter)
        return _tokens(blocks, counter)

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return 0

    def frame_tokens(
        self,
        *,
        static: bool,
        first: HistoryEntry | None,
        block: BlockPlace | None,
        counter: TokenCounter,
    ) -> int:
        tokens = REPLY_TOKENS if static or first is not None or block else 0
        if static:
            tokens += BLOCK_TOKENS
        if first is not None and _is_assistants(first):
            tokens += BLOCK_TOKENS + counter(OPENING)
        if block:
            tokens += BLOCK_TOKENS + counter(BLOCK_BEGIN) + counter(BLOCK_END)
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        if isinstance(entry, Mark):
            return False
        role, blocks = _entry_messages(entry)[-1]
        return role == "user" and not _has_results(blocks)

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, JSONValue]] = ()) -> Rendered:
        entries = [entry for part in layout.history for entry in part.entries]
        messages = (
            [("user", [_text(OPENING)])]
            if entries and not after and _is_assistants(entries[0])
            else []
        )
        ids = CallIds(_call_ids(after))
        for entry in entries:
            for role, blocks in _entry_messages(entry):
                _assign_ids(blocks, ids)
                if _is_results(blocks) and messages and _is_results(messages[-1][1]):
                    messages[-1][1].extend(blocks)
                else:
                    messages.append((role, blocks))
        if layout.block:
            block = _text("".join((BLOCK_BEGIN, *layout.block, BLOCK_END)))
            if layout.block_place is BlockPlace.IN_MESSAGE:
                messages[-1][1].insert(0, block)
            else:
                messages.append(("user", [block]))
        return Rendered(
            system="".join(layout.static),
            messages=[{"role": role, "content": _plain(each)} for role, each in messages],
        )

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        """Return the estimated tokens of a rendered context, counted from scratch."""
        blocks = [
            block for message in rendered.messages or () for block in _blocks_of(message["content"])
        ]
        if rendered.system:
            blocks.append(_text(rendered.system))
        return _tokens(blocks, counter) + (REPLY_TOKENS if blocks else 0)

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)


def _call_ids(messages: Iterable[Mapping[str, JSONValue]]) -> Iterator[str]:
    """Yield the ids of the calls in messages."""
    for message in messages:
        for block in _blocks_of(message["content"]):
            if block["type"] == "tool_use":
                yield block["id"]


def _assign_ids(blocks: Iterable[_Block], ids: CallIds) -> None:
    """Put the ids of calls and results in place of the stored ones."""
    for block in blocks:
        if block["type"] == "tool_use":
            block["id"] = ids.call(block["id"])
        elif block["type"] == "tool_result":
            block["tool_use_id"] = ids.result(block["tool_use_id"])


def _is_assistants(entry: HistoryEntry) -> bool:
    """Say whether an entry of a history begins with the assistant's words."""
    return isinstance(entry, ChatMessage) and _entry_messages(entry)[0][0] == "assistant"


def _entry_messages(entry: HistoryEntry) -> list[tuple[str, list[_Block]]]:
    """Return the API's messages for one entry of a history, as roles and blocks with stored ids."""
    if isinstance(entry, Mark):
        return [("user", [_text(mark_text(entry))])]
    results = [_result(block) for block in entry.blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in entry.blocks if not isinstance(block, ToolResultBlock)]
    if results and not others:
        return [("user", results)]
    if entry.role == "assistant" or any(isinstance(block, ToolUseBlock) for block in others):
        answered = [("user", results)] if results else []
        return [*answered, ("assistant", _assistants_blocks(others))]
    return [("user", [*results, *_users_blocks(entry.role, others)])]


def _users_blocks(role: str, content: Iterable[ContentBlock]) -> list[_Block]:
    blocks = [sent for block in content if (sent := _users_block(block))] or [_text(EMPTY)]
    return blocks if role == "user" else [_text(speaker_line(role)), *blocks]


def _users_block(block: ContentBlock) -> _Block | None:
    match block:
        case TextBlock():
            return _text_unless_blank(block.text)
        case DocumentBlock():
            source = {"type": "text", "media_type": "text/plain", "data": _shown(block.text)}
            title = escaped_in_history(block.title)[:_MAX_TITLE_CHARS]
            return {
                "type": "document",
                "source": source,
                **({"title": title} if title.strip() else {}),
            }
        case ImageBlock():
            return _image(block)
        case OpaqueBlock():
            return _opaque(block)
    return None


def _opaque(block: OpaqueBlock) -> _Block:
    return sent_part(block, AnthropicFormat.name) or _text(escaped_in_history(block_text(block)))


def _assistants_blocks(content: Sequence[ContentBlock]) -> list[_Block]:
    blocks = [sent for block in content if (sent := _assistants_block(block))]
    has_parts = any(isinstance(block, OpaqueBlock) for block in content)
    # Thinking stays where it is between a server's tools: whoever moves it is refused.
    if blocks and not _is_thinking(blocks[0]) and not has_parts:
        blocks.sort(key=lambda block: not _is_thinking(block))
    if not blocks or _is_thinking(blocks[-1]):
        blocks.append(_text(EMPTY))
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks


def _assistants_block(block: ContentBlock) -> _Block | None:
    match block:
        case ThinkingBlock(data="", signature=""):
            return None
        case ThinkingBlock(data=""):
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case ThinkingBlock():
            return {"type": "redacted_thinking", "data": block.data}
        case ToolUseBlock():
            name = tool_name(block.name, max_chars=_MAX_TOOL_NAME_CHARS)
            extra = extra_fields(block.extra, _CALL_FIELDS)
            return {
                "type": "tool_use",
                "id": block.id,
                "name": name,
                "input": _input(block.arguments),
                **extra,
            }
        case OpaqueBlock():
            return _opaque(block)
    return _text_unless_blank(block_text(block))


def _input(arguments: str) -> dict[str, JSONValue]:
    """Return a call's arguments as an object: {} for none.

    A text that is no JSON object is kept as text.
    """
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
        json_text(value).encode()  # NaN, infinity and lone surrogates can be read, but not sent
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def _result(result: ToolResultBlock) -> _Block:
    content: JSONValue
    if isinstance(result.content, str):
        content = _shown(result.content)
    else:
        content = _plain(
            [sent for part in result.content if (sent := _users_block(part))] or [_text(EMPTY)]
        )
    error = {"is_error": True} if result.is_error else {}
    extra = extra_fields(result.extra, _RESULT_FIELDS)
    return {
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": content,
        **error,
        **extra,
    }


def _image(image: ImageBlock) -> _Block:
    url = sendable_url(image.url)
    if url is None:
        return _text(escaped_in_history(block_text(image)))
    data_url = split_data_url(url)
    if data_url is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": data_url[0], "data": data_url[1]},
    }


def _text_unless_blank(text: str) -> _Block | None:
    shown = escaped_in_history(text)
    return _text(shown) if shown.strip() else None


def _shown(text: str) -> str:
    shown = escaped_in_history(text)
    return shown if shown.strip() else EMPTY


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _plain(blocks: list[_Block]) -> JSONValue:
    """Return blocks in the API's plainest form: one text is a string."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _is_thinking(block: _Block) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _has_results(blocks: Iterable[_Block]) -> bool:
    return any(block["type"] == "tool_result" for block in blocks)


def _is_results(blocks: Iterable[_Block]) -> bool:
    return all(block["type"] == "tool_result" for block in blocks)


def _blocks_of(content: JSONValue) -> list[Mapping[str, JSONValue]]:
    return [_text(content)] if isinstance(content, str) else list(content or ())


def _tokens(blocks: Iterable[Mapping[str, JSONValue]], counter: TokenCounter) -> int:
    return sum(BLOCK_TOKENS + _content_tokens(block, counter) for block in blocks)


def _content_tokens(block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    match block:
        case {"type": "text", "text": text} | {"type": "thinking", "thinking": text}:
            return counter(text)
        case {"type": "redacted_thinking", "data": data}:
            return sealed_tokens(data)
        case {"type": "tool_use", "name": name, "input": arguments}:
            tokens = counter(name) + counter(json_text(arguments))
            return ID_TOKENS + tokens + _extra_tokens(block, counter)
        case {"type": "tool_result"}:
            return (
                ID_TOKENS
                + _tokens(_blocks_of(block.get("content")), counter)
                + _extra_tokens(block, counter)
            )
        case {"type": "image"}:
            return IMAGE_TOKENS
        case {"type": "document", "source": {"type": "text", "data": text}}:
            return counter(text) + counter(block.get("title") or "")
    return part_tokens(block, counter)


def _extra_tokens(block: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    extra = {name: block[name] for name in _CALL_FIELDS if name in block}
    return counter(json_text(extra)) if extra else 0
