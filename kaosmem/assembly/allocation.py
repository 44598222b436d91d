"""Allocation of a window's tokens: grants, the costs of parts, and the tails of histories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import filterfalse
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from kaosmem.errors import SectionFullError, WindowTooSmallError
from kaosmem.formats import BlockPlace, Format, HistoryEntry, Mark
from kaosmem.formats.labels import NOTES, Group, LabelStyle
from kaosmem.formats.text import header_piece, piece_tokens
from kaosmem.names import shown
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import ChatMessage, Item
from kaosmem.units import repaired

FRAME = "(frame)"
"""Stands beside the sections' names in sums, for the tokens of no section."""

_NOISE = 1e-6
"""Shares of tokens do not add up exactly."""


# Grants.


@dataclass(frozen=True, slots=True)
class TokenNeed:
    """A section's need in tokens as rendered: at least `must`, at most `want`."""

    must: int
    want: float


def allocate(
    specs: Sequence[SectionSpec],
    needs: Mapping[str, TokenNeed],
    budget: int,
) -> dict[str, int]:
    """Return each section's grant: its share of a window, in tokens.

    Grants sum to at most `budget`. First come the required items of every section. Then come static
    sections, within the room that the floors of all others leave, then the floors. The rest goes to
    histories, and then to the others. Each time the highest priority comes first, and ties go in
    the order of `specs`. Grants are rounded only at the end, so that a history's grant never falls
    as the budget grows.

    Args:
        needs: The needs by section. A section without one is empty and gets nothing.
        budget: Tokens of the window, at least those of the required items.
    """
    wanting = [spec for spec in by_priority(specs) if spec.name in needs]
    grants: dict[str, float] = {}
    most: dict[str, float] = {}
    floors = {}
    left: float = budget
    for spec in wanting:
        need = needs[spec.name]
        grants[spec.name] = need.must
        left -= need.must
        within = need.want if spec.budget is None else max(spec.budget, need.must)
        most[spec.name] = min(need.want, within)
        floors[spec.name] = max(0.0, min(spec.floor * budget, most[spec.name]) - need.must)

    def give(name: str, room: float) -> None:
        """Grant a section more, as far as it wants and the room allows."""
        nonlocal left
        more = max(0.0, min(most[name] - grants[name], room, left))
        grants[name] += more
        left -= more

    for spec in wanting:
        if spec.placement == "static":
            del floors[spec.name]
            give(spec.name, left - math.fsum(floors.values()))
    for name, floor in floors.items():
        give(name, floor)
    for spec in sorted(wanting, key=attrgetter("is_history"), reverse=True):
        if spec.name in floors:
            give(spec.name, left)
    return {name: int(grant + _NOISE) for name, grant in grants.items()}


def scaled_floors(specs: Sequence[SectionSpec]) -> list[SectionSpec]:
    """Return specs whose floors sum to at most the whole window.

    The floors of a session's own sections do. With attached sources, they may not.
    """
    total = math.fsum(map(attrgetter("floor"), specs))
    if total <= 1:
        return list(specs)
    return [replace(spec, floor=spec.floor / total) for spec in specs]


def by_priority(specs: Iterable[SectionSpec]) -> list[SectionSpec]:
    """Return specs in the order in which they are served."""
    return sorted(specs, key=attrgetter("priority"), reverse=True)


def cap_of(spec: SectionSpec, window: int) -> int:
    """Return the most that a section may take of a window."""
    return window if spec.budget is None else min(spec.budget, window)


def window_too_small(
    needs: Mapping[str, int],
    window: int,
    *,
    section: str | None = None,
) -> WindowTooSmallError:
    """Return the error for required items that exceed a window, or one section's budget."""
    total = sum(needs.values())
    if section is not None:
        return WindowTooSmallError(
            f"section {section!r} must show {total} tokens, headers included, and its budget is "
            f"{window}; raise that by {total - window}, or unpin or shorten items",
            need=needs,
        )
    sums = ", ".join(f"{name} {tokens}" for name, tokens in needs.items() if tokens)
    return WindowTooSmallError(
        f"a window of {window} tokens cannot hold the {total} that must be shown ({sums}); "
        f"raise the budget by {total - window}, lower reserve, or unpin or shorten items",
        need=needs,
    )


# Costs.


def items_of(units: Iterable[Candidate]) -> list[Item]:
    """Return the items of units, in order."""
    items: list[Item] = []
    for unit in units:
        items += unit.items
    return items


def best_match(units: Iterable[Candidate]) -> Candidate | None:
    """Return the unit with the highest score, None if none has one."""
    best = None
    for unit in units:
        if unit.score and (best is None or unit.score > (best.score or 0.0)):
            best = unit
    return best


