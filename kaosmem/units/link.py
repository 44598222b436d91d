"""What ties one entry of a history to others: its calls and results, its batch, its signed reasoning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kaosmem.memos import register_memo
from kaosmem.types import ChatMessage, Item, ThinkingBlock, ToolResultBlock, ToolUseBlock, UnreadItem


@dataclass(frozen=True, slots=True)
class Link:
    """What ties one entry of a history to others.

    calls, answers: ids of the tool calls that the entry makes, and of those whose results it holds.
    batch: entries with the same one stay together.
    loop: the entry carries reasoning that the provider signs.
    mixed: the entry holds something beside its results, which must not be lost with them.
    """

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    batch: str | None = None
    loop: bool = False
    role: str = ""
    mixed: bool = False

    @classmethod
    def of(cls, message: ChatMessage | Item) -> Link:
        """Return the link that a message's content blocks make."""
        if isinstance(message, UnreadItem) or isinstance(message.content, str):
            return _plain_link(message.role)
        blocks = message.content
        answers = tuple(block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock))
        return cls(
            calls=tuple(block.id for block in blocks if isinstance(block, ToolUseBlock)),
            answers=answers,
            loop=any(isinstance(block, ThinkingBlock) and block.is_sealed for block in blocks),
            role=message.role,
            mixed=0 < len(answers) < len(blocks),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether nothing in the entry itself ties it to another."""
        return not self.calls and not self.answers and self.batch is None

    @property
    def is_results(self) -> bool:
        """Return whether the entry holds tool results and nothing else."""
        return bool(self.answers) and not self.calls and not self.mixed


@lru_cache(maxsize=128)
def _plain_link(role: str) -> Link:
    return Link(role=role)


register_memo(_plain_link.cache_clear)
