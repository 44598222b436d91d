"""Allocation of a window's tokens: costs of parts, grants of sections, the tail of a history."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from kaosmem.errors import SectionFullError, WindowTooSmallError
from kaosmem.formats import BlockPlace, Format, HistoryEntry, Mark, get_format
from kaosmem.formats.text import (
    NOTES,
    Group,
    LabelStyle,
    header_piece,
    item_tokens,
    recalled_header,
)
from kaosmem.names import shown
from kaosmem.sections import Candidate
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import ChatMessage, Item
from kaosmem.units import repair, repaired

FRAME = "(frame)"
"""Stands beside the sections' names in sums, for the tokens of no section."""

_MAX_PENDING = 16
"""Number of unanswered messages that come before a history's share for recall."""

_NOISE = 1e-6
"""Shares of tokens do not add up exactly."""


@dataclass(frozen=True, slots=True)
class TokenNeed:
    """A section's need in tokens as rendered: at least `must`, at most `want`."""

    must: int
    want: float


def allocate(
    specs: Sequence[SectionSpec], needs: Mapping[str, TokenNeed], budget: int
) -> dict[str, int]:
    """Return each section's grant: its share of a window of `budget` tokens.

    needs: by section name; a section without one is empty and gets nothing.
    First the required items of every section; then static sections by priority, within what the
    floors and musts of all others leave; then floors; then histories, and then the others, by
    priority up to want, the spec's budget and the rest. Ties go in the order of `specs`. Grants sum
    to at most `budget`. They are rounded only at the end, so that a history's grant never falls as
    the budget grows. Raises WindowTooSmallError, with the sums, where the musts alone don't fit.
    """
    wanting = [spec for spec in by_priority(specs) if spec.name in needs]
    grants = _Grants(wanting, needs, budget)
    held = {spec.name: grants.to_floor(spec, spec.floor * budget) for spec in wanting}
    others = []
    for spec in wanting:
        if spec.placement == "static":
            del held[spec.name]
            grants.give(spec, grants.left - math.fsum(held.values()))
        else:
            others.append(spec)
    for spec in others:
        grants.give(spec, held[spec.name])
    others.sort(key=lambda spec: spec.placement != "history")
    for spec in others:
        grants.give(spec, grants.left)
    return {name: int(grant + _NOISE) for name, grant in grants.tokens.items()}


class _Grants:
    """Grants of sections while they are computed: first the required items of every section.

    tokens: by section. left: tokens that are not granted yet.
    """

    def __init__(
        self, specs: Sequence[SectionSpec], needs: Mapping[str, TokenNeed], budget: int
    ) -> None:
        self._needs = needs
        self.tokens: dict[str, float] = {spec.name: needs[spec.name].must for spec in specs}
        self.left: float = budget - sum(self.tokens.values())
        if self.left < 0:
            raise window_too_small({spec.name: needs[spec.name].must for spec in specs}, budget)

    def to_floor(self, spec: SectionSpec, floor: float) -> float:
        """Return the tokens that a section lacks to its floor, or to what it wants."""
        return max(0.0, min(floor, self._most(spec)) - self.tokens[spec.name])

    def give(self, spec: SectionSpec, room: float) -> None:
        """Grant a section more, as far as it wants and the room allows."""
        more = max(0.0, min(self._most(spec) - self.tokens[spec.name], room, self.left))
        self.tokens[spec.name] += more
        self.left -= more

    def _most(self, spec: SectionSpec) -> float:
        need = self._needs[spec.name]
        return need.want if spec.budget is None else min(need.want, max(spec.budget, need.must))


def scaled_floors(specs: Sequence[SectionSpec]) -> list[SectionSpec]:
    """Return specs whose floors sum to at most the whole window.

    Those of a session's own sections do. With sources attached, they may not.
    """
    total = math.fsum(spec.floor for spec in specs)
    return (
        list(specs) if total <= 1 else [replace(spec, floor=spec.floor / total) for spec in specs]
    )


def by_priority(specs: Iterable[SectionSpec]) -> list[SectionSpec]:
    """Return specs in the order in which they are served."""
    return sorted(specs, key=lambda spec: -spec.priority)


def cap_of(spec: SectionSpec, window: int) -> int:
    """Return the most that a section may take of a window."""
    return window if spec.budget is None else min(spec.budget, window)


def window_too_small(
    needs: Mapping[str, int], window: int, *, section: str | None = None
) -> WindowTooSmallError:
    """Return the error for required items that exceed a window, or one section's budget."""
    total = sum(needs.values())
    if section is not None:
        return WindowTooSmallError(
            f"section {section!r} must show {total} tokens, headers included, and its budget is "
            f"{window}; "
            f"raise that by {total - window}, or unpin or shorten items",
            need=needs,
        )
    sums = ", ".join(f"{name} {tokens}" for name, tokens in needs.items() if tokens)
    return WindowTooSmallError(
        f"a window of {window} tokens cannot hold the {total} that must be shown ({sums}); "
        f"raise the budget by {total - window}, lower reserve, or unpin or shorten items",
        need=needs,
    )