class Line(NamedTuple):
    """The tokens of one item in the system message or the block.

    Attributes:
        group: The items of one group stand together under one label. () stands alone.
        tokens: Tokens of the item below the label of its group, or of an item alone.
        label: The tokens that the first item of a group adds.
    """

    group: Group
    tokens: int
    label: int = 0


LineOf: TypeAlias = Callable[[Item, str | None], Line]
"""Return the tokens of an item, with a note (one of `NOTES`) or without."""


def line_measure(style: LabelStyle, counter: TokenCounter) -> LineOf:
    """Return a measure of items in the system message or the block.

    An item is measured once for each style and note, and keeps its size.
    """
    memos = {}
    for note in (None, *NOTES):
        made = partial(_measure_line, style=style, counter=counter, note=note)
        memos[note] = f"{note} line {style} {counter.name}", made
    return lambda item, note: item.memo(*memos[note])


def _measure_line(
    item: Item,
    style: LabelStyle,
    counter: TokenCounter,
    note: str | None,
) -> Line:
    group = style.group(item, note)
    labels = [style.label(item, note=note or "")]
    if group:
        labels.append(style.label(item, continued=True))
    tokens = piece_tokens(item, labels, counter, style)
    return Line(group, tokens[-1], tokens[0] - tokens[-1])


def header_of(spec: SectionSpec) -> str:
    """Return the header of a section in the system message or the block, "" for none.

    Of a history, the block shows messages that were evicted, or stand before the cut.
    """
    if spec.is_verbatim:
        return ""
    return header_piece(f"{spec.title}: earlier ones" if spec.is_history else spec.title)


def header_tokens(spec: SectionSpec, counter: TokenCounter) -> int:
    """Return the tokens of the header of a section in the system message or the block."""
    header = header_of(spec)
    return counter(header) if header else 0


@dataclass(frozen=True)
class Costs:
    """The costs of one format under one counter. A unit is measured once, and keeps its size."""

    format: Format
    counter: TokenCounter

    def entries(self, unit: Candidate) -> int:
        """Return the tokens of a unit in a history, repaired."""
        name = f"{self.format.name} {self.counter.name}"
        if len(unit.items) == 1:
            return unit.items[0].memo(name, self._measure_entry)
        # A result that arrives or an update gives a unit another content.
        contents = hash(tuple(item.content for item in unit.items))
        return unit.items[-1].memo(f"{name} {contents}", lambda _: self._sum(entries_of([unit])))

    def _measure_entry(self, item: Item) -> int:
        if isinstance(item.content, str):
            return self.format.entry_tokens(item.message, self.counter, known=item.tokens)
        return self._sum(repaired((item.message,))[0])

    def _sum(self, entries: Iterable[HistoryEntry]) -> int:
        return sum(self.format.entry_tokens(entry, self.counter) for entry in entries)

    def block_place(self, entries: Sequence[HistoryEntry]) -> BlockPlace:
        """Return where the block stands after these entries of a history."""
        takes_block = bool(entries) and self.format.takes_block(entries[-1])
        return BlockPlace.IN_MESSAGE if takes_block else BlockPlace.OWN_MESSAGE


def entries_of(units: Iterable[Candidate]) -> list[ChatMessage]:
    """Return units as the messages that a history shows of them, in the order in which they came.

    A unit whose call is answered late may have other units between its items.
    """
    placed: list[tuple[int, list[ChatMessage]]] = []
    for unit in units:
        parts = _parts_of(unit)
        positions = unit.positions or (unit.position,) * len(parts)
        placed.extend(zip(positions, parts, strict=True))
    placed.sort(key=itemgetter(0))
    entries: list[ChatMessage] = []
    for _, part in placed:
        entries += part
    return entries


def _parts_of(unit: Candidate) -> list[list[ChatMessage]]:
    """Return, for each item of a unit, the messages that a history shows of it."""
    first = unit.items[0]
    if len(unit.items) == 1 and isinstance(first.content, str):
        # A text has no calls that could lack their results.
        return [[first.memo("message", attrgetter("message"))]]
    return repaired([item.message for item in unit.items])


# The tails of histories.


