"""The order in which a view's units are forgotten: the agent's old actions first, users' messages last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

from kaosmem.compaction import Outline
from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.condensation import SummaryEvent
from kaosmem.conversation.event import ConversationEvent, EventSource
from kaosmem.conversation.observation import ObservationEvent
from kaosmem.conversation.view import ConversationView
from kaosmem.tokens import TokenCounter, get_counter
from kaosmem.types import Trust

Unit: TypeAlias = tuple[int, ...]
"""The positions of entries that stay together, ascending."""


class ViewOutline(Outline):
    """The units of a view as it is now, with those kept by their role, and the tokens of each entry.

    start, stop: of the part that is outlined, which lacks nothing that belongs together with something in it; all
    positions are counted in it. events: its entries. is_requested: whether somebody asks that the view be condensed.
    counter: None is the default one.
    """

    def __init__(
        self, view: ConversationView, start: int = 0, stop: int | None = None, *, counter: TokenCounter | None = None
    ) -> None:
        self.events = tuple(view[start:stop])
        super().__init__((event.message for event in self.events), links=(event.link for event in self.events))
        self.is_requested = view.unhandled_condensation_request
        kept, end = view.kept, start + len(self.events)
        self._kept = frozenset(place - start for place in kept[bisect_left(kept, start) : bisect_left(kept, end)])
        self._counter = counter

    @cached_property
    def kept(self) -> frozenset[int]:
        """The positions that no condenser forgets: whole units with an entry that the view keeps by its role."""
        return frozenset(place for unit in self.units if not self._kept.isdisjoint(unit) for place in unit)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The tokens of each entry."""
        counter = self._counter or get_counter()
        return tuple(event.tokens(counter) for event in self.events)

    def tokens_of(self, unit: Unit) -> int:
        """Return a unit's tokens."""
        return sum(self.sizes[place] for place in unit)

    def agents(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the units to forget first: all but those of users, oldest first.

        Units with the newest recall of some knowledge come last, since knowledge may be recalled only once.
        keep_first: from the first cut on that leaves so many entries before it.
        """
        units = [unit for unit in self._forgettable(keep_first) if not self._is_users(unit)]
        return sorted(units, key=lambda unit: not self._recalls.isdisjoint(unit))

    def users(self, *, keep_first: int = 0) -> list[Unit]:
        """Return the units to forget last, oldest first: users' messages, and summaries of users' messages alone."""
        return [unit for unit in self._forgettable(keep_first) if self._is_users(unit)]

    def next_cut(self, position: int) -> int:
        """Return the first position from `position` on with no unit on both sides."""
        return self._cuts[min(bisect_left(self._cuts, position), len(self._cuts) - 1)]

    def place(self, forgotten: Collection[int]) -> int:
        """Return where a summary of entries goes, counted without them: where the last of them was."""
        cut = self._cuts[bisect_right(self._cuts, max(forgotten) + 1) - 1]
        return cut - sum(place < cut for place in forgotten)

    def fewest(self, units: Sequence[Unit], *, entries: int, tokens: int) -> list[Unit]:
        """Return the fewest first units with at least so many entries and more than so many tokens, or all."""
        of_entries = shortest_prefix(map(len, units), entries - 1)
        of_tokens = shortest_prefix(map(self.tokens_of, units), tokens) if tokens > 0 else 0
        return list(units[: max(of_entries, of_tokens)])

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        return self.cuts_beside(())

    @cached_property
    def _recalls(self) -> frozenset[int]:
        """The position of the newest recall of each knowledge, by its name."""
        newest = {
            each.name: place
            for place, event in enumerate(self.events)
            if isinstance(event, ObservationEvent)
            for each in event.recalled
        }
        return frozenset(newest.values())

    def _forgettable(self, keep_first: int) -> Iterator[Unit]:
        start = self.next_cut(keep_first)
        yield from (unit for unit in self.units if unit[0] >= start and unit[0] not in self.kept)

    def _is_users(self, unit: Unit) -> bool:
        return any(_is_of_user(self.events[place]) for place in unit)


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


def _is_of_user(event: ConversationEvent) -> bool:
    """Return whether an event is a user's message, or a summary of users' messages alone."""
    if isinstance(event, SummaryEvent):
        return event.trust >= Trust.USER
    return isinstance(event, ActionEvent) and event.source is EventSource.USER
