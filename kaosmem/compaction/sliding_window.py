"""A strategy that keeps the newest messages, up to a number of them."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import Outline
from kaosmem.types import ChatMessage

_GIVING_WAY = ("system messages", "the newest user message", "the first user message")
"""Reasons for which a message is kept only where it has room, the most important first."""


class SlidingWindowCompaction:
    """Keeps the newest messages, at most `max_messages` with the protected ones.

    The newest unit and pinned messages always stay. Where the other protected messages have no room, they give way: the
    first user message, then the newest one, then system messages, of which the first stay longest.
    Raises InvalidArgumentError. `compact` raises WindowTooSmallError, with the sums, if the newest unit and the pinned
    messages alone are more than `max_messages`.

    >>> from kaosmem import ChatMessage
    >>> history = [ChatMessage("user", f"Question {number}") for number in range(10)]
    >>> [message.text for message in await SlidingWindowCompaction(3).compact(history)]
    ['Question 0', 'Question 8', 'Question 9']
    """

    def __init__(self, max_messages: int = 100) -> None:
        self.max_messages = check_count(max_messages, "max_messages", least=1)

    def __repr__(self) -> str:
        return f"SlidingWindowCompaction({self.max_messages})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the protected messages and the tail. Raises WindowTooSmallError."""
        history = check_listed(history, ChatMessage, "messages")
        if len(history) <= self.max_messages:
            return history
        outline = Outline(history)
        reasons = outline.protected
        units = sorted((unit for unit in outline.units if unit[0] in reasons), key=lambda unit: _place(outline, unit))
        kept: dict[int, str] = {}
        for unit in units:
            if not _place(outline, unit) or len(kept) + len(unit) <= self.max_messages:
                kept |= {place: reasons[place] for place in unit}
        return outline.at(outline.tail_within([1] * len(history), self.max_messages, limit="max_messages", kept=kept))


def _place(outline: Outline, unit: Sequence[int]) -> int:
    """Return how soon a protected unit gives way: 0 if it stays, else from 1 on, the higher the sooner."""
    reasons = {outline.protected[place] for place in unit}
    if outline.newest in unit or not reasons.issubset(_GIVING_WAY):
        return 0
    return 1 + min(map(_GIVING_WAY.index, reasons))
