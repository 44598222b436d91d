"""The difference between two turns: items that came, went, were replaced or moved."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kaosmem.types.items import Item


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the items of two turns.

    came, went: items that only one of them shows. replaced: an item that went, and the item with
        the same key that came. moved: items that stand in another order.
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
        """Yield each changed item after a word: in, out, replaced, replacing or moved."""
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
    old = {item.id: place for place, item in enumerate(before)}
    now = {item.id for item in after}
    came = [item for item in after if item.id not in old]
    successors: dict[tuple[str, str | None], Item] = {}
    for item in came:
        if item.key is not None:
            successors[item.section, item.key] = item
    went = []
    replaced = []
    for item in before:
        if item.id in now:
            continue
        successor = successors.get((item.section, item.key))
        if successor is None:
            went.append(item)
        else:
            replaced.append((item, successor))
    newer = {successor.id for _, successor in replaced}
    common = [item for item in after if item.id in old]
    kept = _longest_run([old[item.id] for item in common])
    return Difference(
        tuple(item for item in came if item.id not in newer),
        tuple(went),
        tuple(replaced),
        tuple(item for place, item in enumerate(common) if place not in kept),
        len(kept),
    )


def _longest_run(places: Sequence[int]) -> set[int]:
    """Return which of some places form a longest increasing run. Items there did not move."""
    tails: list[int] = []
    ends: list[int] = []
    links: list[int] = []
    for at, place in enumerate(places):
        size = bisect_left(tails, place)
        links.append(ends[size - 1] if size else -1)
        if size == len(tails):
            tails.append(place)
            ends.append(at)
        else:
            tails[size] = place
            ends[size] = at
    kept = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.add(at)
        at = links[at]
    return kept
