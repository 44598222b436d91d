"""OpenAI's chat completions: a layout as messages by the API's rules, counted as it counts them.

Source of the counting rule: OpenAI's cookbook, "How to count tokens with tiktoken", extended to
text parts, tool call ids and tool calls. The tokens of tool schemas belong in `reserve`. An image
is an estimate.

The request differs from the stored messages where the API lacks a kind of content. Reasoning is
left out. A document is a text. An image outside a user's message, one that no provider takes, and a
part of another provider are texts that stand for them. A blank text part is left out, and a blank
text is empty. An error is its text alone. Ids and names get the characters and lengths that are
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    BLOCK_BEGIN,
    BLOCK_END,
    PROVIDERS_ROLES,
    escaped_in_history,
    mark_text,
    speaker_name,
)
from kaosmem.formats.fields import (
    check_has_content,
    extra_fields,
    extra_text,
    mapping_of,
    media_type_of,
    opaque_block,
    parts_of,
    plain_id,
    plainest,
    sendable_url,
    sent_part,
    text_field,
    tool_name,
)
from kaosmem.formats.layout import BlockPlace, Mark, Rendered
from kaosmem.names import shown_name
from kaosmem.tokens.parts import IMAGE_TOKENS, part_tokens
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
    content_text,
)
from kaosmem.types.items import ChatMessage

if TYPE_CHECKING:
    from kaosmem.formats.layout import HistoryEntry, Layout
    from kaosmem.tokens.counters import TokenCounter


_MESSAGE = "an openai message"
Part: TypeAlias = TextBlock | ImageBlock | OpaqueBlock


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A whole reply is taken for the message of its only choice.
    A developer's message is a system message; a named user's role is the name, unless that is a
    role of the API's. `reasoning_content`, as compatible servers give it, is reasoning without a
    seal. A refusal is text, audio of the assistant its transcript. Any other part, such as a file,
    is kept as it is. Raises InvalidArgumentError for a value that is no message, has no content, or
    could not be kept.
    """
    given = _message_of(mapping_of(message, _MESSAGE))
    role = given.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidArgumentError(
            f"{_MESSAGE} needs a role, such as 'user'; this one has {shown_name(role)}"
        )
    content = given.get("content")
    if role == "tool":
        return _parse_tool_message(given)
    if given.get("function_call"):
        raise InvalidArgumentError(
            f"{_MESSAGE} with a function_call cannot be kept, as it has no id; use tool_calls"
        )
    calls = given.get("tool_calls") or ()
    blocks = [
        *_parse_reasoning(given),
        *_parse_content(content),
        *_parse_spoken(given),
        *(_parse_call(call) for call in (parts_of(calls, "tool_calls") if calls else ())),
    ]
    if not blocks:
        check_has_content(given, _MESSAGE)
    return ChatMessage(_role(role, given.get("name")), check_content(plainest(blocks)))


def _parse_tool_message(given: Mapping[str, JSONValue]) -> ChatMessage:
    """Return a tool's message: its result is one text, or parts if it holds other than texts.

    Raises:
        InvalidArgumentError: If it has no content. An empty result is an empty content.
    """
    check_has_content(given, "an openai tool message")
    content = result_content(_parse_content(given.get("content")))
    call_id = text_field(given, "tool_call_id", _MESSAGE)
    return ChatMessage("tool", check_content((ToolResultBlock(call_id, content),)))


