"""Fitting whole units into the granted shares, in order of value, until nothing more fits."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kaosmem.formats.delimiters import without_hidden
from kaosmem.formats.text import NEWER, POSSIBLY_REPLACED
from kaosmem.language.duplicates import Shown, newest_first, statement
from kaosmem.sections import Candidate, SectionSpec
from kaosmem.types import Item


@dataclass(slots=True)
class Run:
    """The units under one header, in stored order, while it grows. All costs are in tokens as rendered.

    size: tokens of items that are shown after another one, or first, and under a note.
    header: tokens of the header over that many items. cap: the most it may take.
    used, count, kept: tokens, items and units so far. standings: of the units kept.
    corrected: positions of units that correct one that is shown. The last of several corrections is marked as newer.
    uncorrected: positions of units that are shown without the units that correct them.
    """

    size: Callable[[Sequence[Item], Item | None, str], int]
    header: Callable[[int], int]
    cap: float
    used: int = 0
    count: int = 0
    kept: list[Candidate] = field(default_factory=list)
    standings: list[tuple[int, bool, int]] = field(default_factory=list)
    corrected: set[int] = field(default_factory=set)
    uncorrected: set[int] = field(default_factory=set)

    def cost(self, candidate: Candidate) -> int:
        """Return the tokens that a candidate adds: the item shown after it may change its label.

        That is never less than its text takes. Where it saves the next item the naming of a source, it names it itself.
        """
        header_so_far = self.header(self.count) if self.count else 0
        cost = self.header(self.count + len(candidate.items)) - header_so_far
        place = bisect(self.standings, _standing(candidate))
        before = self.kept[place - 1].items[-1] if place else None
        if place < len(self.kept):
            after, note = self.kept[place].items[:1], self.note(self.kept[place])
            cost += self.size(after, candidate.items[-1], note) - self.size(after, before, note)
        return cost + self.size(candidate.items, before, self.note(candidate))

    def note(self, unit: Candidate) -> str:
        """Return the note that marks a unit, "" for none."""
        if unit.position in self.uncorrected:
            return POSSIBLY_REPLACED
        is_newer = unit.position in self.corrected and not unit.newer and unit.items[0].interval is None
        return NEWER if is_newer else ""

    def mark(self, corrected: Collection[int] = (), uncorrected: Collection[int] | None = None) -> None:
        """Note that units, shown or not yet, correct one that is shown, or which ones are shown without corrections."""
        changed = {*corrected} - self.corrected
        if uncorrected is not None:
            changed |= self.uncorrected ^ {*uncorrected}
        before = self._tokens_of(changed)
        self.corrected.update(corrected)
        if uncorrected is not None:
            self.uncorrected = {*uncorrected}
        self.used += self._tokens_of(changed) - before

    def _tokens_of(self, positions: Collection[int]) -> int:
        """Return the tokens of the kept units at some positions, with their notes."""
        if not positions:
            return 0
        tokens = 0
        before = None
        for unit in self.kept:
            if unit.position in positions:
                tokens += self.size(unit.items, before, self.note(unit))
            before = unit.items[-1]
        return tokens

    def want(self, candidates: Iterable[Candidate]) -> int:
        """Return the tokens of these alone, measured no further than past the cap."""
        units = list(candidates)
        if not units:
            return 0
        want = self.header(1)
        for unit in units:
            if want > self.cap:
                return want
            want += self.size(unit.items, None, "")
        return self.cost_of_all(units)

    def cost_of_all(self, candidates: Iterable[Candidate]) -> int:
        """Return the tokens of these alone, without notes."""
        units = sorted(candidates, key=_standing)
        lasts = (None, *(unit.items[-1] for unit in units))
        return self.header(1) + sum(
            self.size(unit.items, before, "") for unit, before in zip(units, lasts, strict=False)
        )

    def take(self, candidate: Candidate, cost: int) -> None:
        """Add a candidate at its cost."""
        self.used += cost
        self.count += len(candidate.items)
        standing = _standing(candidate)
        place = bisect(self.standings, standing)
        self.standings.insert(place, standing)
        self.kept.insert(place, candidate)

    def copy(self) -> Run:
        """Return a copy that changes on its own."""
        return replace(
            self,
            kept=[*self.kept],
            standings=[*self.standings],
            corrected={*self.corrected},
            uncorrected={*self.uncorrected},
        )

    @property
    def items(self) -> list[Item]:
        """Return the items taken, units in stored order."""
        return [item for unit in self.kept for item in unit.items]

    @property
    def notes(self) -> dict[str, str]:
        """Return the notes of the items that are marked, by id."""
        if not (self.corrected or self.uncorrected):
            return {}
        notes = {item.id: self.note(unit) for unit in self.kept for item in unit.items}
        return {item_id: note for item_id, note in notes.items() if note}


@dataclass
class Share:
    """One section's share of a window, while it is filled.

    candidates: in order of want. runs: the shown ones, by whether they are recalled, in the order shown.
    cap: the most it may take; grant: its guaranteed tokens.
    barred: positions of units that may not be taken.
    twins: of items left out as duplicates, by id, the id of the one that is shown.
    elsewhere: positions of the section's units that are shown in another place.
    brought_along: positions of the units that are in since a replaced version is, or an item that they correct.
    outdated: positions of units that would have fit, but for the units that correct them.
    unrelated: positions of units that nothing in the query speaks for. They are taken only if all fit together.
    is_offered_whole: whether the candidates are all that the section holds.
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
    outdated: set[int] = field(default_factory=set)
    unrelated: frozenset[int] = frozenset()
    is_offered_whole: bool = False

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

    @cached_property
    def best_match(self) -> int | None:
        """Return the position of the unit with the highest score, None where nothing is ranked."""
        ranked = [unit for unit in self.candidates if unit.score and unit.position not in self.barred]
        best = max(ranked, key=lambda unit: unit.score or 0.0, default=None)
        return None if best is None else best.position

    def take_corrected(self, candidate: Candidate, room: int, shown: Shown | None) -> bool:
        """Take a candidate and the units that correct it; return whether they fit in the room.

        The best match is taken with the newest of them, or alone, if they do not fit or would fill the share.
        """
        missing = self.corrections(candidate)
        is_in = any(unit.position == candidate.position for unit in self.run_of(candidate).kept)
        if is_in:
            return bool(missing) and self._take_with(candidate, missing or [], room, shown, is_in=True)
        if shown is not None and self._is_repeated(candidate, shown):
            return False
        is_best = candidate.position == self.best_match
        is_too_much = is_best and len(missing or ()) > 1 and self.would_fill(candidate)
        if missing is not None and not is_too_much and self._take_with(candidate, missing, room, shown):
            return True
        if not is_best:
            return False
        if missing and self._take_with(candidate, missing[:1], room, shown):
            return True
        return self._take_with(candidate, [], room, shown, is_alone=True)

    def _take_with(
        self,
        candidate: Candidate,
        missing: Sequence[Candidate],
        room: int,
        shown: Shown | None,
        *,
        is_in: bool = False,
        is_alone: bool = False,
    ) -> bool:
        """Take a candidate and some units that correct it, as one unit, if they fit in the room.

        is_in: whether the candidate is taken already. is_alone: whether the units that correct it are left out.
        """
        units = [unit for unit in missing if shown is None or not self._is_repeated(unit, shown)]
        if not is_in:
            units.append(candidate)
        if sum(map(_least, units)) > room:
            return False
        before, saved = self.used, self._state
        run = self.run_of(candidate)
        if is_alone:
            run.mark(uncorrected=run.uncorrected | {candidate.position})
        elif candidate.position in run.uncorrected:
            run.mark(uncorrected=run.uncorrected - {candidate.position})
        for unit in units:
            self.take(unit)
        if self.used - before > room or any(each.used > each.cap for each in self.runs.values()):
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
        return {*self.brought_along}, {name: run.copy() for name, run in self.runs.items()}

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
        for each in self.runs.values():
            if not (candidate.newer or each.uncorrected):
                continue
            left = {at for at in each.uncorrected if candidate.position not in self._by_position[at].newer}
            if candidate.newer or left != each.uncorrected:
                each.mark(candidate.newer, left)

    def _is_repeated(self, unit: Candidate, shown: Shown) -> bool:
        """Return whether a unit is a duplicate of a shown one, and note it if it is."""
        twins = shown.twins(unit.items)
        self.twins |= {item.id: twin for item, twin in zip(unit.items, twins, strict=False)}
        return bool(twins)

    @property
    def used(self) -> int:
        """Return the tokens taken."""
        tokens = 0
        for run in self.runs.values():  # asked for each unit: a sum over a generator takes twice as long
            tokens += run.used
        return tokens

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
        units = self.candidates
        if self.unrelated and not self.may_fit_whole():
            units = tuple(unit for unit in units if unit.position not in self.unrelated)
        wants = (
            min(run.cap, run.want(unit for unit in units if self.run_of(unit) is run)) for run in self.runs.values()
        )
        return math.fsum(wants)

    def may_fit_whole(self, room: float | None = None) -> bool:
        """Return whether all live units fit together, in this room beside what is taken, or in the cap."""
        if not self.is_offered_whole:
            return False
        run = self.runs[False]
        want = run.cost_of_all(unit for unit in self.candidates if self.run_of(unit) is run)
        return want <= self.cap and (room is None or want - run.used <= room)

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


