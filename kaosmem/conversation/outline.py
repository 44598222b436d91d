"""The entries of a view at one time: their units, and the order in which they go."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from kaosmem.compaction.protection import Protection, Unit, places_in
from kaosmem.conversation.events import UNLOGGED, ActionEvent, ConversationEvent, EventSource
from kaosmem.conversation.view import ConversationView, SummaryEvent
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import Trust


class ViewOutline(Protection):
    """The units of a view as it is now, the entries that it keeps, and the tokens of each entry.

    Attributes:
        events: The entries.
        exchanges: The positions of questions and replies.
        counter, format: Of the tokens.
    """

    def __init__(
        self,
        view: ConversationView,
        *,
        counter: TokenCounter | None = None,
        format: str | Format = "openai",
    ) -> None:
        self.events = tuple(view)
        places = range(len(self.events))
        firsts = [place for place in places if view.unit(place)[0] == place]
        units = [tuple(view.unit(first)) for first in firsts]
        super().__init__(units, view.reasons, places[-1:])
        self.exchanges = view.exchanges
        self._counter = get_counter(counter)
        self._format = get_format(format)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The tokens of each entry."""
        return tuple(event.tokens(self._counter, self._format) for event in self.events)

    def ids_of(self, places: Iterable[int]) -> tuple[int, ...]:
        """Return the ids of entries, for a record. Raises InvalidArgumentError if a log has none."""
        ids = tuple(self.events[place].id for place in places)
        if UNLOGGED in ids:
            raise InvalidArgumentError(
                "a record can't name events that no log has taken; append them to an EventLog"
            )
        return ids

    @cached_property
    def steps(self) -> list[Unit]:
        """The units of what the agent did that may go, without its answers, oldest first."""
        answers = frozenset(self.exchanges.answered.values())
        return [
            unit
            for unit in self._forgettable
            if not self._is_users(unit) and answers.isdisjoint(unit)
        ]

    @cached_property
    def users(self) -> list[Unit]:
        """Users' requests with their answers, then the other messages of users that may go.

        The questions and the answer of an exchange are one unit: a request without its answer would
        make the agent do the work again. Exchanges of which something stays are left out.
        """
        free = set(places_in(self._forgettable))
        exchanges = []
        for start, answer in self.exchanges.answered.items():
            places = [place for place in self.exchanges.questions if start <= place < answer]
            places.append(answer)
            if free.issuperset(places):
                exchanges.append(tuple(places))
        free.difference_update(places_in(exchanges))
        others = [
            unit for unit in self._forgettable if self._is_users(unit) and free.issuperset(unit)
        ]
        return [*exchanges, *others]

    @cached_property
    def _forgettable(self) -> list[Unit]:
        """The units that may go."""
        return [unit for unit in self.units if unit[0] not in self.protected]

    def _is_users(self, unit: Unit) -> bool:
        return any(_is_of_user(self.events[place]) for place in unit)


def _is_of_user(event: ConversationEvent) -> bool:
    """Return whether an event is a user's message, or a summary of users' messages alone."""
    if isinstance(event, SummaryEvent):
        return event.trust >= Trust.USER
    return isinstance(event, ActionEvent) and event.source is EventSource.USER


def is_question(event: ConversationEvent) -> bool:
    """Return whether an event is a user's message."""
    return isinstance(event, ActionEvent) and event.role == "user"
