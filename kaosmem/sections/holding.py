"""One live item of a section, with the values that decide its eviction."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.eviction import Standing
from kaosmem.types import Item, JSONValue, UnreadItem


@dataclass(slots=True)
class Holding:
    """A held item.

    stored: it, perhaps unread. offset: tokens that were taken before it.
    """

    stored: Item
    offset: int
    uses: int = 0
    last_use: int = 0

    @property
    def item(self) -> Item:
        """Return the item, decoded. Raises CorruptionError."""
        if isinstance(self.stored, UnreadItem):
            self.stored = self.stored.item()
        return self.stored

    def standing(self, ordinal: int) -> Standing:
        """Return what decides when it is evicted, if it is alone in its unit."""
        item = self.stored
        return Standing(ordinal, ordinal, 1, item.tokens, item.priority, self.uses, self.last_use, int(item.pinned))

    def to_dict(self, ordinal: int, *, first: int, updated: int) -> dict[str, JSONValue]:
        """Return it as JSON values; `unit` is the first ordinal of its unit, left out where that is its own."""
        stored = {**self.stored.to_dict(), "position": ordinal, "offset": self.offset}
        if first != ordinal:
            stored["unit"] = first
        if updated:
            stored["updated"] = updated
        if self.uses or self.last_use:
            stored |= {"uses": self.uses, "last_use": self.last_use}
        return stored
