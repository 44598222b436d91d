"""The entries of a view, as they come: rounds of calls, and the entries that must stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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

STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""
LISTS = "the newest lists of tasks"


@dataclass(slots=True)
class Round:
    """The calls of one answer of a model and their results, by their positions, ascending.

    Attributes:
        open: The number of calls without a result.
    """

    members: list[int] = field(default_factory=list)
    open: int = 0


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
        self._rounds: dict[int, Round] = {}
        self._answers: dict[str | int, Round] = {}  # by the id of the answer, or its position
        self._waiting: dict[str, list[Round]] = {}  # by the id of a call without a result
        self._system: list[int] = []
        self._questions: list[int] = []
        self._replies: list[int] = []
        self._newest_lists: dict[str, int] = {}
        self._spoke = -1  # the newest action that calls or says something

    def add(self, event: ConversationEvent) -> None:
        """Take in the next event."""
        place = len(self._events)
        if isinstance(event, ObservationEvent):
            if not self._add_observation(place, event):
                return
        elif not event.is_shown:
            return
        elif isinstance(event, ActionEvent):
            self._add_action(place, event)
        self._events.append(event)
        if event.pinned:
            self._pinned.append(place)
        if event.id >= 0:
            self._places[event.id] = place

    def _add_observation(self, place: int, event: ObservationEvent) -> bool:
        """Return whether an observation is shown. A result is if a call waits for it."""
        if event.call_id:
            waiting = self._waiting.get(event.call_id)
            if not waiting:
                return False
            its = waiting.pop()
            its.open -= 1
            its.members.append(place)
            self._rounds[place] = its
        elif not event.is_shown:
            return False
        if event.kind in STANDING_LISTS:
            self._newest_lists[event.kind] = place
        return True

    def _add_action(self, place: int, event: ActionEvent) -> None:
        kind = event.kind
        if kind in STANDING_LISTS:
            self._newest_lists[kind] = place
        call = event.call
        if call is not None:
            its = self._answers.setdefault(event.response or place, Round())
            its.members.append(place)
            its.open += 1
            self._rounds[place] = its
            self._waiting.setdefault(call.id, []).append(its)
            if call.name in STANDING_LISTS:
                self._newest_lists[call.name] = place
        elif kind == "system_message":
            self._system.append(place)
            return
        elif event.source is EventSource.USER:
            self._questions.append(place)
        elif kind == "message" and event.source is EventSource.AGENT:
            self._replies.append(place)
        self._spoke = place

    def place_of(self, event_id: int) -> int | None:
        """Return the position of the event with an id, or None."""
        return self._places.get(event_id)

    def unit(self, position: int) -> Sequence[int]:
        """Return the positions of an entry's unit, ascending: a round, or the entry alone."""
        its = self._rounds.get(position)
        return (position,) if its is None else its.members

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: no unit is on both sides."""
        return self.cuts_from(0)

    def cuts_from(self, start: int, shown: Collection[int] = ()) -> list[int]:
        """Return the positions from a cut point on where it may be cut.

        Args:
            shown: Positions of entries that are shown in any case, so that their units may be cut.
        """
        cuts = []
        reach = -1
        for place in range(start, len(self._events)):
            if reach < place:
                cuts.append(place)
            its = self._rounds.get(place)
            if its is not None and place not in shown:
                reach = max(reach, its.members[-1])
        return [*cuts, len(self._events)]

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
        awaited: Iterable[int] = ()
        newest = self._rounds.get(self._spoke)
        if newest is not None and newest.open:
            awaited = newest.members
        others = {
            LAST_ANSWERED: exchanges.last_answered if exchanges.unanswered else (),
            NEWEST_MESSAGES: range(len(self._events))[-1:],
            AWAITED: awaited,
            LISTS: self._newest_lists.values(),
            PINNED: self._pinned,
            SYSTEM_MESSAGES: self._system,
        }
        return reasons_to_stay(exchanges, others)

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return where entries begin and end with all that belongs together with any of them.

        It takes time in proportion to these.
        """
        begin = end = start
        while start < begin or end < stop:
            units = [self.unit(place) for place in (*range(start, begin), *range(end, stop))]
            begin = start
            end = stop
            start = min(start, *(unit[0] for unit in units))
            stop = max(stop, *(unit[-1] + 1 for unit in units))
        return start, stop

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
