"""The entries of a view since its newest condensation: rounds of calls, and entries by role."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kaosmem.compaction.exchanges import Exchanges
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
)

STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""


@dataclass(slots=True)
class Round:
    """The calls of one answer of a model and their results, by their places, ascending.

    Attributes:
        open: The calls without a result.
    """

    members: list[int] = field(default_factory=list)
    open: set[int] = field(default_factory=set)


class Fold:
    """Entries in order, named by their places. They are appended and never removed.

    A result joins the newest call of its id that has none; otherwise it is left out. Events that no
    model sees are left out too.

    Attributes:
        entries: The events.
        places: Their places by their ids.
        callers: The places of answered calls by the places of their results.
        pinned: The places of pinned entries.
    """

    def __init__(self, events: Iterable[ConversationEvent] = ()) -> None:
        self.entries: list[ConversationEvent] = []
        self.places: dict[int, int] = {}
        self.callers: dict[int, int] = {}
        self.pinned: list[int] = []
        self._rounds: dict[int, Round] = {}
        self._by_response: dict[str, Round] = {}
        self._open: dict[str, list[int]] = {}  # places of open calls by their id
        self._system: list[int] = []
        self._questions: list[int] = []
        self._replies: list[int] = []
        self._newest_lists: dict[str, int] = {}
        self._spoke = -1  # the newest action that calls or says something
        for event in events:
            self.add(event)

    def add(self, event: ConversationEvent) -> None:
        """Take in the next event."""
        place = len(self.entries)
        if isinstance(event, ObservationEvent):
            if event.call_id:
                if not self._add_result(place, event.call_id):
                    return
            elif not event.is_shown:
                return
            if event.kind in STANDING_LISTS:
                self._newest_lists[event.kind] = place
        elif not event.is_shown:
            return
        elif isinstance(event, ActionEvent):
            self._add_action(place, event)
        self.entries.append(event)
        if event.pinned:
            self.pinned.append(place)
        if event.id >= 0:
            self.places[event.id] = place

    def unit(self, place: int) -> Sequence[int]:
        """Return the places that stay together with an entry: its round, or itself."""
        its = self._rounds.get(place)
        return (place,) if its is None else its.members

    def cuts(self, start: int, shown: Collection[int] = ()) -> list[int]:
        """Return the places from `start` on, and the end, where no unit is cut in two.

        Args:
            start: A place where no unit is cut in two.
            shown: Places that are shown in any case, so that their units may be cut.
        """
        cuts = []
        reach = -1
        for place in range(start, len(self.entries)):
            if reach < place:
                cuts.append(place)
            its = self._rounds.get(place)
            if its is not None and place not in shown:
                reach = max(reach, its.members[-1])
        return [*cuts, len(self.entries)]

    @property
    def exchanges(self) -> Exchanges:
        """The questions of users and the replies to them."""
        return Exchanges(self._questions, self._replies)

    def kept(self) -> set[int]:
        """Return the places that no condenser forgets, without the rest of their units.

        These are pinned events, system messages, the first user message with its answer, the newest
        user message, earlier ones without an answer, with the exchange before them, the newest list
        of tasks, and calls whose results are awaited.
        """
        exchanges = self.exchanges
        kept = {*self.pinned, *self._system, *exchanges.first, *exchanges.questions[-1:]}
        unanswered = exchanges.unanswered
        if unanswered:
            kept.update(exchanges.last_answered, unanswered)
        return kept.union(self._newest_lists.values(), self._awaited())

    def giving_way(self) -> set[int]:
        """Return the kept places that may go where a limit has no room for them.

        These are the first user message with its answer, and the older ones without an answer.
        """
        exchanges = self.exchanges
        gives_way = {*exchanges.first, *exchanges.unanswered}
        if exchanges.unanswered:
            gives_way.update(exchanges.last_answered)
        gives_way.difference_update(exchanges.questions[-1:], self.pinned)
        return gives_way.difference(self._newest_lists.values(), self._awaited())

    def _add_result(self, place: int, call_id: str) -> bool:
        """Add a result to the round of the newest open call of an id, and return if there is one."""
        callers = self._open.get(call_id)
        if callers is None:
            return False
        caller = callers.pop()
        if not callers:
            del self._open[call_id]
        self.callers[place] = caller
        its = self._rounds[caller]
        its.open.discard(caller)
        its.members.append(place)
        self._rounds[place] = its
        return True

    def _add_action(self, place: int, event: ActionEvent) -> None:
        kind = event.kind
        if kind in STANDING_LISTS:
            self._newest_lists[kind] = place
        call = event.call
        if call is not None:
            self._add_call(place, event.response, call.id)
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

    def _add_call(self, place: int, response: str, call_id: str) -> None:
        its = self._by_response.get(response) if response else None
        if its is None:
            its = Round()
            if response:
                self._by_response[response] = its
        its.members.append(place)
        its.open.add(place)
        self._rounds[place] = its
        self._open.setdefault(call_id, []).append(place)

    def _awaited(self) -> Sequence[int]:
        """Return the places of the newest round if one of its calls has no result."""
        newest = self._rounds.get(self._spoke)
        if newest is None or not newest.open:
            return ()
        return newest.members
