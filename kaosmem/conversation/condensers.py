"""Condensers: they shorten the view of a conversation, by a strategy, a window, or placeholders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kaosmem.arguments import check_count, check_text
from kaosmem.compaction import CompactionPipeline, CompactionStrategy
from kaosmem.compaction.outline import places_in
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.events import UNLOGGED, ConversationEvent, ObservationEvent
from kaosmem.conversation.log import EventLog, view_of
from kaosmem.conversation.outline import ViewOutline
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError, WindowTooSmallError
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage

PLACEHOLDER = "[what came back is left out: event {id}]"


class Condenser(ABC):
    """Makes a view shorter: it returns another view, or a record that the log has to append.

    Nothing is deleted. Units are left out as a whole. Pinned events, the system prompt, the user's
    open instructions and the task list stay. The given view is not changed.
    """

    @abstractmethod
    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return a view as short as it has to be, or the record that makes it so.

        limit: most tokens of the view, None for no limit but the condenser's own.
        Raises NoCondensationError where it has to be shorter and can't be.
        """
        ...

    async def condensed_history(
        self, state: Sequence[ConversationEvent], *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view of a conversation condensed, or the record to append to it before asking again.

        Args:
            state: Its log, a view of it, or all its events.

        Raises:
            NoCondensationError: If the view has to be shorter and can't be, or if a record frees
                nothing.
        """
        view = view_of(state)
        revision = view.revision
        condensed = await self.condense(view, limit=limit)
        # Otherwise the view has lost entries while a model was thinking.
        if isinstance(condensed, Condensation) and view.revision == revision:
            _check_progress(condensed, view)
        return condensed

    async def condensed_view(self, log: EventLog, *, limit: int | None = None) -> ConversationView:
        """Return the view of a log as short as it has to be, having appended the records that it takes.

        A record is dropped if another condensation came meanwhile. Raises NoCondensationError.
        """
        while True:
            known = len(log)
            condensed = await self.condensed_history(log, limit=limit)
            if isinstance(condensed, ConversationView):
                return condensed
            if not any(isinstance(event, Condensation) for event in log[known:]):
                log.append(condensed)


def _check_progress(record: Condensation, view: ConversationView) -> None:
    """Raise NoCondensationError for a record that leaves a view of as many entries and as much text as it had."""
    forgotten = [event for event in view.with_ids(record.forgets) if not event.pinned]
    freed = len(forgotten) - (record.summary is not None)
    freed_chars = sum(len(event.text) for event in forgotten) - len(record.summary or "")
    if freed < 0 or (freed == 0 and freed_chars <= 0):
        raise NoCondensationError(
            f"a condensation frees nothing: it forgets {len(forgotten)} of {len(view)} entries for "
            f"a summary of {len(record.summary or '')} characters; forget more, or summarise it in "
            "less"
        )


class CondenserPipeline(Condenser):
    """Gives the view to each condenser in turn, until one of them wants to append a record.

    Without any, it stays.

    A summarising condenser after a masking one reads the placeholders; before it, the whole
    results.
    """

    def __init__(self, condensers: Iterable[Condenser] = ()) -> None:
        self.condensers = tuple(condensers)

    def __repr__(self) -> str:
        return f"CondenserPipeline({list(self.condensers)})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view that the last leaves, or the first record."""
        given = tuple(view)
        for condenser in self.condensers:
            entries = tuple(view)
            condensed = await condenser.condense(view, limit=limit)
            if isinstance(condensed, Condensation):
                return _placed(condensed, entries, given)
            view = condensed
        return view


def _placed(
    record: Condensation, entries: Sequence[ConversationEvent], given: Sequence[ConversationEvent]
) -> Condensation:
    """Return a record whose summary comes before the same of all that were given as of the entries it was made for."""
    if record.summary_offset is None:
        return record
    forgets = record.forgets
    left = [event.id for event in given if event.id not in forgets]
    after = [event.id for event in entries if event.id not in forgets][record.summary_offset :]
    return replace(record, summary_offset=left.index(after[0]) if after else len(left))


class ObservationMaskingCondenser(Condenser):
    """Shows a placeholder for each old observation, in its place and as the result of the same call.

    Protected entries stay.
    window: number of newest entries that are shown whole.
    kind: masks observations of this kind alone, and counts only them, such as "browser_output" with a window of 1.
    placeholder: stands for a masked entry; `{id}` in it is the entry's id.
    Raises InvalidArgumentError.

    >>> from kaosmem.conversation import EventLog, ObservationEvent
    >>> log = EventLog()
    >>> for page in ("first page", "second page"):
    ...     _ = log.append(ObservationEvent("browser_output", page))
    >>> view = await ObservationMaskingCondenser(1, kind="browser_output").condensed_view(log)
    >>> [event.text for event in view]
    ['[what came back is left out: event 0]', 'second page']
    """

    def __init__(
        self, window: int = 100, *, kind: str | None = None, placeholder: str = PLACEHOLDER
    ) -> None:
        self.window = check_count(window, "window")
        self.kind = kind
        try:
            check_text(placeholder, "placeholder").format(id=0)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"placeholder is no template, by {type(error).__name__}; the only name in braces "
                f"is {{id}}"
            ) from None
        self.placeholder = placeholder
        # By id, those of the last view, so that the same event is masked by the same one each time.
        self._masked: dict[int, tuple[ObservationEvent, ObservationEvent]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.window}, kind={self.kind!r})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view with placeholders."""
        kept = view.protected
        events = list(view)
        places = [
            at
            for at, event in enumerate(events)
            if self.kind is None or getattr(event, "kind", "") == self.kind
        ]
        known = self._masked
        self._masked = {}
        for at in places[: max(0, len(places) - self.window)]:
            event = events[at]
            if isinstance(event, ObservationEvent) and at not in kept:
                origin, masked = known.get(event.id, (None, event))
                if origin is not event:
                    masked = replace(event, content=self.placeholder.format(id=event.id))
                self._masked[event.id] = event, masked
                events[at] = masked
        return ConversationView(events)


class RecentEventsCondenser(Condenser):
    """Shows the first entries, the newest ones and the protected ones.

    max_events: shown entries in all, beside protected ones. keep_first: those at the start of the
        view.
    Raises InvalidArgumentError.
    """

    def __init__(self, max_events: int = 10, *, keep_first: int = 1) -> None:
        self.max_events = check_count(max_events, "max_events", least=1)
        self.keep_first = check_count(keep_first, "keep_first")
        if max_events <= keep_first:
            raise InvalidArgumentError(
                f"keep_first is {keep_first} of at most {max_events} events, so that none is "
                "recent; "
                "raise max_events or keep fewer"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_events}, keep_first={self.keep_first})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the entries that are shown; a unit of several is shown whole or not.

        It takes time in proportion to these, however long the view is.
        """
        count = len(view)
        head = view.whole(0, min(self.keep_first, count))[1]
        start = max(head, count - (self.max_events - self.keep_first))
        cuts = view.cuts_from(view.whole(start, count)[0])
        tail = cuts[bisect_left(cuts, start)]
        shown = view.protected.union(view.unit(count - 1) if count else ())
        if head < tail < count:
            question = view.exchanges.question_before(tail)
            shown.update(() if question is None else view.unit(question))
        shown.update(range(head), range(tail, count))
        entries = [view[place] for place in sorted(shown)]
        return ConversationView(entries)


