"""A strategy that keeps the newest messages within hard limits."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import Outline
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import ChatMessage


class TruncationStrategy:
    """Keeps the longest tail that is within all given limits, together with the protected messages before it.

    max_chars: characters of all texts.
    Raises InvalidArgumentError. `compact` raises WindowTooSmallError, with the sums, if the protected messages alone
    exceed a limit.

    >>> from kaosmem import ChatMessage
    >>> history = [ChatMessage("user", f"Question {number}") for number in range(10)]
    >>> [message.text for message in await TruncationStrategy(max_chars=30).compact(history)]
    ['Question 0', 'Question 8', 'Question 9']
    """

    def __init__(self, max_messages: int | None = None, max_chars: int | None = None) -> None:
        if max_messages is None and max_chars is None:
            raise InvalidArgumentError("nothing limits a truncation; give max_messages, max_chars or both")
        self.max_messages = None if max_messages is None else check_count(max_messages, "max_messages")
        self.max_chars = None if max_chars is None else check_count(max_chars, "max_chars")

    def __repr__(self) -> str:
        return f"TruncationStrategy(max_messages={self.max_messages}, max_chars={self.max_chars})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the protected messages and the tail. Raises WindowTooSmallError."""
        outline = Outline(check_listed(history, ChatMessage, "messages"))
        tails = []
        if self.max_messages is not None:
            tails.append(outline.tail_within([1] * len(history), self.max_messages, limit="max_messages"))
        if self.max_chars is not None:
            chars = [len(message.text) for message in outline.messages]
            tails.append(outline.tail_within(chars, self.max_chars, limit="max_chars"))
        return min(map(outline.at, tails), key=len)
