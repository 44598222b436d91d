"""Fill the granted shares with whole units, in order of value, until nothing more fits.

A replaced version is taken together with the current one, or not at all. A good match is taken for
itself. Its newest correction is tried after the units that match the query about as well, its other
corrections after all units. A weaker match follows its corrections, and is left out without them.
Labels are added last, where they fit. So corrections keep no good match out of a small window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kaosmem.assembly.allocation import (
    NO_NOTES,
    Notes,
    TokenTally,
    best_match,
    display_order_of,
    least_tokens,
)
from kaosmem.assembly.tails import NO_TAIL, HistoryTail, TailCutter
from kaosmem.formats.labels import NEWER, POSSIBLY_REPLACED
from kaosmem.language.duplicates import DuplicateFinder, newest_first
from kaosmem.sections import Candidate
from kaosmem.sections.spec import SectionSpec

_WEAK_MATCH_SHARE = 0.9
"""A correction comes before the units with less than this share of the corrected unit's score."""


@dataclass
class Share:
    """One section's share of a window, while it is filled.

    Attributes:
        candidates: In order of want.
        tally: The tokens of the units taken.
        cap: The most tokens that the share may take.
        grant: Its guaranteed tokens.
        most: The cap for tokens that no other share takes, if it is larger.
        recall: The most tokens of the contents of recalled units.
        barred: Positions of units that may not be taken.
        cutter: Cuts the tail of a history. None for any other section.
        tail: The shown tail of a history, at first the shortest one.
        unrelated: Positions of units that nothing in the query speaks for. They are taken only if
            all fit together.
        is_offered_whole: Whether the candidates are all that the section holds.
        taken: The units in the share, by position.
        notes: Of marked items, by id.
        twins: Of items left out as duplicates, by id, the id of the one that is shown.
    """

    spec: SectionSpec
    candidates: tuple[Candidate, ...]
    tally: TokenTally
    cap: int
    grant: int = 0
    most: int = 0
    recall: float = math.inf
    barred: frozenset[int] = frozenset()
    cutter: TailCutter | None = None
    tail: HistoryTail = NO_TAIL
    unrelated: frozenset[int] = frozenset()
    is_offered_whole: bool = False
    taken: dict[int, Candidate] = field(default_factory=dict)
    notes: Notes = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)

    # the units in the share

    @property
    def shown_tokens(self) -> int:
        """Return the tokens of all that the window shows of the section."""
        return self.tally.used + self.tail.used

    @property
    def units(self) -> list[Candidate]:
        """Return all units that the window shows of the section."""
        return [*self.taken.values(), *self.tail.shown]

    @property
    def newest(self) -> list[int]:
        """Return the positions of the `recent` newest live units."""
        live = [unit.position for unit in self.candidates if not unit.recalled]
        return sorted(live, reverse=True)[: self.spec.recent]

    @property
    def is_in_block(self) -> bool:
        """Return whether the block may show units of the section."""
        return self.spec.placement != "static" and bool(self.candidates)

    @property
    def left_out(self) -> list[Candidate]:
        """Return the candidates that may still be taken, in order of want."""
        out = self.taken.keys() | self.barred
        return [
            unit
            for unit in self.candidates
            if unit.position not in out and not self.is_duplicate(unit)
        ]

    def kept(self) -> list[Candidate]:
        """Return the units taken, in the order in which they stand."""
        return sorted(self.taken.values(), key=display_order_of)

    def is_duplicate(self, unit: Candidate) -> bool:
        """Return whether a unit was left out as a duplicate."""
        return unit.items[0].id in self.twins

    # costs

    @cached_property
    def _by_position(self) -> dict[int, Candidate]:
        return {candidate.position: candidate for candidate in self.candidates}

    def tally_of(self, units: Iterable[Candidate], notes: Notes = NO_NOTES) -> TokenTally:
        """Return a tally of these units alone. It ends once it exceeds the cap."""
        tally = TokenTally(self.tally.header, self.tally.line_of)
        for unit in units:
            tally.add(*tally.cost_of([unit], notes))
            if tally.used > self.cap:
                break
        return tally

    def best_alone(self, units: Iterable[Candidate]) -> int:
        """Return the tokens of the best match among some units alone, 0 for none."""
        best = best_match(units)
        if best is None:
            return 0
        return self.tally_of([best]).used

    def want(self) -> int:
        """Return the tokens of all candidates without notes, as far as the caps allow."""
        units: Iterable[Candidate] = self.candidates
        if self.unrelated and not self.may_fit_whole():
            units = [unit for unit in units if unit.position not in self.unrelated]
        least = 0
        for unit in units:
            least += least_tokens(unit)
            if least >= self.cap:
                return self.cap
        return min(self.cap, self.tally_of(units).used)

    def may_fit_whole(self, most: float = math.inf) -> bool:
        """Return whether all live units fit in the cap, and in `most` tokens."""
        if not self.is_offered_whole:
            return False
        live = self.tally_of(unit for unit in self.candidates if not unit.recalled)
        return live.used <= min(most, self.cap)

    # taking units

    def require(self) -> None:
        """Take the units that must be shown, whatever they cost."""
        for unit in self.candidates:
            if unit.must:
                self.tally.add(*self.tally.cost_of([unit]))
                self.taken[unit.position] = unit

    def take(
        self,
        unit: Candidate,
        most: float,
        shown: DuplicateFinder,
    ) -> None:
        """Take a unit, with the current version if it is replaced, if it fits in the share.

        Args:
            most: The most tokens that the share may then have, if that is below its cap.
            shown: The items shown so far, of which no duplicate is taken.
        """
        if unit.position in self.taken or unit.position in self.barred or self.is_duplicate(unit):
            return
        room = min(most, self.cap) - self.tally.used
        if unit.tokens > room and least_tokens(unit) > room:
            return
        units = [unit]
        if unit.is_replaced:
            needed = self._missing(unit, shown)
            if needed is None:
                return
            units = [*needed, unit]
        tokens, labels = self.tally.cost_of(units)
        if tokens > room:
            return
        recalled = 0
        for each in units:
            if each.recalled:
                recalled += each.tokens
        if recalled > self.recall:
            return
        # A version that says the same as another one, as after a change back, held at another time.
        if not unit.is_replaced and self._is_repeated(unit, shown):
            return
        self.tally.add(tokens, labels)
        self.recall -= recalled
        for each in units:
            self.taken[each.position] = each
            if not each.is_replaced:
                shown.note(each.items)

    def _missing(self, unit: Candidate, shown: DuplicateFinder) -> list[Candidate] | None:
        """Return the units that a replaced version lacks. None: it cannot have them."""
        missing = []
        for position in unit.needs:
            if position in self.taken or position in self.tail.positions:
                continue
            current = self._by_position.get(position)
            if current is None or current.is_replaced:
                return None
            if self.is_duplicate(current):
                continue
            if not self._is_repeated(current, shown):
                missing.append(current)
        return missing

    def _is_known(self, position: int) -> bool:
        """Return whether a unit is shown, in this share or in another place."""
        if position in self.taken or position in self.tail.positions:
            return True
        unit = self._by_position.get(position)
        return unit is not None and self.is_duplicate(unit)

    def _is_repeated(self, unit: Candidate, shown: DuplicateFinder) -> bool:
        """Return whether a unit is a duplicate of a shown one, and note it if it is."""
        twins = shown.twins(unit.items)
        if not twins:
            return False
        for item, twin in zip(unit.items, twins, strict=True):
            self.twins[item.id] = twin
        return True

    # versions and corrections

    def corrections_of(self, unit: Candidate) -> list[Candidate]:
        """Return the taken units that may correct a unit, oldest first."""
        if unit.is_replaced:
            return []
        return [self.taken[at] for at in unit.needs if at in self.taken]

    def is_outdated(self, unit: Candidate) -> bool:
        """Return whether a unit may not be taken: it needs others that are not shown."""
        if not unit.is_replaced and not self._is_weaker(unit):
            return False
        return any(at in self._by_position and not self._is_known(at) for at in unit.needs)

    def _is_weaker(self, unit: Candidate) -> bool:
        """Return whether others may correct a unit that matches the query worse than the best."""
        if unit.must or unit.is_replaced or not unit.needs:
            return False
        return (unit.score or 0.0) < _WEAK_MATCH_SHARE * self._best_score

    @cached_property
    def _best_score(self) -> float:
        return max((unit.score or 0.0 for unit in self.candidates), default=0.0)

    def in_order(self, units: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield units in order, and the corrections of taken ones.

        The newest correction of a unit comes after the units that match the query about as well,
        its other corrections after all units. A newest correction that matches at least as well
        comes before its unit. Those of a weaker match come before it. If they would take more than
        half of the share, the match comes last.
        """
        waiting: dict[int, float] = {}
        last: list[Candidate] = []
        for unit in (*self.taken.values(), *units):
            score = unit.score or 0.0
            for at in [*waiting]:
                if score < waiting[at]:
                    del waiting[at]
                    yield from self._up_to_date(at)
            if not self._is_weaker(unit):
                for at in unit.needs[-1:]:
                    newest = self._by_position.get(at)
                    if newest is not None and (newest.score or 0.0) >= score > 0.0:
                        yield from self._up_to_date(at)
                yield unit
            elif self._is_large(unit):
                last.append(unit)
            else:
                yield from self._after_corrections(unit)
            if unit.position in self.taken and not unit.is_replaced:
                for at in unit.needs:
                    if at == unit.needs[-1]:
                        least = _WEAK_MATCH_SHARE * score
                    else:
                        least = 0.0
                    waiting[at] = max(least, waiting.get(at, 0.0))
        for at in reversed(waiting):
            yield from self._up_to_date(at)
        for unit in last:
            yield from self._after_corrections(unit)

    def _after_corrections(self, unit: Candidate) -> Iterator[Candidate]:
        """Yield the corrections of a weaker match, newest first, then the match if all are taken."""
        for at in reversed(unit.needs):
            if at in self._by_position:
                yield self._by_position[at]
                if not self._is_known(at):
                    return
        yield unit

    def _is_large(self, unit: Candidate) -> bool:
        """Return whether a unit takes more than half of the share with its corrections."""
        tokens = unit.tokens
        for at in unit.needs:
            correction = self._by_position.get(at)
            if correction is not None:
                tokens += correction.tokens
        return 2 * tokens > self.cap

    def _up_to_date(self, position: int) -> Iterator[Candidate]:
        """Yield a unit that is offered, unless it is outdated."""
        unit = self._by_position.get(position)
        if unit is not None and not self.is_outdated(unit):
            yield unit

    def mark(self, room: float) -> None:
        """Note which units are newer or possibly replaced, where the notes fit in the room."""
        wanted = self._wanted_notes()
        most = min(self.cap, self.tally.used + room)
        if not wanted or self._take_notes(wanted, most):
            return
        for item_id, note in wanted.items():
            self._take_notes({**self.notes, item_id: note}, most)

    def _wanted_notes(self) -> Notes:
        """Return the notes of the units that are taken together, by the ids of their items.

        The last of several corrections is newer than the unit that it corrects. The others have an
        empty note: like it, they stand alone after that unit. A unit is possibly replaced if no
        unit that corrects it is shown.
        """
        notes: dict[str, str] = {}
        for unit in self.taken.values():
            if not unit.needs:
                continue
            for correction in self.corrections_of(unit):
                (item,) = correction.items
                is_last = not correction.needs and item.interval is None
                if is_last:
                    notes[item.id] = NEWER
                else:
                    notes.setdefault(item.id, "")
            if not unit.is_replaced and not any(map(self._is_known, unit.needs)):
                notes[unit.items[0].id] = POSSIBLY_REPLACED
        return notes

    def _take_notes(self, notes: Notes, most: float) -> bool:
        """Set the notes of the items taken if the share then has at most `most` tokens."""
        tally = self.tally_of(self.taken.values(), notes)
        if tally.used > most:
            return False
        self.tally = tally
        self.notes = notes
        return True


def fill(
    shares: Sequence[Share],
    left: int,
    shown: DuplicateFinder,
    *,
    opening: int = 0,
) -> None:
    """Fill shares, best served first, with at most `left` tokens.

    First each share is filled within its grant. Then each may take the tokens that the others left,
    up to its cap, and what is left after that up to its most. So no unit is left out that would
    fit: a unit costs no less beside more units than it did before.

    Args:
        shown: The items shown so far, of which no duplicate is taken.
        opening: Extra tokens of the first unit taken, if it opens the block that all the shares
            stand in.
    """
    orders = [newest_first(share.left_out) for share in shares]
    tried = [-1] * len(shares)
    for step in ("within grants", "within caps", "with what is left"):
        for place, share in enumerate(shares):
            used = share.tally.used
            if step == "with what is left":
                share.cap = max(share.cap, share.most)
            if step == "within grants":
                most = share.grant
            else:
                most = share.cap
            most = min(most, used + left - opening)
            if most <= tried[place]:
                continue  # No unit fits that did not fit before.
            tried[place] = most
            _fill(share, orders[place], most, shown)
            if share.tally.used != used:
                left -= share.tally.used - used + opening
                opening = 0
    for share in shares:
        used = share.tally.used
        share.mark(left)
        left -= share.tally.used - used


def _fill(
    share: Share,
    units: Sequence[Candidate],
    most: int,
    shown: DuplicateFinder,
) -> None:
    """Take units until the share has at most `most` tokens.

    Unrelated units are taken only if all fit.
    """
    related = []
    unrelated = []
    for unit in units:
        if unit.position in share.unrelated:
            unrelated.append(unit)
        else:
            related.append(unit)
    for unit in share.in_order(related):
        share.take(unit, most, shown)
    if unrelated and share.may_fit_whole(most):
        for unit in unrelated:
            share.take(unit, most, shown)
