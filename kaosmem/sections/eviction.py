"""Eviction policies.

Each is one `EvictionPolicy`, which a `SectionSpec` takes; those of kaosmem have names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from kaosmem.names import check_name


@dataclass(slots=True)
class EvictionStats:
    """The figures of a unit that decide about its eviction.

    Attributes:
        first, last: Ordinals of its first and last item.
        priority, last_use: The highest among its items.
        items, tokens, uses, pinned: Sums over its items.
    """

    first: int
    last: int
    items: int
    tokens: int
    priority: int
    uses: int
    last_use: int
    pinned: int


def combined_stats(stats: Iterable[EvictionStats]) -> EvictionStats:
    """Return the eviction statistics of one unit made of these."""
    whole, *others = stats
    for other in others:
        whole = EvictionStats(
            first=min(whole.first, other.first),
            last=max(whole.last, other.last),
            items=whole.items + other.items,
            tokens=whole.tokens + other.tokens,
            priority=max(whole.priority, other.priority),
            uses=whole.uses + other.uses,
            last_use=max(whole.last_use, other.last_use),
            pinned=whole.pinned + other.pinned,
        )
    return whole


@dataclass(frozen=True, slots=True)
class EvictionPolicy:
    """How a section makes room. Give it to a section as `SectionSpec(eviction=...)`.

    Raises InvalidNameError, and TypeError if the key of a new unit is no tuple.

    Attributes:
        name: Is stored with the section. The policy itself is given again, with its spec, by each
            caller that opens the session. Without it, a notice of the session names the policy.
        key: Sorts units by a tuple of numbers. The smallest makes room first, among equals the
            oldest. None: nothing makes room.
        competes: A newcomer makes room only among the units whose key is no larger than its own. If
            that is too little, the newcomer itself is archived.
        bounded: Whether the budget bounds the section's contents, or its share of a window only.
        counts_uses: Whether `key` looks at uses, which are logged only then.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> largest = EvictionPolicy("largest", lambda unit: (-unit.tokens,))
    >>> memory = SessionMemory.test_mode(sections=[SectionSpec("notes", 7, eviction=largest)])
    >>> for text in ("short", "much the longest of the notes", "brief"):
    ...     item = memory.add("notes", text)
    >>> [item.text for item in memory["notes"]]
    ['short', 'brief']
    """

    name: str
    key: Callable[[EvictionStats], tuple[int, ...]] | None = None
    competes: bool = False
    bounded: bool = True
    counts_uses: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "eviction policy")
        self.order(
            EvictionStats(
                first=0, last=0, items=1, tokens=1, priority=0, uses=0, last_use=0, pinned=0
            )
        )

    def __str__(self) -> str:
        return self.name

    def spares(self, unit: EvictionStats, newcomer: EvictionStats) -> bool:
        """Return whether a unit, and all units behind it in the order, stay for a newcomer."""
        return self.competes and self._key_of(unit) > self._key_of(newcomer)

    def order(self, unit: EvictionStats) -> tuple[int, ...]:
        """Return a unit's place in the order of eviction, its first ordinal last."""
        return (*self._key_of(unit), unit.first)

    def _key_of(self, unit: EvictionStats) -> tuple[int, ...]:
        if self.key is None:
            return ()
        return self.key(unit)


POLICIES: Mapping[str, EvictionPolicy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            EvictionPolicy("none", bounded=False),
            EvictionPolicy("refuse"),
            EvictionPolicy("fifo", lambda unit: (unit.first,)),
            EvictionPolicy("lifo", lambda unit: (-unit.last,)),
            EvictionPolicy("lru", lambda unit: (unit.last_use,), counts_uses=True),
            EvictionPolicy("lfu", lambda unit: (unit.uses, unit.last_use), counts_uses=True),
            EvictionPolicy("priority", lambda unit: (unit.priority,), competes=True),
        )
    }
)
"""The policies that a section may name."""


EvictionStatsOf = Callable[[int], EvictionStats | None]
"""Returns the eviction statistics of the unit that begins at an ordinal.

None: no unit begins there, or it may not be evicted.
"""


class EvictionQueue:
    """Evictable units in the order of a policy: a heap with lazy deletion.

    Every change of these statistics is to be pushed before the next choice.
    """

    def __init__(self, policy: EvictionPolicy, stats_of: EvictionStatsOf) -> None:
        self._policy = policy
        self._stats_of = stats_of
        self._heap: list[tuple[int, ...]] | None = None
        self._max_length = 0

    def clear(self) -> None:
        """Forget the order: the next choice makes it anew."""
        self._heap = None

    def push(self, first: int) -> None:
        """Enter a unit that is new or has changed."""
        if self._heap is None:
            return
        unit = self._stats_of(first)
        if unit is None:
            return
        heappush(self._heap, self._policy.order(unit))
        if len(self._heap) > self._max_length:  # about half is stale
            self._heap = None

    def choose_victims(
        self,
        newcomer: EvictionStats,
        *,
        own: Collection[int],
        tokens: int,
        items: int,
        firsts: Iterable[int],
    ) -> list[int] | None:
        """Return the first ordinals of the units to evict, or None if they cannot make the room.

        Args:
            newcomer: Statistics of the unit that needs room.
            own: The first ordinals that this unit has now. They are never victims.
            tokens: Tokens to be freed.
            items: Items to be freed.
            firsts: The first ordinals of all units.
        """
        heap = self._made(firsts) if self._policy.key else []
        victims: dict[int, tuple[int, ...]] = {}
        passed: dict[int, tuple[int, ...]] = {}
        while (tokens > 0 or items > 0) and heap:
            entry = heappop(heap)
            first = entry[-1]
            unit = self._stats_of(first)
            if unit is None or first in victims or entry != self._policy.order(unit):
                continue
            if first in own:
                passed[first] = entry
            elif self._policy.spares(unit, newcomer):
                passed[first] = entry
                break
            else:
                victims[first] = entry
                tokens -= unit.tokens
                items -= unit.items
        for entry in passed.values():
            heappush(heap, entry)
        if tokens <= 0 and items <= 0:
            return list(victims)
        for entry in victims.values():
            heappush(heap, entry)
        return None

    def _made(self, firsts: Iterable[int]) -> list[tuple[int, ...]]:
        if self._heap is None:
            units = map(self._stats_of, firsts)
            self._heap = [self._policy.order(unit) for unit in units if unit is not None]
            heapify(self._heap)
            self._max_length = 2 * len(self._heap) + 64
        return self._heap