def _message_of(given: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    """Return the message of a reply, and a message as it is."""
    if "role" in given or "choices" not in given:
        return given
    choices = parts_of(given["choices"], "an openai reply")
    if len(choices) != 1:
        raise InvalidArgumentError(
            f"an openai reply has {len(choices)} choices; give the message of one"
        )
    return mapping_of(choices[0].get("message"), _MESSAGE)


def _role(role: str, name: JSONValue) -> str:
    if role == "developer":
        return "system"
    return (
        name
        if role == "user" and isinstance(name, str) and name and name not in PROVIDERS_ROLES
        else role
    )


def _parse_reasoning(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    reasoning = given.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        yield ThinkingBlock(reasoning, provider=OpenAIFormat.name)


def _parse_spoken(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    """Yield the assistant's refusal and the transcript of its audio, which are not content."""
    refusal = given.get("refusal")
    audio = given.get("audio")
    if isinstance(refusal, str) and refusal:
        yield TextBlock(refusal)
    if audio is not None:
        yield TextBlock(text_field(mapping_of(audio, "audio"), "transcript", "audio"))


def _parse_content(content: JSONValue) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextBlock(content)]
    parts = parts_of(content, _MESSAGE)
    return [parse_part(part, OpenAIFormat.name, _MESSAGE) for part in parts]


def parse_part(part: Mapping[str, JSONValue], provider: str, what: str) -> Part:
    """Return a part of a message of one of OpenAI's APIs. Raises InvalidArgumentError.

    Args:
        provider: The format. A part that only its API can read is kept for it.
        what: The message, for errors.
    """
    match part:
        case {
            "type": "text" | "input_text" | "output_text",
            "text": str() as text,
        } | {"type": "refusal", "refusal": str() as text}:
            return TextBlock(text)
        case {"type": "image_url", "image_url": {"url": str() as url, **rest}} | {
            "type": "input_image",
            "image_url": str() as url,
            **rest,
        }:
            return ImageBlock(url, media_type_of(url), str(rest.get("detail") or ""))
    kind = part.get("type")
    if kind in _KNOWN_PARTS:
        missing = kind.rpartition("_")[2]
        given = type(part.get(missing)).__name__
        raise InvalidArgumentError(
            f"a part of type {kind!r} of {what} lacks its {missing}: it has a {given}; give a str"
        )
    return opaque_block(part, provider, what)


_KNOWN_PARTS = ("text", "input_text", "output_text", "refusal", "image_url")


def result_content(parts: Iterable[Part]) -> ResultContent:
    """Return the parts of a result, one text where they are texts alone."""
    content = tuple(parts)
    is_text = all(isinstance(part, TextBlock) for part in content)
    return content_text(content) if is_text else content


def _parse_call(call: Mapping[str, JSONValue]) -> ToolUseBlock:
    match call:
        case {"id": call_id, "function": {"name": name, "arguments": arguments}}:
            return ToolUseBlock(
                call_id, name, arguments, extra=extra_text(call, ("extra_content",))
            )
        case {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}:
            return ToolUseBlock(call_id, name, text, extra=extra_text(call, _CALL_FIELDS))
    raise InvalidArgumentError(
        "a tool call needs an id, and a function with name and arguments or a custom tool with "
        "name and input; "
        "give all of them"
    )


MESSAGE_TOKENS = 3
NAME_TOKENS = 1
REPLY_TOKENS = 3

_MAX_CALL_ID_CHARS = 40
_CALL_ID = re.compile(rf"[\w.:-]{{1,{_MAX_CALL_ID_CHARS}}}", re.ASCII)
MAX_TOOL_NAME_CHARS = 64
DETAILS = ("auto", "low", "high", "original")
_CUSTOM = ("custom", "custom_tool_call")  # the second is the name of the Responses API
_CALL_FIELDS = ("type", "extra_content")
"""Fields that go back with a call.

The type is that of a custom tool, and some compatible servers require the seal.
"""


class OpenAIFormat:
    """Messages of OpenAI's chat completions API, as dicts.

    Attributes:
        name: The name of the format, under which it also takes back its own parts.
        text_type: The type of a part that is a text.
        empty: Stands for the content of a message that has none.
    """

    name = "openai"
    text_type: ClassVar[str] = "text"
    empty: ClassVar[str] = ""

    def entry_tokens(
        self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None
    ) -> int:
        messages = self.entry_messages(entry)
        if (
            known is not None
            and isinstance(entry, ChatMessage)
            and messages[-1].get("content") == entry.content
        ):
            return self.message_tokens({**messages[-1], "content": ""}, counter) + known
        return sum(self.message_tokens(message, counter) for message in messages)

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
            tokens += MESSAGE_TOKENS + counter("system")
        if block:
            tokens += counter(BLOCK_BEGIN) + counter(BLOCK_END)
        if block is BlockPlace.OWN_MESSAGE:
            tokens += MESSAGE_TOKENS + counter("user")
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        if isinstance(entry, Mark):
            return False
        return self.entry_messages(entry)[-1].get("role") == "user"

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, JSONValue]] = ()) -> Rendered:
        messages: list[dict[str, JSONValue]] = []
        if layout.static:
            messages.append({"role": "system", "content": "".join(layout.static)})
        for part in layout.history:
            for entry in part.entries:
                messages += self.entry_messages(entry)
        if layout.block:
            block = "".join((BLOCK_BEGIN, *layout.block, BLOCK_END))
            if layout.block_place is BlockPlace.IN_MESSAGE:
                content = messages[-1]["content"]
                if isinstance(content, str):
                    content = [self.text_part(content)] if content else []
                messages[-1]["content"] = [self.text_part(block), *content]
            else:
                messages.append({"role": "user", "content": block})
        return Rendered(messages=messages)

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        messages = rendered.messages or []
        tokens = sum(self.message_tokens(message, counter) for message in messages)
        return tokens + (REPLY_TOKENS if messages else 0)

    def parse(self, message: object) -> ChatMessage:
        return parse_message(message)

    def entry_messages(self, entry: HistoryEntry) -> list[dict[str, JSONValue]]:
        """Return the API's messages for one entry of a history."""
        if isinstance(entry, Mark):
            return [{"role": "user", "content": mark_text(entry)}]
        if isinstance(entry.content, str):
            return [{**_author(entry.role), "content": shown_text(entry.content)}]
        messages = []
        calls = []
        for block in entry.content:
            if isinstance(block, ToolResultBlock):
                messages.append(self._result_message(block))
            elif isinstance(block, ToolUseBlock):
                calls.append(_call(block))
        author = {"role": "assistant"} if calls else _author(entry.role)
        parts = self.parts(entry.content, images=author["role"] == "user")
        if calls:
            content = self.plain(parts) if parts else None
            messages.append({**author, "content": content, "tool_calls": calls})
        elif parts or not messages:
            messages.append({**author, "content": self.plain(parts)})
        return messages

    def _result_message(self, result: ToolResultBlock) -> dict[str, JSONValue]:
        content: JSONValue = escaped_in_history(block_text(result))
        for part in result.content:
            if isinstance(part, OpaqueBlock) and part.provider == self.name:
                content = self.parts(result.content, images=False)
        return {"role": "tool", "tool_call_id": _call_id(result.tool_use_id), "content": content}

    def parts(
        self, content: Iterable[ContentBlock | str], *, images: bool
    ) -> list[dict[str, JSONValue]]:
        """Return content as parts of the API, images as such where they are allowed.

        A blank text is left out: servers that pass a request on to another provider refuse it.
        """
        parts = []
        for block in content:
            part = self._part(block, images=images)
            if part is not None:
                parts.append(part)
        return parts

    def _part(self, block: ContentBlock | str, *, images: bool) -> dict[str, JSONValue] | None:
        match block:
            case str() | ThinkingBlock() | ToolUseBlock() | ToolResultBlock():
                return None
            case OpaqueBlock(provider=self.name):
                return sent_part(block, self.name)
            case ImageBlock() if images:
                url = sendable_url(block.url)
                if url is not None:
                    return self.image_part(url, block.detail if block.detail in DETAILS else "")
        shown = shown_text(block_text(block))
        return self.text_part(shown) if shown else None

    def text_part(self, text: str) -> dict[str, JSONValue]:
        """Return a text as a part of a message."""
        return {"type": self.text_type, "text": text}

    def image_part(self, url: str, detail: str) -> dict[str, JSONValue]:
        """Return an image as a part of a message. detail: "" for the default."""
        image = {"url": url, "detail": detail} if detail else {"url": url}
        return {"type": "image_url", "image_url": image}

    def plain(self, parts: Sequence[dict[str, JSONValue]]) -> JSONValue:
        """Return parts in the API's plainest form: one text is a string, and so is nothing."""
        if not parts:
            return self.empty
        if len(parts) == 1 and parts[0]["type"] == self.text_type:
            return parts[0]["text"]
        return list(parts)

    def message_tokens(self, message: Mapping[str, JSONValue], counter: TokenCounter) -> int:
        """Return the tokens of one message with its framing."""
        tokens = MESSAGE_TOKENS + counter(message["role"])
        tokens += content_tokens(message.get("content") or "", counter)
        if "name" in message:
            tokens += NAME_TOKENS + counter(message["name"])
        if "tool_call_id" in message:
            tokens += counter(message["tool_call_id"])
        for call in message.get("tool_calls") or ():
            tokens += _call_tokens(call, counter)
        return tokens


