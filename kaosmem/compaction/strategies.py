"""Strategies that shorten a list of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, runtime_checkable

from kaosmem.arguments import check_collection, check_count, check_instance, check_list_of
from kaosmem.clients import LLMClient
from kaosmem.compaction.kept_facts import SUMMARY_ROLE, is_summary
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.protection import (
    FIRST_EXCHANGE,
    NEWEST_QUESTION,
    SYSTEM_MESSAGES,
    UNANSWERED,
    YIELDING_REASONS,
    Kept,
    places_in,
)
from kaosmem.compaction.shortening import has_results, with_cut_results, with_shorter_results
from kaosmem.compaction.summarizer import NO_ROOM, Summarizer
from kaosmem.errors import SummaryError, WindowTooSmallError
from kaosmem.formats import Format, get_format
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter
from kaosmem.types.content import (
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.types.items import ChatMessage


@runtime_checkable
class CompactionStrategy(Protocol):
    """Makes a history shorter.

    `kaosmem.testing.CompactionContract` tests the promises of each strategy.

    The result never takes more tokens than the history. Only whole units are left out: an
    assistant's answer with its thinking, its calls and their results. The messages of
    `Outline.protected` stay: system and pinned messages, the first user message with its answer,
    the newest user message and earlier ones without an answer, the newest unit, and calls whose
    results are awaited. Where a limit has no room, the first user message gives way with its
    answer, and then older messages without an answer. The same history gives the same list. A
    strategy leaves its own result as it is, unless it says otherwise.

    A strategy that adds text may have a method `within(tokens)`, as `SummarizationCompaction` has.
    It returns the strategy for histories that are shown in so many tokens. A section asks it with
    what its budget leaves for messages.
    """

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the shorter history, oldest first. The given history stays as it is."""
        ...


def strategy_within(strategy: CompactionStrategy, tokens: int) -> CompactionStrategy:
    """Return a strategy for histories that are shown in so many tokens.

    A strategy without a method `within` is returned as it is.
    """
    within: Callable[[int], CompactionStrategy] | None = getattr(strategy, "within", None)
    if within is None:
        return strategy
    return within(tokens)


_IN_A_WINDOW = (SYSTEM_MESSAGES, NEWEST_QUESTION, *YIELDING_REASONS)
"""Reasons for which a message needs room in a sliding window, as in `kept_within`."""


@dataclass(frozen=True)
class SlidingWindowCompaction:
    """Keeps the newest messages, at most `max_messages` with the protected ones.

    The newest unit and pinned messages always stay. Where the other protected messages have no
    room, they give way: first the first user message with its answer, then older user messages
    without an answer, then the newest user message, and at last system messages, of which the first
    stay longest. A tail that begins within an exchange has its question before it.

    Raises:
        InvalidArgumentError: If `max_messages` is below 1.
        WindowTooSmallError: By `compact`, with the sums, if the newest unit and the pinned messages
            alone are more than `max_messages`.

    >>> from kaosmem import ChatMessage
    >>> history = []
    >>> for number in range(10):
    ...     history.append(ChatMessage("user", f"Question {number}"))
    ...     history.append(ChatMessage("assistant", f"Answer {number}"))
    >>> [message.text for message in await SlidingWindowCompaction(4).compact(history)]
    ['Question 0', 'Answer 0', 'Question 9', 'Answer 9']
    """

    max_messages: int = 100

    def __post_init__(self) -> None:
        check_count(self.max_messages, "max_messages", least=1)

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the protected messages and the tail. Raises WindowTooSmallError."""
        history = check_list_of(history, ChatMessage, "messages")
        if len(history) <= self.max_messages:
            return history
        outline = Outline(history)
        kept = outline.tail_within(
            [1] * len(history), self.max_messages, limit="max_messages", gives_way=_IN_A_WINDOW
        )
        return outline.at(kept)


@dataclass(frozen=True)
class SelectiveToolCallCompaction:
    """Leaves out tool calls with their results and thinking, except the newest groups of them.

    A group is a unit with a call: a call and its results, or a parallel batch. Protected groups
    stay. The assistant's texts beside the calls stay too.

    Args:
        keep_recent_groups: Number of newest groups that stay.

    Raises:
        InvalidArgumentError: If the number is no whole number from 0 up.
    """

    keep_recent_groups: int = 5

    def __post_init__(self) -> None:
        check_count(self.keep_recent_groups, "keep_recent_groups")

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history without old groups of calls.

        The other texts of a group take its place.
        """
        outline = Outline(check_list_of(history, ChatMessage, "messages"))
        groups = [
            unit for unit in outline.units if any(outline.links[place].calls for place in unit)
        ]
        groups.sort(key=lambda unit: unit[-1])
        old = groups[: max(0, len(groups) - self.keep_recent_groups)]
        left_out = set(places_in(unit for unit in old if unit[0] not in outline.protected))
        if not left_out:
            return list(history)
        # Maybe of calls that are left out.
        second_results = outline.orphans - outline.protected.keys()
        kept: list[ChatMessage] = []
        for place, message in enumerate(outline.messages):
            if place in left_out:
                kept += _said(message)
            elif place not in second_results:
                kept.append(message)
        return kept


