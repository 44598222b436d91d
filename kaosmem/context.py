"""AgentContext: the part of a stored conversation that an agent sees."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from kaosmem.arguments import check_collection, check_count, check_instance
from kaosmem.compaction import CompactionPipeline, CompactionStrategy, SlidingWindowCompaction
from kaosmem.compaction.outline import MessageSizes
from kaosmem.compaction.shortening import with_shorter_results
from kaosmem.compaction.strategies import strategy_within
from kaosmem.compaction.transcript import Transcript, is_record
from kaosmem.errors import ConflictError, InvalidArgumentError, SummaryError, WindowTooSmallError
from kaosmem.formats import Format, get_format
from kaosmem.names import check_id, shown_number
from kaosmem.stores import HistoryProvider
from kaosmem.stores.history import check_message
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter
from kaosmem.types.items import ChatMessage

__all__ = ["AgentContext", "ContextConfig", "HistoryRetention"]

_Step: TypeAlias = tuple[ChatMessage, list[ChatMessage]]
"""A summary, and the history left by the strategy that made it."""

_MAX_ATTEMPTS = 3
_DEFAULT_PIPELINE = SlidingWindowCompaction()


class HistoryRetention(StrEnum):
    """How long appended messages stay in the history."""

    PERMANENT = "permanent"
    """Until it is cleared."""
    RUN = "run"
    """Until its run ends."""
    NONE = "none"
    """It is never written."""


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Where an agent's messages are kept, how they are shortened, and how long they stay.

    Raises InvalidArgumentError if an argument has another type.

    Attributes:
        pipeline: A strategy, such as a `CompactionPipeline` of several. The default is a sliding
            window of a hundred messages. A summary with an id and the ids of its sources is stored.
            Any other message that a strategy makes is made again for each window.

    >>> from kaosmem.compaction import SlidingWindowCompaction
    >>> from kaosmem.stores import InMemoryHistoryProvider
    >>> ContextConfig(InMemoryHistoryProvider(), SlidingWindowCompaction(40)).retention
    <HistoryRetention.PERMANENT: 'permanent'>
    """

    history: HistoryProvider
    pipeline: CompactionStrategy = _DEFAULT_PIPELINE
    retention: HistoryRetention = field(default=HistoryRetention.PERMANENT, kw_only=True)

    def __post_init__(self) -> None:
        check_instance(self.pipeline, CompactionStrategy, "pipeline")
        check_instance(self.history, HistoryProvider, "history")
        if not isinstance(self.retention, HistoryRetention):
            raise InvalidArgumentError(
                f"retention is {shown_number(self.retention)}; give a HistoryRetention"
            )


