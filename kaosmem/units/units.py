"""The units of a history: a call with its results, or a parallel batch of them."""

from __future__ import annotations

from collections.abc import Iterable

from kaosmem.units.link import Link
from kaosmem.units.waiting_calls import WaitingCalls


class _Unit:
    """Entries that stay together, with sums that `Units._match` computes from their links."""

    __slots__ = ("batches", "first", "last", "links", "orphans", "unanswered", "unmatched")

    def __init__(self, ordinal: int, link: Link) -> None:
        self.links = {ordinal: link}
        self.first = self.last = ordinal
        self.unanswered = 0  # calls without a result
        self.unmatched = 0  # results without a call
        self.orphans: set[int] = set()
        self.batches = {link.batch} - {None}


class Units:
    """Entries of a growing history, named by ascending ordinals, grouped into units.

    A unit is an assistant's answer with its thinking, its calls and their results. Its entries never part: the place
    of an entry is decided when it comes, and removals only open calls or orphan results among the rest. A result joins
    the latest unanswered call with its id. Plain entries that stand alone are not stored.

    asking: the entry whose calls wait for results. It is None once another entry speaks: a call that is still open then
    is abandoned, although a late result still joins it.

    >>> units = Units()
    >>> for ordinal, link in enumerate([Link(role="user"), Link(("c1",), role="assistant")]):
    ...     _ = units.add(ordinal, link)
    >>> units.is_waiting(1)
    True
    >>> units.add(2, Link(answers=("c1",), role="tool"))
    {1}
    >>> units.members(2)
    (1, 2)
    """

    def __init__(self) -> None:
        self._units: dict[int, _Unit] = {}
        self._waiting = WaitingCalls()
        self._batches: dict[str | None, _Unit] = {}
        self.asking: int | None = None

    @classmethod
    def restore(cls, entries: Iterable[tuple[int, Link, int]], *, asking: int | None) -> Units:
        """Return units as they were, without deciding anything again.

        entries: ordinal, link and the first ordinal of the unit, ascending.
        """
        entries = list(entries)
        leaders = {first for ordinal, _, first in entries if first != ordinal}
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
        units.asking = asking
        return units

    def several(self) -> list[int]:
        """Return the first ordinals of the units of several entries."""
        return list({unit.first: None for unit in self._units.values() if len(unit.links) > 1})

    def joins(self, ordinal: int, link: Link) -> set[int]:
        """Return the first ordinals of the units that an entry, new or given another link, would join."""
        return {unit.first for unit in self._joined(ordinal, link)}

    def add(self, ordinal: int, link: Link) -> set[int]:
        """Place the next entry, its ordinal above all others; return the first ordinals of the units that it joined."""
        if link.speaks:
            self.asking = ordinal if link.calls else None
        if link.is_plain:
            return set()
        joined = self._joined(ordinal, link)
        firsts = {unit.first for unit in joined}
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
            if ordinal == self.asking:
                self.asking = None
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

    def is_waiting(self, ordinal: int) -> bool:
        """Return whether an entry's unit has a call without a result, and no other entry has spoken since."""
        return self.is_open(ordinal) and self.asking in self._units[ordinal].links

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
