"""Condensers: they shorten the view of a conversation. One does so by any compaction strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import replace

from kaosmem.arguments import check_instance
from kaosmem.compaction import CompactionStrategy
from kaosmem.compaction.protection import NEWEST_MESSAGES, YIELDING_REASONS
from kaosmem.conversation.events import ConversationEvent, ObservationEvent
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.outline import ViewOutline
from kaosmem.conversation.view import Condensation, ConversationView
from kaosmem.errors import NoCondensationError, WindowTooSmallError
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage


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

        Raises NoCondensationError where it has to be shorter and can't be.

        Args:
            limit: Most tokens of the view, None for no limit but the condenser's own.
        """
        ...

    async def condensed_view(self, log: EventLog, *, limit: int | None = None) -> ConversationView:
        """Append the records that a log needs, and return its view, as short as it has to be.

        A record is dropped if another condensation came meanwhile.

        Raises:
            NoCondensationError: If the view has to be shorter and can't be, or if a record frees
                nothing.
        """
        while True:
            known = len(log)
            view = log.view
            revision = view.revision
            condensed = await self.condense(view, limit=limit)
            if isinstance(condensed, ConversationView):
                return condensed
            # Otherwise the view has lost entries while a model was thinking.
            if view.revision == revision:
                _check_progress(condensed, view)
            if not any(isinstance(event, Condensation) for event in log[known:]):
                log.append(condensed)


def _check_progress(record: Condensation, view: ConversationView) -> None:
    """Raise NoCondensationError for a record that frees neither entries nor text."""
    named = [view[place] for place in view.found(record.forgotten_ids)]
    forgotten = [event for event in named if not event.pinned]
    freed = len(forgotten) - (record.summary is not None)
    summary_chars = len(record.summary or "")
    freed_chars = sum(len(event.text) for event in forgotten) - summary_chars
    if freed < 0 or (freed == 0 and freed_chars <= 0):
        raise NoCondensationError(
            f"a condensation frees nothing: it forgets {len(forgotten)} of {len(view)} entries for "
            f"a summary of {summary_chars} characters; forget more, or summarise it in less"
        )


class StrategyCondenser(Condenser):
    """Shortens a view as a compaction strategy shortens messages.

    The strategy gets the entries as messages, the protected ones pinned. A summary that it makes is
    appended to the log as a record, and takes the place of its sources. Without a summary, the
    entries that it leaves out and the results that it cuts are so in the returned view alone. A
    unit of which anything is left stays whole.

    Args:
        strategy: The strategy. Several are a `CompactionPipeline`.

    Raises:
        InvalidArgumentError: If it is no CompactionStrategy.

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
        self._strategy = check_instance(strategy, CompactionStrategy, "strategy")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._strategy})"

    async def condense(
        self, view: ConversationView, *, limit: int | None = None
    ) -> ConversationView | Condensation:
        """Return the view that the strategies leave, or the record of a summary.

        Raises NoCondensationError if the protected entries alone exceed its limits, and the
        strategy's other errors.
        """
        outline = ViewOutline(view)  # the view may grow while a model answers
        outline.ids_of(range(len(outline.events)))  # a strategy tells entries apart by their ids
        # The strategy keeps the newest itself, and where it has room those that give way.
        left_to_it = (None, NEWEST_MESSAGES, *YIELDING_REASONS)
        given = [
            replace(event.message, pinned=outline.protected.get(place) not in left_to_it)
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
        shown = []
        for place, event in enumerate(outline.events):
            if not left.keys().isdisjoint(outline.unit_of[place]):
                shown.append(_cut(event, left.get(place)))
        return ConversationView(shown)


def _record(
    summary: ChatMessage,
    told: Collection[int],
    outline: ViewOutline,
) -> Condensation:
    """Return the record of a summary of entries, of which only whole units go."""
    known = {*told}
    forgotten = [place for place in sorted(known) if known.issuperset(outline.unit_of[place])]
    return Condensation(outline.ids_of(forgotten), summary.text)


def _cut(event: ConversationEvent, message: ChatMessage | None) -> ConversationEvent:
    """Return an observation with the content that a message leaves of it, any other as it is."""
    if (
        message is None
        or not isinstance(event, ObservationEvent)
        or message.content == event.message.content
    ):
        return event
    results = [block.content for block in message.blocks if isinstance(block, ToolResultBlock)]
    return event.changed(content=results[0] if results else message.content)
