"""What a history gave up for room and may still recall."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kaosmem.types import Item
from kaosmem.units import Link


@dataclass(frozen=True, slots=True)
class PastUnit:
    """A unit that was evicted whole: its items by ordinal, in stored order, and their tokens."""

    items: Mapping[int, Item]
    tokens: int

    @property
    def is_orphan(self) -> bool:
        """Return whether it is nothing but results: their calls never came, or are forgotten."""
        return all(Link.of(item).is_results for item in self.items.values())


class Past:
    """Evicted units, each under the ordinal of its first item."""

    def __init__(self) -> None:
        self._units: dict[int, PastUnit] = {}
        self._firsts: dict[int, int] = {}  # ordinal -> first ordinal of its unit
        self._lasts: list[int] = []  # last ordinals of the units, ascending but for what came since they were asked for

    def __len__(self) -> int:
        """Return how many items were evicted."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[int]:
        return iter(self._firsts)

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._firsts

    def __getitem__(self, ordinal: int) -> Item:
        return self._units[self._firsts[ordinal]].items[ordinal]

    @property
    def all_alone(self) -> bool:
        """Return whether no unit has several items."""
        return len(self._units) == len(self._firsts)

    def put(self, items: Mapping[int, Item]) -> None:
        """Keep a unit, its items by ordinal in stored order; one that is there already stays as it is."""
        first = next(iter(items))
        if first in self._firsts:
            return
        tokens = 0
        for ordinal, item in items.items():
            self._firsts[ordinal] = first
            tokens += item.tokens
        self._units[first] = PastUnit(items, tokens)
        self._lasts.append(max(items))

    def ordinals(self, item_ids: Container[str]) -> set[int]:
        """Return the ordinals under which any of these ids was evicted."""
        return {at for unit in self._units.values() for at, item in unit.items.items() if item.id in item_ids}

    def forget(self, ordinals: Container[int]) -> None:
        """Take items out; what is left of their units stays together."""
        for first, unit in list(self._units.items()):
            left = {ordinal: item for ordinal, item in unit.items.items() if ordinal not in ordinals}
            if len(left) < len(unit.items):
                del self._units[first]
                for ordinal in unit.items:
                    del self._firsts[ordinal]
                if left:
                    self.put(left)
        self._lasts = [max(unit.items) for unit in self._units.values()]

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an item's unit."""
        return self._firsts[ordinal]

    def unit(self, first: int) -> PastUnit:
        """Return a unit."""
        return self._units[first]

    def items(self, first: int) -> Iterable[Item]:
        """Return the items of a unit, none for one that is not here."""
        return self._units[first].items.values() if first in self._units else ()

    def units(self) -> Iterable[PastUnit]:
        """Return all units."""
        return self._units.values()

    def newest_first(self) -> Iterator[int]:
        """Yield the first ordinal of each unit, the unit with the newest item first."""
        self._lasts.sort()  # linear, as almost all are in order
        yield from map(self._firsts.__getitem__, reversed(self._lasts))

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure all items anew."""
        units, self._units, self._firsts, self._lasts = self._units, {}, {}, []
        for unit in units.values():
            self.put({ordinal: replace(item, tokens=count(item)) for ordinal, item in unit.items.items()})