def content_tokens(content: JSONValue, counter: TokenCounter) -> int:
    """Return the tokens of a text, or of the parts of a message."""
    if isinstance(content, str):
        return counter(content)
    return sum(_part_tokens(part, counter) for part in content)


def _part_tokens(part: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    match part:
        case {"type": "text" | "input_text", "text": text} | {"type": "refusal", "refusal": text}:
            return counter(text)
        case {"type": "image_url" | "input_image"}:
            return IMAGE_TOKENS
    return part_tokens(part, counter)


def _call_tokens(call: Mapping[str, JSONValue], counter: TokenCounter) -> int:
    called = call["custom"] if call.get("type") == "custom" else call["function"]
    tokens = counter(call["id"]) + sum(map(counter, called.values()))
    extra = call.get("extra_content")
    return tokens if extra is None else tokens + counter(json_text(extra))


def _author(role: str) -> dict[str, JSONValue]:
    if role in ("system", "user", "assistant"):
        return {"role": role}
    return {"role": "user", "name": speaker_name(role)}


def _call(call: ToolUseBlock) -> dict[str, JSONValue]:
    name = tool_name(call.name, max_chars=MAX_TOOL_NAME_CHARS)
    sent: dict[str, JSONValue] = {"id": _call_id(call.id), **extra_fields(call.extra, _CALL_FIELDS)}
    if sent.get("type") in _CUSTOM:
        sent["type"] = "custom"
        return {**sent, "custom": {"name": name, "input": call.arguments}}
    return {**sent, "type": "function", "function": {"name": name, "arguments": call.arguments}}


def _call_id(call_id: str) -> str:
    return (
        call_id if _CALL_ID.fullmatch(call_id) else plain_id(call_id, max_chars=_MAX_CALL_ID_CHARS)
    )


def shown_text(text: str) -> str:
    """Return a text as it is sent, "" for a blank one."""
    shown = escaped_in_history(text)
    return shown if shown.strip() else ""
