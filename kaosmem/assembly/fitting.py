"""Fill the granted shares with whole units, in order of value, until nothing more fits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from kaosmem.assembly.allocation import Line, LineOf
from kaosmem.formats.text import NEWER, POSSIBLY_REPLACED, Group
from kaosmem.language.duplicates import Shown, newest_first, statement
from kaosmem.sections import Candidate, SectionSpec

Standing: TypeAlias = tuple[int, bool, int]
"""The key that orders units where they are shown."""

_NOTE_TOKENS = 20
"""More than a note takes.

A unit may save that much, if it corrects one that was noted as possibly replaced.
"""


@dataclass(slots=True)
class Run:
    """The tokens of the units under one header.

    A unit's cost depends on the labels of its groups alone.

    header: tokens of the header over a number of items. cap: the most tokens that the run may take.
    used, count: tokens and items so far. labels: by group, the first unit that it shows, and the
        tokens of its label.
    """

    header: Callable[[int], int]
    cap: float
    used: int = 0
    count: int = 0
    labels: dict[Group, tuple[Standing, int]] = field(default_factory=dict)

    def added(
        self, unit: Candidate, lines: Iterable[Line]
    ) -> tuple[int, dict[Group, tuple[Standing, int]]]:
        """Return the tokens that a unit adds, and the labels that it changes."""
        tokens = self.header(self.count + len(unit.items))
        if self.count:
            tokens -= self.header(self.count)
        changed: dict[Group, tuple[Standing, int]] = {}
        standing = standing_of(unit)
        for line in lines:
            tokens += line.tokens
            if not line.group:
                continue
            first = changed.get(line.group) or self.labels.get(line.group)
            if first is None:
                tokens += line.label
            elif standing < first[0]:
                tokens += line.label - first[1]
            else:
                continue
            changed[line.group] = standing, line.label
        return tokens, changed

    def take(
        self, unit: Candidate, tokens: int, labels: Mapping[Group, tuple[Standing, int]]
    ) -> None:
        """Add a unit, as `added` has measured it."""
        self.used += tokens
        self.count += len(unit.items)
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
    taken: the units in the share, by position.
    twins: of items left out as duplicates, by id, the id of the one that is shown.
    brought_along: positions of the units that are in since a replaced version is, or an item that
        they correct.
    outdated: positions of units that would have fit, but for the units that correct them.
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
    twins: dict[str, str] = field(default_factory=dict)
    brought_along: set[int] = field(default_factory=set)
    outdated: set[int] = field(default_factory=set)
    _corrections: set[int] = field(
        default_factory=set
    )  # positions of the units that correct one that is taken
    _repeated: set[int] = field(
        default_factory=set
    )  # positions of the units that were left out as duplicates

    # what is in

    @property
    def used(self) -> int:
        """Return the tokens taken."""
        tokens = 0
        for (
            run
        ) in self.runs.values():  # asked for each unit: a sum over a generator takes twice as long
            tokens += run.used
        return tokens

    @property
    def count(self) -> int:
        """Return how many items were taken."""
        return sum(run.count for run in self.runs.values())

    def kept(self, *, recalled: bool) -> list[Candidate]:
        """Return the units taken of one run, in the order in which they stand."""
        run = self.runs.get(recalled)
        if run is None:
            return []
        return sorted(
            (unit for unit in self.taken.values() if self._run_of(unit) is run), key=standing_of
        )

    @property
    def notes(self) -> dict[str, str]:
        """Return the notes of the items that are marked, by id."""
        if not self._corrections:
            return {}
        marked = self._notes_of(self.taken)
        return {
            item.id: note
            for position, note in marked.items()
            for item in self.taken[position].items
        }

    def is_duplicate(self, candidate: Candidate) -> bool:
        """Return whether a candidate was left out as a duplicate."""
        return candidate.position in self._repeated

    @property
    def left_out(self) -> list[Candidate]:
        """Return the candidates that may still be taken, in order of want.

        Duplicates of shown items may not.
        """
        out = [
            unit
            for unit in self.candidates
            if unit.position not in self.taken and unit.position not in self.barred
        ]
        return [unit for unit in out if not self.is_duplicate(unit)] if self._repeated else out

    # what it costs

    def _run_of(self, unit: Candidate) -> Run:
        """Return the run that a unit stands in: a replaced version stands with its successor."""
        successor = None if unit.successor is None else self._by_position.get(unit.successor)
        return self.runs[(successor or unit).recalled]

    @cached_property
    def _by_position(self) -> dict[int, Candidate]:
        return {candidate.position: candidate for candidate in self.candidates}

    def cost(self, unit: Candidate) -> int:
        """Return the tokens that a unit adds without a note."""
        return self._run_of(unit).added(unit, self._lines(unit))[0]

    def _lines(self, unit: Candidate, note: str | None = None) -> list[Line]:
        return [self.line_of(item, note) for item in unit.items]

    def _notes_of(self, taken: Mapping[int, Candidate]) -> dict[int, str]:
        """Return the notes of units that are taken together, by position.

        The last of several corrections is newer than what it corrects. The others have an empty
        note: like it, they stand alone after that. A unit is possibly replaced if no unit that
            corrects it is shown.
        """
        notes: dict[int, str] = {}
        for position, unit in taken.items():
            corrections = [at for at in unit.newer if at in taken]
            is_known = any(at in self.elsewhere or at in self._repeated for at in unit.newer)
            if unit.newer and not corrections and not is_known:
                notes[position] = POSSIBLY_REPLACED
            for at in corrections:
                is_last = not taken[at].newer and taken[at].items[0].interval is None
                notes[at] = NEWER if is_last else notes.get(at, "")
        return notes

    def runs_with(self, units: Iterable[Candidate]) -> dict[bool, Run]:
        """Return the runs as they are with these units, and nothing else, each with its note."""
        shown = {unit.position: unit for unit in units}
        notes = self._notes_of(shown)
        empty = {id(run): Run(run.header, run.cap) for run in self.runs.values()}
        for unit in shown.values():
            run = empty[id(self._run_of(unit))]
            run.take(unit, *run.added(unit, self._lines(unit, notes.get(unit.position))))
        return {recalled: empty[id(run)] for recalled, run in self.runs.items()}

    def want(self) -> float:
        """Return the tokens of all candidates without notes, as far as the caps allow."""
        units: Iterable[Candidate] = self.candidates
        if self.unrelated and not self.may_fit_whole():
            units = [unit for unit in units if unit.position not in self.unrelated]
        wanted = {id(run): Run(run.header, run.cap) for run in self.runs.values()}
        for unit in units:
            run = wanted[id(self._run_of(unit))]
            if run.used <= run.cap:
                run.take(unit, *run.added(unit, self._lines(unit)))
        return sum(min(run.cap, run.used) for run in wanted.values())

    def may_fit_whole(self, room: float | None = None) -> bool:
        """Return whether all live units fit together, in this room beside what is taken, or in the cap."""
        if not self.is_offered_whole:
            return False
        live = self.runs[False]
        whole = Run(live.header, live.cap)
        for unit in self.candidates:
            if self._run_of(unit) is live:
                whole.take(unit, *whole.added(unit, self._lines(unit)))
        return whole.used <= self.cap and (room is None or whole.used - live.used <= room)

    # taking units

    def require(self, units: Iterable[Candidate]) -> None:
        """Take units that must be shown, whatever they cost."""
        required = [*units]
        if required:
            self.runs = self.runs_with(required)
            self._note_taken(required)

    def take(self, units: Sequence[Candidate], room: float) -> bool:
        """Take units together if they fit in the room and in their runs. Return whether they do."""
        least = 0
        for unit in units:
            least += sum(line.tokens for line in self._lines(unit))
        if least - _NOTE_TOKENS > room:  # without a recount, which costs more
            return False
        runs = self.runs_with([*self.taken.values(), *units])
        if sum(run.used for run in runs.values()) - self.used > room:
            return False
        if any(run.used > run.cap for run in runs.values()):
            return False
        self.runs = runs
        self._note_taken(units)
        return True

    def _note_taken(self, units: Iterable[Candidate]) -> None:
        for unit in units:
            self.taken[unit.position] = unit
            self._corrections.update(unit.newer)

    def take_wanted(self, unit: Candidate, room: float, shown: Shown | None) -> None:
        """Take a candidate with the units that must be shown with it, if they fit in the room.

        shown: the items shown so far, of which no duplicate is taken; without it, duplicates are
            taken.
        """
        if unit.newer:
            self._take_corrected(unit, room, shown)
        elif unit.position in self.taken or self.is_duplicate(unit):
            return
        elif unit.successor is not None:
            # A version that says the same as another one, as after a change back, held at another
            # time.
            self._take_replaced(unit, room)
        elif unit.position in self._corrections:
            if (
                (shown is None or not self._is_repeated(unit, shown))
                and self.take([unit], room)
                and shown is not None
            ):
                shown.admit(unit.items)
        else:
            self._take_plain(unit, room, shown)

    def _take_plain(self, unit: Candidate, room: float, shown: Shown | None) -> None:
        """Take a unit that needs no other, and that changes no note."""
        run = self._run_of(unit)
        tokens, labels = run.added(unit, self._lines(unit))
        if tokens > room or tokens > run.cap - run.used:
            return
        if shown is not None:
            if self._is_repeated(unit, shown):
                return
            shown.admit(unit.items)
        run.take(unit, tokens, labels)
        self.taken[unit.position] = unit

    def _take_replaced(self, unit: Candidate, room: float) -> None:
        """Take a replaced version with its successor, if that is offered and is not replaced itself."""
        assert unit.successor is not None
        if unit.successor in self.elsewhere or unit.successor in self.taken:
            self.take([unit], room)
            return
        successor = self._by_position.get(unit.successor)
        if (
            successor is not None
            and successor.successor is None
            and self.take([successor, unit], room)
        ):
            self.brought_along.add(successor.position)

    def _take_corrected(self, unit: Candidate, room: float, shown: Shown | None) -> None:
        """Take a candidate with the units that correct it, if they fit in the room.

        The best match is taken with the newest of them, or alone, if they do not fit or would fill
        the share.
        """
        missing = self._missing_corrections(unit)
        is_in = unit.position in self.taken
        if not is_in and shown is not None and self._is_repeated(unit, shown):
            return
        is_best = unit.position == self.best_match and not is_in
        choices = [] if missing is None else [missing]
        if is_best:
            if missing and len(missing) > 1 and self.would_fill(unit):
                choices.clear()
            if missing:
                choices.append(missing[:1])
            choices.append([])
        own = [] if is_in else [unit]
        for corrections in choices:
            units = own + [
                each for each in corrections if shown is None or not self._is_repeated(each, shown)
            ]
            if units and self.take(units, room):
                self.brought_along |= {each.position for each in corrections}
                if shown is not None:
                    for each in units:
                        shown.admit(each.items)
                return
        self.note_outdated(unit, room)

    def note_outdated(self, unit: Candidate, room: float) -> None:
        """Note a unit that is left out for its corrections: it would fit without them."""
        run = self._run_of(unit)
        if unit.position not in self.taken and self.cost(unit) <= min(room, run.cap - run.used):
            self.outdated.add(unit.position)

    def _missing_corrections(self, unit: Candidate) -> list[Candidate] | None:
        """Return the units that correct a unit, and those that correct them, newest first, that are not taken yet.

        Of those that say the same, only the newest counts. Return None if one of them may not be taken.
        """
        found: dict[int, Candidate] = {}
        left = [*unit.newer]
        while left:
            at = left.pop()
            if at in found or at in self.elsewhere:
                continue
            correction = self._by_position.get(at)
            if correction is None or at in self.barred:
                return None
            found[at] = correction
            left += correction.newer
        missing = sorted(
            (each for at, each in found.items() if at not in self.taken), key=standing_of
        )
        said = {statement(each.items[0]): each for each in missing}
        return sorted(said.values(), key=standing_of, reverse=True)

    def would_fill(self, unit: Candidate) -> bool:
        """Return whether a candidate takes more than half of the share together with the units that correct it."""
        if not unit.newer:
            return False
        units = [unit, *(self._missing_corrections(unit) or ())]
        tokens: int = sum(each.tokens for each in units)
        return 2 * tokens > self.cap

    @cached_property
    def best_match(self) -> int | None:
        """Return the position of the unit with the highest score, None where nothing is ranked."""
        ranked = [
            unit for unit in self.candidates if unit.score and unit.position not in self.barred
        ]
        best = max(ranked, key=lambda unit: unit.score or 0.0, default=None)
        return None if best is None else best.position

    def _is_repeated(self, unit: Candidate, shown: Shown) -> bool:
        """Return whether a unit is a duplicate of a shown one, and note it if it is."""
        twins = shown.twins(unit.items)
        if not twins:
            return False
        self.twins |= dict(zip((item.id for item in unit.items), twins, strict=True))
        self._repeated.add(unit.position)
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
    First each share is filled within its grant. Then each may take what the others left, up to its
    cap. So no unit is left out that would fit: a unit costs no less beside more units than it did
    before.
    """
    orders = [_order(share, is_deduplicated=shown is not None) for share in shares]
    for is_first in (True, False):
        for share, order in zip(shares, orders, strict=True):
            used = share.used
            most = min(share.grant if is_first else share.cap, used + left - opening)
            _fill(share, order, most, shown)
            if share.used != used:
                left -= share.used - used + opening
                opening = 0


