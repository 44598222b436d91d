"""Formers for tests: one that reads a small language, and one that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kaosmem import Item
from kaosmem.formation import Draft, ProposedChange


class LineFormer:
    """Forms each message `KEY: TEXT` as a version of the key, and `KEY!` as the end of the key."""

    def __init__(self, name: str = "lines", covered: int | None = None) -> None:
        self.name = name
        self.covered = covered
        self.said: list[str] = []

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        await asyncio.sleep(0)
        self.said += [item.text for item in said]
        changes = []
        for item in said:
            key, colon, _ = item.text.partition(":")
            if colon:
                changes.append(ProposedChange(item.text, item.text, (item.id,), key=key))
            elif item.text.endswith("!"):
                key = item.text.split()[0]
                changes.append(
                    ProposedChange(item.text, item.text, (item.id,), action="retire", key=key)
                )
        return Draft(changes, self.covered, has_exact_keys=True)


class WaitingFormer(LineFormer):
    """Waits for an event before it proposes."""

    def __init__(self) -> None:
        super().__init__("waiting")
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        self.has_begun.set()
        await self.may_end.wait()
        return await super().propose(said, known)