class AgentContext:
    """The part of a conversation that one agent sees. The messages stay in a HistoryProvider.

    A model's summary is stored once, as one more message that names its sources. The window is
    computed from the history alone. So a message that is appended while the model answers is not
    lost. A summary whose sources were cleared or summarised meanwhile has no effect and is deleted.
    For requests that begin with the previous one, use a session's `window=`.

    Args:
        counter: The counter of tokens. The default is o200k_base.
        format: The format of the request that is sent. It decides the tokens of a message.
        rng: The source of ids. The default is the system's.

    Raises:
        InvalidNameError: If the agent id is no valid id.
        InvalidArgumentError: If `config` is no ContextConfig.

    >>> from kaosmem.stores import InMemoryHistoryProvider
    >>> context = AgentContext(ContextConfig(InMemoryHistoryProvider()), "analyst")
    >>> appended = await context.append([ChatMessage("user", "Who owns the deal?")], "room-7")
    >>> [message.text for message in await context.get_prompt_window("room-7", budget=1_000)]
    ['Who owns the deal?']
    """

    def __init__(
        self,
        config: ContextConfig,
        agent_id: str,
        *,
        counter: AnyCounter = None,
        format: str | Format = "openai",
        rng: random.Random | None = None,
    ) -> None:
        check_instance(config, ContextConfig, "config")
        self._history = config.history
        self._retention = config.retention
        self._strategies: Sequence[CompactionStrategy] = [config.pipeline]
        if isinstance(config.pipeline, CompactionPipeline):
            self._strategies = config.pipeline.strategies
        self._agent_id = check_id(agent_id, "agent id")
        self._counter = get_counter(counter)
        self._format = get_format(format)
        self._rng: random.Random = rng or random.SystemRandom()

    async def append(
        self,
        messages: Iterable[ChatMessage],
        session_id: str,
        run_id: str = "",
    ) -> list[ChatMessage]:
        """Append messages as one block, and return them with ids.

        A message without an id gets a new one.

        Raises InvalidNameError, InvalidArgumentError if `messages` is no list of messages, or
        if a run is required and missing.
        """
        if self._retention is HistoryRetention.RUN and run_id == "":
            raise InvalidArgumentError(
                "messages of no run would never be cleared; name their run, or keep them"
            )
        checked = map(check_message, check_collection(messages, "messages"))
        new = [
            message if message.id else replace(message, id=self._new_id()) for message in checked
        ]
        if any(map(is_record, new)):
            raise InvalidArgumentError(
                "a summary that names sources is the window's own; leave the sources out"
            )
        if self._retention is not HistoryRetention.NONE:
            await self._history.append_many(
                self._agent_id, new, session_id=session_id, run_id=run_id
            )
        return new

    async def get_prompt_window(
        self,
        session_id: str,
        *,
        budget: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages that the strategies leave of a session, oldest first.

        If the window exceeds the budget, the results of its newest calls are cut to one length;
        `expand` returns the whole. If a model fails and its strategy has no fallback, a window that
        fits the budget is shown without its summary. After an error nothing has changed.

        Args:
            budget: Most tokens of the messages, as `count_messages` counts them in the context's
                format. None is no limit.

        Raises:
            WindowTooSmallError: If more than the budget is left.
            ConflictError: If others clear or summarise the same messages again and again.
        """
        if budget is not None:
            check_count(budget, "budget")
        for _ in range(_MAX_ATTEMPTS):
            transcript = await self._transcript(session_id)
            window, steps = await self._compacted(transcript.view, budget)
            if steps and self._retention is not HistoryRetention.NONE:
                recorded = await self._recorded(session_id, transcript, window, steps)
                if recorded is None:
                    continue
                window = recorded
            if budget is None:
                return window
            return self._within(budget, window)
        raise ConflictError(
            f"the history was changed during each of {_MAX_ATTEMPTS} compactions; ask again, or "
            "compact in one place"
        )

    async def expand(self, session_id: str, message_id: str) -> list[ChatMessage]:
        """Return the messages that a summary stands for, oldest first.

        Any other message is returned itself. Raises NotFoundError.
        """
        return (await self._transcript(session_id)).originals(message_id)

    async def end_run(self, session_id: str, run_id: str) -> None:
        """Clear the run's messages and their summaries if the retention is RUN.

        Otherwise do nothing.
        """
        if self._retention is HistoryRetention.RUN:
            await self._history.clear_run(self._agent_id, session_id=session_id, run_id=run_id)
            await self._transcript(session_id)

    async def clear(self, session_id: str) -> None:
        """Clear the session."""
        await self._history.clear(self._agent_id, session_id=session_id)

    async def _stored(self, session_id: str) -> list[ChatMessage]:
        return await self._history.get_messages(self._agent_id, session_id=session_id)

    async def _transcript(self, session_id: str) -> Transcript:
        """Return a session as it is stored, and delete the records in it that do not count."""
        transcript = Transcript(await self._stored(session_id))
        if self._retention is not HistoryRetention.NONE:
            for record in transcript.void:
                if record.id:  # one without an id is somebody else's
                    await self._history.clear_run(
                        self._agent_id, session_id=session_id, run_id=record.id
                    )
        return transcript

    async def _compacted(
        self, window: list[ChatMessage], budget: int | None
    ) -> tuple[list[ChatMessage], list[_Step]]:
        """Return the history that the strategies leave, and each new summary.

        A summary comes with the history that its strategy left.

        Args:
            budget: The tokens of the window. With one, a strategy that raises SummaryError is
                passed over.
        """
        steps: list[_Step] = []
        known = {message.id for message in window}
        frame = MessageSizes(self._counter, self._format).frame
        for strategy in self._strategies:
            if budget is not None:
                strategy = strategy_within(strategy, max(0, budget - frame))
            try:
                window = await strategy.compact(window)
            except SummaryError:
                if budget is None:
                    raise
            for message in filter(is_record, window):
                if message.id and message.id not in known and known.issuperset(message.sources):
                    known.add(message.id)
                    steps.append((message, window))
        return window, steps

    async def _recorded(
        self,
        session_id: str,
        before: Transcript,
        window: list[ChatMessage],
        steps: list[_Step],
    ) -> list[ChatMessage] | None:
        """Store new summaries, and return the window with their records.

        If some of the window is gone meanwhile, return None.

        Each record is a run of its own, which can be cleared alone.
        """
        after = Transcript(await self._stored(session_id))
        records: dict[str, ChatMessage] = {}
        for summary, left in steps:
            sources = tuple(
                records[source].id if source in records else source for source in summary.sources
            )
            record = after.record_of(replace(summary, sources=sources), left)
            if record is None:
                return None
            records[summary.id] = record
            after.append(record)
        for message in window:
            if message.id in before and message.id not in after:
                return None
        for record in records.values():
            await self._history.append(
                self._agent_id, record, session_id=session_id, run_id=record.id
            )
        return [records.get(message.id, message) for message in window]

    def _within(self, budget: int, window: list[ChatMessage]) -> list[ChatMessage]:
        """Return a window, with its newest results cut if it exceeds a budget."""
        sizes = MessageSizes(self._counter, self._format)
        used = sizes.total(window)
        if used <= budget:
            return window
        shorter = with_shorter_results(window, budget, sizes.total)
        if shorter is None:
            raise WindowTooSmallError(
                f"the window takes {used} tokens of a budget of {budget}; raise it, or give a "
                f"pipeline that leaves less, such as TokenBudgetCompaction([], {budget})"
            )
        return shorter

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"
