"""One item that a section holds, and what its eviction depends on."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.eviction import Standing
from kaosmem.types import Item, JSONValue, UnreadItem


@dataclass(slots=True)
class Holding:
    """A held item.

    stored: it, or what of it is in a file, decoded when it is asked for. offset: tokens that were taken before it.
    """

    stored: Item | UnreadItem
    offset: int
    uses: int = 0
    last_use: int = 0

    @property
    def item(self) -> Item:
        """Return the item. Raises CorruptionError."""
        if isinstance(self.stored, UnreadItem):
            self.stored = self.stored.item()
        return self.stored

    def standing(self, ordinal: int) -> Standing:
        """Return what decides when it is evicted, if it is alone in its unit."""
        item = self.item
        return Standing(ordinal, ordinal, 1, item.tokens, item.priority, self.uses, self.last_use, int(item.pinned))

    def to_dict(self, ordinal: int, *, first: int, updated: int) -> dict[str, JSONValue]:
        """Return it as JSON values; `unit` is the first ordinal of its unit, left out where that is its own."""
        own = self.stored.entry() if isinstance(self.stored, UnreadItem) else self.stored.to_dict()
        stored = {**own, "position": ordinal, "offset": self.offset}
        if first != ordinal:
            stored["unit"] = first
        if updated:
            stored["updated"] = updated
        if self.uses or self.last_use:
            stored |= {"uses": self.uses, "last_use": self.last_use}
        return stored
