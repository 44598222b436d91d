"""Shortening the results of the newest calls where they alone exceed a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kaosmem.compaction.outline import Outline
from kaosmem.types import ContentBlock
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.cutting import cut_result, cut_text
from kaosmem.types.items import ChatMessage
from kaosmem.units import Link

_PRECISION = 64
"""A length is looked for until it is known to this share of itself."""
_MAX_CHARS_A_TOKEN = 16


def has_results(message: ChatMessage) -> bool:
    """Return whether a message holds tool results."""
    return message.role == "tool" or bool(Link.of(message).answers)


def with_shorter_results(
    messages: Sequence[ChatMessage],
    budget: int,
    total: Callable[[Sequence[ChatMessage]], int],
    units: Iterable[Sequence[int]] | None = None,
) -> list[ChatMessage] | None:
    """Return messages in which the results of the newest unit with results are cut to one length.

    Each result keeps its beginning and its end, with a note between them. A shorter one stays as it
    is. The length is about the greatest that fits. Pinned messages stay.

    Args:
        messages: The messages, oldest first.
        budget: The most that the messages may take.
        total: Returns what messages take, in the unit of the budget.
        units: Positions of the messages of each unit. None finds them in the messages.

    Returns:
        None if the messages do not fit even if nothing but the notes is left.
    """
    if units is None:
        units = Outline(messages).units
    called = [unit for unit in units if any(has_results(messages[place]) for place in unit)]
    places = max(called, key=max, default=())

    def cut(most: int) -> list[ChatMessage]:
        shorter = list(messages)
        for place in places:
            if not messages[place].pinned:
                shorter[place] = with_cut_results(messages[place], most)
        return shorter

    fits = cut(0)
    if total(fits) > budget:
        return None
    low = 0
    high = budget * _MAX_CHARS_A_TOKEN
    while high - low > 1 + low // _PRECISION:
        middle = (low + high) // 2
        longer = cut(middle)
        if total(longer) <= budget:
            fits = longer
            low = middle
        else:
            high = middle
    return fits


def with_cut_results(message: ChatMessage, most: int) -> ChatMessage:
    """Return a message whose results have texts of at most `most` characters beside their note.

    A result that was cut before stays as it is.
    """
    if message.id:
        whole = f"message {message.id}"
    else:
        whole = ""
    if isinstance(message.content, str):
        if message.role != "tool":
            return message
        return replace(message, content=cut_text(message.content, most, whole))
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            block = cut_result(block, most, whole)
        blocks.append(block)
    content = tuple(blocks)
    if content == message.content:
        return message
    return replace(message, content=content)
