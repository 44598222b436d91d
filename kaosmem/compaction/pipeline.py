"""A strategy that runs several strategies in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kaosmem.arguments import check_listed
from kaosmem.compaction.strategy import CompactionStrategy
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import ChatMessage


class CompactionPipeline:
    """Gives a history to each strategy in turn. Without strategies, it returns the whole history.

    strategies: several, one, or another pipeline. Pipelines of the same strategies are equal.
    Raises InvalidArgumentError.
    """

    def __init__(self, strategies: Iterable[CompactionStrategy] | CompactionStrategy = ()) -> None:
        self.strategies: tuple[CompactionStrategy, ...]
        if isinstance(strategies, CompactionPipeline):
            self.strategies = strategies.strategies
        elif isinstance(strategies, CompactionStrategy) or not isinstance(strategies, Iterable):
            self.strategies = (strategies,)
        else:
            self.strategies = tuple(strategies)
        for each in self.strategies:
            if isinstance(each, type) or not isinstance(each, CompactionStrategy):
                raise InvalidArgumentError(f"a strategy is a {type(each).__name__}; give a CompactionStrategy")

    def __eq__(self, other: object) -> bool:
        return self.strategies == other.strategies if isinstance(other, CompactionPipeline) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.strategies)

    def __repr__(self) -> str:
        return f"CompactionPipeline({list(self.strategies)})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history that the last strategy leaves."""
        left = check_listed(history, ChatMessage, "messages")
        for strategy in self.strategies:
            left = await strategy.compact(left)
        return left
