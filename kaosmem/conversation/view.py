"""The view of a conversation: its log with all condensations applied."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import overload

from kaosmem.arguments import check_several
from kaosmem.conversation.condensation import Condensation, CondensationRequest, SummaryEvent
from kaosmem.conversation.events import ActionEvent, ConversationEvent, ObservationEvent
from kaosmem.conversation.fold import Fold
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_number
from kaosmem.types.content import Trust

_COMMON = (ActionEvent, ObservationEvent)  # a tuple made once: a union is made anew for each event


class ConversationView(Sequence[ConversationEvent]):
    """Events in order, as a model may see them. A slice of it is a list.

    - A condensation takes out the entries that it forgets, and puts its summary in. A call, the
      others of its answer and their results go together.
    - A pinned event stays, with its whole answer, whatever a condensation names.
    - A summary hides each earlier summary whose condensation forgot no event but those that its own
      forgets. So a record may name all events since the beginning again, and only the newest
      summary shows.
    - A summary also hides each earlier summary that stands after its place and before an event that
      it forgets. So a record may name only new events, and put its summary first.
    - A result without a call, or a second one, is left out. So is a call while its whole answer has
      no result, but for its words. A call whose answer has others with results stays: the model is
      told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    The entries since the newest condensation are folded once. An appended event takes the same time
    however long the view is. A condensation takes time in proportion to the view.

    unhandled_condensation_request: whether a request for a condensation has had no answer yet.
    revision: how often the view became another one, and did not merely grow at its end.
    """

    def __init__(
        self, events: Iterable[ConversationEvent] = (), unhandled_condensation_request: bool = False
    ) -> None:
        self._folded = Fold()
        self._unread: list[ConversationEvent] = []
        self._summaries: dict[int, SummaryEvent] = {}
        self._replaced: dict[int, Collection[int]] = {}  # ids of events by the id of their summary
        self._revision = 0
        self._cuts: list[int] | None = None
        self.unhandled_condensation_request = False
        for place, event in enumerate(check_several(events, "events")):
            if isinstance(event, _COMMON):
                self._unread.append(event)
            elif isinstance(event, ConversationEvent):
                self.append(event)
            else:
                raise InvalidArgumentError(
                    f"position {place} of the events holds {_not_an_event(event)}"
                )
        self.unhandled_condensation_request |= unhandled_condensation_request

    def append(self, event: ConversationEvent) -> None:
        """Take in the next event of the log. Raises InvalidArgumentError."""
        if isinstance(event, Condensation):
            self.unhandled_condensation_request = False
            self._condense(event)
        elif isinstance(event, CondensationRequest):
            self.unhandled_condensation_request = True
        elif isinstance(event, SummaryEvent):
            self._replaced.setdefault(event.id, event.sources)
            self._unread.append(event)
        elif isinstance(event, ConversationEvent):
            self._unread.append(event)
        else:
            raise InvalidArgumentError(f"a view is given {_not_an_event(event)}")

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: nothing that belongs together is on both sides."""
        fold = self._fold()
        if self._cuts is None:
            cuts = []
            reach = -1
            for position, ordinal in enumerate(fold.shown):
                if reach < ordinal:
                    cuts.append(position)
                reach = max(reach, fold.unit(ordinal)[-1])
            self._cuts = [*cuts, len(fold.shown)]
        return self._cuts

    @property
    def kept(self) -> Sequence[int]:
        """The positions that no condenser forgets, ascending, without the rest of their units.

        These are pinned events, the system prompt, the first user message with its answer, the
        newest user message, calls whose results are awaited, what users said since the agent last
        spoke to them, with what it said, and the newest list of tasks. A call without a result is
        abandoned once the agent or a user speaks again.
        """
        return self._positions(self._fold().kept())

    @property
    def giving_way(self) -> Sequence[int]:
        """The kept positions that may go where a limit is too small for them, ascending.

        These are the first user message with its answer, and what users said since the agent last
        spoke to them, but for the newest.
        """
        return self._positions(self._fold().giving_way())

    @property
    def revision(self) -> int:
        """How often the view became another one, and did not merely grow at its end."""
        self._fold()
        return self._revision

    @property
    def protected(self) -> set[int]:
        """The positions that no condenser forgets, with the rest of their units."""
        return {place for position in self.kept for place in self.unit(position)}

    def unit(self, position: int) -> list[int]:
        """Return the positions of the entries that stay together with one, ascending: a round, or the entry alone."""
        fold = self._fold()
        return self._positions(fold.unit(fold.shown[position]))

    def question_before(self, position: int) -> int | None:
        """Return the position of the question that entries from a position on need before them.

        Returns:
            The newest question before them; None if a question stands there, or none before.
        """
        fold = self._fold()
        question = fold.exchanges.question_before(fold.shown[position])
        return None if question is None else bisect_left(fold.shown, question)

    def with_ids(self, ids: Collection[int]) -> list[ConversationEvent]:
        """Return the entries that have one of these ids."""
        fold = self._fold()
        ordinals = sorted(fold.places[each] for each in self._found(ids))
        return [fold.event_at(ordinal) for ordinal in ordinals if fold.is_visible(ordinal)]

    def place_of(self, event_id: int) -> int | None:
        """Return the position of the entry with an id, or None if none has it."""
        fold = self._fold()
        ordinal = fold.places.get(event_id)
        if ordinal is None or not fold.is_visible(ordinal):
            return None
        return bisect_left(fold.shown, ordinal)

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return where entries begin and end with all that belongs together with any of them.

        It takes time in proportion to these.
        """
        fold = self._fold()
        begin = end = start
        while start < begin or end < stop:
            units = [fold.unit(o) for o in (*fold.shown[start:begin], *fold.shown[end:stop])]
            begin = start
            end = stop
            start = min(start, bisect_left(fold.shown, min(unit[0] for unit in units)))
            stop = max(stop, bisect_right(fold.shown, max(unit[-1] for unit in units)))
        return start, stop

    def summary(self, record_id: int) -> SummaryEvent | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def _fold(self) -> Fold:
        """Return the entries, with those that were appended since the last look at them."""
        fold = self._folded
        if self._unread:
            fold.extend(self._unread)
            self._unread = []
            self._cuts = None
            if fold.is_regrown:
                self._revision += 1
                fold.is_regrown = False
        return fold

    def _positions(self, ordinals: Iterable[int]) -> list[int]:
        shown = self._fold().shown
        return [bisect_left(shown, ordinal) for ordinal in sorted(ordinals)]

    def _found(self, ids: Collection[int]) -> set[int]:
        """Return the ids that entries have."""
        places = self._fold().places
        if len(ids) < len(places):
            return set(filter(places.__contains__, ids))
        return set(filter(ids.__contains__, places))

    def _condense(self, record: Condensation) -> None:
        fold = self._fold()
        found = self._found(record.forgets)
        if record.shows_summary:
            found.update(self._covered(record.forgets))
        lost = self._lost(fold, found)
        place = len(fold.entries)
        if record.shows_summary:
            left = [ordinal for ordinal in fold.shown if ordinal not in lost]
            offset = record.summary_offset or 0
            place = left[offset] if offset < len(left) else place
            outdated = self._outdated(fold, place, lost)
            found.update(fold.entries[ordinal].id for ordinal in outdated)
            lost.update(outdated)
            self._replaced[record.id] = found
        if not lost and not record.shows_summary:
            return
        entries = fold.entries
        rest = [entries[ordinal] for ordinal in range(place) if ordinal not in lost]
        if record.shows_summary:
            summary = _summary(record, [entries[ordinal] for ordinal in sorted(lost)])
            self._summaries[record.id] = summary
            rest.append(summary)
        rest += [entries[ordinal] for ordinal in range(place, len(entries)) if ordinal not in lost]
        self._folded = Fold(rest)
        self._folded.is_regrown = False
        self._cuts = None
        self._revision += 1

    def _covered(self, forgotten: Collection[int]) -> list[int]:
        """Return the ids of the summaries in place of nothing but forgotten events, or summaries of such."""
        shown = self._replaced.keys() & self._fold().places.keys()
        return [each for each in shown if self._is_covered(each, forgotten)]

    def _is_covered(self, summary_id: int, forgotten: Collection[int]) -> bool:
        known = {summary_id}
        summaries = [summary_id]
        while summaries:
            missing = set(self._replaced[summaries.pop()]).difference(forgotten)
            if not missing <= self._replaced.keys():
                return False
            summaries += missing - known
            known |= missing
        return bool(self._replaced[summary_id])

    @staticmethod
    def _lost(fold: Fold, found: Iterable[int]) -> set[int]:
        """Return the ordinals that go if events of these ids are forgotten: whole rounds without a pin."""
        lost = set(map(fold.places.__getitem__, found))
        for ordinal in tuple(lost):
            lost.update(fold.round(ordinal))
        for ordinal in fold.pinned:
            lost.difference_update(fold.round(ordinal))
        return lost

    @staticmethod
    def _outdated(fold: Fold, place: int, lost: Collection[int]) -> list[int]:
        """Return the ordinals of the summaries from a place on that stand before a lost entry.

        A summary of later events in their place tells of all that they told.
        """
        end = max(lost, default=-1)
        return [
            ordinal
            for ordinal in range(place, end)
            if isinstance(fold.entries[ordinal], SummaryEvent) and not fold.entries[ordinal].pinned
        ]

    def __len__(self) -> int:
        return len(self._fold().shown)

    def __iter__(self) -> Iterator[ConversationEvent]:
        return iter(self._fold().events())

    @overload
    def __getitem__(self, position: int) -> ConversationEvent: ...
    @overload
    def __getitem__(self, position: slice) -> list[ConversationEvent]: ...
    def __getitem__(self, position: int | slice) -> ConversationEvent | list[ConversationEvent]:
        fold = self._fold()
        try:
            ordinals = fold.shown[position]
        except TypeError:
            raise InvalidArgumentError(
                f"{shown_number(position)} is no position in a view; "
                "give a whole number or a slice, or an id to EventLog.get"
            ) from None
        if isinstance(ordinals, int):
            return fold.event_at(ordinals)
        return list(map(fold.event_at, ordinals))

    def __repr__(self) -> str:
        return f"<View of {len(self):,} events>"


def _not_an_event(given: object) -> str:
    return (
        f"a value of type {type(given).__name__}; give actions, observations and condensations; "
        "EventLog.append_reply "
        "takes the messages of a provider"
    )


def _summary(record: Condensation, forgotten: Sequence[ConversationEvent]) -> SummaryEvent:
    return SummaryEvent(
        record.summary or "",
        sources=tuple([event.id for event in forgotten]),
        trust=min(map(attrgetter("authority"), forgotten), default=Trust.MODEL),
        id=record.id,
        pinned=record.pinned,
        timestamp=record.timestamp,
        source=record.source,
    )
