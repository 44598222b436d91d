"""Fill the granted shares with whole units, in order of value, until nothing more fits.

A unit that may have been corrected is taken like any other if it is among the good matches. Its
newest correction comes after those that match the query about as well, its other corrections after
all units. Labels that say so are added last, where they fit. So corrections keep no good match out
of a small window. Weaker matches are shown with their corrections, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kaosmem.assembly.allocation import Line, LineOf
from kaosmem.formats.text import NEWER, POSSIBLY_REPLACED, Group
from kaosmem.language.duplicates import Shown, newest_first, statement
from kaosmem.sections import Candidate
from kaosmem.sections.spec import SectionSpec

Standing: TypeAlias = tuple[int, bool, int]
"""The key that orders units where they are shown."""

Labels: TypeAlias = dict[Group, tuple[Standing, int]]
"""By group, the first unit that it shows, and the tokens of its label."""

_NO_NOTES: Mapping[str, str] = MappingProxyType({})
_WEAK = 0.9
"""A correction comes before the units with less than this share of the corrected unit's score."""


@dataclass(slots=True)
class Run:
    """The tokens of the units under one header. A unit's cost depends on its groups alone.

    header: tokens of the header. cap: the most tokens that the run may take. used: tokens so far.
    """

    header: int
    cap: float
    used: int = 0
    labels: Labels = field(default_factory=dict)

    def added(self, units: Iterable[tuple[Candidate, Sequence[Line]]]) -> tuple[int, Labels]:
        """Return the tokens that units with these lines add, and the labels that they change."""
        tokens = 0 if self.used else self.header
        changed: Labels = {}
        for unit, lines in units:
            for line in lines:
                tokens += line.tokens
                if not line.group:
                    continue
                standing = standing_of(unit)
                first = changed.get(line.group) or self.labels.get(line.group)
                if first is None:
                    tokens += line.label
                elif standing < first[0]:
                    tokens += line.label - first[1]
                else:
                    continue
                changed[line.group] = standing, line.label
        return tokens, changed

    def take(self, tokens: int, labels: Labels) -> None:
        """Add units, as `added` has measured them."""
        self.used += tokens
        self.labels |= labels


