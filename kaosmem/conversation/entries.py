"""The entries of a view, as they come: their units, and the entries that must stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import overload

from kaosmem.compaction.exchanges import Exchanges
from kaosmem.compaction.protection import (
    AWAITED,
    LAST_ANSWERED,
    NEWEST_MESSAGES,
    PINNED,
    SYSTEM_MESSAGES,
    reasons_to_stay,
)
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_number
from kaosmem.units import Units

STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""
LISTS = "the newest lists of tasks"


class Entries(Sequence[ConversationEvent]):
    """Events in order that a model may see. They are appended one by one.

    A result joins the newest call of its id that has none; otherwise it is left out. Events that no
    model sees are left out too.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Be empty."""
        self._events: list[ConversationEvent] = []
        self._places: dict[int, int] = {}  # by the ids of events
        self._pinned: list[int] = []
        self._units = Units()
        self._system: list[int] = []
        self._questions: list[int] = []
        self._replies: list[int] = []
        self._newest_lists: dict[str, int] = {}

    def add(self, event: ConversationEvent) -> None:
        """Take in the next event."""
        place = len(self._events)
        link = event.link
        is_shown = self._units.joins(place, link) if link.answers else event.is_shown
        if not is_shown:
            return
        self._units.add(place, link)
        self._events.append(event)
        if event.pinned:
            self._pinned.append(place)
        if event.id >= 0:
            self._places[event.id] = place
        if isinstance(event, ActionEvent | ObservationEvent):
            self._list(place, event.kind)
        if isinstance(event, ActionEvent):
            self._add_action(place, event)

    def _list(self, place: int, name: str) -> None:
        if name in STANDING_LISTS:
            self._newest_lists[name] = place

    def _add_action(self, place: int, event: ActionEvent) -> None:
        if event.call is not None:
            self._list(place, event.call.name)
        elif event.kind == "system_message":
            self._system.append(place)
        elif event.source is EventSource.USER:
            self._questions.append(place)
        elif event.kind == "message" and event.source is EventSource.AGENT:
            self._replies.append(place)

    def place_of(self, event_id: int) -> int | None:
        """Return the position of the event with an id, or None."""
        return self._places.get(event_id)

    def unit(self, position: int) -> Sequence[int]:
        """Return the positions of an entry's unit, ascending: a round, or the entry alone."""
        return self._units.members(position)

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: no unit is on both sides."""
        return self.cuts_from(0)

    def cuts_from(self, start: int, shown: Collection[int] = ()) -> list[int]:
        """Return the positions from a cut point on where it may be cut.

        Args:
            shown: Positions of entries that are shown in any case, so that their units may be cut.
        """
        return self._units.cuts(start, len(self._events), shown)

    @property
    def exchanges(self) -> Exchanges:
        """The positions of the questions of users and the replies to them."""
        return Exchanges(self._questions, self._replies)

    @property
    def reasons(self) -> dict[int, str]:
        """The positions that no condenser forgets, without the rest of their units, each with why.

        These are the entries of `Outline.reasons`, the newest list of tasks, and, where an
        instruction is open, the exchange before it: "Yes" means nothing without the question that
        it answers. A call without a result is abandoned once the agent or a user speaks again.
        """
        exchanges = self.exchanges
        others = {
            LAST_ANSWERED: exchanges.last_answered if exchanges.unanswered else (),
            NEWEST_MESSAGES: range(len(self._events))[-1:],
            AWAITED: self._units.awaited,
            LISTS: self._newest_lists.values(),
            PINNED: self._pinned,
            SYSTEM_MESSAGES: self._system,
        }
        return reasons_to_stay(exchanges, others)

    def cut_before(self, position: int) -> int:
        """Return the last position up to another one where it may be cut.

        It takes time in proportion to the entries from there on.
        """
        end = len(self)
        while position < end:
            firsts = self._units.firsts(range(position, end))
            end = position
            position = min(firsts)
        return position

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[ConversationEvent]:
        return iter(self._events[:])  # the log may grow meanwhile

    @overload
    def __getitem__(self, position: int) -> ConversationEvent: ...
    @overload
    def __getitem__(self, position: slice) -> list[ConversationEvent]: ...
    def __getitem__(self, position: int | slice) -> ConversationEvent | list[ConversationEvent]:
        try:
            return self._events[position]
        except TypeError:
            raise InvalidArgumentError(
                f"{shown_number(position)} is no position in a view; "
                "give a whole number or a slice, or an id to EventLog.get"
            ) from None