def _said(message: ChatMessage) -> list[ChatMessage]:
    """Return a message without its calls, results and thinking. Its trust stays."""
    if isinstance(message.content, str):
        if message.role == "tool":
            return []
        return [message]
    said = tuple(
        block
        for block in message.content
        if not isinstance(block, ToolUseBlock | ToolResultBlock | ThinkingBlock)
    )
    if said == message.content:
        return [message]
    has_calls = any(isinstance(block, ToolUseBlock) for block in message.content)
    # Whoever calls is shown as the assistant.
    role = "assistant" if has_calls else message.role
    alone = replace(message, role=role, content=said, trust=message.authority)
    if alone.text.strip():
        return [alone]
    return []


@dataclass(frozen=True)
class ToolResultCompaction:
    """Cuts each long tool result to its beginning and its end, with a note between them.

    A result with other parts than texts stays as it is, and so does a pinned message. A result is
    long if the cut one, with its note, takes fewer tokens.

    Args:
        max_chars: Number of characters that stay of a result, at least 1.
        keep_recent: Number of newest messages with results that stay whole.

    Raises:
        InvalidArgumentError: If a number is out of range.
    """

    max_chars: int = 500
    keep_recent: int = 0

    def __post_init__(self) -> None:
        check_count(self.max_chars, "max_chars", least=1)
        check_count(self.keep_recent, "keep_recent")

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history with its long results cut."""
        sizes = MessageSizes()
        left = check_list_of(history, ChatMessage, "messages")
        results = [place for place, message in enumerate(left) if has_results(message)]
        for place in results[: max(0, len(results) - self.keep_recent)]:
            message = left[place]
            shorter = with_cut_results(message, self.max_chars)
            if not message.pinned and sizes(shorter) < sizes(message):
                left[place] = shorter
        return left


@dataclass(frozen=True)
class CompactionPipeline:
    """Gives a history to each strategy in turn. Without strategies, it returns the whole history.

    Args:
        strategies: The strategies, in order.

    Raises:
        InvalidArgumentError: If they are no list of CompactionStrategy.
    """

    strategies: Sequence[CompactionStrategy] = ()

    def __post_init__(self) -> None:
        given = tuple(check_collection(self.strategies, "strategies"))
        for each in given:
            check_instance(each, CompactionStrategy, "a strategy")
        object.__setattr__(self, "strategies", given)

    def within(self, tokens: int) -> CompactionPipeline:
        """Return the pipeline for histories that are shown in so many tokens."""
        return CompactionPipeline([strategy_within(each, tokens) for each in self.strategies])

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history that the last strategy leaves."""
        left = check_list_of(history, ChatMessage, "messages")
        for strategy in self.strategies:
            left = await strategy.compact(left)
        return left