@dataclass(slots=True)
class _Room:
    """The tokens that a share may still take. left: of the window. opening: of the block that its first unit opens."""

    share: Share
    most: int
    left: int
    opening: int
    shown: Shown | None

    @property
    def tokens(self) -> int:
        """Return the tokens that the next unit may take."""
        return min(self.most - self.share.used, self.left - self.opening)

    def take(self, candidate: Candidate) -> None:
        """Take a candidate with the units that must be shown with it, if they fit."""
        if candidate.position in self.share.brought_along:
            return
        used = self.share.used
        if candidate.newer:
            if not self.share.take_corrected(candidate, self.tokens, self.shown):
                self.note(candidate)
        else:
            self._take(candidate)
        if self.share.used != used:
            self.left -= self.share.used - used + self.opening
            self.opening = 0

    def note(self, candidate: Candidate) -> None:
        """Note a unit that is left out for its corrections: it would fit without them."""
        if candidate.position in self.share.outdated or _least(candidate) > self.tokens:
            return
        if self.share.run_of(candidate).cost(candidate) <= self.tokens:
            self.share.outdated.add(candidate.position)

    def _take(self, candidate: Candidate) -> None:
        share, shown = self.share, self.shown
        run, brought = share.run_of(candidate), share.brought(candidate)
        room = min(self.tokens, run.cap - run.used)
        if brought is None or _least(brought) > room:
            return
        cost = run.cost(brought)
        if cost > room:
            return
        # A version that says the same as another one, as after a change back, held at another time.
        if shown is not None and candidate.successor is None and (twins := shown.admit(candidate.items)):
            share.twins |= {item.id: twin for item, twin in zip(candidate.items, twins, strict=True)}
            return
        share.take(candidate, cost if brought is candidate else None)


def _fill(share: Share, most: int, left: int, opening: int, shown: Shown | None) -> tuple[int, int]:
    room = _Room(share, most, left, opening, shown)
    unrelated = [unit for unit in share.left_out if unit.position in share.unrelated]
    left_out = [unit for unit in share.left_out if unit.position not in share.unrelated]
    if shown is not None:
        left_out = [*newest_first(left_out)]
    for candidate in [unit for unit in share.kept if unit.newer]:
        room.take(candidate)
    waiting = []
    for place, candidate in enumerate(left_out):
        # The corrections of one item would keep the other answers out of a small window.
        if place > 0 and candidate.position != share.best_match and share.would_fill(candidate):
            room.note(candidate)
            waiting.append(candidate)
        else:
            room.take(candidate)
    for candidate in waiting:
        room.take(candidate)
    if unrelated and share.may_fit_whole(room.tokens):
        for candidate in unrelated:
            room.take(candidate)
    return room.left, room.opening
