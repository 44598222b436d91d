"""A strategy of kaosmem shortens the messages of Agent Framework as it shortens its own."""

import asyncio

import pytest
from agent_framework import apply_compaction
from hypothesis import given
from hypothesis import strategies as st

from kaosmem.compaction import (
    CompactionPipeline,
    SlidingWindowCompaction,
    ToolResultCompaction,
)
from kaosmem.errors import WindowTooSmallError
from kaosmem.integrations.agent_framework import KaosmemCompaction, read_message, write_message
from tests.tool_conversations import conversations

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

STRATEGIES = [
    SlidingWindowCompaction(6),
    ToolResultCompaction(20),
    CompactionPipeline([ToolResultCompaction(20), SlidingWindowCompaction(8)]),
]


def read(messages):
    return [said for message in messages for said in read_message(message)]


@given(conversations(), st.sampled_from(STRATEGIES))
def test_a_list_is_shortened_as_the_strategy_shortens_it(history, strategy):
    """What is left is the strategy's result, in order, and the given messages stay as they are."""
    given = [write_message(message) for message in history]
    messages = [*given]
    said = read(given)
    try:
        expected = asyncio.run(strategy.compact(said))
    except WindowTooSmallError:
        return
    left = asyncio.run(apply_compaction(messages, strategy=KaosmemCompaction(strategy)))
    assert read(left) == expected
    assert read(given) == said
