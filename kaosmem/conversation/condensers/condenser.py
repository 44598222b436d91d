"""The base class of condensers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice, takewhile

from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.log import EventLog, view_of
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import NoCondensationError

MAX_IN_A_ROW = 10
"""Most condensations in a row without another event between: they can't free the rest."""


class Condenser(ABC):
    """Makes a view shorter: it returns another view, or a record that the log has to append.

    Nothing is deleted. Units are left out as a whole. Pinned events, the system prompt, the user's open instructions
    and the task list stay. The given view is not changed.
    """

    @abstractmethod
    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return a view as short as it has to be, or the record that makes it so.

        limit: the tokens that whoever reads it takes, None for no limit but the condenser's own.
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
            check_progress(condensed, view)
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


def check_progress(record: Condensation, view: ConversationView) -> None:
    """Raise NoCondensationError for a record that leaves a view of as many entries and as much text as it had."""
    forgotten = [event for event in view.with_ids(record.forgets) if not event.pinned]
    freed = len(forgotten) - (record.summary is not None)
    freed_chars = sum(len(event.text) for event in forgotten) - len(record.summary or "")
    if freed < 0 or (freed == 0 and freed_chars <= 0):
        raise NoCondensationError(
            f"a condensation frees nothing: it forgets {len(forgotten)} of {len(view)} entries for a summary of "
            f"{len(record.summary or '')} characters; forget more, or summarise it in less"
        )


class NoOpCondenser(Condenser):
    """Leaves every view unchanged."""

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the view."""
        return view
