"""Condensers one after another."""

from __future__ import annotations

from collections.abc import Iterable

from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.view import View


class CondenserPipeline(Condenser):
    """Gives the view to each of its condensers in turn, as far as the first that wants a record to be appended.

    One that summarises stands before those that mask, so that it is given what they leave out.
    """

    def __init__(self, condensers: Iterable[Condenser] = ()) -> None:
        self.condensers = tuple(condensers)

    def __repr__(self) -> str:
        return f"CondenserPipeline({list(self.condensers)})"

    async def condense(self, view: View, *, limit: int | None = None) -> View | Condensation:
        """Return the view that the last leaves, or the first record."""
        for condenser in self.condensers:
            condensed = await condenser.condense(view, limit=limit)
            if isinstance(condensed, Condensation):
                return condensed
            view = condensed
        return view
