"""The newest messages, so many of them."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import Outline
from kaosmem.types import ChatMessage


class SlidingWindowCompaction:
    """Keeps the longest tail that is at most `max_messages` long, together with the protected messages before it.

    If the protected messages alone are more, they are all that is kept. Raises InvalidArgumentError.

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
        """Return the protected messages and the tail."""
        history = check_listed(history, ChatMessage, "messages")
        if len(history) <= self.max_messages:
            return history
        outline = Outline(history)
        kept = outline.tail([1] * len(history), self.max_messages)
        return outline.at(outline.protected if kept is None else kept)