@dataclass
class Share:
    """One section's share of a window, while it is filled.

    candidates: in order of want. runs: by whether they hold recalled units, in the order in which
        they are shown.
    line_of: measures an item. cap: the most tokens that the share may take; grant: its guaranteed
        tokens.
    barred: positions of units that may not be taken.
    elsewhere: positions of the section's units that are shown in another place.
    unrelated: positions of units that nothing in the query speaks for. They are taken only if all
        fit together.
    is_offered_whole: whether the candidates are all that the section holds.
    taken: the units in the share, by position. notes: of marked items, by id.
    twins: of items left out as duplicates, by id, the id of the one that is shown.
    brought_along: positions of the units that are in for the sake of another one: a replaced
        version, or an item that they correct.
    outdated: positions of units that are left out, if they are, for the units that they need.
    """

    spec: SectionSpec
    candidates: tuple[Candidate, ...]
    runs: dict[bool, Run]
    line_of: LineOf
    cap: int
    grant: int = 0
    barred: frozenset[int] = frozenset()
    elsewhere: Collection[int] = ()
    unrelated: frozenset[int] = frozenset()
    is_offered_whole: bool = False
    taken: dict[int, Candidate] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)
    brought_along: set[int] = field(default_factory=set)
    outdated: set[int] = field(default_factory=set)
    _measured: dict[int, list[Line]] = field(default_factory=dict)

    # the units in the share

    @property
    def used(self) -> int:
        """Return the tokens taken."""
        tokens = 0
        for run in self.runs.values():
            tokens += run.used
        return tokens

    @property
    def left_out(self) -> list[Candidate]:
        """Return the candidates that may still be taken, in order of want."""
        out = self.taken.keys() | self.barred
        return [
            unit
            for unit in self.candidates
            if unit.position not in out and not self.is_duplicate(unit)
        ]

    def kept(self, *, recalled: bool) -> list[Candidate]:
        """Return the units taken of one run, in the order in which they stand."""
        units = [unit for unit in self.taken.values() if self._is_recalled(unit) is recalled]
        return sorted(units, key=standing_of)

    def is_duplicate(self, unit: Candidate) -> bool:
        """Return whether a unit was left out as a duplicate."""
        return unit.items[0].id in self.twins

    # costs

    @cached_property
    def _by_position(self) -> dict[int, Candidate]:
        return {candidate.position: candidate for candidate in self.candidates}

    def _is_recalled(self, unit: Candidate) -> bool:
        """Return whether a unit stands among the recalled ones.

        A replaced version stands with its successor.
        """
        if unit.successor is not None:
            unit = self._by_position.get(unit.successor, unit)
        return unit.recalled

    def _lines(self, unit: Candidate) -> list[Line]:
        """Return the tokens of a unit's items without notes."""
        lines = self._measured.get(unit.position)
        if lines is None:
            lines = [self.line_of(item, None) for item in unit.items]
            self._measured[unit.position] = lines
        return lines

    def _noted_lines(self, unit: Candidate, notes: Mapping[str, str]) -> list[Line]:
        """Return the tokens of a unit's items with these notes, by id."""
        if unit.items[0].id not in notes:
            return self._lines(unit)
        return [self.line_of(item, notes[item.id]) for item in unit.items]

    def runs_of(
        self, units: Iterable[Candidate], notes: Mapping[str, str] = _NO_NOTES
    ) -> dict[bool, Run]:
        """Return the share's runs with these units alone. A run ends once it exceeds its cap."""
        runs = {recalled: Run(run.header, run.cap) for recalled, run in self.runs.items()}
        for unit in units:
            run = runs[self._is_recalled(unit)]
            if run.used <= run.cap:
                run.take(*run.added([(unit, self._noted_lines(unit, notes))]))
        return runs

    def want(self) -> float:
        """Return the tokens of all candidates without notes, as far as the caps allow."""
        units: Iterable[Candidate] = self.candidates
        if self.unrelated and not self.may_fit_whole():
            units = [unit for unit in units if unit.position not in self.unrelated]
        wanted = 0.0
        for run in self.runs_of(units).values():
            wanted += min(run.cap, run.used)
        return wanted

    def may_fit_whole(self, room: float | None = None) -> bool:
        """Return whether all live units fit in the cap, and in a room beside the units taken."""
        if not self.is_offered_whole:
            return False
        live = [unit for unit in self.candidates if not self._is_recalled(unit)]
        used = self.runs_of(live)[False].used
        return used <= self.cap and (room is None or used - self.runs[False].used <= room)

    def fits(self, units: Sequence[Candidate], room: float) -> bool:
        """Return whether units fit in a room, and in their runs."""
        return self._added(units, room) is not None

    def _added(
        self, units: Sequence[Candidate], room: float
    ) -> list[tuple[Run, int, Labels]] | None:
        """Return the tokens and labels that units add to the runs; None if they do not fit."""
        found = []
        for is_recalled, run in self.runs.items():
            own = [
                (unit, self._lines(unit))
                for unit in units
                if self._is_recalled(unit) is is_recalled
            ]
            if not own:
                continue
            tokens, labels = run.added(own)
            room -= tokens
            if room < 0 or tokens > run.cap - run.used:
                return None
            found.append((run, tokens, labels))
        return found

    # taking units

    def require(self, units: Iterable[Candidate]) -> None:
        """Take units that must be shown, whatever they cost."""
        for unit in units:
            run = self.runs[self._is_recalled(unit)]
            run.take(*run.added([(unit, self._lines(unit))]))
            self.taken[unit.position] = unit

    def take(
        self, unit: Candidate, needed: Sequence[Candidate], room: float, shown: Shown | None
    ) -> bool:
        """Take a unit with others that it needs, if they fit in the room and in their runs.

        shown: the items shown so far, of which no duplicate is taken; without it, duplicates are
            taken.
        Returns whether the unit is in.
        """
        if unit.position in self.taken:
            return True
        if self.is_duplicate(unit):
            return False
        missing = [each for each in needed if not self._is_known(each.position)]
        if missing:
            return self._take_with(missing, unit, room, shown)
        run = self.runs[self._is_recalled(unit)]
        tokens, labels = run.added([(unit, self._lines(unit))])
        if tokens > room or tokens > run.cap - run.used:
            return False
        # A version that says the same as another one, as after a change back, held at another time.
        if shown is not None and unit.successor is None:
            if self._is_repeated(unit, shown):
                return False
            shown.admit(unit.items)
        run.take(tokens, labels)
        self.taken[unit.position] = unit
        return True

    def _take_with(
        self, needed: Sequence[Candidate], unit: Candidate, room: float, shown: Shown | None
    ) -> bool:
        """Take a unit with others, if all fit that are no duplicates of shown ones."""
        units = [*needed, unit]
        if shown is not None and unit.successor is None:
            units = [each for each in units if not self._is_repeated(each, shown)]
            if self.is_duplicate(unit):
                return False
        added = self._added(units, room)
        if added is None:
            if self.fits([unit], room):
                self.outdated.add(unit.position)
            return False
        for run, tokens, labels in added:
            run.take(tokens, labels)
        for each in units:
            self.taken[each.position] = each
            if shown is not None and each.successor is None:
                shown.admit(each.items)
        self.brought_along.update(each.position for each in units[:-1])
        return True

    def _is_known(self, position: int) -> bool:
        """Return whether a unit is shown, in this share or in another place."""
        if position in self.taken or position in self.elsewhere:
            return True
        unit = self._by_position.get(position)
        return unit is not None and self.is_duplicate(unit)

    def _is_repeated(self, unit: Candidate, shown: Shown) -> bool:
        """Return whether a unit is a duplicate of a shown one, and note it if it is."""
        twins = shown.twins(unit.items)
        if not twins:
            return False
        for item, twin in zip(unit.items, twins, strict=True):
            self.twins[item.id] = twin
        return True

    # versions and corrections

    def needed_by(self, unit: Candidate) -> tuple[Candidate, ...] | None:
        """Return the unit that a replaced version is shown with, () if that is shown elsewhere.

        Return None if it is not offered, or is replaced itself.
        """
        assert unit.successor is not None
        if unit.successor in self.elsewhere:
            return ()
        successor = self._by_position.get(unit.successor)
        if successor is None or successor.successor is not None:
            return None
        return (successor,)

    def corrections_of(self, unit: Candidate) -> list[Candidate]:
        """Return the units that may correct a unit, and their own corrections, newest first.

        Of those that say the same, the newest is returned.
        """
        found: dict[int, Candidate] = {}
        left = [*unit.newer]
        while left:
            correction = self._by_position.get(left.pop())
            if correction is None or correction.position in found:
                continue
            if correction.position in self.barred:
                continue
            found[correction.position] = correction
            left += correction.newer
        said = {statement(each.items[0]): each for each in sorted(found.values(), key=standing_of)}
        return sorted(said.values(), key=standing_of, reverse=True)

    def mark(self, room: float) -> None:
        """Note which units are newer or possibly replaced, where the notes fit in the room."""
        wanted = self._wanted_notes()
        most = min(self.cap, self.used + room)
        if not wanted or self._take_notes(wanted, most):
            return
        for item_id, note in wanted.items():
            self._take_notes({**self.notes, item_id: note}, most)

    def _wanted_notes(self) -> dict[str, str]:
        """Return the notes of the units that are taken together, by the ids of their items.

        The last of several corrections is newer than the unit that it corrects. The others have an
        empty note: like it, they stand alone after that unit. A unit is possibly replaced if no
        unit that corrects it is shown.
        """
        notes: dict[str, str] = {}
        for unit in self.taken.values():
            corrections = [self.taken[at] for at in unit.newer if at in self.taken]
            for correction in corrections:
                (item,) = correction.items
                is_last = not correction.newer and item.interval is None
                notes[item.id] = NEWER if is_last else notes.get(item.id, "")
            if unit.newer and not any(map(self._is_known, unit.newer)):
                notes[unit.items[0].id] = POSSIBLY_REPLACED
        return notes

    def _take_notes(self, notes: dict[str, str], most: float) -> bool:
        """Set the notes of the items taken if the share then has at most `most` tokens."""
        runs = self.runs_of(self.taken.values(), notes)
        used = 0
        for run in runs.values():
            used += run.used
            if run.used > run.cap:
                return False
        if used > most:
            return False
        self.runs = runs
        self.notes = notes
        return True