class TokenBudgetCompaction:
    """Runs strategies in turn until the history is within a budget.

    If none brings it there, it is cut to a tail.

    A strategy that raises is passed over, and the next one gets the history as it was. The tail is
    the longest that is within the budget with the protected messages before it. If the messages
    that never give way exceed the budget, the results of the newest calls are cut to one length.

    Args:
        strategies: The strategies, in order.
        token_budget: The most tokens. `int(0.8 * context_length("gpt-4o"))` is a part of what a
            model reads.
        counter: The counter of tokens. None is the default one.
        format: The format of the request, in which `count_messages` counts the history.

    Raises:
        InvalidArgumentError: If an argument is not valid.
        WindowTooSmallError: By `compact`, with the sums, if the protected messages alone exceed the
            budget.
    """

    def __init__(
        self,
        strategies: Sequence[CompactionStrategy],
        token_budget: int,
        *,
        counter: AnyCounter = None,
        format: str | Format = "openai",
    ) -> None:
        self.strategies = CompactionPipeline(strategies).strategies
        self.token_budget = check_count(token_budget, "token_budget")
        self._counter = get_counter(counter)
        self._format = get_format(format)

    def __repr__(self) -> str:
        return f"TokenBudgetCompaction({list(self.strategies)}, {self.token_budget})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history that the strategies leave, within the budget.

        Raises WindowTooSmallError.
        """
        sizes = MessageSizes(self._counter, self._format)
        left = check_list_of(history, ChatMessage, "messages")
        failure: Exception | None = None
        for strategy in self.strategies:
            if sizes.total(left) <= self.token_budget:
                return left
            try:
                left = await strategy.compact(left)
            except Exception as error:  # whatever a model raises: the next strategy needs none
                failure = error
        outline = Outline(left, sizes=sizes)
        if outline.tokens <= self.token_budget:
            return left
        try:
            tail = outline.tail_within(
                outline.sizes, self.token_budget, limit="token_budget", frame=sizes.frame
            )
        except WindowTooSmallError as error:
            kept = outline.at(outline.kept_within(outline.sizes, 0))
            shorter = with_shorter_results(kept, self.token_budget, sizes.total)
            if shorter is None:
                raise error from failure
            return shorter
        return outline.at(tail)


_LEAST_SUMMARY_TOKENS, _MOST_SUMMARY_TOKENS = 64, 4_000
_LEAST_KEPT_TOKENS = 64
"""Users' messages without an answer may take so many tokens beside a summary at least."""
_LEAST_SHARE = 4
"""A summary may take this part of a room at least, a quarter, whatever messages stay beside it."""


