"""What condensing a conversation costs by the length of its view, with a model that takes no time.

CPU seconds, the least of several runs; the exponent e is that of cost ~ length ** e.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from math import log

import pytest

from benchmarks.bench_conversation import conversation, least
from kaosmem.compaction import SlidingWindowCompaction, ToolResultCompaction
from kaosmem.conversation import (
    Condensation,
    Condenser,
    ConversationView,
    LLMSummarizingCondenser,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.testing import ScriptedLLM
from tests.conversation.condensers import brief

SIZES = 1_000, 10_000, 100_000
KINDS = "plain", "one loop"


def condensers() -> dict[str, Condenser]:
    return {
        "recent events": StrategyCondenser(SlidingWindowCompaction(10)),
        "cut results": StrategyCondenser(ToolResultCompaction(50, keep_recent=50)),
        "forgetting": RollingCondenser(),
        "summarizing": LLMSummarizingCondenser(ScriptedLLM(brief)),
    }


def condensed(condenser: Condenser, view: ConversationView) -> ConversationView | Condensation:
    return asyncio.run(condenser.condense(view))


@pytest.mark.parametrize("name", condensers())
def test_a_long_view_is_condensed(name: str) -> None:
    view = conversation(1_000, "plain").view
    result = condensed(condensers()[name], view)
    if isinstance(result, Condensation):
        assert len(result.forgotten_ids) > 800
    else:
        assert sum(len(event.text) for event in result) < sum(len(event.text) for event in view) / 2


@pytest.mark.timed
@pytest.mark.parametrize("kind", KINDS)
def test_cost_by_length(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    views = [conversation(length, kind).view for length in SIZES]
    for name, condenser in condensers().items():
        for view in views:
            condensed(condenser, view)  # its tokens are counted once, in its life
        seconds = [least(lambda view=view: condensed(condenser, view)) for view in views]  # noqa: B023
        exponents = [log(more / less) / log(10) for less, more in pairwise(seconds)]
        with capsys.disabled():
            shown = "".join(f"{each * 1e3:>12.2f}" for each in seconds)
            print(
                f"\n{kind}, {name:<14}{shown} ms   exponents "
                f"{'  '.join(f'{each:.2f}' for each in exponents)}",
                end="",
            )
        assert max(exponents) <= 1.15
