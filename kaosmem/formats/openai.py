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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import PROVIDERS_ROLES, escaped_in_history, speaker_name
from kaosmem.formats.fields import (
    FIELDS_ELSEWHERE,
    check_has_content,
    extra_fields,
    mapping_of,
    only_one,
    parts_of,
    plain_id,
    plainest,
    text_field,
)
from kaosmem.formats.messages import MessageFormat
from kaosmem.formats.shaped_blocks import Block, ExtraNames
from kaosmem.formats.shapes import (
    ANY_URL,
    CALL_ID,
    CALL_TEXT,
    CUSTOM,
    DETAIL,
    FUNCTION,
    TEXT,
    Shape,
)
from kaosmem.names import name_hint, shown_name
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.parts import IMAGE_TOKENS
from kaosmem.types import ContentBlock, JSONDict, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)
from kaosmem.types.items import ChatMessage

MESSAGE_TOKENS = 3
NAME_TOKENS = 1

_MAX_CALL_ID_CHARS = 40
_CALL_ID = re.compile(rf"[\w.:-]{{1,{_MAX_CALL_ID_CHARS}}}", re.ASCII)
_CUSTOM_TYPES = ("custom", "custom_tool_call")  # the second is the name of the Responses API
_URL = {"url": ANY_URL, "detail": DETAIL}
_FUNCTION = {"name": FUNCTION, "arguments": CALL_TEXT}
_CUSTOM_CALL = {"type": CUSTOM, "id": CALL_ID, "custom": {"name": FUNCTION, "input": CALL_TEXT}}
CHAT_PARTS = (
    Shape(TextBlock, {"type": "text", "text": TEXT}),
    Shape(ImageBlock, {"type": "image_url", "image_url": _URL}),
)
ITEM_PARTS = (
    Shape(TextBlock, {"type": "input_text", "text": TEXT}),
    Shape(ImageBlock, {"type": "input_image", "image_url": ANY_URL, "detail": DETAIL}),
    Shape(TextBlock, {"type": "output_text", "text": TEXT}),
    Shape(TextBlock, {"type": "refusal", "refusal": TEXT}),
)
"""The parts of messages of the Responses API. Each of both APIs takes those of the other one."""