class SummarizationCompaction:
    """Keeps the newest messages, and puts one summary in the place of the older ones.

    Protected messages stay. The summary stands at the first place that it replaces, and takes
    earlier summaries in. Nothing is summarised until so much is old that it is worth a request. If
    the model fails, the summary is an outline of the messages (`fallback_reason`); the next summary
    by a model takes it in.

    Args:
        llm: A model, a Summarizer with a template of its own, or None for outlines alone.
        recent_token_budget: Size of the tail that stays. The newest unit stays in any case.
        min_old_tokens: Least size of the messages before the tail, without protected ones and
            summaries.
        max_summary_tokens: None is the most of 64, half of recent_token_budget and, up to 4,000,
            half of the messages that the summary replaces or all of an earlier summary among them.
        counter: The counter of tokens. None is the default one.
        format: The format of the request, in which the sizes are counted.

    Raises:
        InvalidArgumentError: If an argument is not valid.
        SummaryError: By `compact`, if its Summarizer has no fallback. The history stays.
    """

    def __init__(
        self,
        llm: LLMClient | Summarizer | None,
        recent_token_budget: int,
        min_old_tokens: int,
        *,
        max_summary_tokens: int | None = None,
        counter: AnyCounter = None,
        format: str | Format = "openai",
    ) -> None:
        if isinstance(llm, Summarizer):
            self._summarizer = llm
        else:
            self._summarizer = Summarizer(llm, counter=counter, format=format)
        self.recent_token_budget = check_count(recent_token_budget, "recent_token_budget")
        self.min_old_tokens = check_count(min_old_tokens, "min_old_tokens")
        if max_summary_tokens is not None:
            check_count(max_summary_tokens, "max_summary_tokens", least=1)
        self.max_summary_tokens = max_summary_tokens
        self._counter = get_counter(counter)
        self._format = get_format(format)
        self._room: int | None = None  # of a summary and the messages beside it

    def within(self, tokens: int) -> SummarizationCompaction:
        """Return the strategy with summaries that fit so many tokens beside the other messages."""
        fitted = copy(self)
        fitted._room = check_count(tokens, "tokens")
        return fitted

    def __repr__(self) -> str:
        return f"SummarizationCompaction(<llm>, {self.recent_token_budget}, {self.min_old_tokens})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history with one summary for its old part.

        It is returned as it is if no summary is shorter.
        """
        sizes = MessageSizes(self._counter, self._format)
        outline = Outline(check_list_of(history, ChatMessage, "messages"), sizes=sizes)
        old = self._old(outline)
        summaries = {place for place in old if is_summary(outline.messages[place])}
        new = sum(outline.sizes[place] for place in old if place not in summaries)
        # Of less nothing can be said that is shorter.
        if new < self.min_old_tokens or new <= 2 * sizes(ChatMessage(SUMMARY_ROLE, "")):
            return list(history)
        earlier = sum(outline.sizes[place] for place in summaries)
        most = self._most(earlier, new)
        if self._room is not None:
            # The next compaction then has enough new messages for a summary, and none is evicted.
            beside = sum(outline.sizes) - earlier - new + self.min_old_tokens
            most = min(most, max(self._room - beside, self._room // _LEAST_SHARE, 1))
        try:
            summary = await self._summarizer.summarize(outline.at(old), most=most)
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
        """Return the most tokens of a summary of an earlier summary and of new messages."""
        if self.max_summary_tokens is not None:
            return self.max_summary_tokens
        least = max(self.recent_token_budget // 2, _LEAST_SUMMARY_TOKENS)
        return max(least, min(_MOST_SUMMARY_TOKENS, max(earlier, (earlier + new) // 2)))

    def _old(self, outline: Outline) -> list[int]:
        """Return the positions before the tail that a summary may replace.

        The question of an exchange in which the tail begins stays. Users' messages without an
        answer stay while they have room. An orphan before all others is not replaced: it may stand
        inside of a unit, where a summary must not.
        """
        kept = self._kept(outline)
        beyond = sum(outline.sizes) - self.recent_token_budget
        before = [0, *accumulate(outline.sizes)]
        newest = min(outline.newest_unit, default=0)
        cuts = [cut for cut in outline.cuts_beside(kept) if cut <= newest]
        start = next((cut for cut in cuts if before[cut] >= beyond), cuts[-1])
        kept |= dict.fromkeys(outline.questions_before(start, kept), UNANSWERED)
        old = [place for place in range(start) if place not in kept]
        while old and old[0] in outline.orphans:
            del old[0]
        return old

    def _kept(self, outline: Outline) -> Kept:
        """Return the protected positions that stay beside a summary.

        The first user message stays. Its answer stays if both take at most half of the tail: the
        summary tells of a longer one.
        """
        most = max(self.recent_token_budget, _LEAST_KEPT_TOKENS)
        if self._room is None:
            unanswered = most
        else:
            unanswered = min(most, self._room // 2)
        sizes = outline.sizes
        unit_of = outline.unit_of
        kept = outline.kept_within(sizes, 0)
        for place in reversed(outline.exchanges.unanswered):
            unit = unit_of[place]
            unanswered -= sum(sizes[each] for each in unit)
            if unanswered < 0:
                break
            kept |= dict.fromkeys(unit, UNANSWERED)
        first = outline.exchanges.first
        places = places_in(unit_of[place] for place in first)
        tokens = sum(sizes[place] for place in places)
        if tokens > max(most // 2, _LEAST_KEPT_TOKENS):
            places = places_in(unit_of[place] for place in first[:1])
        return kept | dict.fromkeys(places, FIRST_EXCHANGE)
