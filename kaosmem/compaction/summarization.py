"""A strategy that puts one summary in the place of older messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from kaosmem.arguments import check_count, check_listed
from kaosmem.clients import LLMClient
from kaosmem.compaction.kept_facts import SUMMARY_ROLE
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.summarizer import NO_ROOM, Summarizer
from kaosmem.errors import SummaryError
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage

_LEAST_SUMMARY_TOKENS, _MOST_SUMMARY_TOKENS = 64, 4_000


class SummarizationCompaction:
    """Keeps the newest messages, and puts one summary in the place of the older ones.

    Protected messages stay. The summary stands at the first place that it replaces, and takes earlier summaries in.
    Nothing is summarised until so much is old that it is worth a request. If the model fails, the summary is an outline
    of the messages (`fallback_reason`); the next summary by a model takes it in.

    llm: a model, a Summarizer with a template or limits of its own, or None for outlines alone.
    recent_token_budget: size of the tail that stays. The newest unit stays in any case.
    min_old_tokens: least size of the messages before the tail, without protected ones and summaries.
    max_summary_tokens: None is the most of 64, half of recent_token_budget and, up to 4,000, half of the messages that
        the summary replaces or all of an earlier summary among them.
    open_tasks: gives the ids of tasks that every summary has to name.
    Raises InvalidArgumentError. `compact` raises SummaryError if its Summarizer has no fallback; the history stays.
    """

    def __init__(
        self,
        llm: LLMClient | Summarizer | None,
        recent_token_budget: int,
        min_old_tokens: int,
        *,
        max_summary_tokens: int | None = None,
        open_tasks: Callable[[], Collection[str]] = tuple,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        self._summarizer = llm if isinstance(llm, Summarizer) else Summarizer(llm, counter=counter)
        self.recent_token_budget = check_count(recent_token_budget, "recent_token_budget")
        self.min_old_tokens = check_count(min_old_tokens, "min_old_tokens")
        if max_summary_tokens is not None:
            check_count(max_summary_tokens, "max_summary_tokens", least=1)
        self.max_summary_tokens = max_summary_tokens
        self._open_tasks, self._counter = open_tasks, counter

    def __repr__(self) -> str:
        return f"SummarizationCompaction(<llm>, {self.recent_token_budget}, {self.min_old_tokens})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history with one summary for its old part; the history itself if no summary is shorter."""
        sizes = MessageSizes(self._counter)
        outline = Outline(check_listed(history, ChatMessage, "messages"), sizes=sizes)
        old = self._old(outline)
        summaries = {place for place in old if outline.messages[place].role == SUMMARY_ROLE}
        new = sum(outline.sizes[place] for place in old if place not in summaries)
        # Of less nothing can be said that is shorter.
        if new < self.min_old_tokens or new <= 2 * sizes(ChatMessage(SUMMARY_ROLE, "")):
            return list(history)
        most = self._most(sum(outline.sizes[place] for place in summaries), new)
        try:
            summary = await self._summarizer.summarize(outline.at(old), open_tasks=self._open_tasks(), most=most)
        except SummaryError as error:
            if error.reason != NO_ROOM:
                raise
            return list(history)
        replaced = set(old)
        return [
            summary if place == old[0] else message
            for place, message in enumerate(outline.messages)
            if place == old[0] or place not in replaced
        ]

    def _most(self, earlier: int, new: int) -> int:
        """Return the most tokens of a summary that is made of an earlier summary and of new messages."""
        if self.max_summary_tokens is not None:
            return self.max_summary_tokens
        least = max(self.recent_token_budget // 2, _LEAST_SUMMARY_TOKENS)
        return max(least, min(_MOST_SUMMARY_TOKENS, max(earlier, (earlier + new) // 2)))

    def _old(self, outline: Outline) -> list[int]:
        """Return the positions before the tail that a summary may replace.

        An orphan before all others of them is none: it may stand inside of a unit, where a summary must not.
        """
        beyond = sum(outline.sizes) - self.recent_token_budget
        before = [0, *accumulate(outline.sizes)]
        newest = next((unit[0] for unit in outline.units if outline.newest in unit), 0)
        cuts = [cut for cut in outline.cuts if cut <= newest]
        start = next((cut for cut in cuts if before[cut] >= beyond), cuts[-1])
        old = [place for place in range(start) if place not in outline.protected]
        first = next((index for index, place in enumerate(old) if place not in outline.orphans), len(old))
        return old[first:]
