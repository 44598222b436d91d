"""A strategy that cuts long tool results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import MessageSizes
from kaosmem.types import ChatMessage, ImageBlock, TextBlock, ToolResultBlock

_ELLIPSIS = "…"


class ToolResultCompactionStrategy:
    """Cuts the text of each tool result to its beginning and a marker, together at most `max_chars` long.

    Errors, images and pinned messages stay as they are, and so does a text that takes fewer tokens than a marker.
    Raises InvalidArgumentError.
    """

    def __init__(self, max_chars: int = 500) -> None:
        self.max_chars = check_count(max_chars, "max_chars", least=1)

    def __repr__(self) -> str:
        return f"ToolResultCompactionStrategy({self.max_chars})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history with its long results cut."""
        messages, sizes = check_listed(history, ChatMessage, "messages"), MessageSizes()
        return [message if message.pinned else self._cut(message, sizes) for message in messages]

    def _cut(self, message: ChatMessage, sizes: MessageSizes) -> ChatMessage:
        if isinstance(message.content, str):
            return self._cut_text(message, sizes) if message.role == "tool" else message
        blocks = tuple(
            self._cut_result(block, sizes) if isinstance(block, ToolResultBlock) and not block.is_error else block
            for block in message.content
        )
        return message if blocks == message.content else replace(message, content=blocks)

    def _cut_text(self, message: ChatMessage, sizes: MessageSizes) -> ChatMessage:
        shorter = (replace(message, content=cut) for cut in self._cuts(message.text))
        return next((each for each in shorter if sizes(each) <= sizes(message)), message)

    def _cut_result(self, result: ToolResultBlock, sizes: MessageSizes) -> ToolResultBlock:
        alone = ChatMessage("tool", (result,))
        for cut in self._cuts(_text_of(result.content)):
            shorter = replace(result, content=_with_text(result.content, cut))
            if sizes(ChatMessage("tool", (shorter,))) <= sizes(alone):
                return shorter
        return result

    def _cuts(self, text: str) -> Iterator[str]:
        """Yield shorter forms of a text that is too long: its beginning and a marker, then ever less of it.

        Where no whole marker has room, an ellipsis stands for the rest.
        """
        room = self.max_chars - len(_marker(len(text)))
        has_marker = room >= 0
        room = room if has_marker else self.max_chars - len(_ELLIPSIS)
        while len(text) > self.max_chars:
            yield text[:room] + (_marker(len(text) - room) if has_marker else _ELLIPSIS)
            if room <= 0:
                return
            room //= 2


def _marker(truncated: int) -> str:
    return f"[{truncated} chars truncated]"


def _text_of(content: str | tuple[TextBlock | ImageBlock, ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def _with_text(
    content: str | tuple[TextBlock | ImageBlock, ...], text: str
) -> str | tuple[TextBlock | ImageBlock, ...]:
    if isinstance(content, str):
        return text
    return (TextBlock(text), *(block for block in content if isinstance(block, ImageBlock)))
