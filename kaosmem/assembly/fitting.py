"""Fitting whole units into the granted shares, in order of value, until nothing more fits."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kaosmem.formats.delimiters import without_hidden
from kaosmem.language.duplicates import Shown, newest_first, statement
from kaosmem.sections import Candidate, SectionSpec
from kaosmem.types import Item


@dataclass(slots=True)
class Run:
    """The units under one header, in stored order, while it grows. All costs are in tokens as rendered.

    size: tokens of items that are shown after another one, or first, and whether they are marked as newer.
    header: tokens of the header over that many items. cap: the most it may take.
    used, count, kept: tokens, items and units so far. standings: of the units kept.
    corrected: positions of units that correct one that is shown. The last of several corrections is marked as newer.
    """

    size: Callable[[Sequence[Item], Item | None, bool], int]
    header: Callable[[int], int]
    cap: float
    used: int = 0
    count: int = 0
    kept: list[Candidate] = field(default_factory=list)
    standings: list[tuple[int, bool, int]] = field(default_factory=list)
    corrected: set[int] = field(default_factory=set)

    def cost(self, candidate: Candidate) -> int:
        """Return the tokens that a candidate adds: the item shown after it may change its label.

        That is never less than its text takes. Where it saves the next item the naming of a source, it names it itself.
        """
        header_so_far = self.header(self.count) if self.count else 0
        cost = self.header(self.count + len(candidate.items)) - header_so_far
        place = bisect(self.standings, _standing(candidate))
        before = self.kept[place - 1].items[-1] if place else None
        if place < len(self.kept):
            after, is_newer = self.kept[place].items[:1], self.is_newer(self.kept[place])
            cost += self.size(after, candidate.items[-1], is_newer) - self.size(after, before, is_newer)
        return cost + self.size(candidate.items, before, self.is_newer(candidate))

    def is_newer(self, unit: Candidate) -> bool:
        """Return whether a unit is marked as newer."""
        return unit.position in self.corrected and not unit.newer and unit.items[0].interval is None

    def mark(self, positions: Iterable[int]) -> None:
        """Note that units, shown or not yet, correct one that is shown."""
        at = {unit.position: place for place, unit in enumerate(self.kept)}
        for position in positions:
            place = at.get(position)
            if place is None or position in self.corrected:
                self.corrected.add(position)
                continue
            unit, before = self.kept[place], self.kept[place - 1].items[-1] if place else None
            self.used -= self.size(unit.items, before, False)
            self.corrected.add(position)
            self.used += self.size(unit.items, before, self.is_newer(unit))

    def want(self, candidates: Iterable[Candidate]) -> int:
        """Return the tokens of these alone, measured no further than past the cap."""
        units = list(candidates)
        if not units:
            return 0
        want = header = self.header(1)
        for unit in units:
            if want > self.cap:
                return want
            want += self.size(unit.items, None, False)
        units.sort(key=_standing)
        lasts = (None, *(unit.items[-1] for unit in units))
        return header + sum(self.size(unit.items, before, False) for unit, before in zip(units, lasts, strict=False))

    def take(self, candidate: Candidate, cost: int) -> None:
        """Add a candidate at its cost."""
        self.used += cost
        self.count += len(candidate.items)
        standing = _standing(candidate)
        place = bisect(self.standings, standing)
        self.standings.insert(place, standing)
        self.kept.insert(place, candidate)

    @property
    def items(self) -> list[Item]:
        """Return the items taken, units in stored order."""
        return [item for unit in self.kept for item in unit.items]

    @property
    def newer(self) -> set[str]:
        """Return the ids of the items that are marked as newer."""
        return (
            {item.id for unit in self.kept if self.is_newer(unit) for item in unit.items} if self.corrected else set()
        )


@dataclass
class Share:
    """One section's share of a window, while it is filled.

    candidates: in order of want. runs: the shown ones, by whether they are recalled, in the order shown.
    cap: the most it may take; grant: its guaranteed tokens.
    barred: positions of units that may not be taken.
    twins: of items left out as duplicates, by id, the id of the one that is shown.
    elsewhere: positions of the section's units that are shown in another place.
    brought_along: positions of the units that are in since a replaced version is, or an item that they correct.
    """

    spec: SectionSpec
    candidates: tuple[Candidate, ...]
    runs: Mapping[bool, Run]
    cap: int
    grant: int = 0
    barred: frozenset[int] = frozenset()
    twins: dict[str, str] = field(default_factory=dict)
    elsewhere: Collection[int] = ()
    brought_along: set[int] = field(default_factory=set)

    @cached_property
    def _by_position(self) -> dict[int, Candidate]:
        return {candidate.position: candidate for candidate in self.candidates}

    def run_of(self, candidate: Candidate) -> Run:
        """Return the run that a candidate stands in: a replaced version stands with its successor."""
        successor = candidate if candidate.successor is None else self._by_position.get(candidate.successor)
        return self.runs[(successor or candidate).recalled]

    def brought(self, candidate: Candidate) -> Candidate | None:
        """Return a candidate with the units that must be shown with it, as one unit; None if one is not offered.

        A replaced version brings its successor along, if that is not in yet.
        """
        at = candidate.successor
        if at is None or at in self.elsewhere or any(unit.position == at for unit in self.run_of(candidate).kept):
            return candidate
        if (successor := self._by_position.get(at)) is None or successor.successor is not None:
            return None
        tokens = candidate.tokens + successor.tokens
        return candidate._replace(items=(*candidate.items, *successor.items), tokens=tokens)

    def corrections(self, candidate: Candidate) -> list[Candidate] | None:
        """Return the units that correct a candidate, and those that correct them, newest first; those in left out.

        None if one of them may not be taken.
        """
        found: dict[int, Candidate] = {}
        left = [*candidate.newer]
        while left:
            if (at := left.pop()) in found or at in self.elsewhere:
                continue
            if at in self.barred or (unit := self._by_position.get(at)) is None:
                return None
            found[at] = unit
            left += unit.newer
        kept = {unit.position for unit in self.kept}
        missing = sorted((unit for at, unit in found.items() if at not in kept), key=_standing)
        said = {statement(unit.items[0]): unit for unit in missing}  # the newest of those that say the same
        return sorted(said.values(), key=_standing, reverse=True)

    def would_fill(self, candidate: Candidate) -> bool:
        """Return whether a candidate takes more than half of the share together with the units that correct it.

        Unless it is the best one left, it waits for all others: the corrections of one item would keep the other
        answers out of a small window.
        """
        if not candidate.newer:
            return False
        units = [candidate, *(self.corrections(candidate) or ())]
        tokens: int = sum(unit.tokens for unit in units)
        return 2 * tokens > self.cap

    def take_corrected(self, candidate: Candidate, room: int, shown: Shown | None) -> bool:
        """Take a candidate and the units that correct it, as one unit; return whether they fit in the room."""
        missing = self.corrections(candidate)
        is_in = any(unit.position == candidate.position for unit in self.run_of(candidate).kept)
        if missing is None or (is_in and not missing):
            return False
        units = missing if is_in else [*missing, candidate]
        repeated = [] if shown is None else [unit for unit in units if self._is_repeated(unit, shown)]
        if not is_in and candidate in repeated:
            return False
        units = [unit for unit in units if unit not in repeated]
        if sum(map(_least, units)) > room:
            return False
        before, saved = self.used, self._state
        for unit in units:
            self.take(unit)
        if self.used - before > room or any(run.used > run.cap for run in self.runs.values()):
            self._state = saved
            return False
        self.brought_along |= {unit.position for unit in missing}
        if shown is not None:
            for unit in units:
                shown.admit(unit.items)
        return True

    @property
    def _state(self) -> tuple[set[int], dict[bool, Run]]:
        """The state that taking a unit changes: set it to undo that."""
        return {*self.brought_along}, {
            name: replace(run, kept=[*run.kept], standings=[*run.standings], corrected={*run.corrected})
            for name, run in self.runs.items()
        }

    @_state.setter
    def _state(self, state: tuple[set[int], dict[bool, Run]]) -> None:
        self.brought_along, self.runs = state

    def take(self, candidate: Candidate, cost: int | None = None) -> None:
        """Take a candidate, and its successor if that must come with it and is not in yet.

        cost: of the candidate alone, if it is known.
        """
        run = self.run_of(candidate)
        if candidate.successor is not None and candidate.successor in self._by_position:
            successor = self._by_position[candidate.successor]
            if all(unit.position != successor.position for unit in run.kept):
                run.take(successor, run.cost(successor))
                self.brought_along.add(successor.position)
        run.take(candidate, run.cost(candidate) if cost is None else cost)
        if candidate.newer:
            for each in self.runs.values():
                each.mark(candidate.newer)

    def _is_repeated(self, unit: Candidate, shown: Shown) -> bool:
        """Return whether a unit is a duplicate of a shown one, and note it if it is."""
        twins = shown.twins(unit.items)
        self.twins |= {item.id: twin for item, twin in zip(unit.items, twins, strict=False)}
        return bool(twins)

    @property
    def used(self) -> int:
        """Return the tokens taken."""
        return sum(run.used for run in self.runs.values())

    @property
    def count(self) -> int:
        """Return how many items were taken."""
        return sum(run.count for run in self.runs.values())

    @property
    def kept(self) -> list[Candidate]:
        """Return the units taken, as they are shown."""
        return [unit for run in self.runs.values() for unit in run.kept]

    @property
    def items(self) -> list[Item]:
        """Return the items taken, as they are shown."""
        return [item for run in self.runs.values() for item in run.items]

    def want(self) -> float:
        """Return the tokens of all candidates, as far as caps allow."""
        wants = (
            min(run.cap, run.want(unit for unit in self.candidates if self.run_of(unit) is run))
            for run in self.runs.values()
        )
        return sum(wants)

    @property
    def left_out(self) -> list[Candidate]:
        """Return the candidates that may still be taken, in order of want. Duplicates of shown items may not."""
        kept = {candidate.rank for candidate in self.kept}
        return [
            unit
            for unit in self.candidates
            if unit.rank not in kept and unit.position not in self.barred and not self.is_duplicate(unit)
        ]

    def is_duplicate(self, candidate: Candidate) -> bool:
        """Return whether a candidate was left out as a duplicate."""
        return candidate.items[0].id in self.twins


def fit(shares: Iterable[Share], left: int, *, opening: int = 0, shown: Shown | None = None) -> int:
    """Fill shares, best served first, and return the rest of `left` tokens.

    opening: extra tokens of the first unit taken, if it opens the block that all the shares stand in.
    shown: the items shown so far, of which no duplicate is taken; without it, duplicates are taken.
    First each share is filled within its grant, then what whole units could not use of it goes on in the same order,
    so that in the end no unit left out fits in what remains of the window and of its share's cap: as no unit costs
    less than nothing, what did not fit in what was taken before does not fit in more. A unit that others correct fits
    if they fit with it. If they would take more than half of the share, it comes after all others, but for the best.
    """
    shares = list(shares)
    for share in shares:
        left, opening = _fill(share, share.grant, left, opening, shown)
    for share in shares:
        left, opening = _fill(share, share.cap, left, opening, shown)
    return left


def _standing(unit: Candidate) -> tuple[int, bool, int]:
    """Return the key that orders units where they are shown."""
    follows = unit.before if unit.successor is None else unit.successor
    return (unit.position, True, 0) if follows is None else (follows, False, unit.place)


def _least(unit: Candidate) -> int:
    """Return the tokens that a unit takes at least, which tells a unit that is too large without rendering it.

    A piece counts no less than its text, unless the text has characters that are not shown.
    """
    whole = (item for item in unit.items if isinstance(item.content, str) and not item.memo("hidden", _is_shortened))
    return sum(item.tokens for item in whole)


def _is_shortened(item: Item) -> int:
    return without_hidden(item.text) is not item.text


def _fill(share: Share, most: int, left: int, opening: int, shown: Shown | None) -> tuple[int, int]:
    used = share.used
    corrected = [unit for unit in share.kept if unit.newer]
    left_out = share.left_out if shown is None else newest_first(share.left_out)
    for candidate in (*corrected, *left_out[:1], *sorted(left_out[1:], key=share.would_fill)):
        if candidate.position in share.brought_along:
            continue
        if candidate.newer:
            if share.take_corrected(candidate, min(most - used, left - opening), shown):
                left -= share.used - used + opening
                used, opening = share.used, 0
            continue
        run, brought = share.run_of(candidate), share.brought(candidate)
        room = min(most - used, run.cap - run.used, left)
        if brought is None or _least(brought) > room:
            continue
        cost = run.cost(brought)
        if cost <= room and cost + opening <= left:
            # A version that says the same as another one, as after a change back, held at another time.
            if shown is not None and candidate.successor is None and (twins := shown.admit(candidate.items)):
                share.twins |= {item.id: twin for item, twin in zip(candidate.items, twins, strict=True)}
                continue
            share.take(candidate, cost if brought is candidate else None)
            used += cost
            left -= cost + opening
            opening = 0
    return left, opening
