"""The entries of a view since its newest condensation: whole rounds of calls, and entries by their role."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
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
    """The calls of one answer of a model and their results, by their ordinals, ascending.

    open: the calls without a result. results: the number of results.
    """

    members: list[int] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    results: int = 0


class Fold:
    """Entries in order, named by their ordinals, which are appended and never removed.

    A result joins the newest call of its id that has none; otherwise it is left out. A call is
    shown once its answer has a result. Until then only its words are.

    shown: the ordinals of the entries that are shown. places: ordinals by the ids of events.
    is_regrown: whether an entry has come into view before others since this was last set to False.
    """

    def __init__(self, events: Iterable[ConversationEvent] = ()) -> None:
        self.entries: list[ConversationEvent] = []
        self.shown: list[int] = []
        self.places: dict[int, int] = {}
        self.is_regrown = False
        self._rounds: dict[int, Round] = {}
        self._by_response: dict[str, Round] = {}
        self._open: dict[str, list[int]] = {}  # ordinals of open calls by their id
        self._words: dict[int, ConversationEvent] = {}  # of calls whose round has no result
        self._new_calls: list[int] = []
        self._pinned: list[int] = []
        self._system: list[int] = []
        self._asked: list[int] = []
        self._replied: list[int] = []
        self._speaking_calls: set[int] = set()  # of those that asked or replied
        self._lists: dict[str, list[int]] = {}
        self._spoke = -1  # the newest action that calls or says something
        self.extend(events)

    def extend(self, events: Iterable[ConversationEvent]) -> None:
        """Take in the next events."""
        for event in events:
            ordinal = len(self.entries)
            if isinstance(event, ObservationEvent):
                if event.call_id:
                    answered = self._answered(event.call_id)
                    if answered is None:
                        continue
                    self.entries.append(event)
                    self._add_result(ordinal, answered)
                elif event.is_shown:
                    self.entries.append(event)
                    self.shown.append(ordinal)
                else:
                    continue
                if event.kind in STANDING_LISTS:
                    self._lists.setdefault(event.kind, []).append(ordinal)
            elif event.is_shown:
                self.entries.append(event)
                if isinstance(event, ActionEvent):
                    self._add_action(ordinal, event)
                else:
                    self.shown.append(ordinal)
            else:
                continue
            if event.pinned:
                self._pinned.append(ordinal)
            if event.id >= 0:
                self.places[event.id] = ordinal
        self._show_words()

    def event_at(self, ordinal: int) -> ConversationEvent:
        """Return an entry as it is shown."""
        return self._words.get(ordinal) or self.entries[ordinal]

    def events(self) -> list[ConversationEvent]:
        """Return all entries that are shown."""
        if self._words:
            return list(map(self.event_at, self.shown))
        return list(map(self.entries.__getitem__, self.shown))

    def unit(self, ordinal: int) -> Sequence[int]:
        """Return the ordinals that stay together with an entry that is shown: its round, or itself."""
        its = self._rounds.get(ordinal)
        return its.members if its is not None and its.results else (ordinal,)

    def round(self, ordinal: int) -> Sequence[int]:
        """Return the ordinals that leave together with an entry, shown or not."""
        its = self._rounds.get(ordinal)
        return (ordinal,) if its is None else its.members

    @property
    def pinned(self) -> Sequence[int]:
        """The ordinals of pinned entries."""
        return self._pinned

    def is_visible(self, ordinal: int) -> bool:
        """Return whether an entry is shown, if only its words."""
        its = self._rounds.get(ordinal)
        return its is None or its.results > 0 or ordinal in self._words

    @property
    def exchanges(self) -> Exchanges:
        """The questions of users and the replies to them."""
        return Exchanges(self._without_calls(self._asked), self._without_calls(self._replied))

    def kept(self) -> set[int]:
        """Return the ordinals that no condenser forgets, without the rest of their units.

        These are pinned events, system messages, the first user message with its answer, the newest
        user message, earlier ones without an answer, with the exchange before them, the newest list
        of tasks, and calls whose results are awaited.
        """
        exchanges = self.exchanges
        kept = {*self._pinned, *exchanges.first, *exchanges.questions[-1:]}
        unanswered = exchanges.unanswered
        if unanswered:
            kept.update(exchanges.last_answered, unanswered)
        kept = {ordinal for ordinal in kept if self.is_visible(ordinal)}
        return kept.union(self._system, self._newest_lists(), self._awaited())

    def giving_way(self) -> set[int]:
        """Return the kept ordinals that may go where a limit has no room for them.

        These are the first user message with its answer, and the older ones without an answer.
        """
        exchanges = self.exchanges
        gives_way = {*exchanges.first, *exchanges.unanswered}
        if exchanges.unanswered:
            gives_way.update(exchanges.last_answered)
        gives_way.difference_update(exchanges.questions[-1:], self._pinned)
        return gives_way.difference(self._newest_lists(), self._awaited())

    def _answered(self, call_id: str) -> int | None:
        """Return the newest open call of an id, and close it; None if there is none."""
        callers = self._open.get(call_id)
        if callers is None:
            return None
        caller = callers.pop()
        if not callers:
            del self._open[call_id]
        return caller

    def _add_result(self, ordinal: int, caller: int) -> None:
        its = self._rounds[caller]
        self._rounds[ordinal] = its
        its.open.discard(caller)
        its.results += 1
        if its.results > 1:
            its.members.append(ordinal)
            self.shown.append(ordinal)
            return
        # The calls of the round come into view, which only their words were before.
        first = its.members[0]
        its.members.append(ordinal)
        if self._words:
            for member in its.members:
                self._words.pop(member, None)
        if len(its.members) == ordinal + 1 - first and (not self.shown or self.shown[-1] < first):
            self.shown += its.members
            return
        start = bisect_left(self.shown, first)
        self.is_regrown |= start < len(self.shown)
        del self.shown[start:]
        self.shown.extend(filter(self.is_visible, range(first, ordinal + 1)))

    def _add_action(self, ordinal: int, event: ActionEvent) -> None:
        call = event.call
        kind = event.kind
        if call is not None:
            self._add_call(ordinal, event, call.id)
            if call.name in STANDING_LISTS and call.name != kind:
                self._lists.setdefault(call.name, []).append(ordinal)
        else:
            self.shown.append(ordinal)
        if kind in STANDING_LISTS:
            self._lists.setdefault(kind, []).append(ordinal)
        if kind == "system_message":
            if call is None:
                self._system.append(ordinal)
                return
        elif event.source is EventSource.USER:
            self._note(ordinal, self._asked, has_call=call is not None)
        elif kind == "message" and event.source is EventSource.AGENT:
            self._note(ordinal, self._replied, has_call=call is not None)
        self._spoke = ordinal

    def _note(self, ordinal: int, ordinals: list[int], *, has_call: bool) -> None:
        ordinals.append(ordinal)
        if has_call:
            self._speaking_calls.add(ordinal)

    def _add_call(self, ordinal: int, event: ActionEvent, call_id: str) -> None:
        its = self._by_response.get(event.response) if event.response else None
        if its is None:
            its = Round()
            if event.response:
                self._by_response[event.response] = its
        its.members.append(ordinal)
        its.open.add(ordinal)
        self._rounds[ordinal] = its
        self._open.setdefault(call_id, []).append(ordinal)
        if its.results:
            self.shown.append(ordinal)
        else:
            self._new_calls.append(ordinal)

    def _show_words(self) -> None:
        """Show the words of the new calls whose round has no result yet."""
        for ordinal in self._new_calls:
            event = self.entries[ordinal]
            if self._rounds[ordinal].results:
                continue
            if isinstance(event, ActionEvent) and event.has_words:
                self._words[ordinal] = event.without_call()
                insort(self.shown, ordinal)
        self._new_calls = []

    def _without_calls(self, ordinals: Sequence[int]) -> Sequence[int]:
        """Return the ordinals of entries that are shown without a call."""
        if self._speaking_calls.isdisjoint(ordinals):
            return ordinals
        return [
            ordinal
            for ordinal in ordinals
            if ordinal not in self._speaking_calls or ordinal in self._words
        ]

    def _newest_lists(self) -> set[int]:
        """Return the newest entry of each standing list that is shown."""
        newest = set()
        for name, ordinals in self._lists.items():
            for ordinal in reversed(ordinals):
                if self.is_visible(ordinal) and name in self._names(ordinal):
                    newest.add(ordinal)
                    break
        return newest

    def _names(self, ordinal: int) -> set[str]:
        event = self.event_at(ordinal)
        names = {getattr(event, "kind", "")}
        if isinstance(event, ActionEvent) and event.call is not None:
            names.add(event.call.name)
        return names

    def _awaited(self) -> set[int]:
        """Return the shown ordinals of the newest round if one of its calls has no result."""
        newest = self._rounds.get(self._spoke)
        if newest is None or not newest.open:
            return set()
        return set(filter(self.is_visible, newest.members))
