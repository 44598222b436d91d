"""What of a view may be forgotten, and in which order: what agents did first, what users said last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate

from kaosmem.conversation.condensation import Summary
from kaosmem.conversation.events import Action, Event, EventSource
from kaosmem.conversation.view import View
from kaosmem.tokens import TokenCounter, get_counter
from kaosmem.types import Trust
from kaosmem.units import Units

STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is protected."""


class Standing(Enum):
    """Whose a unit is, as far as it may be forgotten; `PROTECTED` ones never are."""

    PROTECTED = "protected"
    AGENT = "agent"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Unit:
    """Entries that stay together: their positions, ascending."""

    positions: tuple[int, ...]
    standing: Standing


class Outline:
    """A view's units, whose they are and what they take: found once, in linear time.

    Protected by role are system messages, the newest list of tasks, calls without a result and the user's open
    instructions: the first one, the newest, and all since the agent last spoke.
    units: in the order of their first entries.
    """

    def __init__(self, view: View, *, counter: TokenCounter | None = None) -> None:
        self.view = view
        self._counter = counter
        self._held = Units()
        for position, event in enumerate(view):
            self._held.add(position, event.link)
        members: dict[int, list[int]] = {}
        for position, first in enumerate(self._held.firsts(range(len(view)))):
            members.setdefault(first, []).append(position)
        protected = set(_protected(view))
        self.units = tuple(self._unit(positions, protected) for positions in members.values())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """What each entry takes, in tokens."""
        counter = self._counter or get_counter()
        return tuple(event.tokens(counter) for event in self.view)

    @property
    def tokens(self) -> int:
        """What all entries take together."""
        return sum(self.sizes)

    def tokens_of(self, unit: Unit) -> int:
        """Return what a unit takes."""
        return sum(self.sizes[position] for position in unit.positions)

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The positions, 0 to n, with no unit on both sides."""
        cuts, reach = [], -1
        for position in range(len(self.view)):
            if reach < position:
                cuts.append(position)
            reach = max(reach, self._held.last(position))
        return (*cuts, len(self.view))

    def next_cut(self, position: int) -> int:
        """Return the first cut at or after a position, the end after all of them."""
        return self.cuts[min(bisect_left(self.cuts, position), len(self.cuts) - 1)]

    def forgettable(self, standing: Standing, *, keep_first: int = 0, keep_newest: bool = True) -> list[Unit]:
        """Return the units of a standing, oldest first, from the first cut on that leaves so many entries before it.

        keep_newest: without the unit of the newest entry.
        """
        start, newest = self.next_cut(keep_first), len(self.view) - 1
        return [
            unit
            for unit in self.units
            if unit.standing is standing
            and unit.positions[0] >= start
            and not (keep_newest and unit.positions[-1] == newest)
        ]

    def place(self, forgotten: Collection[int]) -> int:
        """Return where a summary of entries goes, counted without them: where the last of them was."""
        cut = self.cuts[bisect_right(self.cuts, max(forgotten) + 1) - 1]
        return cut - sum(position < cut for position in forgotten)

    def fewest(self, units: Sequence[Unit], *, entries: int, tokens: int) -> list[Unit]:
        """Return the fewest first units with at least so many entries and more than so many tokens, or all."""
        of_entries = shortest_prefix((len(unit.positions) for unit in units), entries - 1)
        of_tokens = shortest_prefix(map(self.tokens_of, units), tokens) if tokens > 0 else 0
        return list(units[: max(of_entries, of_tokens)])

    def _unit(self, positions: Sequence[int], protected: Collection[int]) -> Unit:
        if self._held.is_open(positions[0]) or any(position in protected for position in positions):
            return Unit(tuple(positions), Standing.PROTECTED)
        is_user = any(_is_of_user(self.view[position]) for position in positions)
        return Unit(tuple(positions), Standing.USER if is_user else Standing.AGENT)


def shortest_prefix(sizes: Iterable[int], above: int) -> int:
    """Return how many of the first sizes are more than `above` together: none for less than 1, at most all."""
    if above <= 0:
        return 0
    count = 0
    for total in accumulate(sizes):
        count += 1
        if total > above:
            break
    return count


def longest_tail(sizes: Sequence[int], freed: int) -> int:
    """Return how many of the last sizes may stay where more than `freed` has to go."""
    return len(sizes) - shortest_prefix(sizes, freed)


def _protected(view: View) -> Iterator[int]:
    questions: list[int] = []
    newest: dict[str, int] = {}
    spoken = -1
    for position, event in enumerate(view):
        if event.message.role == "system":
            yield position
        elif isinstance(event, Action) and event.source is EventSource.USER:
            questions.append(position)
        elif _is_agent_speaking(event):
            spoken = position
        newest |= dict.fromkeys(STANDING_LISTS.intersection(_names_of(event)), position)
    yield from newest.values()
    yield from questions[:1]
    yield from questions[-1:]
    yield from (position for position in questions if position > spoken)


def _is_of_user(event: Event) -> bool:
    """Return whether an event says what a user said: it is theirs, or a summary of nothing else."""
    if isinstance(event, Summary):
        return event.trust >= Trust.USER
    return isinstance(event, Action) and event.source is EventSource.USER


def _is_agent_speaking(event: Event) -> bool:
    """Return whether the agent speaks to the user, or a summary stands for what it did, and may have said."""
    if isinstance(event, Summary):
        return not _is_of_user(event)
    if not isinstance(event, Action) or event.call is not None:
        return False
    return event.source is EventSource.AGENT and event.kind == "message"


def _names_of(event: Event) -> Iterator[str]:
    yield getattr(event, "kind", "")
    if isinstance(event, Action) and event.call is not None:
        yield event.call.name