@dataclass(frozen=True, slots=True)
class HistoryTail:
    """The shown part of a history: required units, a mark for messages left out, and the tail.

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
    """Cuts one history to the longest tail that fits. A larger cap never gives a shorter tail.

    All costs are in tokens as rendered.
    units: the proposed units without orphans, by position. taken: number of items that the section
        ever took.
    is_whole: whether these are all units of the history. evicted: number of items that left it. If
        there are any, it always has a mark.
    size: tokens of a unit. mark_size: tokens of a mark for that many messages.
    header: tokens of the section's header.
    """

    def __init__(
        self,
        units: Sequence[Candidate],
        *,
        taken: int,
        is_whole: bool,
        evicted: int = 0,
        is_answered: bool = False,
        size: Callable[[Candidate], int],
        mark_size: Callable[[int], int],
        header: int,
    ) -> None:
        self._units = units
        self._taken = taken
        self._mark_size = mark_size
        self._is_bare = is_whole and not evicted
        sizes = [size(unit) for unit in units]
        after = [*accumulate(reversed(sizes), initial=header)][::-1]
        required = 0
        # Tokens of each tail without its mark. They never increase from one start to the next.
        self._unmarked = [after[0]]
        self._musts = [0]
        for unit, tokens, rest in zip(units, sizes, after[1:], strict=True):
            required += tokens * unit.must
            self._unmarked.append(required + rest)
            self._musts.append(self._musts[-1] + len(unit.items) * unit.must)
        self._last = len(units)  # the newest required units are never parted from each other
        for index in range(len(units) - 1, -1, -1):
            if not units[index].must:
                break
            if units[index].cut:
                self._last = index
        starts = (
            index for index in range(self._last) if units[index].cut or (index == 0 and is_whole)
        )
        self._starts = [*starts, self._last]
        self._pending = _first_pending(units, is_answered=is_answered)

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

    def cut(self, cap: int) -> HistoryTail:
        """Return the longest tail that a cap of at least `must` tokens allows."""
        if not self._units:
            return HistoryTail((), (), None, 0)
        first = bisect_left(self._starts, -cap, key=lambda start: -self._unmarked[start])
        start = next(
            (start for start in self._starts[first:] if self._used(start) <= cap), self._last
        )
        return self._tail(start)

    def cut_pending(self, cap: int) -> HistoryTail:
        """Return the longest tail that fits and begins with a pending message.

        Without one, return the shortest tail.
        """
        starts = [start for start in self._starts if start >= self._pending]
        fitting = [start for start in starts if self._used(start) <= cap]
        return self._tail(fitting[0] if fitting else self._last)

    def _tail(self, start: int) -> HistoryTail:
        before = tuple(unit for unit in self._units[:start] if unit.must)
        return HistoryTail(
            before, tuple(self._units[start:]), self._left_out(start) or None, self._used(start)
        )

    def _left_out(self, start: int) -> int:
        if start == 0 and self._is_bare:
            return 0
        shown_from = self._units[start].position if start < len(self._units) else self._taken
        return max(0, shown_from - self._musts[start])

    def _used(self, start: int) -> int:
        return self._unmarked[start] + self._mark_size(self._left_out(start))


def _first_pending(units: Sequence[Candidate], *, is_answered: bool) -> int:
    """Return the index of the first of the newest units that are users' and not answered yet.

    Of more than _MAX_PENDING such units, the newest ones count: a group talks among itself, and
    earlier messages stay with the share for recall. Return the number of units if there is none, or
    if only users speak: they wait for no answer.

    Args:
        units: The newest units of a history.
        is_answered: Whether somebody has answered users before these units.
    """
    first = max(0, len(units) - _MAX_PENDING)
    for index in range(len(units) - 1, -1, -1):
        if any(item.shown_role != "user" for item in units[index].items):
            return max(first, index + 1)
    return first if is_answered else len(units)


class Line(NamedTuple):
    """The tokens of one item in the system message or the block.

    group: the items of one group stand together under one label; () for an item that stands alone.
    tokens: of the item below the label of its group, or of an item alone. label: what the first of
        a group adds.
    """

    group: Group
    tokens: int
    label: int = 0


LineOf: TypeAlias = Callable[[Item, str | None], Line]
"""Return the tokens of an item, with a note (one of `NOTES`) or without."""


class Costs:
    """The costs of one format under one counter.

    An item is measured once for each, and keeps its size.
    """

    def __init__(self, format: Format, counter: TokenCounter) -> None:
        self._format = format
        self.counter = counter
        self._line_of: dict[LabelStyle, LineOf] = {}
        self._as_entry = f"{format.name} {counter.name}"

    def line_of(self, style: LabelStyle) -> LineOf:
        """Return a measure of an item in the system message or the block."""
        known = self._line_of.get(style)
        if known is not None:
            return known
        names = {note: f"{note} line {style} {self.counter.name}" for note in (None, *NOTES)}

        def line_of(item: Item, note: str | None) -> Line:
            return item.memo(names[note], lambda item: self._line(item, style, note))

        self._line_of[style] = line_of
        return line_of

    def _line(self, item: Item, style: LabelStyle, note: str | None) -> Line:
        alone = item_tokens(item, self.counter, style, note=note or "")
        group = style.group(item, note)
        if not group:
            return Line((), alone)
        below = item_tokens(item, self.counter, style, continued=True)
        return Line(group, below, alone - below)

    def entries(self, unit: Candidate) -> int:
        """Return the tokens of a unit in a history, repaired."""
        if len(unit.items) == 1:
            return unit.items[0].memo(self._as_entry, self._measure_entry)
        # A unit is measured once for its content: a result that arrives or an update makes it
        # another form.
        contents = hash(tuple(item.content for item in unit.items))
        return unit.items[-1].memo(
            f"{self._as_entry} {contents}",
            lambda _: sum(
                self._format.entry_tokens(entry, self.counter) for entry in entries_in(unit)
            ),
        )

    def header(self, spec: SectionSpec) -> int:
        """Return the tokens of a section's header in the system message or the block."""
        return 0 if spec.is_verbatim else self.counter(header_piece(spec.title))

    def recalled_header(self, spec: SectionSpec) -> int:
        """Return the tokens of the header over a section's recalled items."""
        return self.counter(recalled_header(spec.title))

    def history_header(self, spec: SectionSpec) -> int:
        """Return the tokens of a history's header."""
        return self._format.history_header_tokens(spec.title, self.counter)

    def mark(self, left_out: int) -> int:
        """Return the tokens of the mark for messages left out of a history; 0 for none."""
        return self._format.entry_tokens(Mark(left_out), self.counter) if left_out else 0

    def frame(self, *, static: bool, first: HistoryEntry | None, block: BlockPlace | None) -> int:
        """Return the tokens of no section; `first` is the entry that the histories begin with."""
        return self._format.frame_tokens(
            static=static, first=first, block=block, counter=self.counter
        )

    def block_place(self, last: ChatMessage | Mark | None) -> BlockPlace:
        """Return where the block stands when this is the last entry of the history."""
        takes_block = last is not None and self._format.takes_block(last)
        return BlockPlace.IN_MESSAGE if takes_block else BlockPlace.OWN_MESSAGE

    def _measure_entry(self, item: Item) -> int:
        if isinstance(item.content, str):
            return self._format.entry_tokens(item.message, self.counter, known=item.tokens)
        tokens = 0
        for entry in repair((item.message,)):
            tokens += self._format.entry_tokens(entry, self.counter)
        return tokens


