"""What several strategies do one after another."""

from __future__ import annotations

import pytest
from hypothesis import given

from kaosmem import ChatMessage, InvalidArgumentError
from kaosmem.compaction import (
    CompactionPipeline,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
)
from tests.compaction.pipelines import AnyStrategy, strategies
from tests.tool_conversations import conversations


@given(strategies, conversations())
def test_any_strategies_in_any_order_keep_what_each_promises(strategy, history):
    AnyStrategy(strategy).check(history)


async def test_an_empty_pipeline_returns_all():
    history = [ChatMessage("user", "hello")]
    left = await CompactionPipeline().compact(history)
    assert left == history
    assert left is not history


async def test_each_strategy_is_given_what_the_one_before_left():
    class Last:
        async def compact(self, history):
            return list(history)[1:]

    history = [ChatMessage("user", str(number)) for number in range(5)]
    assert await CompactionPipeline([Last(), Last()]).compact(history) == history[2:]


@pytest.mark.parametrize(
    "bad", ["window", None, 3, [SlidingWindowCompaction], [SlidingWindowCompaction(5), "window"]]
)
def test_what_is_no_strategy_is_refused_at_once(bad):
    """Not when a history is compacted; a class is none until one is made of it."""
    with pytest.raises(InvalidArgumentError, match="strateg"):
        CompactionPipeline(bad)
    with pytest.raises(InvalidArgumentError, match="strateg"):
        TokenBudgetCompaction(bad, 100)
