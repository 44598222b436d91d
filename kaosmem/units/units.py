"""What belongs together in a history: a call and its results, a parallel batch, a signed reasoning loop."""

from __future__ import annotations

from collections.abc import Iterable

from kaosmem.units.link import Link
from kaosmem.units.waiting_calls import WaitingCalls


class _Unit:
    """Entries that stay together. What `Units._match` reckons from `links` is kept beside them."""

    __slots__ = ("batches", "first", "last", "links", "orphans", "unanswered", "unmatched")

    def __init__(self, ordinal: int, link: Link) -> None:
        self.links = {ordinal: link}
        self.first = self.last = ordinal
        self.unanswered = 0  # calls without a result
        self.unmatched = 0  # results without a call
        self.orphans: set[int] = set()
        self.batches = {link.batch} - {None}


class Units:
    """Entries of a growing history, named by ascending ordinals, grouped into what stays together.

    An entry's place is decided once, when it comes, and entries that share a unit never part: taking some out
    only opens calls or orphans results among those that stay. Plain entries that stand alone are not stored.

    A result joins the latest unanswered call with its id. An assistant entry that calls under signed reasoning
    begins a loop; assistant and tool entries join it until somebody else speaks.
    """

    def __init__(self) -> None:
        self._units: dict[int, _Unit] = {}
        self._waiting = WaitingCalls()
        self._batches: dict[str | None, _Unit] = {}
        self._loop: _Unit | None = None

    @classmethod
    def restore(cls, entries: Iterable[tuple[int, Link, int]], *, loop: int | None) -> Units:
        """Return units as they were, deciding nothing again.

        entries: ordinal, link and the first ordinal of its unit, ascending. loop: first ordinal of the open loop.
        """
        entries = list(entries)
        leaders = {first for ordinal, _, first in entries if first != ordinal} | {loop}
        units = cls()
        for ordinal, link, first in entries:
            unit = units._units.get(first)
            if unit is not None:
                unit.links[ordinal] = link
                units._units[ordinal] = unit
            elif not link.is_plain or ordinal in leaders:
                units._units[ordinal] = _Unit(ordinal, link)
        for unit in dict.fromkeys(units._units.values()):
            units._match(unit)
        units._loop = None if loop is None else units._units[loop]
        return units

    def several(self) -> list[int]:
        """Return the first ordinals of the units of several entries."""
        return list({unit.first: None for unit in self._units.values() if len(unit.links) > 1})

    @property
    def loop(self) -> int | None:
        """Return the first ordinal of the loop that the next entry may join."""
        return None if self._loop is None else self._loop.first

    def joins(self, ordinal: int, link: Link) -> set[int]:
        """Return the first ordinals of the units that an entry, new or given another link, would join."""
        return {unit.first for unit in self._joined(ordinal, link)}

    def add(self, ordinal: int, link: Link) -> set[int]:
        """Place the next entry, its ordinal above all others; return the first ordinals of the units that it joined."""
        if self._loop is None and link.is_plain:
            return set()
        joined = self._joined(ordinal, link)
        firsts = {unit.first for unit in joined}
        answered: dict[str, int] = {}
        if joined or not link.is_plain:
            unit = self._merged([*joined, _Unit(ordinal, link)])
            self._units[ordinal] = unit
            if link.batch is not None:
                self._batches[link.batch] = unit
            answered = self._waiting.enter(ordinal, link)
            unit.unanswered += len(set(link.calls)) - len(answered)
            unit.unmatched += len(set(link.answers)) - len(answered)
            if link.is_results and not answered:
                unit.orphans.add(ordinal)
            if len(joined) > 1 and unit.unmatched:  # results of the one may meet calls of the other
                self._match(unit)
            if link.loop and link.calls and link.role == "assistant":
                self._loop = unit
        if link.role not in ("assistant", "tool", "system") and not answered and not link.is_results:
            self._loop = None
        return firsts

    def replace(self, ordinal: int, link: Link) -> None:
        """Give an entry another link: it keeps its companions, and may gain some."""
        unit = self._units.get(ordinal)
        joined = self._joined(ordinal, link)
        if unit is None:
            if link.is_plain and not joined:
                return
            unit = _Unit(ordinal, link)
        elif unit.links[ordinal] == link:
            return
        else:
            self._waiting.remove(ordinal, unit.links[ordinal])
            unit.links[ordinal] = link
        unit = self._merged(list(dict.fromkeys([*joined, unit])))
        self._units[ordinal] = unit
        self._match(unit)

    def remove(self, ordinals: Iterable[int]) -> None:
        """Take entries out; those that shared a unit with them stay together."""
        touched: dict[_Unit, None] = {}
        for ordinal in ordinals:
            unit = self._units.pop(ordinal, None)
            if unit is not None:
                self._waiting.remove(ordinal, unit.links.pop(ordinal))
                touched[unit] = None
        for unit in touched:
            self._match(unit)

    def ties(self, ordinal: int) -> bool:
        """Return whether something ties an entry to others, there or not."""
        return ordinal in self._units

    def members(self, ordinal: int) -> tuple[int, ...]:
        """Return the ordinals of an entry's unit, ascending."""
        unit = self._units.get(ordinal)
        return (ordinal,) if unit is None else tuple(sorted(unit.links))

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit.first

    def last(self, ordinal: int) -> int:
        """Return the last ordinal of an entry's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit.last

    def firsts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the first ordinal of the unit of each entry."""
        units = self._units
        return [units[ordinal].first if ordinal in units else ordinal for ordinal in ordinals]

    def lasts(self, ordinals: Iterable[int]) -> list[int]:
        """Return the last ordinal of the unit of each entry."""
        units = self._units
        return [units[ordinal].last if ordinal in units else ordinal for ordinal in ordinals]

    def is_open(self, ordinal: int) -> bool:
        """Return whether an entry's unit has a call without a result."""
        unit = self._units.get(ordinal)
        return unit is not None and unit.unanswered > 0

    def is_orphan(self, ordinal: int) -> bool:
        """Return whether an entry's unit is nothing but results whose calls are missing or already answered."""
        unit = self._units.get(ordinal)
        return unit is not None and len(unit.orphans) == len(unit.links)

    def _joined(self, ordinal: int, link: Link) -> list[_Unit]:
        joined: dict[_Unit, None] = {}
        present = self._units.get(ordinal)
        if present is not None and present.links[ordinal] == link:
            return []
        for call in link.answers:
            caller = self._waiting.before(call, ordinal)
            if caller is not None and call not in link.calls:  # an entry may answer its own call
                joined[self._units[caller]] = None
        if link.batch in self._batches:
            joined[self._batches[link.batch]] = None
        loop = self._loop
        is_orphan = link.is_results and not joined  # stays out, so that it can be left out alone
        if loop is not None and ordinal > loop.last and link.role in ("assistant", "tool") and not is_orphan:
            joined[loop] = None
        return list(joined)

    def _merged(self, units: list[_Unit]) -> _Unit:
        """Return the largest of the units, the others poured into it: each entry moves log n times at most."""
        kept = max(units, key=lambda unit: len(unit.links))
        for unit in units:
            if unit is not kept:
                kept.links |= unit.links
                kept.first, kept.last = min(kept.first, unit.first), max(kept.last, unit.last)
                kept.unanswered += unit.unanswered
                kept.unmatched += unit.unmatched
                kept.orphans |= unit.orphans
                kept.batches |= unit.batches
                self._units |= dict.fromkeys(unit.links, kept)
                self._batches |= dict.fromkeys(unit.batches, kept)
                if unit is self._loop:
                    self._loop = kept
        return kept

    def _match(self, unit: _Unit) -> None:
        """Reckon a unit anew from its links: calls and results are matched among themselves, as in `repair`."""
        for batch in unit.batches:
            self._batches.pop(batch, None)
        for ordinal, link in unit.links.items():
            self._waiting.remove(ordinal, link)
        waiting = WaitingCalls()
        unit.orphans.clear()
        unit.unmatched = 0
        for ordinal, link in sorted(unit.links.items()):
            answered = waiting.enter(ordinal, link)
            unit.unmatched += len(set(link.answers)) - len(answered)
            if link.is_results and not answered:
                unit.orphans.add(ordinal)
        self._waiting.add(waiting)
        unit.unanswered = len(waiting)
        unit.batches = {link.batch for link in unit.links.values()} - {None}
        self._batches |= dict.fromkeys(unit.batches, unit)
        if unit.links:
            unit.first, unit.last = min(unit.links), max(unit.links)
        elif unit is self._loop:
            self._loop = None