class StrategyCondenser(Condenser):
    """Shortens a view as a compaction strategy shortens messages.

    The strategy gets the entries as messages, the protected ones pinned. A summary that it makes is
    appended to the log as a record, and takes the place of its sources. Without a summary, the
    entries that it leaves out and the results that it cuts are so in the returned view alone. A
    unit of which anything is left stays whole. Raises InvalidArgumentError.

    >>> from kaosmem.compaction import SlidingWindowCompaction
    >>> from kaosmem.conversation import ActionEvent, EventLog
    >>> log = EventLog()
    >>> for number in range(8):
    ...     event = log.append(ActionEvent("message", f"step {number}"))
    >>> view = await StrategyCondenser(SlidingWindowCompaction(3)).condensed_view(log)
    >>> [event.text for event in view]
    ['step 5', 'step 6', 'step 7']
    """

    def __init__(self, strategy: CompactionStrategy) -> None:
        self._strategy = CompactionPipeline(strategy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._strategy.strategies)})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view that the strategy leaves, or the record of its summary.

        Raises NoCondensationError if the protected entries alone exceed its limits, and the
        strategy's other errors.
        """
        outline = ViewOutline(view)  # the view may grow while a model answers
        if any(event.id == UNLOGGED for event in outline.events):
            raise InvalidArgumentError(
                "a strategy can't name events that no log has taken; append them to an EventLog"
            )
        # The strategy keeps those that give way itself where it has room.
        kept = outline.kept.difference(places_in(outline.giving_way))
        given = [
            replace(event.message, pinned=place in kept)
            for place, event in enumerate(outline.events)
        ]
        places = {message.id: place for place, message in enumerate(given)}
        try:
            after = await self._strategy.compact(given)
        except WindowTooSmallError as error:
            raise NoCondensationError(str(error)) from error
        for message in after:
            is_new = message.role == "summary" and message.id not in places
            if is_new and places.keys() >= {*message.sources}:
                return _record(message, [places[source] for source in message.sources], outline)
        left = {places[message.id]: message for message in after if message.id in places}
        return ConversationView(_left_of(outline, left))


def _left_of(outline: ViewOutline, left: Mapping[int, ChatMessage]) -> list[ConversationEvent]:
    """Return the entries whose units a strategy left something of, with the results that it cut."""
    return [
        _cut(event, left.get(place))
        for place, event in enumerate(outline.events)
        if not left.keys().isdisjoint(outline.unit_of[place])
    ]


def _record(summary: ChatMessage, told: Collection[int], outline: ViewOutline) -> Condensation:
    """Return the record of a summary of entries, of which only whole units go."""
    known = {*told}
    forgotten = [place for place in sorted(known) if known.issuperset(outline.unit_of[place])]
    return Condensation(
        tuple(outline.events[place].id for place in forgotten),
        summary=summary.text,
        summary_offset=outline.place(forgotten),
    )


def _cut(event: ConversationEvent, message: ChatMessage | None) -> ConversationEvent:
    """Return an observation with the content that a message leaves of it; any other event as it is."""
    if (
        message is None
        or not isinstance(event, ObservationEvent)
        or message.content == event.message.content
    ):
        return event
    results = [block.content for block in message.blocks if isinstance(block, ToolResultBlock)]
    return event.changed(content=results[0] if results else message.content)