def standing_of(unit: Candidate) -> Standing:
    """Return the key that orders units where they are shown."""
    follows = unit.before if unit.successor is None else unit.successor
    return (unit.position, True, 0) if follows is None else (follows, False, unit.place)


def fill(
    shares: Sequence[Share], left: int, *, opening: int = 0, shown: Shown | None = None
) -> None:
    """Fill shares, best served first, with at most `left` tokens.

    opening: extra tokens of the first unit taken, if it opens the block that all the shares stand
        in.
    shown: the items shown so far, of which no duplicate is taken; without it, duplicates are taken.
    First each share is filled within its grant. Then each may take the tokens that the others left,
    up to its cap. So no unit is left out that would fit: a unit costs no less beside more units
    than it did before.
    """
    orders = []
    for share in shares:
        left_out: Sequence[Candidate] = share.left_out
        if shown is not None:
            left_out = newest_first(left_out)
        related = [unit for unit in left_out if unit.position not in share.unrelated]
        unrelated = [unit for unit in left_out if unit.position in share.unrelated]
        orders.append(_Order([*_wanted(share, related)], unrelated))
    tried = [0] * len(shares)
    for is_first in (True, False):
        for place, share in enumerate(shares):
            used = share.used
            most = min(share.grant if is_first else share.cap, used + left - opening)
            if not is_first and most <= tried[place]:
                continue  # No unit fits that did not fit before.
            tried[place] = most
            _fill(share, orders[place], most, shown)
            if share.used != used:
                left -= share.used - used + opening
                opening = 0
    for share in shares:
        used = share.used
        share.mark(left)
        left -= share.used - used


