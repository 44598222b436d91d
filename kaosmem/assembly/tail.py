"""Cutting a history: rarely and by much, so that most turns keep the same prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from kaosmem.sections import Candidate, SectionSpec
from kaosmem.units import roundest_first


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
    """Cuts one history. All costs are in tokens as rendered.

    units: the proposed units without orphans, by position. taken, total: items and tokens the section ever took; where
    there is no total, offsets say nothing, and it is cut by positions alone.
    evicted: items that are not among them: a history that has any is never shown without a mark.
    size: tokens of a unit; mark_size: tokens of a mark for that many messages; header: what the section's own
    header costs.
    """

    def __init__(
        self,
        spec: SectionSpec,
        units: Sequence[Candidate],
        *,
        taken: int,
        total: int | None,
        evicted: int = 0,
        size: Callable[[Candidate], int],
        mark_size: Callable[[int], int],
        header: int,
    ) -> None:
        self._spec, self._units, self._taken, self._total = spec, units, taken, total
        self._evicted = evicted
        self._mark_size, self._header = mark_size, header
        # Suffix sums: tokens of all units from i on, and of the units before i that must be shown.
        self._from = [0] * (len(units) + 1)
        for index in range(len(units) - 1, -1, -1):
            self._from[index] = self._from[index + 1] + size(units[index])
        self._must_before = [0]
        self._musts_before = [0]
        for unit in units:
            self._must_before.append(self._must_before[-1] + (size(unit) if unit.must else 0))
            self._musts_before.append(self._musts_before[-1] + (len(unit.items) if unit.must else 0))
        self._whole = not evicted and (total is None or sum(unit.tokens for unit in units) >= total)
        # The newest units that must be shown are never cut off, so the last cut comes before them.
        self._last = len(units)
        for index in range(len(units) - 1, -1, -1):
            if not units[index].must:
                break
            if units[index].cut:
                self._last = index

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
        return min(least, self._uncut) if self._whole else least

    @property
    def want(self) -> int:
        """Return the tokens of the whole history."""
        return self._uncut if self._units else 0

    @property
    def _uncut(self) -> int:
        return self._header + self._from[0]

    def cut(self, cap: int) -> Tail:
        """Return the tail that a cap of at least `must` tokens allows."""
        if not self._units:
            return Tail((), (), None, 0)
        # A format may leave so much out that the whole takes less than the shortest tail with its mark.
        is_least = self._whole and self._used(self._last) > cap
        whole = self._used(0) if self._evicted else self._uncut
        if whole <= cap and ((not self._evicted if self._total is None else self._total <= cap) or is_least):
            left_out = self._left_out(0) if self._evicted else 0
            return Tail((), tuple(self._units), left_out or None, whole)
        start = self._start_by_position(cap) if self._total is None else self._start_by_offset(self._total, cap)
        before = tuple(unit for unit in self._units[:start] if unit.must)
        return Tail(before, tuple(self._units[start:]), self._left_out(start) or None, self._used(start))

    def _start_by_offset(self, total: int, cap: int) -> int:
        step = int((1 - self._spec.low_water) * cap)
        beyond = max(0, total - cap)
        target = step * -(-beyond // step) if step else beyond
        start = self._start(target, cap, step)
        while start < self._last and self._used(start) > cap:
            target += step
            later = self._start(target, cap, step)
            start = later if later > start else self._next_cut(start)
        return start

    def _start_by_position(self, cap: int) -> int:
        """Return the index of the first unit shown where it is not known how many tokens came before.

        Of the user's turns, else the legal cuts, whose tail takes from `low_water` of the cap up to all of it, the one
        at the roundest position, the first among several: it stays that until it leaves that range, or a rounder one
        enters it. Without any, the first legal cut whose tail fits.
        """
        legal = [index for index, unit in enumerate(self._units[: self._last + 1]) if unit.cut]
        turns = [index for index in legal if self._units[index].items[0].role == "user"]
        near = (
            cuts[rank]
            for cuts in (turns, legal)
            for rank in roundest_first([self._units[index].position for index in cuts])
            if self._spec.low_water * cap <= self._used(cuts[rank]) <= cap
        )
        fits = (index for index in legal if self._used(index) <= cap)
        return next(chain(near, fits), self._last)

    def _start(self, target: int, cap: int, step: int) -> int:
        """Return the index of the first unit shown: a user's turn near the target, else a legal cut near or after it.

        Near is within half of the part that a cut removes or leaves, whichever is less: so much of a history is
        known as soon as the target is. The last one up to the target comes first: a cut beyond it leaves room unused.
        """
        near = min(step, self._spec.low_water * cap) / 2
        units = self._units[: self._last + 1]
        legal = [index for index, unit in enumerate(units) if unit.cut and unit.offset >= target - near]
        turns = [
            index for index in legal if units[index].items[0].role == "user" and units[index].offset < target + near
        ]
        for cuts in (turns, legal):
            if cuts:
                return max((index for index in cuts if units[index].offset <= target), default=cuts[0])
        return self._last

    def _next_cut(self, start: int) -> int:
        later = (index for index in range(start + 1, self._last) if self._units[index].cut)
        return next(later, self._last)

    def _left_out(self, start: int) -> int:
        shown_from = self._units[start].position if start < len(self._units) else self._taken
        return max(0, shown_from - self._musts_before[start])

    def _used(self, start: int) -> int:
        mark = self._mark_size(self._left_out(start))
        return self._header + self._must_before[start] + mark + self._from[start]
