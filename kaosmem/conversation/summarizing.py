"""A condenser that puts a summary in the place of the entries that it forgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from kaosmem.clients import LLMClient
from kaosmem.compaction import Summarizer
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.outline import places_in
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.events import ConversationEvent
from kaosmem.conversation.outline import Unit, ViewOutline
from kaosmem.conversation.rolling import CondenserLimits, RollingCondenser
from kaosmem.errors import NoCondensationError, SummaryError

_MIN_SUMMARY_TOKENS = 64


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of the entries that it forgets, earlier summaries among them.

    A user's request is summarised with its answer, once the agent's other entries free too little.
    The summary has the lowest trust among its sources. If the model fails, the summary is an outline
    of the entries. The record's metadata
    says so under "fallback", and the next summary takes the outline in. A view within its tokens
    waits for the model until it has twice `max_size` entries, or a condensation request.
    llm: a model, a Summarizer with limits of its own, or None for outlines alone.
    limits: as of a RollingCondenser.
    Raises InvalidArgumentError.
    """

    def __init__(
        self,
        llm: LLMClient | Summarizer | None,
        **limits: Unpack[CondenserLimits],
    ) -> None:
        super().__init__(**limits)
        self._summarizer = (
            llm
            if isinstance(llm, Summarizer)
            else Summarizer(llm, counter=self._counter, format=self._format)
        )

    async def get_condensation(self, outline: ViewOutline) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        return await self._summarized(outline, self.choice(outline, replaced=1))

    async def hard_reset(self, outline: ViewOutline, error: NoCondensationError) -> Condensation:
        """Return the record that summarises entries that `keep_first` keeps, at the very last the newest unit.

        Raises `error` if the model failed, or if even that frees less than `minimum_progress`.
        """
        if not isinstance(error.__cause__, SummaryError):
            for agents in (outline.steps(), outline.steps(with_newest=True)):
                units = self.enough(outline, agents, replaced=1)
                if not all(isinstance(event, SummaryEvent) for event in _events(outline, units)):
                    return await self._summarized(outline, units)
        raise error

    async def _summarized(self, outline: ViewOutline, units: Sequence[Unit]) -> Condensation:
        """Return the record that puts a summary in the place of units: at most half as long, with a least size."""
        events = _events(outline, units)
        messages = [event.message for event in events]
        earlier = messages.pop(0) if messages[0].role == "summary" else None
        most = max(_MIN_SUMMARY_TOKENS, sum(map(outline.tokens_of, units)) // 2)
        waits = self.can_wait(outline) and not self.is_overdue(outline)
        try:
            made = await self._summarizer.summarize(
                messages, earlier=earlier, most=most, fallback=not waits
            )
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return self.record(outline, units, summary=made.text, fallback=fallback_reason(made.text))


def _events(outline: ViewOutline, units: Sequence[Unit]) -> list[ConversationEvent]:
    return [outline.events[place] for place in places_in(units)]