class _Wanted(NamedTuple):
    """A unit that a share may take.

    needed: other units that it is shown with, or not at all.
    after: for a correction, the positions of the units that must be in: the unit that it corrects,
        and the newest correction of that.
    """

    unit: Candidate
    needed: Sequence[Candidate] = ()
    after: tuple[int, ...] = ()


class _Order(NamedTuple):
    """The units that a share may take, in the order in which they are tried.

    unrelated: units that are taken only if all fit.
    """

    wanted: Sequence[_Wanted]
    unrelated: Sequence[Candidate]


def _wanted(share: Share, units: Iterable[Candidate]) -> Iterator[_Wanted]:
    """Yield units in order, and their corrections after those that match the query about as well.

    A replaced version needs its successor. A unit that matches much worse than the best one needs
    its corrections. It comes last if it takes more than half of the share with them.
    """
    best = max((unit.score or 0.0 for unit in share.candidates), default=0.0)
    waiting: list[tuple[float, _Wanted]] = []
    last: list[_Wanted] = []
    for unit in (*share.taken.values(), *units):
        score = unit.score or 0.0
        if waiting:
            yield from [wanted for least, wanted in waiting if score < least]
            waiting = [each for each in waiting if score >= each[0]]
        if unit.successor is not None:
            successor = share.needed_by(unit)
            if successor is not None:
                yield _Wanted(unit, successor)
            continue
        corrections = share.corrections_of(unit) if unit.newer else []
        if corrections and score < _WEAK * best and unit.position not in share.taken:
            if _is_large(share, unit, corrections):
                last.append(_Wanted(unit, corrections))
            else:
                yield _Wanted(unit, corrections)
            continue
        yield _Wanted(unit)
        if corrections:
            newest = _Wanted(corrections[0], after=(unit.position,))
            waiting.append((_WEAK * score, newest))
            after = (unit.position, corrections[0].position)
            last += [_Wanted(each, after=after) for each in corrections[1:]]
    yield from [wanted for _, wanted in waiting]
    yield from last


def _is_large(share: Share, unit: Candidate, corrections: Sequence[Candidate]) -> bool:
    """Return whether a unit takes more than half of a share with its corrections.

    If such a unit stays out, they are the reason.
    """
    tokens = unit.tokens
    for correction in corrections:
        tokens += correction.tokens
    if 2 * tokens <= share.cap:
        return False
    share.outdated.add(unit.position)
    return True


def _fill(share: Share, order: _Order, most: int, shown: Shown | None) -> None:
    """Take units until the share has at most `most` tokens."""
    room = most - share.used
    for unit, needed, after in order.wanted:
        if unit.position in share.taken or (after and not share.taken.keys() >= {*after}):
            continue
        if share.take(unit, needed, room, shown):
            room = most - share.used
            if after:
                share.brought_along.add(unit.position)
    if order.unrelated and share.may_fit_whole(most - share.used):
        for unit in order.unrelated:
            share.take(unit, (), most - share.used, shown)
