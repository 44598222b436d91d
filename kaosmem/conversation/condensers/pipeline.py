"""A condenser that runs several condensers in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.view import ConversationView


class CondenserPipeline(Condenser):
    """Gives the view to each condenser in turn, until one of them wants to append a record.

    Put a summarising condenser before masking ones, so that it reads the masked text.
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
