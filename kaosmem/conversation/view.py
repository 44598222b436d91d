"""The view of a conversation: its log with all condensations applied, and these records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, overload

from kaosmem.arguments import check_collection, check_text, is_integer
from kaosmem.compaction.protection import (
    AWAITED,
    LAST_ANSWERED,
    NEWEST_MESSAGES,
    PINNED,
    SYSTEM_MESSAGES,
    Exchanges,
    Kept,
    reasons_to_stay,
)
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
)
from kaosmem.errors import InvalidArgumentError
from kaosmem.types.content import Trust
from kaosmem.types.items import ChatMessage
from kaosmem.units import cuts


@dataclass(frozen=True, slots=True, repr=False)
class Condensation(ConversationEvent):
    """A record by which the view leaves events out, and may show a summary in their place.

    Raises InvalidArgumentError.

    Attributes:
        forgotten_ids: Ids of events. Ids that the view does not show change nothing.
        summary: It stands where the last of the events was, if a view shows one of them.
        pinned: Its summary stays in every view.
    """

    type: ClassVar[str] = "condensation"
    forgotten_ids: tuple[int, ...]
    summary: str | None = None

    def __post_init__(self) -> None:
        ConversationEvent.__post_init__(self)
        given: object = self.forgotten_ids
        if isinstance(given, Iterable):
            ids = tuple(given)
        else:
            ids = (None,)
        if not all(map(is_integer, ids)):
            raise InvalidArgumentError(
                "forgotten_ids holds other than ids of events; give whole numbers"
            )
        object.__setattr__(self, "forgotten_ids", ids)
        if self.summary is not None and not check_text(self.summary, "summary").strip():
            raise InvalidArgumentError(
                "a condensation's summary is blank; give one that says something, or none"
            )


@dataclass(frozen=True, slots=True, repr=False)
class SummaryEvent(ConversationEvent):
    """The summary that a view shows for a condensation, under the condensation's id.

    It is never logged.

    Attributes:
        sources: Ids of the summarised events.
        trust: The lowest among them.
    """

    type: ClassVar[str] = "summary"
    content: str
    sources: tuple[int, ...] = ()
    trust: Trust = Trust.MODEL

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it."""
        return True

    def _made_message(self) -> ChatMessage:
        return ChatMessage(
            "summary",
            self.content,
            id=self.name,
            sources=tuple(map(str, self.sources)),
            trust=self.trust,
        )


STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""
TASK_LISTS = "the newest lists of tasks"


@dataclass(slots=True)
class _Round:
    """The calls of one answer of a model and their results, by their positions, ascending.

    A view may hold a hundred thousand events and is made anew by each condensation. `Units` decides
    the same, for any messages, at several times the cost.

    Attributes:
        open: The number of calls without a result.
    """

    members: list[int] = field(default_factory=list)
    open: int = 0


