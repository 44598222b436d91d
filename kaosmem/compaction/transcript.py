"""Messages as text for the model that summarises them, in parts that fit a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kaosmem.formats.text import entry_piece
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, ContentBlock, ToolResultBlock, block_text


def transcript_parts(messages: Iterable[ChatMessage], room: int, *, counter: TokenCounter) -> Iterator[str]:
    """Yield all that messages say, in order, in texts of at most `room` tokens.

    Each message is a piece of the text format, so that its text can't forge a label; a larger one is cut.
    """
    part: list[str] = []
    left = room
    for piece, tokens in _pieces(messages, room, counter):
        if tokens > left and part:
            yield "".join(part)
            part, left = [], room
        part.append(piece)
        left -= tokens
    if part:
        yield "".join(part)


def _pieces(messages: Iterable[ChatMessage], room: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    for message in messages:
        is_plain = isinstance(message.content, str)
        left = [message if is_plain else replace(message, content="\n".join(map(shown_block, message.blocks)))]
        while left:
            shown = left.pop()
            piece = entry_piece(shown)
            tokens = counter(piece)
            if tokens <= room or len(shown.text) < 2:
                yield piece, tokens
            else:
                left += reversed(_halves(shown))


def shown_block(block: ContentBlock) -> str:
    """Return a block as text, the result of a failed call with the word error before it."""
    is_error = isinstance(block, ToolResultBlock) and block.is_error
    return f"error: {block_text(block)}" if is_error else block_text(block)


def _halves(message: ChatMessage) -> tuple[ChatMessage, ChatMessage]:
    """Return a message as two, parted at the line or word end that is last before its middle, if one is near."""
    text = message.text
    middle = len(text) // 2
    nearest = max(text.rfind(end, middle - middle // 2, middle) for end in ("\n", " "))
    cut = middle if nearest < 1 else nearest + 1
    return replace(message, content=text[:cut]), replace(message, content=text[cut:])
