"""Allocation of a window's tokens: grants, and the costs of units, lines and headers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TypeAlias

from kaosmem.errors import SectionFullError, WindowTooSmallError
from kaosmem.formats import BlockPlace, Format, HistoryEntry, Mark
from kaosmem.formats.delimiters import without_hidden
from kaosmem.formats.labels import NOTES, Group, LabelStyle
from kaosmem.formats.text import Line, header_piece, line_of
from kaosmem.names import shown
from kaosmem.sections import Candidate
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import Item, once_per_item
from kaosmem.units import repaired

FRAME = "(frame)"
"""Stands beside the sections' names in sums, for the tokens of no section."""
INSTRUCTIONS = "(instructions and tools)"
"""Stands there for the tokens of the instructions and tools that a call gave."""

_MAX_JOINED_TOKENS = 2
"""So many tokens of a text may join those of its label and its line end."""
Notes: TypeAlias = Mapping[str, str]
"""Notes of items, by their ids."""
NO_NOTES: Notes = MappingProxyType({})

_ROUNDING_ERROR = 1e-6
"""Shares of tokens do not add up exactly."""


# Grants.


@dataclass(frozen=True, slots=True)
class TokenNeed:
    """A section's need in tokens as rendered: at least `must`, at most `want`.

    It is sure of `sure`, as of a floor.
    """

    must: int
    want: float
    sure: int = 0


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
        most[spec.name] = need.want
        if spec.budget is not None:
            most[spec.name] = min(need.want, max(spec.budget, need.must))
        floor = max(spec.floor * budget, need.sure)
        floors[spec.name] = max(0.0, min(floor, most[spec.name]) - need.must)

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
    return {name: int(grant + _ROUNDING_ERROR) for name, grant in grants.items()}


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
    if spec.budget is None:
        return window
    return min(spec.budget, window)


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
        f"raise the budget by {total - window}, lower reserve, unpin items, or shorten them, "
        "as overflow='cut' does",
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


LineOf: TypeAlias = Callable[[Item, str | None], Line]
"""Return an item as a line, with a note (one of `NOTES`) or without."""


def line_maker(style: LabelStyle, counter: TokenCounter) -> LineOf:
    """Return a function that makes the lines of items.

    A line is made once for each style and note. So an item is shown as it was measured.
    """
    memos = {}
    for note in (None, *NOTES):
        made = partial(line_of, style=style, counter=counter, note=note)
        memos[note] = f"{note} line {style} {counter.name}", made
    return lambda item, note: item.memo(*memos[note])


def least_tokens(unit: Candidate) -> int:
    """Return the tokens that a unit takes at least: those of a text, which is not measured for it.

    White space at the end of the text may join that of the line, which saves a token. A text with
    hidden characters is shown without them, and other contents are shown in part.
    """
    item = unit.items[0]
    if len(unit.items) > 1 or not isinstance(item.content, str) or _hides(item):
        return 0
    return max(0, unit.tokens - _MAX_JOINED_TOKENS)


@once_per_item
def _hides(item: Item) -> bool:
    return without_hidden(item.text) is not item.text


def display_order_of(unit: Candidate) -> tuple[int, ...]:
    """Return the key that orders units where they are shown."""
    return unit.display_order or (unit.position, 1, 0)


LabelsByGroup: TypeAlias = dict[Group, tuple[tuple[int, ...], int]]
"""By group, where the first unit stands that it shows, and the tokens of its label."""


@dataclass(slots=True)
class TokenTally:
    """The tokens of the units under one header. A unit's cost depends on its groups alone.

    Attributes:
        header: Tokens of the header.
        line_of: Measures an item.
        used: Tokens so far.
    """

    header: int
    line_of: LineOf
    used: int = 0
    labels: LabelsByGroup = field(default_factory=dict)

    def cost_of(
        self,
        units: Iterable[Candidate],
        notes: Notes = NO_NOTES,
    ) -> tuple[int, LabelsByGroup]:
        """Return the tokens that units add, and the labels that they change.

        Args:
            notes: The notes of items, by id.
        """
        tokens = 0 if self.used else self.header
        changed: LabelsByGroup = {}
        for unit in units:
            for item in unit.items:
                line = self.line_of(item, notes.get(item.id))
                tokens += line.tokens
                if not line.group:
                    continue
                display_order = display_order_of(unit)
                first = changed.get(line.group) or self.labels.get(line.group)
                if first is None:
                    tokens += line.label
                elif display_order < first[0]:
                    tokens += line.label - first[1]
                else:
                    continue
                changed[line.group] = display_order, line.label
        return tokens, changed

    def add(self, tokens: int, labels: LabelsByGroup) -> None:
        """Add units, as `cost_of` has measured them."""
        self.used += tokens
        self.labels |= labels


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
class FormatCosts:
    """The costs of one format under one counter. A unit is measured once, and keeps its size."""

    format: Format
    counter: TokenCounter

    def entries(self, unit: Candidate) -> int:
        """Return the tokens of a unit in a history, repaired, and of the mark before it."""
        if unit.days is not None:
            mark = self.format.entry_tokens(Mark(days=unit.days), self.counter)
            return mark + self.entries(unit._replace(days=None))
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


def entries_of(units: Iterable[Candidate]) -> list[HistoryEntry]:
    """Return units as the messages that a history shows of them, in the order in which they came.

    A mark stands before a unit with which another day begins. A unit whose call is answered late
    may have other units between its items.
    """
    placed: list[tuple[int, Sequence[HistoryEntry]]] = []
    for unit in units:
        first = unit.items[0]
        if unit.days is not None:
            placed.append((unit.position, [Mark(days=unit.days)]))
        if len(unit.items) == 1 and isinstance(first.content, str):
            # A text has no calls that could lack their results.
            parts = [[first.memo("message", attrgetter("message"))]]
        else:
            parts = repaired([item.message for item in unit.items])
        positions = unit.positions or (unit.position,) * len(parts)
        placed.extend(zip(positions, parts, strict=True))
    placed.sort(key=itemgetter(0))
    entries: list[HistoryEntry] = []
    for _, part in placed:
        entries += part
    return entries


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
        required: The items of a static section that must be shown with it, itself included.
    """
    line_of = line_maker(spec.labels, counter)
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
