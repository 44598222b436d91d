"""A condenser that puts a summary in the place of the entries that it forgets."""

from __future__ import annotations

from kaosmem.clients import LLMClient
from kaosmem.compaction import Summarizer
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.protection import places_in
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.outline import ViewOutline
from kaosmem.conversation.rolling import RollingCondenser
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.formats import Format
from kaosmem.tokens.counters import AnyCounter

_MIN_SUMMARY_TOKENS = 64


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of the entries that it forgets, earlier summaries among them.

    A user's request is summarised with its answer, once the agent's other entries free too little.
    The summary has the lowest trust among its sources. If the model fails, the summary is an
    outline of the entries. The record's metadata says so under "fallback", and the next summary
    takes the outline in. A view within its tokens waits for the model until it has twice `max_size`
    entries.

    Args:
        llm: A model, a Summarizer with limits of its own, or None for outlines alone.
        max_size: As of a RollingCondenser, and so are the others.
    """

    def __init__(
        self,
        llm: LLMClient | Summarizer | None,
        *,
        max_size: int | None = 100,
        max_tokens: int | None = None,
        counter: AnyCounter = None,
        format: str | Format = "openai",
    ) -> None:
        super().__init__(max_size=max_size, max_tokens=max_tokens, counter=counter, format=format)
        self._summarizer = (
            llm
            if isinstance(llm, Summarizer)
            else Summarizer(llm, counter=self._counter, format=self._format)
        )

    async def get_condensation(self, outline: ViewOutline, limit: int | None) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        units = self.choice(outline, limit, replaced=1)
        messages = [outline.events[place].message for place in places_in(units)]
        earlier = messages.pop(0) if messages[0].role == "summary" else None
        # At most half as long as what it stands for, and half of the limit, with a least size.
        limits = self.limits(limit)
        room = min(sum(map(outline.tokens_of, units)), limits.tokens)
        most = max(_MIN_SUMMARY_TOKENS, int(room // 2))
        is_small = len(outline.events) <= 2 * limits.entries
        waits = is_small and sum(outline.sizes) <= limits.tokens
        try:
            made = await self._summarizer.summarize(
                messages, earlier=earlier, most=most, fallback=not waits
            )
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return self.record(outline, units, summary=made.text, fallback=fallback_reason(made.text))
