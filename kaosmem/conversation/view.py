"""The view of a conversation: its log with all condensations applied."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from kaosmem.arguments import check_several
from kaosmem.compaction.protection import places_in
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.entries import Entries
from kaosmem.conversation.events import ConversationEvent
from kaosmem.errors import InvalidArgumentError


class ConversationView(Entries):
    """Events in order, as a model may see them. A slice of it is a list.

    - A condensation takes out the entries that it forgets, and puts its summary in the place of the
      last. If the view has none of them, it shows no summary. A call, the others of its answer and
      their results go together.
    - A pinned event stays, with its whole answer, whatever a condensation names.
    - A summary hides each earlier summary whose condensation forgot no event but those that its own
      forgets. So a record may name all events since the beginning again, and only the newest
      summary shows.
    - A result without a call, or a second one, is left out. A call without a result stays: the
      model is told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    An appended event takes the same time however long the view is. A condensation takes time in
    proportion to the view.

    Attributes:
        revision: How often a condensation made the view another one.
    """

    def __init__(self, events: Iterable[ConversationEvent] = ()) -> None:
        super().__init__()
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
            self.add(event)
        else:
            raise InvalidArgumentError(f"a view is given {_not_an_event(event)}")

    def with_ids(self, ids: Collection[int]) -> list[ConversationEvent]:
        """Return the entries that have one of these ids."""
        return [self[place] for place in self._found(ids)]

    def summary(self, record_id: int) -> SummaryEvent | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def _found(self, ids: Collection[int]) -> list[int]:
        """Return the places of the entries that have one of these ids, ascending."""
        places = self._places
        if len(ids) < len(places):
            return sorted(places[each] for each in set(ids) if each in places)
        return sorted(place for each, place in places.items() if each in ids)

    def _condense(self, record: Condensation) -> None:
        events = self._events
        lost = self._lost(record)
        if not lost:
            return
        left = [event for place, event in enumerate(events) if place not in lost]
        if record.summary is not None:
            summary = _summary(record, [events[place] for place in sorted(lost)])
            self._summaries[record.id] = summary
            left.insert(self._place_after(lost), summary)
        self._begin()
        for event in left:
            self.add(event)
        self.revision += 1

    def _place_after(self, lost: Collection[int]) -> int:
        """Return the place of a summary among the entries that are left: where the last lost one was.

        What is left before it stays where it is. So a window that has sent it goes on.
        """
        cuts = self.cut_points
        cut = cuts[bisect_right(cuts, max(lost) + 1) - 1]
        return cut - sum(place < cut for place in lost)

    def _lost(self, record: Condensation) -> set[int]:
        """Return the places that go by a record: whole rounds without a pin."""
        found = self._found(record.forgets)
        if record.summary is not None:
            found += [self._places[each] for each in self._covered(record.forgets)]
            self._replaced[record.id] = {self[place].id for place in found}
        lost = set(places_in(self.unit(place) for place in found))
        for place in self._pinned:
            lost.difference_update(self.unit(place))
        return lost

    def _covered(self, forgotten: Collection[int]) -> list[int]:
        """Return the ids of the summaries of forgotten events alone, or of such summaries."""
        shown = self._replaced.keys() & self._places.keys()
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
        sources=tuple(event.id for event in forgotten),
        trust=min(event.authority for event in forgotten),
        id=record.id,
        pinned=record.pinned,
        timestamp=record.timestamp,
        source=record.source,
    )
