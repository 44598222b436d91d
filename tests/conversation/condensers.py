"""Condensers of every kind, with models that follow a script."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from hypothesis import strategies as st

from kaosmem import (
    AmortizedForgettingCondenser,
    AttentionConfig,
    BrowserOutputCondenser,
    ChatMessage,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    LLMAttentionCondenser,
    LLMSummarizingCondenser,
    MaskingConfig,
    NoOpCondenser,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
    RecentEventsConfig,
    RollingCondenser,
    RollingConfig,
    StructuredSummaryCondenser,
    SummarizingConfig,
    ToolUseBlock,
)
from kaosmem.testing import ScriptedLLM

STATE = {"USER_CONTEXT": "fix it", "COMPLETED": "none", "PENDING": "TASK-17", "CURRENT_STATE": "none"}


def brief(messages: Sequence[ChatMessage]) -> str:
    """Say as a model that summarises in a few words."""
    return "done so far"


def stating(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Call as a model that states the work does."""
    return ChatMessage("assistant", (ToolUseBlock("s", "create_state_summary", json.dumps(STATE)),))


def ranking(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Call as a model that ranks every second event, from the newest."""
    ids = [int(number) for number in re.findall(r"^\[event (\d+)\]", messages[-1].text, re.MULTILINE)]
    return ChatMessage("assistant", (ToolUseBlock("r", "rank_events", json.dumps({"ids": ids[::-2]})),))


def down(messages: Sequence[ChatMessage]) -> Exception:
    """Fail as a provider that is down."""
    return ConnectionError("down")


@st.composite
def rolling(draw: st.DrawFn, *, fails: bool = True) -> RollingCondenser:
    """Draw a condenser that appends records; with `fails` its model may be down."""
    given = {"max_size": draw(st.integers(8, 16)), "keep_first": draw(st.integers(0, 2))}
    given["max_tokens"] = draw(st.one_of(st.none(), st.integers(60, 400)))
    is_down = fails and draw(st.sampled_from([False, False, False, True]))
    match draw(st.sampled_from(["summarizing", "structured", "attention", "forgetting", "window"])):
        case "summarizing":
            return LLMSummarizingCondenser(ScriptedLLM(down if is_down else brief), SummarizingConfig(**given))
        case "structured":
            return StructuredSummaryCondenser(ScriptedLLM(down if is_down else stating), SummarizingConfig(**given))
        case "attention":
            return LLMAttentionCondenser(ScriptedLLM(down if is_down else ranking), AttentionConfig(**given))
        case "forgetting":
            return AmortizedForgettingCondenser(RollingConfig(**given))
    return ConversationWindowCondenser(RollingConfig(**given))


windows = st.builds(lambda keep, more: RecentEventsConfig(keep, keep + more), st.integers(0, 3), st.integers(1, 9))
unrecorded = st.one_of(
    st.just(NoOpCondenser()),
    windows.map(RecentEventsCondenser),
    st.integers(0, 8).map(lambda window: ObservationMaskingCondenser(MaskingConfig(window))),
    st.integers(0, 2).map(lambda window: BrowserOutputCondenser(MaskingConfig(window))),
)


def condensers(*, fails: bool = True) -> st.SearchStrategy[Condenser]:
    """Draw a condenser, or a pipeline of several."""
    each = st.one_of(rolling(fails=fails), unrecorded)
    return st.one_of(each, each, st.lists(each, max_size=3).map(CondenserPipeline))
