"""The tail of a history: its newest units that fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kaosmem.sections import Candidate


@dataclass(frozen=True, slots=True)
class Tail:
    """The shown part of a history: units kept before its mark, the mark if any is left out, units from the cut on.

    left_out: messages that the mark stands for, None where there is no mark.
    used: tokens as rendered, header and mark included.
    """

    before: tuple[Candidate, ...]
    units: tuple[Candidate, ...]
    left_out: int | None
    used: int

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """Return all units that are shown, in order."""
        return (*self.before, *self.units)


class TailCutter:
    """Cuts one history to the longest tail that fits, so that a larger cap never gives a shorter tail.

    All costs are in tokens as rendered.
    units: the proposed units without orphans, by position. taken: number of items that the section ever took.
    is_whole: whether these are all units of the history. evicted: number of items that left it; if there are any, it
    always has a mark.
    size: tokens of a unit. mark_size: tokens of a mark for that many messages. header: tokens of the section's header.
    """

    def __init__(
        self,
        units: Sequence[Candidate],
        *,
        taken: int,
        is_whole: bool,
        evicted: int = 0,
        size: Callable[[Candidate], int],
        mark_size: Callable[[int], int],
        header: int,
    ) -> None:
        self._units, self._taken, self._mark_size = units, taken, mark_size
        self._is_bare = is_whole and not evicted
        sizes = [size(unit) for unit in units]
        before = accumulate((tokens if unit.must else 0 for unit, tokens in zip(units, sizes, strict=True)), initial=0)
        after = [*accumulate(reversed(sizes), initial=header)][::-1]
        # Tokens of each tail without its mark. They never increase from one start to the next.
        self._unmarked = [kept + rest for kept, rest in zip(before, after, strict=True)]
        self._musts = [*accumulate((len(unit.items) if unit.must else 0 for unit in units), initial=0)]
        self._last = len(units)  # the newest required units are never parted from each other
        for index in range(len(units) - 1, -1, -1):
            if not units[index].must:
                break
            if units[index].cut:
                self._last = index
        starts = (index for index in range(self._last) if units[index].cut or (index == 0 and is_whole))
        self._starts = [*starts, self._last]

    @property
    def last_shown(self) -> Candidate | None:
        """Return the unit that the history ends with wherever it is cut, if there is one."""
        return self._units[-1] if self._last < len(self._units) else None

    @property
    def must(self) -> int:
        """Return the least that the history can be shown in."""
        if not self._units:
            return 0
        least = self._used(self._last)
        return min(least, self._used(0)) if self._is_bare else least

    @property
    def want(self) -> int:
        """Return the tokens of the longest tail."""
        return self._used(self._starts[0]) if self._units else 0

    def cut(self, cap: int) -> Tail:
        """Return the longest tail that a cap of at least `must` tokens allows."""
        if not self._units:
            return Tail((), (), None, 0)
        first = bisect_left(self._starts, -cap, key=lambda start: -self._unmarked[start])
        start = next((start for start in self._starts[first:] if self._used(start) <= cap), self._last)
        before = tuple(unit for unit in self._units[:start] if unit.must)
        return Tail(before, tuple(self._units[start:]), self._left_out(start) or None, self._used(start))

    def _left_out(self, start: int) -> int:
        if start == 0 and self._is_bare:
            return 0
        shown_from = self._units[start].position if start < len(self._units) else self._taken
        return max(0, shown_from - self._musts[start])

    def _used(self, start: int) -> int:
        return self._unmarked[start] + self._mark_size(self._left_out(start))
