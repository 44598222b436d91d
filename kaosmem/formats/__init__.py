"""Formats of a context, one file each. A format of your own is given in place of a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from kaosmem.arguments import (
    JSONDict,
    JSONObject,
    check_collection,
    check_instance,
    check_json,
    check_list_of,
    check_text,
    json_text,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.anthropic import AnthropicFormat
from kaosmem.formats.bedrock import BedrockFormat
from kaosmem.formats.fields import mapping_of
from kaosmem.formats.gemini import GeminiFormat
from kaosmem.formats.layout import (
    BlockPlace,
    Format,
    HistoryEntry,
    HistoryPart,
    Layout,
    Mark,
    Rendered,
)
from kaosmem.formats.neutral import NeutralFormat
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.formats.openai_responses import ResponsesFormat
from kaosmem.formats.text import TextFormat
from kaosmem.names import name_hint, shown
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter, TokenCounter
from kaosmem.types.items import ChatMessage, time_of
from kaosmem.units import repair

__all__ = [
    "BlockPlace",
    "Format",
    "HistoryEntry",
    "HistoryPart",
    "Layout",
    "Mark",
    "Rendered",
    "count_messages",
    "parse_message",
]


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        each.name: each
        for each in (
            AnthropicFormat(),
            BedrockFormat(),
            GeminiFormat(),
            NeutralFormat(),
            OpenAIFormat(),
            ResponsesFormat(),
            TextFormat(),
        )
    }
)
"""The formats that may be named."""


def get_format(given: str | Format) -> Format:
    """Return the format of a name, or the format that is given. Raises InvalidArgumentError."""
    if not isinstance(given, str):
        return check_instance(given, Format, "format")
    if given not in FORMATS:
        raise InvalidArgumentError(
            f"no format {shown(given)}; {name_hint(given, FORMATS)}, or give a Format of your own"
        )
    return FORMATS[given]


def parse_message(message: object, format: str | Format | None = None) -> ChatMessage:
    """Return a provider's message, a dict or an object of its SDK, as a ChatMessage.

    A ChatMessage needs no format. The APIs know no time, but an application may keep one in a dict:
    a `timestamp` in ISO 8601 is taken over.

    Raises:
        InvalidArgumentError: If the value is no message of the format, or the format is missing.
    """
    if isinstance(message, ChatMessage):
        return message
    if format is None:
        raise InvalidArgumentError(
            f"a provider's message needs its format=; {name_hint(None, FORMATS)}"
        )
    parsed = get_format(format).parse(message)
    timestamp = message.get("timestamp") if isinstance(message, Mapping) else None
    if time_of(timestamp) is None:
        return parsed
    return replace(parsed, metadata={**parsed.metadata, "timestamp": timestamp})


def messages_apart(messages: Sequence[object], format: str | Format | None) -> list[object]:
    """Return a list of a provider's messages with one element for each message to store.

    In the format "openai-responses", several items are one message.
    """
    groups = None
    if format is not None:
        groups = getattr(get_format(format), "groups", None)
    if groups is None:
        return list(messages)
    grouped: list[object] = groups(messages)
    return grouped


def read_messages(rendered: Rendered, format: Format) -> list[ChatMessage]:
    """Return a request as messages. A system prompt beside them is the first."""
    messages = []
    if rendered.system:
        messages.append(ChatMessage("system", rendered.system))
    messages += map(format.parse, messages_apart(rendered.messages or [], format))
    return messages


def render_messages(messages: Iterable[ChatMessage], format: str | Format) -> Rendered:
    """Return messages in a provider's format. Leading system messages become the system prompt.

    Raises:
        InvalidArgumentError: If the messages are no list of ChatMessage.

    >>> messages = [ChatMessage("system", "Be brief."), ChatMessage("user", "Who owns the deal?")]
    >>> render_messages(messages, "anthropic").messages
    [{'role': 'user', 'content': 'Who owns the deal?'}]
    """
    history = check_list_of(messages, ChatMessage, "messages")
    prompts = list(takewhile(lambda message: message.role == "system", history))
    prompt = "\n".join(message.text for message in prompts)
    static = (prompt,) if prompt.strip() else ()
    entries = repair(history[len(prompts) :])
    part = HistoryPart("messages", tuple(entries))
    return get_format(format).render(Layout(static, (part,), ()))


TOOL_TOKENS = 8
"""The estimated tokens of a tool beside its schema."""


def tool_dicts(tools: Iterable[object]) -> list[JSONDict]:
    """Return the schemas of tools, each a dict or an object of an SDK.

    Raises:
        InvalidArgumentError: If a tool is neither, or JSON cannot hold it.
    """
    found = []
    for tool in check_collection(tools, "tools"):
        given = dict(mapping_of(tool, "a tool"))
        check_json(given, "a tool")
        found.append(given)
    return found


def tool_tokens(
    tools: Iterable[JSONObject],
    format: Format,
    counter: TokenCounter,
) -> int:
    """Return the estimated tokens of tools: the JSON text of each schema, and the framing."""
    tokens = 0
    for tool in tools:
        tokens += TOOL_TOKENS + counter(json_text(tool))
    if not tokens:
        return 0
    framing: int = getattr(format, "tools_framing", 0)
    return tokens + framing


def count_messages(
    messages: Any,
    format: str | Format,
    *,
    system: str = "",
    tools: Iterable[object] = (),
    counter: AnyCounter = None,
) -> int:
    """Return the tokens of a request, framing included.

    For "anthropic", "gemini" and "bedrock" this is an estimate, and so are the tokens of tools.

    Args:
        messages: A text for the format "text", else a list of the provider's messages.
        system: The system prompt beside the messages, for formats that have one, such as
            "anthropic".
        tools: The schemas of the request's tools, in the format.

    Raises:
        InvalidArgumentError: If the messages are of another kind, or the format has no place for
            the system prompt.

    >>> count_messages([{"role": "user", "content": "Who owns the deal?"}], "openai")
    12
    """
    chosen = get_format(format)
    empty = chosen.render(Layout((), (), ()))
    if system and empty.system is None:
        raise InvalidArgumentError(
            f"format {shown(chosen.name)} has no system beside its messages; put it in front of "
            "them"
        )
    chosen_counter = get_counter(counter)
    tokens = tool_tokens(tool_dicts(tools), chosen, chosen_counter)
    if empty.text is not None:
        rendered = Rendered(text=check_text(messages, "messages"))
    else:
        rendered = Rendered(messages=check_list_of(messages, dict, "messages"), system=system)
    return tokens + chosen.count(rendered, chosen_counter)
