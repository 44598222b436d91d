"""Condensers: they shorten the view of a conversation. The condensers of this file append no record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from kaosmem.arguments import check_count
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.events import ConversationEvent, ObservationEvent
from kaosmem.conversation.log import EventLog, view_of
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError, NoCondensationError
from kaosmem.types import check_text

MAX_IN_A_ROW = 10
"""Most condensations in a row without another event between: they can't free the rest."""
PLACEHOLDER = "[what came back is left out: event {id}]"


class Condenser(ABC):
    """Makes a view shorter: it returns another view, or a record that the log has to append.

    Nothing is deleted. Units are left out as a whole. Pinned events, the system prompt, the user's open instructions
    and the task list stay. The given view is not changed.
    """

    @abstractmethod
    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return a view as short as it has to be, or the record that makes it so.

        limit: most tokens of the view, None for no limit but the condenser's own.
        Raises NoCondensationError where it has to be shorter and can't be.
        """
        ...

    async def condensed_history(
        self, state: Sequence[ConversationEvent], *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view of a conversation condensed, or the record to append to it before asking again.

        state: its log, a view of it, or all its events.
        Raises NoCondensationError where it has to be shorter and can't be, also where a record frees nothing, and where
        `MAX_IN_A_ROW` of them were appended and it still has to be.
        """
        view = view_of(state)
        revision = view.revision
        condensed = await self.condense(view, limit=limit)
        if isinstance(condensed, ConversationView):
            return condensed
        newest = islice(reversed(state), MAX_IN_A_ROW)
        if sum(1 for _ in takewhile(lambda event: isinstance(event, Condensation), newest)) == MAX_IN_A_ROW:
            raise NoCondensationError(
                f"{MAX_IN_A_ROW} condensations in a row leave {len(view)} entries, which is still too much; raise "
                f"the limits of {type(self).__name__}, or shorten the protected entries"
            )
        if view.revision == revision:  # otherwise the view has lost entries while a model was thinking
            _check_progress(condensed, view)
        return condensed

    async def condensed_view(self, log: EventLog, *, limit: int | None = None) -> ConversationView:
        """Return the view of a log as short as it has to be, having appended the records that it takes.

        A record is dropped where somebody else has condensed the view meanwhile. Raises NoCondensationError.
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
            f"a condensation frees nothing: it forgets {len(forgotten)} of {len(view)} entries for a summary of "
            f"{len(record.summary or '')} characters; forget more, or summarise it in less"
        )


class CondenserPipeline(Condenser):
    """Gives the view to each condenser in turn, until one of them wants to append a record. Without any, it stays.

    A summarising condenser after a masking one reads the placeholders; before it, the whole results.
    """

    def __init__(self, condensers: Iterable[Condenser] = ()) -> None:
        self.condensers = tuple(condensers)

    def __repr__(self) -> str:
        return f"CondenserPipeline({list(self.condensers)})"

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
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

    def __init__(self, window: int = 100, *, kind: str | None = None, placeholder: str = PLACEHOLDER) -> None:
        self.window, self.kind = check_count(window, "window"), kind
        try:
            check_text(placeholder, "placeholder").format(id=0)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"placeholder is no template, by {type(error).__name__}; the only name in braces is {{id}}"
            ) from None
        self.placeholder = placeholder
        # By id, those of the last view, so that the same event is masked by the same one each time.
        self._masked: dict[int, tuple[ObservationEvent, ObservationEvent]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.window}, kind={self.kind!r})"

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the view with placeholders."""
        kept, events = view.protected, list(view)
        places = [at for at, event in enumerate(events) if self.kind is None or getattr(event, "kind", "") == self.kind]
        known, self._masked = self._masked, {}
        for at in places[: max(0, len(places) - self.window)]:
            event = events[at]
            if isinstance(event, ObservationEvent) and at not in kept:
                origin, masked = known.get(event.id, (None, event))
                if origin is not event:
                    masked = replace(event, content=self.placeholder.format(id=event.id), recalled=())
                self._masked[event.id] = event, masked
                events[at] = masked
        return ConversationView(events, view.unhandled_condensation_request)


class RecentEventsCondenser(Condenser):
    """Shows the first entries, the newest ones and the protected ones.

    max_events: shown entries in all, beside protected ones. keep_first: those at the start of the view.
    Raises InvalidArgumentError.
    """

    def __init__(self, max_events: int = 10, *, keep_first: int = 1) -> None:
        self.max_events = check_count(max_events, "max_events", least=1)
        self.keep_first = check_count(keep_first, "keep_first")
        if max_events <= keep_first:
            raise InvalidArgumentError(
                f"keep_first is {keep_first} of at most {max_events} events, so that none is recent; "
                "raise max_events or keep fewer"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_events}, keep_first={self.keep_first})"

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the entries that are shown; a unit of several is shown whole or not.

        It takes time in proportion to these, however long the view is.
        """
        count = len(view)
        head = view.whole(0, min(self.keep_first, count))[1]
        tail = _tail(view, max(head, count - (self.max_events - self.keep_first)))
        between = view.protected.union(view.unit(count - 1) if count else ())
        places = [*range(head), *sorted(place for place in between if head <= place < tail), *range(tail, count)]
        return ConversationView([view[place] for place in places], view.unhandled_condensation_request)


def _tail(view: ConversationView, start: int) -> int:
    """Return the first position from `start` on that has no unit on both sides, found from the end."""
    first = found = len(view)
    for position in range(len(view) - 1, start - 1, -1):
        first = min(first, view.unit(position)[0])
        if first == position:
            found = position
    return found
