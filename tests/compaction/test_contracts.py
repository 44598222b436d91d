"""Every strategy passes the contract that comes with the package."""

from kaosmem import WindowTooSmallError
from kaosmem.compaction import (
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from tests.compaction.any_conversation import AnyConversation


class TestSlidingWindow(AnyConversation):
    refusals = (WindowTooSmallError,)
    gives_way = True

    def make(self):
        return SlidingWindowCompaction(6)


class TestToolResults(AnyConversation):
    def make(self):
        return ToolResultCompaction(60)


class TestToolCalls(AnyConversation):
    def make(self):
        return SelectiveToolCallCompaction(1)


class TestTokenBudget(AnyConversation):
    refusals = (WindowTooSmallError,)

    def make(self):
        return TokenBudgetCompaction([ToolResultCompaction(60)], 400)
