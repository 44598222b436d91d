"""Condensers of every kind, with models that follow a script."""

from hypothesis import strategies as st

from kaosmem.compaction import (
    CompactionPipeline,
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.conversation import (
    LLMSummarizingCondenser,
    RollingCondenser,
    StrategyCondenser,
)
from kaosmem.testing import ScriptedLLM
from tests.conversation.logs import EVENTS, TEXTS, agent, call, result, user
from tests.gist import gist


def brief(messages):
    """Say as a model that summarises in a few words."""
    return gist(messages, most=3)


def down(messages):
    """Fail as a provider that is down."""
    return ConnectionError("down")


@st.composite
def worked(draw):
    """Draw what an agent did for a while: calls with results, alone and two at once, words, and anything else."""
    events = []
    kinds = ["pair", "pair", "pair", "two", "agent", "agent", "user", "anything"]
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=8, max_size=24))):
        match kind:
            case "pair":
                reasons = draw(st.sampled_from([False, False, True]))
                events += [call(f"{number}", reasons=reasons), result(f"{number}", draw(TEXTS))]
            case "two":
                two = f"{number}-1", f"{number}-2"
                events += [call(each, f"r{number}") for each in two]
                events += [
                    result(each) for each in draw(st.permutations(two))[: draw(st.integers(1, 2))]
                ]
            case "agent":
                events.append(agent("the agent says what it does"))
            case "user":
                events.append(user(draw(st.sampled_from(["please", "never do " + "this " * 60]))))
            case _:
                events.append(draw(EVENTS))
    return events


@st.composite
def rolling(draw, *, fails=True):
    """Draw a condenser that appends records; with `fails` its model may be down."""
    given = {"max_size": draw(st.integers(6, 12))}
    given["max_tokens"] = draw(st.one_of(st.none(), st.integers(150, 500)))
    is_down = fails and draw(st.sampled_from([False, False, False, True]))
    match draw(st.sampled_from(["summarizing", "forgetting"])):
        case "summarizing":
            return LLMSummarizingCondenser(ScriptedLLM(down if is_down else brief), **given)
    return RollingCondenser(**given)


strategies = st.one_of(
    st.integers(4, 12).map(SlidingWindowCompaction),
    st.integers(0, 3).map(SelectiveToolCallCompaction),
    st.builds(ToolResultCompaction, st.integers(1, 40), st.integers(0, 8)),
    st.just(SummarizationCompaction(ScriptedLLM(brief), 60, 60)),
    st.integers(100, 300).map(
        lambda budget: TokenBudgetCompaction([SummarizationCompaction(None, 60, 60)], budget)
    ),
)


pipelines = st.lists(strategies, max_size=2).map(CompactionPipeline)
unrecorded = pipelines.map(StrategyCondenser)
condensers = st.one_of(rolling(), rolling(), unrecorded)
