"""Reading messages of OpenAI's chat completions API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import PROVIDERS_ROLES
from kaosmem.formats.images import media_type_of
from kaosmem.formats.payload import mapping_of, parts_of, plainest, text_field
from kaosmem.names import shown, shown_name
from kaosmem.types import (
    ChatMessage,
    ContentBlock,
    ImageBlock,
    JSONValue,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
)

_MESSAGE = "an openai message"


def parse_message(message: object) -> ChatMessage:
    """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

    A whole reply is taken for the message of its only choice.
    A developer's message is a system message; a named user's role is the name, unless that is a role of the API's.
    `reasoning_content`, as compatible servers give it, is reasoning without a seal. A refusal is text, audio of the
    assistant its transcript. Raises InvalidArgumentError for a value that is no message or that could not be kept.
    """
    given = _message_of(mapping_of(message, _MESSAGE))
    role = given.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidArgumentError(f"{_MESSAGE} needs a role, such as 'user'; this one has {shown_name(role)}")
    content = given.get("content")
    if role == "tool":
        text = "\n".join(block_text(block) for block in _parse_content(content))
        return ChatMessage("tool", check_content((ToolResultBlock(text_field(given, "tool_call_id", _MESSAGE), text),)))
    if given.get("function_call"):
        raise InvalidArgumentError(f"{_MESSAGE} with a function_call cannot be kept, as it has no id; use tool_calls")
    calls = given.get("tool_calls") or ()
    blocks = [
        *_parse_reasoning(given),
        *_parse_content(content),
        *_parse_spoken(given),
        *(_parse_call(call) for call in (parts_of(calls, "tool_calls") if calls else ())),
    ]
    return ChatMessage(_role(role, given.get("name")), check_content(plainest(blocks)))


def _message_of(given: Mapping[str, JSONValue]) -> Mapping[str, JSONValue]:
    """Return the message of a reply, and a message as it is."""
    if "role" in given or "choices" not in given:
        return given
    choices = parts_of(given["choices"], "an openai reply")
    if len(choices) != 1:
        raise InvalidArgumentError(f"an openai reply has {len(choices)} choices; give the message of one")
    return mapping_of(choices[0].get("message"), _MESSAGE)


def _role(role: str, name: JSONValue) -> str:
    if role == "developer":
        return "system"
    return name if role == "user" and isinstance(name, str) and name and name not in PROVIDERS_ROLES else role


def _parse_reasoning(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    reasoning = given.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        yield ThinkingBlock(reasoning)


def _parse_spoken(given: Mapping[str, JSONValue]) -> Iterator[ContentBlock]:
    """Yield the assistant's refusal and the transcript of its audio, which are not content."""
    refusal, audio = given.get("refusal"), given.get("audio")
    if isinstance(refusal, str) and refusal:
        yield TextBlock(refusal)
    if audio is not None:
        yield TextBlock(text_field(mapping_of(audio, "audio"), "transcript", "audio"))


def _parse_content(content: JSONValue) -> list[ContentBlock]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextBlock(content)]
    return [_parse_part(part) for part in parts_of(content, _MESSAGE)]


def _parse_part(part: Mapping[str, JSONValue]) -> ContentBlock:
    match part:
        case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
            return TextBlock(text)
        case {"type": "image_url", "image_url": {"url": str() as url, **rest}}:
            return ImageBlock(url, media_type_of(url), str(rest.get("detail") or ""))
    raise InvalidArgumentError(
        f"a part of type {shown_name(part.get('type'))} of {_MESSAGE} cannot be kept; give its text"
    )


def _parse_call(call: Mapping[str, JSONValue]) -> ToolUseBlock:
    match call:
        case {"id": call_id, "function": {"name": name, "arguments": arguments}}:
            return ToolUseBlock(call_id, name, arguments)
    raise InvalidArgumentError(
        f"a tool call needs an id and a function with name and arguments; this one has {', '.join(map(shown, call))}"
    )
