"""Condensers that put a model's summary in the place of what they forget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kaosmem.arguments import check_count
from kaosmem.clients import LLMClient
from kaosmem.compaction import SUMMARY_TEMPLATE, Summarizer
from kaosmem.conversation.condensation import Condensation, Summary
from kaosmem.conversation.condensers.outline import Unit, ViewOutline
from kaosmem.conversation.condensers.rolling import RollingCondenser, RollingConfig
from kaosmem.conversation.condensers.state_summary import STATE_TEMPLATE, StateClient
from kaosmem.conversation.event import Event
from kaosmem.conversation.observation import Observation
from kaosmem.conversation.view import View
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.tokens import TokenCounter
from kaosmem.types import check_text, content_text

RESULTS_HEADING = "Newest results, verbatim from where they are cut:"
_MIN_SUMMARY_TOKENS = 64
_RESULTS_SHARE = 3


@dataclass(frozen=True, slots=True)
class SummarizingConfig(RollingConfig):
    """How a model is asked.

    template: what it is told. attempts: how often it is asked before the condensation is given up, reset_attempts: in a
    hard reset. max_request_tokens: what is more is given to it in parts. result_chars: what a hard reset shows of the
    newest results that it forgets.
    Raises InvalidArgumentError, InvalidContentError for a template that is no text.
    """

    template: str = SUMMARY_TEMPLATE
    attempts: int = 1
    reset_attempts: int = 3
    max_request_tokens: int = 64_000
    result_chars: int = 4_000

    def __post_init__(self) -> None:
        RollingConfig.__post_init__(self)
        check_text(self.template, "template")
        check_count(self.attempts, "attempts", least=1)
        check_count(self.reset_attempts, "reset_attempts", least=1)
        check_count(self.max_request_tokens, "max_request_tokens", least=1)
        check_count(self.result_chars, "result_chars")


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of what it forgets, an earlier summary among it.

    What agents did and what users said are never in one summary, so that users' words keep their authority. A hard
    reset, where a view has to be shorter and no summary of its older part is to be had, summarises all that is not
    protected, and shows the newest results beside it.
    """

    def __init__(
        self,
        llm: LLMClient,
        config: SummarizingConfig = SummarizingConfig(),
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        super().__init__(config, counter=counter)
        self._summarizer, self._last_resort = (
            Summarizer(
                llm,
                template=config.template,
                attempts=attempts,
                max_request_tokens=config.max_request_tokens,
                counter=counter,
            )
            for attempts in (config.attempts, config.reset_attempts)
        )
        self._result_chars = config.result_chars

    async def get_condensation(self, view: View, *, limit: int | None = None) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        outline = self.outline(view)
        units = self.choice(outline, limit=limit, replaced=1)
        summary = await self._summary(outline, units, self._summarizer)
        return self.record(outline, units, limit=limit, summary=summary)

    async def hard_reset(self, view: View, error: NoCondensationError, *, limit: int | None = None) -> Condensation:
        """Return the record that puts a summary in the place of all that is not protected.

        Raises NoCondensationError, `error` itself where there is nothing beside one summary.
        """
        outline = self.outline(view)
        units = outline.agents()
        events = _events(outline, units)
        if all(isinstance(event, Summary) for event in events):
            raise error
        summary = await self._summary(outline, units, self._last_resort)
        room = min(self._result_chars, sum(len(event.text) for event in events) // _RESULTS_SHARE)
        results = "\n\n".join(reversed(list(_tails(events, room))))
        if results:
            summary = f"{summary}\n\n{RESULTS_HEADING}\n{results}"
        return self.record(outline, units, limit=limit, summary=summary)

    async def _summary(self, outline: ViewOutline, units: Sequence[Unit], summarizer: Summarizer) -> str:
        """Return the summary of units, half as long as they are at most, unless that is next to nothing."""
        messages = [event.message for event in _events(outline, units)]
        earlier = messages.pop(0) if messages[0].role == "summary" else None
        most = max(_MIN_SUMMARY_TOKENS, sum(map(outline.tokens_of, units)) // 2)
        try:
            return (await summarizer.summarize(messages, earlier=earlier, most=most)).text
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from (error.__cause__ or error)


class StructuredSummaryCondenser(LLMSummarizingCondenser):
    """Has the model fill in the fields of a state of the work, which are checked before anything is forgotten."""

    def __init__(
        self,
        llm: LLMClient,
        config: SummarizingConfig = SummarizingConfig(template=STATE_TEMPLATE),
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        super().__init__(StateClient(llm), config, counter=counter)


def _events(outline: ViewOutline, units: Sequence[Unit]) -> list[Event]:
    return [outline.events[place] for place in sorted(place for unit in units for place in unit)]


def _tails(events: Sequence[Event], max_chars: int) -> Iterator[str]:
    """Yield how the newest results end, newest first, in so many characters together."""
    for event in reversed(events):
        if max_chars > 0 and isinstance(event, Observation) and event.call_id:
            text = content_text(event.content)[-max_chars:]
            max_chars -= len(text)
            yield f"[event {event.id}] {text}"
