"""Formats of a context, one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kaosmem.arguments import check_listed
from kaosmem.errors import InvalidContentError, UnknownFormatError
from kaosmem.formats import anthropic_input, openai_input
from kaosmem.formats.anthropic import AnthropicFormat
from kaosmem.formats.layout import BlockPlace, Format, HistoryEntry, HistoryPart, Layout, Mark, Rendered
from kaosmem.formats.openai import OpenAIFormat
from kaosmem.formats.text import TextFormat
from kaosmem.names import shown
from kaosmem.tokens import TokenCounter, get_counter
from kaosmem.types import ChatMessage, check_text
from kaosmem.units import repair

__all__ = [
    "FORMATS",
    "BlockPlace",
    "Format",
    "HistoryEntry",
    "HistoryPart",
    "Layout",
    "Mark",
    "Rendered",
    "count_messages",
    "get_format",
    "parse_message",
    "render_messages",
]

FORMATS: dict[str, Format] = {each.name: each for each in (AnthropicFormat(), OpenAIFormat(), TextFormat())}
_PARSERS: dict[str, Callable[[object], ChatMessage]] = {
    AnthropicFormat.name: anthropic_input.parse_message,
    OpenAIFormat.name: openai_input.parse_message,
}


def get_format(name: str) -> Format:
    """Return the format of that name. Raises UnknownFormatError."""
    if name not in FORMATS:
        raise UnknownFormatError(f"no format {shown(name)}; use one of {', '.join(map(repr, FORMATS))}")
    return FORMATS[name]


def parse_message(message: object, format: str) -> ChatMessage:  # noqa: A002
    """Return a provider's message, a dict or an object of its SDK, as a ChatMessage.

    Raises UnknownFormatError or InvalidContentError.
    """
    if format not in _PARSERS:
        raise UnknownFormatError(f"no messages of format {shown(format)}; use one of {', '.join(map(repr, _PARSERS))}")
    return _PARSERS[format](message)


def render_messages(messages: Iterable[ChatMessage], format: str) -> Rendered:  # noqa: A002
    """Return messages in a provider's format. Leading system messages become the system prompt.

    Raises UnknownFormatError, and InvalidArgumentError for anything but a list of ChatMessage.

    >>> messages = [ChatMessage("system", "Be brief."), ChatMessage("user", "Who owns the deal?")]
    >>> render_messages(messages, "anthropic").messages
    [{'role': 'user', 'content': 'Who owns the deal?'}]
    """
    history = check_listed(messages, ChatMessage, "messages")
    start = next((place for place, message in enumerate(history) if message.role != "system"), len(history))
    prompt = "\n".join(message.text for message in history[:start])
    part = HistoryPart("messages", tuple(repair(history[start:])))
    return get_format(format).render(Layout((prompt,) if prompt.strip() else (), (part,), ()))


def count_messages(
    messages: Any,
    format: str,  # noqa: A002
    *,
    system: str = "",
    counter: TokenCounter | str | None = None,
) -> int:
    """Return the tokens of a request, framing included. For "anthropic" this is an estimate.

    messages: a text for the format "text", else a list of the provider's messages.
    system: the system prompt beside the messages, for "anthropic".
    Raises UnknownFormatError, UnknownEncodingError, InvalidContentError for a system prompt in another format, and
    InvalidArgumentError for messages of another kind.

    >>> count_messages([{"role": "user", "content": "Who owns the deal?"}], "openai")
    12
    """
    if system and format != AnthropicFormat.name:
        raise InvalidContentError(f"format {shown(format)} has no system beside its messages; put it in front of them")
    if get_format(format).name == TextFormat.name:
        handed_over = Rendered(text=check_text(messages, "messages"))
    else:
        handed_over = Rendered(None, check_listed(messages, dict, "messages"), system)
    return get_format(format).count(handed_over, get_counter(counter))