class _Order(NamedTuple):
    """The units that a share may take, in the order in which they are tried.

    waiting: positions of units that come after all others. They take more than half of the share
        with their corrections, which would keep the other answers out of a small window. The best
        match never waits.
    unrelated: units that are taken only if all fit.
    """

    wanted: Sequence[Candidate]
    waiting: frozenset[int]
    unrelated: Sequence[Candidate]


def _order(share: Share, *, is_deduplicated: bool) -> _Order:
    left_out: Sequence[Candidate] = share.left_out
    if is_deduplicated:
        left_out = newest_first(left_out)
    wanted = [unit for unit in left_out if unit.position not in share.unrelated]
    heavy = [
        unit.position
        for unit in wanted[1:]
        if unit.position != share.best_match and share.would_fill(unit)
    ]
    corrected = [unit for unit in share.taken.values() if unit.newer]
    unrelated = [unit for unit in left_out if unit.position in share.unrelated]
    return _Order(corrected + wanted, frozenset(heavy), unrelated)


def _fill(share: Share, order: _Order, most: int, shown: Shown | None) -> None:
    """Take units until the share has at most `most` tokens."""
    waiting = []
    for unit in order.wanted:
        if unit.position in order.waiting:
            share.note_outdated(unit, most - share.used)
            waiting.append(unit)
        else:
            share.take_wanted(unit, most - share.used, shown)
    for unit in waiting:
        share.take_wanted(unit, most - share.used, shown)
    if order.unrelated and share.may_fit_whole(most - share.used):
        for unit in order.unrelated:
            share.take_wanted(unit, most - share.used, shown)