@dataclass(frozen=True)
class HistoryTail:
    """A history from one of its places on: required units before it, a mark, and the tail.

    Args:
        before: The required units before the tail.
        units: The units of the tail.
        left_out: Number of messages that the mark stands for. With 0 there is no mark.
        used: The tokens as rendered, header and mark included.
    """

    before: Sequence[Candidate] = ()
    units: Sequence[Candidate] = ()
    left_out: int = 0
    used: int = 0

    @property
    def shown(self) -> list[Candidate]:
        """Return all units that are shown, in order."""
        return [*self.before, *self.units]

    @cached_property
    def positions(self) -> frozenset[int]:
        """The positions of the units that are shown."""
        return frozenset(map(attrgetter("position"), self.shown))

    def without_shown(self, units: Iterable[Candidate]) -> list[Candidate]:
        """Return the units that the tail does not show."""
        return [unit for unit in units if unit.position not in self.positions]

    @cached_property
    def entries(self) -> list[HistoryEntry]:
        """The messages that are shown, and the mark."""
        mark = [Mark(self.left_out)] if self.left_out else []
        return [*entries_of(self.before), *mark, *entries_of(self.units)]


NO_TAIL = HistoryTail()
"""The tail of a section that is no history, or has no messages."""


class _Place(NamedTuple):
    """A place where a tail may begin.

    Attributes:
        unmarked: The tokens of all that is shown from it on, header included, without the mark.
        left_out: Number of messages that the mark stands for.
    """

    place: int
    unmarked: int
    left_out: int


class TailCutter:
    """Cuts one history to the longest tail that fits. A larger cap never gives a shorter tail.

    All costs are in tokens as rendered. A history of which messages were evicted always has a mark.

    Attributes:
        must: The least tokens that the history can be shown in.
        want: The tokens of the longest tail.
    """

    def __init__(
        self,
        spec: SectionSpec,
        proposal: Proposal,
        costs: Costs,
    ) -> None:
        self._costs = costs
        shown = filterfalse(attrgetter("orphan"), proposal.candidates)
        units = sorted(shown, key=attrgetter("position"))
        self._units = units
        is_whole = proposal.is_all
        is_bare = is_whole and not proposal.evicted
        self._places: list[_Place] = []  # that of the longest tail first
        required = 0
        sizes = list(map(costs.entries, units))
        unmarked = costs.format.history_header_tokens(spec.title, costs.counter) + sum(sizes)
        last = _first_inseparable(units)
        for place, unit in enumerate(units[:last]):
            if unit.cut or (place == 0 and is_whole):
                left_out = 0 if place == 0 and is_bare else max(0, unit.position - required)
                self._places.append(_Place(place, unmarked, left_out))
            if unit.must:
                required += len(unit.items)
            else:
                unmarked -= sizes[place]
        begin = units[last].position if last < len(units) else proposal.taken
        left_out = 0 if last == 0 and is_bare else max(0, begin - required)
        self._places.append(_Place(last, unmarked, left_out))
        self.want = self._used(self._places[0])
        shortest = self._used(self._places[-1])
        self.must = min(shortest, self.want) if is_bare else shortest

    def _used(self, at: _Place) -> int:
        """Return the tokens of the tail from a place on, as rendered."""
        if not self._units:
            return 0
        if not at.left_out:
            return at.unmarked
        mark = Mark(at.left_out)
        return at.unmarked + self._costs.format.entry_tokens(mark, self._costs.counter)

    def cut(self, cap: int) -> HistoryTail:
        """Return the longest tail of at most `cap` tokens, or the shortest if none fits."""
        if not self._units:
            return NO_TAIL
        for at in self._places:
            if at.unmarked <= cap and self._used(at) <= cap:
                break
        before = [unit for unit in self._units[: at.place] if unit.must]
        return HistoryTail(before, self._units[at.place :], at.left_out, self._used(at))


def _first_inseparable(units: Sequence[Candidate]) -> int:
    """Return the last place where a tail may begin: the newest required units stay together.

    Return the number of units if the newest one is not required.
    """
    last = len(units)
    for index in range(len(units) - 1, -1, -1):
        if not units[index].must:
            break
        if units[index].cut:
            last = index
    return last


# Required items, when one is added.


def check_required(
    spec: SectionSpec,
    required: Sequence[Item],
    item: Item,
    counter: TokenCounter,
) -> None:
    """Raise SectionFullError if an item that must be shown exceeds the budget of its section.

    The costs outside the histories are the same in every format.

    Args:
        required: The items of a static section that must be shown with it, itself included, in
            order.
    """
    line_of = line_measure(spec.labels, counter)
    header = header_tokens(spec, counter)
    need = header
    for each in required:
        need += line_of(each, None).tokens
    if spec.budget is None or need <= spec.budget:
        return
    alone = header + line_of(item, None).tokens
    raise SectionFullError(
        f"section {spec.name!r} would have to show {need:,} tokens, {alone:,} of them for item "
        f"{shown(item.id)}, and its budget is {spec.budget:,}; shorten or remove such items, or "
        f"raise the budget, as by DEFAULT_SECTIONS.replace({spec.name}={{'budget': {need}}})",
        section=spec.name,
        need=need,
        budget=spec.budget,
    )