class OpenAIFormat(MessageFormat):
    """Messages of OpenAI's chat completions API, as dicts.

    Attributes:
        custom_type: The type of a call of a custom tool.
        empty: Stands for the content of a message that has none.
    """

    name = "openai"
    message_name = "an openai message"
    shapes: tuple[Shape, ...] = (
        *CHAT_PARTS,
        *ITEM_PARTS,
        Shape(ToolUseBlock, _CUSTOM_CALL),
        Shape(ToolUseBlock, {"id": CALL_ID, "type": "function", "function": _FUNCTION}),
    )
    extra_names: ClassVar[ExtraNames] = {ToolUseBlock: ("extra_content",)}
    known_names: tuple[str, ...] = (
        "text",
        "input_text",
        "output_text",
        "refusal",
        "image_url",
        "function",
        "custom",
    )
    image_names = ("image_url", "input_image")
    image_tokens = IMAGE_TOKENS
    kept_ids = ("",)
    custom_type = "custom"
    empty = ""

    def parse(self, message: object) -> ChatMessage:
        """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

        A whole reply is taken for the message of its only choice.
        A developer's message is a system message; a named user's role is the name, unless that is a
        role of the API's. `reasoning_content`, as compatible servers give it, is reasoning without
        a seal. A refusal is text, audio of the assistant its transcript. Any other part, such as a
        file, is kept as it is.

        Raises:
            InvalidArgumentError: If the value is no message, has no content, or cannot be kept.
        """
        given = _message_of(mapping_of(message, self.message_name))
        role = given.get("role")
        if not isinstance(role, str) or role not in PROVIDERS_ROLES:
            raise InvalidArgumentError(
                f"{self.message_name} has the role {shown_name(role)}; "
                f"{name_hint(role, sorted(PROVIDERS_ROLES))}, and give a speaker as the name "
                "of a user"
            )
        if role == "tool":
            check_has_content(given, "an openai tool message")
            call_id = text_field(given, "tool_call_id", self.message_name)
            content: Any = plainest(self.read_content(given["content"]))
            return ChatMessage("tool", check_content((ToolResultBlock(call_id, content),)))
        if given.get("function_call"):
            raise InvalidArgumentError(
                f"{self.message_name} with a function_call cannot be kept, as it has no id; use tool_calls"
            )
        calls = parts_of(given.get("tool_calls") or [], "tool_calls")
        blocks = [
            *_reasoning(given),
            *self.read_content(given.get("content") or []),
            *_spoken(given),
            *map(self._read_call, calls),
        ]
        is_cut = role == "assistant" and ("content" in given or not isinstance(message, Mapping))
        if not blocks and not (is_cut and given.keys().isdisjoint(FIELDS_ELSEWHERE)):
            # The content of a reply that was cut before its first word is null. SDKs leave it out.
            check_has_content(given, self.message_name)
        return ChatMessage(_role(role, given.get("name")), check_content(plainest(blocks)))

    def _read_call(self, call: JSONObject) -> ContentBlock:
        """Return a call as a content block. Some compatible servers leave its type out."""
        kind = "custom" if "custom" in call else "function"
        return self.read({**call, "type": kind})

    def values_of(self, block: ContentBlock) -> JSONDict:
        """Return the values of a content block as they are sent, by the names of fields."""
        values = super().values_of(block)
        if isinstance(block, ToolUseBlock):
            is_custom = extra_fields(block.extra, ("type",)).get("type") in _CUSTOM_TYPES
            values["custom"] = self.custom_type if is_custom else None
            values["arguments"] = block.arguments
        return values

    def call_id(self, call_id: str) -> str:
        """Return the id of a call with the characters and the length that are allowed."""
        if _CALL_ID.fullmatch(call_id):
            return call_id
        return plain_id(call_id, max_chars=_MAX_CALL_ID_CHARS)

    def users_messages(
        self,
        role: str,
        results: Sequence[ToolResultBlock],
        content: Sequence[ContentBlock],
    ) -> list[JSONDict]:
        """Return a message for each result, and one for what a speaker said."""
        author = _author(role)
        parts = self.shown(content, is_assistants=author["role"] != "user")
        messages = list(map(self._result_message, results))
        if parts or not messages:
            messages.append({**author, "content": self.plain(parts)})
        return messages

    def assistants_messages(self, content: Sequence[ContentBlock]) -> list[JSONDict]:
        """Return one message: what an assistant said, and its calls."""
        calls = [self.write(block) for block in content if isinstance(block, ToolUseBlock)]
        said = [block for block in content if not isinstance(block, ToolUseBlock)]
        parts = self.shown(said, is_assistants=True)
        message: JSONDict = {"role": "assistant", "content": self.plain(parts)}
        if calls:
            message["tool_calls"] = calls
            if not parts:
                message["content"] = None
        return [message]

    def _result_message(self, result: ToolResultBlock) -> JSONDict:
        """Return a result: its parts if one is of this API alone, else a text."""
        content: JSONValue = escaped_in_history(block_text(result))
        parts = () if isinstance(result.content, str) else result.content
        if any(isinstance(part, OpaqueBlock) and part.provider == self.name for part in parts):
            content = self.shown(parts, is_assistants=True)
        call_id = self.call_id(result.tool_use_id)
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    def plain(self, parts: list[Block]) -> JSONValue:
        """Return parts in the API's plainest form: one text is a string, and so is nothing."""
        if not parts:
            return self.empty
        return super().plain(parts)

    def message_tokens(self, message: JSONObject, counter: TokenCounter) -> int:
        """Return the tokens of one message with its framing."""
        tokens = MESSAGE_TOKENS + counter(message["role"])
        tokens += self.parts_tokens(message.get("content") or "", counter)
        if "name" in message:
            tokens += NAME_TOKENS + counter(message["name"])
        if "tool_call_id" in message:
            tokens += counter(message["tool_call_id"])
        return tokens + self.parts_tokens(message.get("tool_calls") or (), counter)


def _message_of(given: JSONObject) -> JSONObject:
    """Return the message of a reply, and a message as it is."""
    if "role" in given or "choices" not in given:
        return given
    choice = only_one(given["choices"], "the choices of an openai reply")
    return mapping_of(choice.get("message"), OpenAIFormat.message_name)


def _role(role: str, name: JSONValue) -> str:
    """Return the role of the stored message: a named user's is the name."""
    if role == "developer":
        return "system"
    if role == "user" and isinstance(name, str) and name and name not in PROVIDERS_ROLES:
        return name
    return role


def _reasoning(given: JSONObject) -> Iterator[ContentBlock]:
    reasoning = given.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        yield ThinkingBlock(reasoning, provider=OpenAIFormat.name)


def _spoken(given: JSONObject) -> Iterator[ContentBlock]:
    """Yield the assistant's refusal and the transcript of its audio, which are not content."""
    refusal = given.get("refusal")
    audio = given.get("audio")
    if isinstance(refusal, str) and refusal:
        yield TextBlock(refusal)
    if audio is not None:
        yield TextBlock(text_field(mapping_of(audio, "audio"), "transcript", "audio"))


def _author(role: str) -> JSONDict:
    """Return the fields of a message that say whose it is."""
    if role in ("system", "user", "assistant"):
        return {"role": role}
    return {"role": "user", "name": speaker_name(role)}
