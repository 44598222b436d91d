"""Condensers that put a summary in the place of the entries that they forget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kaosmem.arguments import check_count, check_ttl
from kaosmem.clients import LLMClient
from kaosmem.compaction import SUMMARY_TEMPLATE, Summarizer, fallback_reason
from kaosmem.compaction.model_requests import ATTEMPTS, PAUSE_S, TIMEOUT_S
from kaosmem.conversation.condensation import Condensation, SummaryEvent
from kaosmem.conversation.condensers.outline import Unit, ViewOutline
from kaosmem.conversation.condensers.rolling import RollingCondenser, RollingConfig
from kaosmem.conversation.condensers.state_summary import STATE_TEMPLATE, StateClient
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.observation import ObservationEvent
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import NoCondensationError, SummaryError
from kaosmem.tokens import TokenCounter
from kaosmem.types import check_text, content_text

RESULTS_HEADING = "Newest results, verbatim from where they are cut:"
_MIN_SUMMARY_TOKENS = 64
_RESULTS_SHARE = 3


@dataclass(frozen=True, slots=True)
class SummarizingConfig(RollingConfig):
    """How a summary is made: see `Summarizer`.

    template: instructions to the model.
    attempts: number of times that the model is asked until an answer can be taken.
    timeout_s: seconds to wait for each answer.
    pause_s: seconds without a request after the model failed; each further failure doubles them.
    fallback: False raises NoCondensationError where no model makes a summary, in place of an outline.
    max_request_tokens: a larger request is split.
    result_chars: size of the newest results that are quoted if the newest entries have to be summarised.
    Raises InvalidArgumentError for a template that is no text.
    """

    template: str = SUMMARY_TEMPLATE
    attempts: int = ATTEMPTS
    timeout_s: float = TIMEOUT_S
    pause_s: float = PAUSE_S
    fallback: bool = True
    max_request_tokens: int = 64_000
    result_chars: int = 4_000

    def __post_init__(self) -> None:
        RollingConfig.__post_init__(self)
        check_text(self.template, "template")
        check_count(self.attempts, "attempts", least=1)
        check_ttl(self.timeout_s, "timeout_s")
        check_count(self.max_request_tokens, "max_request_tokens", least=1)
        check_count(self.result_chars, "result_chars")


class LLMSummarizingCondenser(RollingCondenser):
    """Puts one summary in the place of the entries that it forgets, earlier summaries among them.

    Entries of agents and of users are never in one summary, so that users' words keep their authority. If the model
    fails, a view that is too large by its tokens, or that somebody asked to condense, gets an outline of the entries as
    their summary. The record's metadata says so under "fallback", and the next summary takes the outline in. Any other
    view waits for the model.
    llm: None makes outlines alone.
    clock: gives seconds, for the pauses of a model that is down.
    """

    def __init__(
        self,
        llm: LLMClient | None,
        config: SummarizingConfig = SummarizingConfig(),
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, counter=counter)
        self._summarizer = Summarizer(
            llm,
            template=config.template,
            attempts=config.attempts,
            timeout_s=config.timeout_s,
            pause_s=config.pause_s,
            fallback=llm is None,
            max_request_tokens=config.max_request_tokens,
            counter=counter,
            clock=clock,
        )
        self._config = config

    async def get_condensation(self, view: ConversationView, *, limit: int | None = None) -> Condensation:
        """Return the record that forgets, with a summary. Raises NoCondensationError."""
        outline = self.outline(view)
        units = self.choice(outline, limit=limit, replaced=1)
        return self._record(outline, units, await self._summary(outline, units), limit=limit)

    async def hard_reset(
        self, view: ConversationView, error: NoCondensationError, *, limit: int | None = None
    ) -> Condensation:
        """Return the record that forgets with an outline, if the model failed.

        If too little may be forgotten, entries that `keep_first` keeps are summarised too, and at the very last the
        newest unit: then its results are quoted.
        Raises `error` if even that frees less than `minimum_progress`, or no outlines are wanted.
        """
        outline = self.outline(view)
        if isinstance(error.__cause__, SummaryError):
            if not self._config.fallback:
                raise error
            units = self.choice(outline, limit=limit, replaced=1)
            summary = await self._summary(outline, units, without_model=error.__cause__.reason)
            return self._record(outline, units, summary, limit=limit)
        surplus = self.surplus(outline, limit=limit, replaced=1)
        for agents in (self.old(outline, keep_first=0), outline.agents()):
            units = self.enough(outline, agents, surplus, replaced=1)
            if not all(isinstance(event, SummaryEvent) for event in _events(outline, units)):
                return await self._reset(outline, units, limit=limit)
        raise error

    async def _reset(self, outline: ViewOutline, units: Sequence[Unit], *, limit: int | None) -> Condensation:
        try:
            summary = await self._summary(outline, units)
        except NoCondensationError as error:
            if not (self._config.fallback and isinstance(error.__cause__, SummaryError)):
                raise
            summary = await self._summary(outline, units, without_model=error.__cause__.reason)
        results = ""
        if any(unit[-1] == len(outline.events) - 1 for unit in units):
            events = _events(outline, units)
            room = min(self._config.result_chars, sum(len(event.text) for event in events) // _RESULTS_SHARE)
            results = "\n\n".join(reversed(list(_tails(events, room))))
        quoted = f"\n\n{RESULTS_HEADING}\n{results}" if results else ""
        return self._record(outline, units, summary + quoted, limit=limit)

    def _record(self, outline: ViewOutline, units: Sequence[Unit], summary: str, *, limit: int | None) -> Condensation:
        return self.record(outline, units, limit=limit, summary=summary, fallback=fallback_reason(summary))

    async def _summary(self, outline: ViewOutline, units: Sequence[Unit], *, without_model: str = "") -> str:
        """Return the summary of units, at most half as long as they are, unless that is next to nothing."""
        messages = [event.message for event in _events(outline, units)]
        earlier = messages.pop(0) if messages[0].role == "summary" else None
        most = max(_MIN_SUMMARY_TOKENS, sum(map(outline.tokens_of, units)) // 2)
        try:
            summary = await self._summarizer.summarize(
                messages, earlier=earlier, most=most, without_model=without_model
            )
        except SummaryError as error:
            raise NoCondensationError(
                f"{len(messages)} entries are to be summarised, and no summary was made: {error}"
            ) from error
        return summary.text


class StructuredSummaryCondenser(LLMSummarizingCondenser):
    """Has the model fill in the fields of a state of the work, which are checked before anything is forgotten."""

    def __init__(
        self,
        llm: LLMClient | None,
        config: SummarizingConfig = SummarizingConfig(template=STATE_TEMPLATE),
        *,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(None if llm is None else StateClient(llm), config, counter=counter, clock=clock)


def _events(outline: ViewOutline, units: Sequence[Unit]) -> list[ConversationEvent]:
    return [outline.events[place] for place in sorted(place for unit in units for place in unit)]


def _tails(events: Sequence[ConversationEvent], max_chars: int) -> Iterator[str]:
    """Yield how the newest results end, newest first, in so many characters together."""
    for event in reversed(events):
        if max_chars > 0 and isinstance(event, ObservationEvent) and event.call_id:
            text = content_text(event.content)[-max_chars:]
            max_chars -= len(text)
            yield f"[event {event.id}] {text}"
