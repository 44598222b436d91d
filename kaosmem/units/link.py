"""Links of an entry of a history to others: its calls, its results and its batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kaosmem.memos import register_memo
from kaosmem.types import ChatMessage, Item, StoredItem, ToolResultBlock, ToolUseBlock


@dataclass(frozen=True, slots=True)
class Link:
    """The ties of one entry of a history to others.

    calls: ids of the tool calls that the entry makes.
    answers: ids of the tool calls whose results the entry holds.
    batch: entries with the same batch stay together.
    mixed: the entry holds words beside its results. They must not be lost with the results.
    """

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    batch: str | None = None
    role: str = ""
    mixed: bool = False

    @classmethod
    def of(cls, message: ChatMessage | Item | StoredItem) -> Link:
        """Return the ties that the content blocks of a message make."""
        if isinstance(message, StoredItem) or isinstance(message.content, str):
            return _plain_link(message.role)
        blocks = message.content
        answers = tuple(block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock))
        return cls(
            calls=tuple(block.id for block in blocks if isinstance(block, ToolUseBlock)),
            answers=answers,
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

    @property
    def speaks(self) -> bool:
        """Return whether the entry is more than a tool's result, a summary or a system message.

        Calls that are still open are abandoned once another entry speaks.
        """
        return bool(self.calls) or (self.role not in ("tool", "system", "summary") and not self.is_results)


@lru_cache(maxsize=128)
def _plain_link(role: str) -> Link:
    return Link(role=role)


register_memo(_plain_link.cache_clear)
