"""The view of a conversation: its log with all condensations applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import overload

from kaosmem.arguments import check_several
from kaosmem.compaction.exchanges import Exchanges
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.events import ConversationEvent
from kaosmem.conversation.fold import Fold
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_number
from kaosmem.types.content import Trust


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
    - A result without a call, or a second one, is left out. A call without a result stays: the
      model is told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    An appended event takes the same time however long the view is. A condensation takes time in
    proportion to the view.

    Attributes:
        revision: How often a condensation made the view another one.
    """

    def __init__(self, events: Iterable[ConversationEvent] = ()) -> None:
        self._fold = Fold()
        self._summaries: dict[int, SummaryEvent] = {}
        self._replaced: dict[int, set[int]] = {}  # ids of events by the id of their summary
        self.revision = 0
        for position, event in enumerate(check_several(events, "events")):
            if not isinstance(event, ConversationEvent):
                raise InvalidArgumentError(
                    f"position {position} of the events holds {_not_an_event(event)}"
                )
            self.append(event)

    def append(self, event: ConversationEvent) -> None:
        """Take in the next event of the log. Raises InvalidArgumentError."""
        if isinstance(event, Condensation):
            self._condense(event)
        elif isinstance(event, ConversationEvent):
            if isinstance(event, SummaryEvent):
                self._replaced.setdefault(event.id, set(event.sources))
            self._fold.add(event)
        else:
            raise InvalidArgumentError(f"a view is given {_not_an_event(event)}")

    @property
    def exchanges(self) -> Exchanges:
        """The positions of the questions of users and the replies to them."""
        return self._fold.exchanges

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: no unit is on both sides."""
        return self._fold.cuts(0)

    def cuts_from(self, start: int, shown: Collection[int] = ()) -> list[int]:
        """Return the positions from a cut point on where it may be cut.

        Args:
            shown: Positions of entries that are shown in any case, so that their units may be cut.
        """
        return self._fold.cuts(start, shown)

    @property
    def kept(self) -> Sequence[int]:
        """The positions that no condenser forgets, ascending, without the rest of their units.

        These are pinned events, the system prompt, the first user message with its answer, the
        newest user message, calls whose results are awaited, what users said since the agent last
        spoke to them, with what it said, and the newest list of tasks. A call without a result is
        abandoned once the agent or a user speaks again.
        """
        return sorted(self._fold.kept())

    @property
    def giving_way(self) -> Sequence[int]:
        """The kept positions that may go where a limit is too small for them, ascending.

        These are the first user message with its answer, and what users said since the agent last
        spoke to them, but for the newest.
        """
        return sorted(self._fold.giving_way())

    @property
    def protected(self) -> set[int]:
        """The positions that no condenser forgets, with the rest of their units."""
        return {place for position in self._fold.kept() for place in self.unit(position)}

    def unit(self, position: int) -> Sequence[int]:
        """Return the positions of an entry's unit, ascending: a round, or the entry alone."""
        return self._fold.unit(position)

    def caller(self, position: int) -> int | None:
        """Return the position of the call that a result answers, None for any other entry."""
        return self._fold.callers.get(position)

    def with_ids(self, ids: Collection[int]) -> list[ConversationEvent]:
        """Return the entries that have one of these ids."""
        return [self._fold.entries[place] for place in self._found(ids)]

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

    def summary(self, record_id: int) -> SummaryEvent | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def _found(self, ids: Collection[int]) -> list[int]:
        """Return the places of the entries that have one of these ids, ascending."""
        places = self._fold.places
        if len(ids) < len(places):
            return sorted(places[each] for each in set(ids) if each in places)
        return sorted(place for each, place in places.items() if each in ids)

    def _condense(self, record: Condensation) -> None:
        entries = self._fold.entries
        lost = self._lost(record)
        if record.summary is None:
            if lost:
                left = [entry for place, entry in enumerate(entries) if place not in lost]
                self._become(left)
            return
        left_places = [place for place in range(len(entries)) if place not in lost]
        offset = record.summary_offset or 0
        place = left_places[offset] if offset < len(left_places) else len(entries)
        outdated = self._outdated(place, lost)
        lost.update(outdated)
        self._replaced[record.id].update(entries[each].id for each in outdated)
        summary = _summary(record, [entries[each] for each in sorted(lost)])
        self._summaries[record.id] = summary
        before = [entries[each] for each in range(place) if each not in lost]
        after = [entries[each] for each in range(place, len(entries)) if each not in lost]
        self._become([*before, summary, *after])

    def _become(self, entries: Iterable[ConversationEvent]) -> None:
        self._fold = Fold(entries)
        self.revision += 1

    def _lost(self, record: Condensation) -> set[int]:
        """Return the places that go by a record: whole rounds without a pin."""
        fold = self._fold
        found = self._found(record.forgets)
        if record.summary is not None:
            found += [fold.places[each] for each in self._covered(record.forgets)]
            self._replaced[record.id] = {fold.entries[place].id for place in found}
        lost = {each for place in found for each in fold.unit(place)}
        for place in fold.pinned:
            lost.difference_update(fold.unit(place))
        return lost

    def _covered(self, forgotten: Collection[int]) -> list[int]:
        """Return the ids of the summaries of forgotten events alone, or of such summaries."""
        shown = self._replaced.keys() & self._fold.places.keys()
        return [each for each in shown if self._is_covered(each, forgotten)]

    def _is_covered(self, summary_id: int, forgotten: Collection[int]) -> bool:
        known = {summary_id}
        summaries = [summary_id]
        while summaries:
            missing = self._replaced[summaries.pop()].difference(forgotten)
            if not missing <= self._replaced.keys():
                return False
            summaries += missing - known
            known |= missing
        return bool(self._replaced[summary_id])

    def _outdated(self, place: int, lost: Collection[int]) -> list[int]:
        """Return the places, from one on, of the summaries that stand before a lost entry.

        A summary of later events in their place tells of all that they told.
        """
        found = []
        for each in range(place, max(lost, default=-1)):
            entry = self._fold.entries[each]
            if isinstance(entry, SummaryEvent) and not entry.pinned:
                found.append(each)
        return found

    def __len__(self) -> int:
        return len(self._fold.entries)

    def __iter__(self) -> Iterator[ConversationEvent]:
        return iter(self._fold.entries[:])  # the log may grow meanwhile

    @overload
    def __getitem__(self, position: int) -> ConversationEvent: ...
    @overload
    def __getitem__(self, position: slice) -> list[ConversationEvent]: ...
    def __getitem__(self, position: int | slice) -> ConversationEvent | list[ConversationEvent]:
        try:
            return self._fold.entries[position]
        except TypeError:
            raise InvalidArgumentError(
                f"{shown_number(position)} is no position in a view; "
                "give a whole number or a slice, or an id to EventLog.get"
            ) from None

    def __repr__(self) -> str:
        return f"<View of {len(self):,} events>"


def _not_an_event(given: object) -> str:
    return (
        f"a value of type {type(given).__name__}; give actions, observations and condensations; "
        "EventLog.append_reply takes the messages of a provider"
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
