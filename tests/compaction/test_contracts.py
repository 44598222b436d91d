"""Every strategy passes the contract that comes with the package."""

from __future__ import annotations

from kaosmem import (
    SelectiveToolCallCompactionStrategy,
    SlidingWindowCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
    WindowTooSmallError,
)
from kaosmem.testing import CompactionContract


class TestSlidingWindow(CompactionContract):
    refusals = (WindowTooSmallError,)
    gives_way = True

    def make(self) -> SlidingWindowCompaction:
        return SlidingWindowCompaction(6)


class TestToolResults(CompactionContract):
    def make(self) -> ToolResultCompactionStrategy:
        return ToolResultCompactionStrategy(60)


class TestToolCalls(CompactionContract):
    def make(self) -> SelectiveToolCallCompactionStrategy:
        return SelectiveToolCallCompactionStrategy(1)


class TestTruncation(CompactionContract):
    refusals = (WindowTooSmallError,)

    def make(self) -> TruncationStrategy:
        return TruncationStrategy(max_messages=12, max_chars=4_000)


class TestTokenBudget(CompactionContract):
    refusals = (WindowTooSmallError,)

    def make(self) -> TokenBudgetComposedStrategy:
        return TokenBudgetComposedStrategy([ToolResultCompactionStrategy(60)], 400)
