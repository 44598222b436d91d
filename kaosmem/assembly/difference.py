"""The difference between two turns: items that came, went, were replaced or moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from kaosmem.types.items import Item

CHANGES = "in", "out", "replaced", "replacing", "moved"
"""The words for a change of an item between two turns."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the items of two turns.

    Attributes:
        came, went: Items that only one of them shows.
        replaced: An item that went, and the item with the same key that came.
        moved: Items that stand in another order.
    """

    came: tuple[Item, ...] = ()
    went: tuple[Item, ...] = ()
    replaced: tuple[tuple[Item, Item], ...] = ()
    moved: tuple[Item, ...] = ()
    same: int = 0

    def __str__(self) -> str:
        counts = {
            "in": len(self.came),
            "out": len(self.went),
            "replaced": len(self.replaced),
            "moved": len(self.moved),
        }
        return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none"

    def changes(self) -> Iterator[tuple[str, Item]]:
        """Yield each changed item after one of `CHANGES`."""
        for item in self.came:
            yield "in", item
        for item in self.went:
            yield "out", item
        for old, new in self.replaced:
            yield "replaced", old
            yield "replacing", new
        for item in self.moved:
            yield "moved", item


def difference(before: Sequence[Item], after: Sequence[Item]) -> Difference:
    """Return the difference between two turns, by the ids of the items that they show.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> a, b, c = memory.add_many("findings", ["One.", "Two.", "Three."])
    >>> print(difference([a, b, c], [c, a]))
    1 out, 1 moved
    """
    old = {item.id for item in before}
    now = {item.id for item in after}
    came = [item for item in after if item.id not in old]
    went = [item for item in before if item.id not in now]
    by_key = {(item.section, item.key): item for item in came}
    replaced = []
    for item in went:
        successor = by_key.get((item.section, item.key))
        if item.key is not None and successor is not None:
            replaced.append((item, successor))
    paired = {item.id for pair in replaced for item in pair}
    kept = _kept([item.id for item in before], [item.id for item in after])
    return Difference(
        tuple(item for item in came if item.id not in paired),
        tuple(item for item in went if item.id not in paired),
        tuple(replaced),
        tuple(item for item in after if item.id in old and item.id not in kept),
        len(kept),
    )


def _kept(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the ids that stand in the same order in both."""
    kept: set[str] = set()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for block in matcher.get_matching_blocks():
        kept.update(before[block.a : block.a + block.size])
    return kept
