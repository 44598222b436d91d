"""The difference between two turns: items that came, went, were replaced or moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from kaosmem.types.items import Item

CHANGES = "in", "out", "replaced", "replacing", "moved"
"""The words for a change of an item between two turns."""
ItemChange: TypeAlias = tuple[str, Item]
"""A changed item after its change, one of `CHANGES`."""
_Identity: TypeAlias = tuple[str, str]
"""The id and the text of an item."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the items of two turns. It prints as the number of changes by kind.

    Attributes:
        changes: The changed items, each after its change, one of `CHANGES`. A `replaced` item is
            followed by the `replacing` one, which has its key or its id.
    """

    changes: tuple[ItemChange, ...]

    def __str__(self) -> str:
        counts = []
        for change in CHANGES:
            items = self.items(change)
            if items and change != "replacing":
                counts.append(f"{len(items):,} {change}")
        return ", ".join(counts) or "none"

    def items(self, change: str) -> list[Item]:
        """Return the items with a change, one of `CHANGES`."""
        return [item for kind, item in self.changes if kind == change]


def difference(before: Sequence[Item], after: Sequence[Item]) -> Difference:
    """Return the difference between two turns, by the ids and texts of the items that they show.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> a, b, c = memory.add_many("findings", ["One.", "Two.", "Three."])
    >>> print(difference([a, b, c], [c, a]))
    1 out, 1 moved
    """
    old = set(map(_identity, before))
    now = set(map(_identity, after))
    came = {item.id: item for item in after if _identity(item) not in old}
    by_key: dict[tuple[str, str | None], Item] = {}
    for item in came.values():
        if item.key is not None:
            by_key[item.section, item.key] = item
    went: list[ItemChange] = []
    pairs: list[ItemChange] = []
    for item in before:
        if _identity(item) in now:
            continue
        newer = came.get(item.id) or by_key.get((item.section, item.key))
        if newer is None:
            went.append(("out", item))
        else:
            pairs += [("replaced", item), ("replacing", newer)]
            came.pop(newer.id, None)
    kept = _kept(list(map(_identity, before)), list(map(_identity, after)))
    new = [("in", item) for item in came.values()]
    moved = [("moved", item) for item in after if _identity(item) in old - kept]
    return Difference((*new, *went, *pairs, *moved))


def _identity(item: Item) -> _Identity:
    """Return what tells an item: an update keeps the id, and changes the text."""
    return item.id, item.text


def _kept(
    before: Sequence[_Identity],
    after: Sequence[_Identity],
) -> set[_Identity]:
    """Return the identities that stand in the same order in both."""
    kept: set[_Identity] = set()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for block in matcher.get_matching_blocks():
        kept.update(before[block.a : block.a + block.size])
    return kept