class ConversationView(Sequence[ConversationEvent]):
    """Events in order, as a model may see them. A slice of it is a list.

    - A condensation takes out the entries that it forgets, and puts its summary in the place of the
      last. If the view has none of them, it shows no summary. A call, the others of its answer and
      their results go together.
    - A pinned event stays, with its whole answer, whatever a condensation names.
    - A result without a call, or a second one, is left out. A call without a result stays: the
      model is told that there was none.
    - Null actions, requests to recall and states of the agent are left out.

    An appended event takes the same time however long the view is. A condensation takes time in
    proportion to the view.

    Attributes:
        ordinals: By the ids of all events that the view showed, the number of such events before.
        revision: How often a condensation made the view another one.
    """

    def __init__(self, events: Iterable[ConversationEvent] = ()) -> None:
        self._begin()
        self.ordinals: dict[int, int] = {}
        self._summaries: dict[int, SummaryEvent] = {}
        self.revision = 0
        for event in check_collection(events, "events"):
            self.append(event)

    def _begin(self) -> None:
        """Be empty."""
        self._events: list[ConversationEvent] = []
        self._places: dict[int, int] = {}  # by the ids of events
        self._pinned: list[int] = []
        self._rounds: dict[int, _Round] = {}
        self._answers: dict[str | int, _Round] = {}  # by the id of the answer, or its position
        self._waiting: dict[str, list[_Round]] = {}  # by the id of a call without a result
        self._system: list[int] = []
        self._questions: list[int] = []
        self._replies: list[int] = []
        self._newest_lists: dict[str, int] = {}
        self._spoke = -1  # the newest action that calls or says something

    def append(self, event: ConversationEvent) -> None:
        """Take in the next event of the log. Raises InvalidArgumentError."""
        if isinstance(event, Condensation):
            self._condense(event)
        elif isinstance(event, ConversationEvent):
            if self._add(event):
                self.ordinals[event.id] = len(self.ordinals)
        else:
            raise InvalidArgumentError(
                f"a view is given a value of type {type(event).__name__}; give actions, "
                "observations and condensations; EventLog.append_reply takes the messages of a "
                "provider"
            )

    def _add(self, event: ConversationEvent) -> bool:
        """Take in the next event. Return whether it is shown."""
        place = len(self._events)
        if isinstance(event, ObservationEvent):
            if not self._add_observation(place, event):
                return False
        elif not event.is_shown:
            return False
        elif isinstance(event, ActionEvent):
            self._add_action(place, event)
        self._events.append(event)
        if event.pinned:
            self._pinned.append(place)
        if event.id >= 0:
            self._places[event.id] = place
        return True

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
            its = self._answers.setdefault(event.response or place, _Round())
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

    def unit(self, position: int) -> Sequence[int]:
        """Return the positions of an entry's unit, ascending: a round, or the entry alone."""
        its = self._rounds.get(position)
        if its is None:
            return (position,)
        return its.members

    def cuts_from(self, start: int, shown: Collection[int] = ()) -> list[int]:
        """Return the positions, up to n, where it may be cut: no unit is on both sides.

        Args:
            start: The first position, 0 or one where it may be cut.
            shown: Positions of entries that are shown in any case, so that their units may be cut.
        """
        lasts = (self.unit(place)[-1] for place in range(start, len(self._events)))
        return cuts(lasts, start, shown)

    @property
    def exchanges(self) -> Exchanges:
        """The positions of the questions of users and the replies to them."""
        return Exchanges(tuple(self._questions), tuple(self._replies))

    @property
    def reasons(self) -> Kept:
        """The positions that no condenser forgets, without the rest of their units, each with why.

        These are the entries of `Outline.reasons`, the newest list of tasks, and, where an
        instruction is open, the exchange before it: "Yes" means nothing without the question that
        it answers. A call without a result is abandoned once the agent or a user speaks again.
        """
        exchanges = self.exchanges
        last_answered: tuple[int, ...] = ()
        if exchanges.unanswered:
            last_answered = max(exchanges.answered.items(), default=())
        newest = self._rounds.get(self._spoke)
        others = {
            LAST_ANSWERED: last_answered,
            NEWEST_MESSAGES: range(len(self._events))[-1:],
            AWAITED: newest.members if newest is not None and newest.open else (),
            TASK_LISTS: self._newest_lists.values(),
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
            first = min(self.unit(place)[0] for place in range(position, end))
            end = position
            position = first
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
        return self._events[position]

    def summary(self, record_id: int) -> SummaryEvent | None:
        """Return the summary of a condensation, as it was when it came, or None."""
        return self._summaries.get(record_id)

    def found(self, ids: Collection[int]) -> list[int]:
        """Return the positions of the entries that have one of these ids, ascending."""
        places = self._places
        return sorted(places[each] for each in set(ids) if each in places)

    def _condense(self, record: Condensation) -> None:
        events = self._events
        lost = self._lost(record)
        if not lost:
            return
        left = [event for place, event in enumerate(events) if place not in lost]
        if record.summary is not None:
            summary = _summary(record, [events[place] for place in sorted(lost)])
            self._summaries[record.id] = summary
            # In the place of the last lost entry: what is left before it stays where it is, so
            # that a window that has sent it goes on.
            cut = self.cut_before(max(lost) + 1)
            left.insert(cut - sum(place < cut for place in lost), summary)
        self._begin()
        for event in left:
            self._add(event)
        self.revision += 1

    def _lost(self, record: Condensation) -> set[int]:
        """Return the places that go by a record: whole rounds without a pin."""
        lost: set[int] = set()
        for place in self.found(record.forgotten_ids):
            if place not in lost:
                lost.update(self.unit(place))
        for place in self._pinned:
            lost.difference_update(self.unit(place))
        return lost

    def __repr__(self) -> str:
        return f"<View of {len(self):,} events>"


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
