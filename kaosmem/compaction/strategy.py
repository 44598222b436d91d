"""What shortens a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kaosmem.types import ChatMessage


@runtime_checkable
class CompactionStrategy(Protocol):
    """Makes a history shorter. `kaosmem.testing.CompactionContract` tests what each one promises.

    What comes out is never more tokens than what went in. Whole units are left out (a call with its results, a signed
    reasoning loop), so that no result loses its call and no call its result. What `Outline.protected` holds stays:
    system messages, pinned ones, the first and the newest user message, calls without a result. The same history gives
    the same list, and the list given again gives itself again, where a strategy says nothing else.
    """

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return what is left of a history, oldest first; the history stays as it is."""
        ...
