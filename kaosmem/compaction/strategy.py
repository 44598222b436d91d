"""The CompactionStrategy protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kaosmem.types import ChatMessage


@runtime_checkable
class CompactionStrategy(Protocol):
    """Makes a history shorter. `kaosmem.testing.CompactionContract` tests the promises of each strategy.

    The result never takes more tokens than the history. Only whole units are left out: an assistant's answer with its
    thinking, its calls and their results. The messages of `Outline.protected` stay: system and pinned messages, the
    first and the newest user message, the newest unit, and calls whose results are awaited. The same history gives the
    same list. A strategy leaves its own result as it is, unless it says otherwise.
    """

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the shorter history, oldest first. The given history stays as it is."""
        ...
