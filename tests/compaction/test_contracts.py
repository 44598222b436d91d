"""Every strategy passes the contract that comes with the package."""

from __future__ import annotations

from kaosmem import WindowTooSmallError
from kaosmem.compaction import (
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.testing import CompactionContract


class TestSlidingWindow(CompactionContract):
    refusals = (WindowTooSmallError,)
    gives_way = True

    def make(self) -> SlidingWindowCompaction:
        return SlidingWindowCompaction(6)


class TestToolResults(CompactionContract):
    def make(self) -> ToolResultCompaction:
        return ToolResultCompaction(60)


class TestToolCalls(CompactionContract):
    def make(self) -> SelectiveToolCallCompaction:
        return SelectiveToolCallCompaction(1)


class TestTokenBudget(CompactionContract):
    refusals = (WindowTooSmallError,)

    def make(self) -> TokenBudgetCompaction:
        return TokenBudgetCompaction([ToolResultCompaction(60)], 400)
