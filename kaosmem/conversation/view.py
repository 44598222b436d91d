"""The view of a conversation: its log with all condensations applied."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import overload

from kaosmem.arguments import check_several
from kaosmem.conversation.action import Action
from kaosmem.conversation.condensation import Condensation, CondensationRequest, Summary
from kaosmem.conversation.event import Event
from kaosmem.conversation.landmarks import Landmarks
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown
from kaosmem.types import Trust
from kaosmem.units import Units, cut_points

_REMEDY = "give actions, observations and condensations; EventLog.append_reply takes the messages of a provider"
_GONE = Event()
"""What stands where an entry was that is forgotten, so that those after it keep their ordinals."""


class View(Sequence[Event]):
    """Events in order, as a model may see them. A slice of it is a list.

    - A condensation takes out what it forgets of what is there, and puts its summary in. A call, the others of its
      answer and their results go together.
    - A pinned event stays, with its whole answer, whatever a condensation names.
    - A summary hides each earlier summary whose condensation forgot no event but those that its own forgets. So a
      record may name all events since the beginning again, and only the newest summary shows.
    - A result without a call, or a second one, is left out. So is a call while its whole answer has no result, but for
      its words. A call whose answer has others with results stays: the model is told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    unhandled_condensation_request: whether somebody asks for a condensation, and none has come since.
    Appending takes the same time however long the view is; a condensation, time in proportion to what it forgets and
    what is between that, or to the view where a summary goes to another place than that of something forgotten.
    """

    def __init__(self, events: Iterable[Event] = (), unhandled_condensation_request: bool = False) -> None:
        self._begin(())
        self._summaries: dict[int, Summary] = {}
        self._replaced: dict[int, Collection[int]] = {}  # by the id of a summary: ids that its condensation found
        self._revisions: list[int] = []
        self._cuts: list[int] | None = None
        self._kept: list[int] | None = None
        self.unhandled_condensation_request = False
        for place, event in enumerate(check_several(events, "events")):
            if not isinstance(event, Event):
                raise InvalidArgumentError(
                    f"position {place} of the events holds a value of type {type(event).__name__}; {_REMEDY}"
                )
            self.append(event)
        self.unhandled_condensation_request |= unhandled_condensation_request

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> View:
        """Return the view of a log, or of the events of a view."""
        return cls(events)

    def append(self, event: Event) -> None:
        """Take in the next event of the log."""
        self._cuts = self._kept = None
        if isinstance(event, CondensationRequest):
            self.unhandled_condensation_request = True
        elif isinstance(event, Condensation):
            self.unhandled_condensation_request = False
            self._condense(event)
        elif event.is_shown:
            self._add(event)

    @property
    def events(self) -> list[Event]:
        """What it shows."""
        return list(self)

    @property
    def cut_points(self) -> list[int]:
        """The positions, 0 to n, where it may be cut: nothing that belongs together is on both sides."""
        if self._cuts is None:
            self._cuts = cut_points([event.link for event in self])
        return self._cuts

    @property
    def kept(self) -> Sequence[int]:
        """The positions of what no condenser forgets, ascending, beside what belongs together with it.

        These are pinned events, the system prompt, the first and the newest user message, calls whose results are
        awaited, what users said since the agent last spoke to them, with what it said, and the newest list of tasks. A
        call without a result is abandoned once the agent or a user speaks again.
        """
        if self._kept is None:
            shown, answer = self._ordinals(), self._answers.first
            waiting = {each for each in (*self._open, *self._landmarks.open) if answer(each) == answer(self._spoke)}
            self._kept = [bisect_left(shown, each) for each in sorted(self._landmarks.kept() | waiting)]
        return self._kept

    @property
    def revisions(self) -> Sequence[int]:
        """The positions from which on the view became another one each time that it did not merely grow at its end."""
        self._ordinals()
        return self._revisions

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Return where entries begin and end with all that belongs together with any of them.

        It takes time in proportion to these.
        """
        return self._whole(self._ordinals(), start, stop)

    def summary(self, record_id: int) -> Summary | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def _begin(self, entries: Iterable[Event]) -> None:
        self._entries: list[Event] = []  # `_GONE` for what was forgotten
        self._places: dict[int, list[int]] = {}  # ordinals by id
        self._answers = Units()  # by ordinals in `_entries`: the calls of an answer, with their results
        self._answered: set[int] = set()  # the answers with a result, by their first ordinal
        self._open: set[int] = set()  # of these, those in which a call has none
        self._pending: set[int] = set()  # ordinals of calls whose answer has no result
        self._words: dict[int, Event] = {}  # what is shown of these, where it is known already
        self._shown: list[int] = []  # ordinals of what is shown, known as far as `_known`
        self._landmarks = Landmarks()  # of what is known to be shown
        self._known = 0
        self._spoke = -1  # ordinal of the newest action that calls or says something
        for event in entries:
            self._add(event)

    def _add(self, event: Event) -> None:
        ordinal = len(self._entries)
        if event.is_tied:
            link = event.link
            if link.answers and not self._answers.joins(ordinal, link):
                return
            self._answers.add(ordinal, link)
            answer = self._answers.first(ordinal)
            if link.answers and answer not in self._answered:
                self._answered.add(answer)
                self._known = min(self._known, answer)
                self._pending.difference_update(self._answers.members(answer))
            elif answer not in self._answered:
                self._pending.add(ordinal)
            if answer in self._answered and self._answers.is_open(answer):
                self._open.add(answer)
            else:
                self._open.discard(answer)
        elif isinstance(event, Summary):
            self._replaced.setdefault(event.id, event.sources)
        if _speaks(event):
            self._spoke = ordinal
        self._places.setdefault(event.id, []).append(ordinal)
        self._entries.append(event)

    def _condense(self, record: Condensation) -> None:
        self._ordinals()  # makes its landmarks known
        places, forgets = self._places, record.forgets
        ids = forgets if len(forgets) < len(places) else places.keys()
        found = {each for each in ids if each in forgets and each in places}
        if record.shows_summary:
            found.update(self._covered(forgets))
            self._replaced[record.id] = found
        lost = self._lost(found)
        forgotten = [self._entries[ordinal] for ordinal in sorted(lost)]
        if lost:
            self._take_out(lost)
        if record.shows_summary:
            summary = self._summaries[record.id] = _summary(record, forgotten)
            self._put_in(summary, record.summary_offset or 0)

    def _covered(self, forgotten: Collection[int]) -> list[int]:
        """Return the ids of the summaries in place of nothing but forgotten events, or summaries of such."""
        return [each for each in self._replaced if each in self._places and self._is_covered(each, forgotten)]

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

    def _lost(self, found: Iterable[int]) -> set[int]:
        """Return the ordinals of what goes when events of these ids are forgotten."""
        answers = self._answers
        lost = self._unpinned({answers.first(place) for each in found for place in self._places[each]})
        return {member for first in lost for member in answers.members(first)}

    def _unpinned(self, answers: Iterable[int]) -> set[int]:
        """Return the answers, by their first ordinals, in which no event is pinned."""
        members, entries = self._answers.members, self._entries
        return {first for first in answers if not any(entries[ordinal].pinned for ordinal in members(first))}

    def _take_out(self, lost: set[int]) -> None:
        """Leave out entries: whole answers."""
        shown = self._ordinals()
        start, stop = bisect_left(shown, min(lost)), bisect_right(shown, max(lost))
        shown[start:stop] = [ordinal for ordinal in shown[start:stop] if ordinal not in lost]
        self._revisions.append(start)
        self._landmarks.remove(lost)
        self._answers.remove(lost)
        for ordinals in (self._answered, self._open, self._pending):
            ordinals.difference_update(lost)
        for ordinal in lost:
            places = self._places[self._entries[ordinal].id]
            places.remove(ordinal)
            if not places:
                del self._places[self._entries[ordinal].id]
            self._entries[ordinal] = _GONE
        while self._spoke >= 0 and not _speaks(self._entries[self._spoke]):
            self._spoke -= 1

    def _put_in(self, summary: Summary, offset: int) -> None:
        """Take in a summary before what is shown at a position, in the place of something forgotten if it can be."""
        shown = self._ordinals()
        place = shown[offset] if offset < len(shown) else len(self._entries)
        if place == len(self._entries):
            self._add(summary)
        elif place and self._entries[place - 1] is _GONE:
            shown.insert(offset, place - 1)
            self._entries[place - 1] = summary
            self._places.setdefault(summary.id, []).append(place - 1)
            self._landmarks.add(place - 1, summary)
            self._revisions.append(offset)
        else:
            entries = [*self._entries[:place], summary, *self._entries[place:]]
            self._begin(event for event in entries if event is not _GONE)
            self._revisions.append(0)

    def _whole(self, ordinals: Sequence[int], start: int, stop: int) -> tuple[int, int]:
        """Return where in `ordinals` a part of them begins and ends with all that belongs together with any of it."""
        begin = end = start
        while start < begin or end < stop:
            new = [*ordinals[start:begin], *ordinals[end:stop]]
            begin, end = start, stop
            start = min(start, bisect_left(ordinals, min(map(self._answers.first, new))))
            stop = max(stop, bisect_right(ordinals, max(map(self._answers.last, new))))
        return start, stop

    def _ordinals(self) -> list[int]:
        """Return the ordinals of what is shown, ascending."""
        if self._known < len(self._entries):
            same = bisect_left(self._shown, self._known)
            if same < len(self._shown):
                self._revisions.append(same)
                del self._shown[same:]
            self._landmarks.cut(self._known)
            for ordinal in filter(self._has_something, range(self._known, len(self._entries))):
                self._shown.append(ordinal)
                self._landmarks.add(ordinal, self._at(ordinal), is_open=ordinal in self._pending)
            self._known = len(self._entries)
        return self._shown

    def _has_something(self, ordinal: int) -> bool:
        """Say whether something of an event is shown."""
        if ordinal not in self._pending:
            return self._entries[ordinal] is not _GONE
        action = self._entries[ordinal]
        if not isinstance(action, Action) or not action.has_words:
            return False
        self._words.setdefault(ordinal, action.without_call())
        return True

    def _at(self, ordinal: int) -> Event:
        return self._words[ordinal] if ordinal in self._pending else self._entries[ordinal]

    def __len__(self) -> int:
        return len(self._ordinals())

    def __iter__(self) -> Iterator[Event]:
        return map(self._at, self._ordinals())

    @overload
    def __getitem__(self, position: int) -> Event: ...
    @overload
    def __getitem__(self, position: slice) -> list[Event]: ...
    def __getitem__(self, position: int | slice) -> Event | list[Event]:
        try:
            ordinals = self._ordinals()[position]
        except TypeError:
            raise InvalidArgumentError(
                f"{shown(position)} is no position in a view; give a whole number or a slice, or an id to EventLog.get"
            ) from None
        return self._at(ordinals) if isinstance(ordinals, int) else list(map(self._at, ordinals))

    def __repr__(self) -> str:
        return f"<View of {len(self):,} events>"


def _speaks(event: Event) -> bool:
    """Say whether somebody calls or says something with an event."""
    return isinstance(event, Action) and event.role != "system"


def _summary(record: Condensation, forgotten: Sequence[Event]) -> Summary:
    return Summary(
        record.summary or "",
        sources=tuple(event.id for event in forgotten),
        trust=min((event.message.authority for event in forgotten), default=Trust.MODEL),
        id=record.id,
        pinned=record.pinned,
        timestamp=record.timestamp,
        source=record.source,
    )