def entries_in(unit: Candidate) -> list[ChatMessage]:
    """Return a unit as the messages that a history shows of it."""
    return list(chain.from_iterable(_parts_of(unit)))


def items_of(units: Iterable[Candidate]) -> list[Item]:
    """Return the items of units, in order."""
    items: list[Item] = []
    for unit in units:
        items += unit.items
    return items


def best_match(units: Iterable[Candidate]) -> Candidate | None:
    """Return the unit with the highest score, None if none has one."""
    ranked = [unit for unit in units if unit.score]
    return max(ranked, key=lambda unit: unit.score or 0.0, default=None)


def entries_of(units: Iterable[Candidate]) -> Iterator[ChatMessage]:
    """Yield units as the messages that a history shows of them, in the order in which they came.

    A unit whose call is answered late may have other units between its items.
    """
    placed: list[tuple[int, list[ChatMessage]]] = []
    for unit in units:
        parts = _parts_of(unit)
        positions = unit.positions or (unit.position,) * len(parts)
        placed.extend(zip(positions, parts, strict=True))
    placed.sort(key=itemgetter(0))
    for _, part in placed:
        yield from part


def _parts_of(unit: Candidate) -> list[list[ChatMessage]]:
    """Return, for each item of a unit, the messages that a history shows of it."""
    first = unit.items[0]
    if len(unit.items) == 1 and isinstance(first.content, str):
        # A text has no calls that could lack their results.
        return [[first.memo("message", attrgetter("message"))]]
    return repaired([item.message for item in unit.items])


def check_required(
    spec: SectionSpec, required: Sequence[Item], item: Item, counter: TokenCounter
) -> None:
    """Raise SectionFullError if an item that must be shown exceeds the budget of its section.

    required: the items of a static section that must be shown with it, itself included, in order.
    """
    costs = Costs(
        get_format("text"), counter
    )  # which costs the same as every other outside the histories
    line_of = costs.line_of(spec.labels)
    need = costs.header(spec) + sum(line_of(each, None).tokens for each in required)
    if spec.budget is None or need <= spec.budget:
        return
    alone = costs.header(spec) + line_of(item, None).tokens
    raise SectionFullError(
        f"section {spec.name!r} would have to show {need:,} tokens, {alone:,} of them for item "
        f"{shown(item.id)}, and "
        f"its budget is {spec.budget:,}; shorten or remove such items, or raise the budget, as by "
        f"DEFAULT_SECTIONS.replace({spec.name}={{'budget': {need}}})",
        section=spec.name,
        need=need,
        budget=spec.budget,
    )
