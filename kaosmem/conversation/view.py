"""The view of a conversation: its log with all condensations applied."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from operator import attrgetter
from typing import overload

from kaosmem.arguments import check_several
from kaosmem.conversation.condensation import Condensation, CondensationRequest, SummaryEvent
from kaosmem.conversation.events import UNLOGGED, ActionEvent, ConversationEvent, ObservationEvent
from kaosmem.conversation.rounds import Landmarks, Rounds
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_number
from kaosmem.types import Trust

_COMMON = (ActionEvent, ObservationEvent)  # a tuple made once: a union is made anew for each event
_GONE = ConversationEvent()
"""The placeholder of a forgotten entry, so that the entries after it keep their ordinals."""


class ConversationView(Sequence[ConversationEvent]):
    """Events in order, as a model may see them. A slice of it is a list.

    - A condensation takes out the entries that it forgets, and puts its summary in. A call, the
      others of its answer and their results go together.
    - A pinned event stays, with its whole answer, whatever a condensation names.
    - A summary hides each earlier summary whose condensation forgot no event but those that its own
      forgets. So a record may name all events since the beginning again, and only the newest
      summary shows.
    - A result without a call, or a second one, is left out. So is a call while its whole answer has
      no result, but for its words. A call whose answer has others with results stays: the model is
      told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    unhandled_condensation_request: whether a request for a condensation has had no answer yet.
    Appending takes the same time however long the view is. A condensation takes time in proportion
    to the entries it forgets and those between; to the whole view if its summary goes elsewhere
    than to a forgotten entry's place.
    """

    def __init__(
        self, events: Iterable[ConversationEvent] = (), unhandled_condensation_request: bool = False
    ) -> None:
        self._begin(())
        self._summaries: dict[int, SummaryEvent] = {}
        self._replaced: dict[
            int, Collection[int]
        ] = {}  # by the id of a summary: ids that its condensation found
        self._revision = 0
        self._cuts: list[int] | None = None
        self._kept: list[int] | None = None
        self.unhandled_condensation_request = False
        for place, event in enumerate(check_several(events, "events")):
            if isinstance(event, _COMMON):
                self._entries.append(event)
            elif isinstance(event, ConversationEvent):
                self.append(event)
            else:
                raise InvalidArgumentError(
                    f"position {place} of the events holds {_not_an_event(event)}"
                )
        self.unhandled_condensation_request |= unhandled_condensation_request

    def append(self, event: ConversationEvent) -> None:
        """Take in the next event of the log. Raises InvalidArgumentError."""
        self._cuts = self._kept = None
        if isinstance(event, Condensation):
            self.unhandled_condensation_request = False
            self._condense(event)
        elif isinstance(event, CondensationRequest):
            self.unhandled_condensation_request = True
        elif isinstance(event, ConversationEvent):
            self._entries.append(event)
        else:
            raise InvalidArgumentError(f"a view is given {_not_an_event(event)}")

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: nothing that belongs together is on both sides."""
        if self._cuts is None:
            shown = self._ordinals()
            self._cuts = []
            reach = -1
            for position, ordinal in enumerate(shown):
                if reach < ordinal:
                    self._cuts.append(position)
                reach = max(reach, self._unit(ordinal)[-1])
            self._cuts.append(len(shown))
        return self._cuts

    @property
    def kept(self) -> Sequence[int]:
        """The positions that no condenser forgets, ascending, without the rest of their units.

        These are pinned events, the system prompt, the first and the newest user message, calls
        whose results are awaited, what users said since the agent last spoke to them, with what it
        said, and the newest list of tasks. A call without a result is abandoned once the agent or a
        user speaks again.
        """
        if self._kept is None:
            shown = self._ordinals()
            landmarks = self._marked()
            self._kept = [
                bisect_left(shown, each) for each in sorted(landmarks.kept() | self._awaited())
            ]
        return self._kept

    @property
    def revision(self) -> int:
        """How often the view became another one, and did not merely grow at its end."""
        self._ordinals()
        return self._revision

    @property
    def protected(self) -> set[int]:
        """The positions that no condenser forgets, with the rest of their units."""
        return {place for position in self.kept for place in self.unit(position)}

    def unit(self, position: int) -> list[int]:
        """Return the positions of the entries that stay together with one, ascending: a round, or the entry alone."""
        shown = self._ordinals()
        return [bisect_left(shown, ordinal) for ordinal in self._unit(shown[position])]

    def with_ids(self, ids: Collection[int]) -> list[ConversationEvent]:
        """Return the entries that have one of these ids."""
        shown = self._ordinals()
        ordinals = sorted(self._places[each] for each in self._found(ids))
        at = [bisect_left(shown, ordinal) for ordinal in ordinals]
        return [
            self._at(o)
            for o, place in zip(ordinals, at, strict=True)
            if shown[place : place + 1] == [o]
        ]

    def place_of(self, event_id: int) -> int | None:
        """Return the position of the entry with an id, or None if none has it."""
        shown = self._ordinals()
        if not self._found((event_id,)):
            return None
        ordinal = self._places[event_id]
        place = bisect_left(shown, ordinal)
        return place if shown[place : place + 1] == [ordinal] else None

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return where entries begin and end with all that belongs together with any of them.

        It takes time in proportion to these.
        """
        return self._whole(self._ordinals(), start, stop)

    def summary(self, record_id: int) -> SummaryEvent | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def _begin(self, entries: Iterable[ConversationEvent]) -> None:
        self._entries = list(
            entries
        )  # those since `_settled` as they came; `_GONE` for others that are not shown
        self._settled = 0
        self._rounds = Rounds()
        self._words: dict[
            int, ConversationEvent
        ] = {}  # by ordinal, the part that is shown of a call whose round has no result
        self._spoke = -1  # ordinal of the newest action that calls or says something
        self._shown: list[int] = []  # ordinals
        self._places: dict[int, int] = {}  # ordinals by id, as far as `_placed`
        self._placed = 0
        self._landmarks = Landmarks()  # of shown entries, as far as `_noted`
        self._noted = 0

    def _ordinals(self) -> list[int]:
        """Return the ordinals of the entries that are shown, ascending."""
        if self._settled < len(self._entries):
            start = self._settle()
            same = bisect_left(self._shown, start)
            if same < len(self._shown):
                self._revision += 1
                del self._shown[same:]
            self._noted = min(self._noted, start)
            entries = self._entries
            by_member = self._rounds.by_member
            for ordinal in range(start, len(entries)):
                its = by_member.get(ordinal)
                if entries[ordinal] is not _GONE and (
                    its is None or its.results or self._has_words(ordinal)
                ):
                    self._shown.append(ordinal)
        return self._shown

    def _settle(self) -> int:
        """Place new entries in their rounds; return the first ordinal of which something else may be shown."""
        entries = self._entries
        rounds = self._rounds
        start = self._settled
        for ordinal in range(start, len(entries)):
            event = entries[ordinal]
            if isinstance(event, ObservationEvent) and event.call_id:
                answered = rounds.add_result(ordinal, event.call_id)
                if answered is None:
                    entries[ordinal] = _GONE
                elif answered.results == 1:
                    start = min(start, answered.members[0])
                    for member in answered.members:
                        self._words.pop(member, None)
            elif not event.is_shown:
                entries[ordinal] = _GONE
            elif isinstance(event, ActionEvent):
                if event.call is not None:
                    rounds.add_call(ordinal, event.call.id, response=event.response)
                if event.call is not None or _speaks(event):
                    self._spoke = ordinal
            elif isinstance(event, SummaryEvent):
                self._replaced.setdefault(event.id, event.sources)
        self._settled = len(entries)
        return start

    def _has_words(self, ordinal: int) -> bool:
        """Return whether something is shown of a call whose round has no result: the words beside it."""
        call = self._entries[ordinal]
        if not isinstance(call, ActionEvent) or not call.has_words:
            return False
        if ordinal not in self._words:
            self._words[ordinal] = call.without_call()
        return True

    def _at(self, ordinal: int) -> ConversationEvent:
        return self._words.get(ordinal) or self._entries[ordinal]

    def _unit(self, ordinal: int) -> Sequence[int]:
        """Return the ordinals of the unit of an entry that is shown."""
        its = self._rounds.by_member.get(ordinal)
        return its.members if its is not None and its.results else (ordinal,)

    def _awaited(self) -> set[int]:
        """Return the ordinals of the newest round, as far as it is shown, if one of its calls has no result."""
        newest = self._rounds.by_member.get(self._spoke)
        if newest is None or not newest.open:
            return set()
        return set(
            newest.members if newest.results else filter(self._words.__contains__, newest.members)
        )

    def _marked(self) -> Landmarks:
        shown = self._ordinals()
        self._landmarks.cut(self._noted)
        for ordinal in shown[bisect_left(shown, self._noted) :]:
            self._landmarks.add(ordinal, self._at(ordinal))
        self._noted = len(self._entries)
        return self._landmarks

    def _condense(self, record: Condensation) -> None:
        self._ordinals()
        forgets = record.forgets
        found = self._found(forgets)
        if record.shows_summary:
            found.update(self._covered(forgets))
            self._replaced[record.id] = found
        lost = self._lost(found)
        forgotten = [self._entries[ordinal] for ordinal in lost]
        if lost:
            self._take_out(lost)
        if record.shows_summary:
            summary = self._summaries[record.id] = _summary(record, forgotten)
            self._put_in(summary, record.summary_offset or 0)

    def _found(self, ids: Collection[int]) -> set[int]:
        """Return the ids that entries have."""
        places = self._places
        places.update(
            zip([event.id for event in self._entries[self._placed :]], count(self._placed))
        )
        places.pop(UNLOGGED, None)
        self._placed = len(self._entries)
        if len(ids) < len(places):
            return set(filter(places.__contains__, ids))
        return set(filter(ids.__contains__, places))

    def _covered(self, forgotten: Collection[int]) -> list[int]:
        """Return the ids of the summaries in place of nothing but forgotten events, or summaries of such."""
        shown = self._replaced.keys() & self._places.keys()
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

    def _lost(self, found: Iterable[int]) -> list[int]:
        """Return the ordinals of the entries that go if events of these ids are forgotten, ascending: whole rounds."""
        entries = self._entries
        by_member = self._rounds.by_member
        lost: set[int] = set()
        for each in found:
            ordinal = self._places[each]
            its = by_member.get(ordinal)
            if its is None:
                lost.add(ordinal)
            elif ordinal not in lost:
                lost.update(its.members)
        for ordinal in [ordinal for ordinal in lost if entries[ordinal].pinned]:
            its = by_member.get(ordinal)
            lost.difference_update((ordinal,) if its is None else its.members)
        return sorted(lost)

    def _take_out(self, lost: Sequence[int]) -> None:
        """Leave out entries: whole rounds."""
        entries = self._entries
        places = self._places
        rounds = self._rounds
        gone = set(lost)
        start = bisect_left(self._shown, lost[0])
        stop = bisect_right(self._shown, lost[-1])
        self._shown[start:stop] = [
            ordinal for ordinal in self._shown[start:stop] if ordinal not in gone
        ]
        self._revision += 1
        self._landmarks.remove(gone)
        for ordinal in lost:
            its = rounds.by_member.get(ordinal)
            if its is not None:
                rounds.remove(its)
            places.pop(entries[ordinal].id, None)
            entries[ordinal] = _GONE
        for ordinal in gone.intersection(self._words):
            del self._words[ordinal]
        while self._spoke >= 0 and not _speaks(entries[self._spoke]):
            self._spoke -= 1

    def _put_in(self, summary: SummaryEvent, offset: int) -> None:
        """Take in a summary before a position, in the place of a forgotten entry if possible."""
        shown = self._ordinals()
        place = shown[offset] if offset < len(shown) else len(self._entries)
        if place == len(self._entries):
            self._entries.append(summary)
        elif place and self._entries[place - 1] is _GONE:
            shown.insert(offset, place - 1)
            self._entries[place - 1] = summary
            self._places[summary.id] = place - 1
            if place <= self._noted:
                self._landmarks.add(place - 1, summary)
            self._revision += 1
        else:
            entries = [*self._entries[:place], summary, *self._entries[place:]]
            self._begin(event for event in entries if event is not _GONE)
            self._revision += 1

    def _whole(self, ordinals: Sequence[int], start: int, stop: int) -> tuple[int, int]:
        """Return where in `ordinals` a part of them begins and ends with all that belongs together with any of it."""
        begin = end = start
        while start < begin or end < stop:
            units = [
                self._unit(ordinal) for ordinal in (*ordinals[start:begin], *ordinals[end:stop])
            ]
            begin = start
            end = stop
            start = min(start, bisect_left(ordinals, min(unit[0] for unit in units)))
            stop = max(stop, bisect_right(ordinals, max(unit[-1] for unit in units)))
        return start, stop

    def __len__(self) -> int:
        return len(self._ordinals())

    def __iter__(self) -> Iterator[ConversationEvent]:
        shown = self._ordinals()
        return map(self._at if self._words else self._entries.__getitem__, shown)

    @overload
    def __getitem__(self, position: int) -> ConversationEvent: ...
    @overload
    def __getitem__(self, position: slice) -> list[ConversationEvent]: ...
    def __getitem__(self, position: int | slice) -> ConversationEvent | list[ConversationEvent]:
        try:
            ordinals = self._ordinals()[position]
        except TypeError:
            raise InvalidArgumentError(
                f"{shown_number(position)} is no position in a view; "
                "give a whole number or a slice, or an id to EventLog.get"
            ) from None
        return self._at(ordinals) if isinstance(ordinals, int) else list(map(self._at, ordinals))

    def __repr__(self) -> str:
        return f"<View of {len(self):,} events>"


def _not_an_event(given: object) -> str:
    return (
        f"a value of type {type(given).__name__}; give actions, observations and condensations; "
        "EventLog.append_reply "
        "takes the messages of a provider"
    )


def _speaks(event: ConversationEvent) -> bool:
    """Return whether an event is a call or a message."""
    return isinstance(event, ActionEvent) and (
        event.call is not None or event.kind != "system_message"
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
