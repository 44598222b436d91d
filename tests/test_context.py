"""An agent's context: what is kept how long, what is shown, and that summaries stand for what is there."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    SessionMemory,
    WindowTooSmallError,
    render_messages,
)
from kaosmem.compaction import (
    CompactionPipeline,
    CompactionStrategy,
    SlidingWindowCompaction,
    SummarizationCompaction,
    Summarizer,
)
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.compaction.outline import MessageSizes
from kaosmem.context import AgentContext, ContextConfig, HistoryRetention
from kaosmem.errors import InvalidNameError, SummaryError
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import ScriptedLLM, check_openai_messages
from kaosmem.testing.contracts.compaction import (
    PROMISES,
    it_leaves_answers_whole,
    it_orphans_no_result,
)
from tests.gist import gist
from tests.tool_conversations import conversations as tool_conversations

WORDS = "and so on and on " * 10


def said(*texts, role="user"):
    return [ChatMessage(role, f"{text} {WORDS}") for text in texts]


def numbered(count, first=0):
    return said(*(f"fact-{number}" for number in range(first, first + count)))


NAMED = "They named fact-1, fact-2 and fact-3."


def summing_up(llm=None):
    return SummarizationCompaction(llm or ScriptedLLM(gist), 200, 200, max_summary_tokens=400)


DEFAULT = SlidingWindowCompaction()


def context_of(pipeline=DEFAULT, **options):
    config = ContextConfig(InMemoryHistoryProvider(), pipeline, **options)
    return AgentContext(config, "agent", rng=random.Random(0)), config.history


def texts(messages):
    return [message.text for message in messages]


async def test_what_is_appended_is_seen_in_order():
    """With ids, those that it had or new ones."""
    context, history = context_of()
    first = await context.append(
        [ChatMessage("user", "a", id="mine"), ChatMessage("user", "b")], "s"
    )
    second = await context.append(iter([ChatMessage("assistant", "c")]), "s", "run")
    window = await context.get_prompt_window("s")
    assert window == first + second == await history.get_messages("agent", session_id="s")
    assert texts(window) == ["a", "b", "c"]
    assert (
        window[0].id == "mine"
        and len({message.id for message in window}) == 3
        and all(m.id for m in window)
    )
    assert await context.get_prompt_window("elsewhere") == []


async def test_the_agent_of_a_run_leaves_nothing_behind():
    """Retention RUN: what a run appended goes with it, and so does every summary that was made of any of it."""
    context, history = context_of(summing_up(), retention=HistoryRetention.RUN)
    await context.append(numbered(4), "s", "first")
    await context.append(numbered(20, 4), "s", "second")
    assert any(message.role == "summary" for message in await context.get_prompt_window("s"))
    await context.end_run("s", "first")
    assert not any(
        "fact-3 " in text or "Kept" in text
        for text in texts(await history.get_messages("agent", session_id="s"))
    )
    assert texts(await history.get_messages("agent", session_id="s")) == texts(numbered(20, 4))
    await context.end_run("s", "second")
    assert await history.count_messages("agent", session_id="s") == 0
    with pytest.raises(InvalidArgumentError, match="never be cleared"):
        await context.append(said("a"), "s")


async def test_what_is_permanent_outlives_its_run():
    context, history = context_of()
    await context.append(said("a"), "s", "run")
    await context.end_run("s", "run")
    assert await history.count_messages("agent", session_id="s") == 1


async def test_what_is_not_retained_is_never_written():
    """Neither what is appended nor a summary of what others wrote."""
    history = InMemoryHistoryProvider()
    await history.append_many("agent", numbered(20), session_id="s")
    config = ContextConfig(history, summing_up(), retention=HistoryRetention.NONE)
    context = AgentContext(config, "agent")
    (message,) = await context.append(said("a"), "s", "run")
    assert message.id
    window = await context.get_prompt_window("s")
    assert "summary" in [each.role for each in window]
    await context.end_run("s", "run")
    assert await history.get_messages("agent", session_id="s") == numbered(20)


async def test_a_summary_is_made_once_and_stored_as_one_message():
    """Other windows, of another context too, show it without asking a model."""
    llm = ScriptedLLM([NAMED])
    context, history = context_of(summing_up(llm))
    await context.append(numbered(20), "s")
    window = await context.get_prompt_window("s")
    (summary,) = [message for message in window if message.role == "summary"]
    stored = await history.get_messages("agent", session_id="s")
    assert stored[20:] == [summary]
    again = AgentContext(ContextConfig(history, summing_up(llm)), "agent")
    assert await context.get_prompt_window("s") == await again.get_prompt_window("s") == window
    assert len(llm.requests) == 1
    assert [*summary.sources] == [message.id for message in stored[:20] if message not in window]


async def test_one_summary_takes_the_next_in():
    """There is one at a time, and the originals of all of them are found by its id."""
    context, history = context_of(summing_up())
    for number in range(60):
        appended = await context.append(numbered(1, number), "s")
        window = await context.get_prompt_window("s")
        assert window[-1] == appended[0] and window[0].text.startswith("fact-0 ")
        assert [message.role for message in window].count("summary") <= 1
        assert MessageSizes().total(window) < 1_200
    summary = window[1]
    originals = await context.expand("s", summary.id)
    assert texts([window[0], *originals, *window[2:]]) == texts(numbered(60))
    assert await context.expand("s", originals[3].id) == [originals[3]]
    with pytest.raises(NotFoundError):
        await context.expand("s", "unknown")
    assert await history.count_messages("agent", session_id="s") > 70


async def test_a_budget_too_small_for_a_window_is_refused():
    """A larger one brings nothing back by itself; `expand` does."""
    context, _ = context_of(summing_up())
    await context.append(numbered(60), "s")
    window = await context.get_prompt_window("s")
    used = MessageSizes().total(window)
    for budget in (used, 10 * used):
        assert await context.get_prompt_window("s", budget=budget) == window
    with pytest.raises(
        WindowTooSmallError, match=r"of a budget of 100.*TokenBudgetCompaction\(\[\], 100\)"
    ):
        await context.get_prompt_window("s", budget=100)
    with pytest.raises(InvalidArgumentError):
        await context.get_prompt_window("s", budget=-1)
    assert await context.get_prompt_window("empty", budget=0) == []


async def test_a_model_that_fails_loses_nothing():
    """Without a fallback, a window within the budget is shown whole; else the error is the strategy's."""
    llm = ScriptedLLM([RuntimeError("down")] * 3 + [NAMED])
    summarizer = Summarizer(ModelRequests(llm, attempts=2, pause_s=0), fallback=False)
    context, history = context_of(
        SummarizationCompaction(summarizer, 200, 200, max_summary_tokens=400)
    )
    await context.append(numbered(20), "s")
    with pytest.raises(SummaryError):
        await context.get_prompt_window("s")
    assert texts(await context.get_prompt_window("s", budget=10_000)) == texts(numbered(20))
    assert texts(await history.get_messages("agent", session_id="s")) == texts(numbered(20))
    assert "summary" in [message.role for message in await context.get_prompt_window("s")]


async def test_a_history_is_summed_up_without_any_model():
    """The window stays within its budget however long the history is, and nothing is lost."""
    context, _ = context_of(SummarizationCompaction(None, 200, 200))
    for begin in range(0, 200, 10):
        await context.append(numbered(10, begin), "s")
        window = await context.get_prompt_window("s", budget=1_200)
        assert texts(window)[-1] == numbered(10, begin)[-1].text
    assert [fallback_reason(message.text) for message in window if message.role == "summary"] == [
        "no model"
    ]
    found = [each for message in window for each in await context.expand("s", message.id)]
    assert texts(found) == texts(numbered(200))


async def test_summaries_of_every_strategy_are_stored():
    """One that the next strategy sums up again, and one that a later strategy leaves out."""
    llm = ScriptedLLM(gist)
    finer = SummarizationCompaction(llm, 60, 40, max_summary_tokens=400)
    context, _ = context_of(
        CompactionPipeline([summing_up(llm), finer, SlidingWindowCompaction(2)])
    )
    await context.append(numbered(30), "s")
    window = await context.get_prompt_window("s")
    assert texts(window) == [numbered(1)[0].text, numbered(1, 29)[0].text]
    assert len(llm.requests) == 2
    assert await context.get_prompt_window("s") == window
    assert len(llm.requests) == 2


async def test_a_config_says_what_shortens():
    """By default a sliding window of a hundred messages."""
    history = InMemoryHistoryProvider()
    assert len(await ContextConfig(history).pipeline.compact(numbered(150))) == 100


async def test_what_makes_no_context_is_refused():
    """Before anything is written; a pipeline of no strategies is one."""
    bad: Any
    history = InMemoryHistoryProvider()
    for bad in (
        {"history": []},
        {"history": history, "retention": "run"},
        {"history": history, "pipeline": "window"},
    ):
        with pytest.raises(InvalidArgumentError):
            ContextConfig(**bad)
    context, history = context_of(CompactionPipeline())
    bad = [*said("a"), {"role": "user", "content": "b"}]
    with pytest.raises(InvalidArgumentError, match="is a dict"):
        await context.append(bad, "s")
    assert await history.count_messages("agent", session_id="s") == 0
    await context.append(numbered(150), "s")
    assert len(await context.get_prompt_window("s")) == 150


async def test_a_session_shows_what_was_said_and_not_what_it_was_summed_up_to():
    """A source over the same thread has a window of its own."""
    context, history = context_of(summing_up())
    await context.append(numbered(30), "s")
    assert "summary" in [message.role for message in await context.get_prompt_window("s")]
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(history, "agent", "s"))
    assembled = await memory.assemble_context(budget=8_000, format="openai")
    assert [item.text for item in assembled.items] == texts(numbered(30))
    await history.append_many(
        "agent", [ChatMessage("summary", "They talked.", sources=("gone",))] * 99, session_id="s"
    )
    few = await memory.assemble_context(budget=700, format="openai")
    assert "They talked." not in str(few.messages)
    assert numbered(30)[-1].text in [item.text for item in few.items]


class Meddling:
    """A model while which something else happens."""

    def __init__(self, happens):
        self._happens = happens
        self.asked = 0

    async def chat(self, messages, *, tools=()):
        self.asked += 1
        await self._happens()
        return ChatMessage("assistant", NAMED)


async def test_a_history_that_never_stays_the_same_is_a_conflict():
    context, history = context_of()

    async def begin_again():
        await context.clear("s")
        await context.append(numbered(20), "s")

    thinking = AgentContext(
        ContextConfig(history, SummarizationCompaction(Meddling(begin_again), 200, 200)), "agent"
    )
    await begin_again()
    with pytest.raises(ConflictError, match="3 compactions"):
        await thinking.get_prompt_window("s")
    assert await history.count_messages("agent", session_id="s") == 20


async def test_a_strategy_of_ones_own_may_sum_up_too():
    """What it derives in another way is shown, and made anew each time."""

    class Own:
        async def compact(self, history):
            if len(history) < 4:
                return list(history)
            sources = tuple(message.id for message in history[:3])
            return [ChatMessage("summary", "three", id="own", sources=sources), *history[3:]]

    class Foreign:
        async def compact(self, history):
            return [
                ChatMessage("summary", "of what is not here", id="foreign", sources=("unknown",)),
                *history,
            ]

    assert isinstance(Own(), CompactionStrategy)
    context, history = context_of(CompactionPipeline([Own(), Foreign()]))
    await context.append(said(*"abcd"), "s")
    for _ in range(2):
        assert texts(await context.get_prompt_window("s")) == [
            "of what is not here",
            "three",
            *texts(said("d")),
        ]
    assert texts(await history.get_messages("agent", session_id="s"))[4:] == ["three"]


@given(tool_conversations(most=24), st.integers(1, 6), st.sampled_from([None, 10_000]))
def test_windows_of_growing_conversations_keep_what_strategies_promise(conversation, step, budget):
    """Whole units and protected messages are there at each step, a provider takes them, and nothing is lost.

    A result that comes after its abandoned call was summed up has no call in the window; rendering leaves it out.
    """

    async def grow():
        strategy = SummarizationCompaction(ScriptedLLM(gist), 80, 40, max_summary_tokens=60)
        context, _ = context_of(strategy)
        said = []
        for begin in range(0, len(conversation), step):
            said += await context.append(conversation[begin : begin + step], "s")
            try:
                window = await context.get_prompt_window("s", budget=budget)
            except SummaryError:
                continue
            for promise in set(PROMISES) - {it_leaves_answers_whole, it_orphans_no_result}:
                assert promise(said, window), promise.__name__
            check_openai_messages(render_messages(window, "openai").messages)
            found = [each for message in window for each in await context.expand("s", message.id)]
            assert sorted(map(repr, found)) == sorted(map(repr, said)) and {*texts(found)} == {
                *texts(said)
            }

    asyncio.run(grow())


async def test_agents_and_sessions_are_apart():
    config = ContextConfig(InMemoryHistoryProvider())
    one = AgentContext(config, "one")
    other = AgentContext(config, "other")
    await one.append(said("a"), "s")
    assert await other.get_prompt_window("s") == []
    await other.append(said("b"), "s")
    await one.clear("s")
    assert (await one.get_prompt_window("s"), len(await other.get_prompt_window("s"))) == ([], 1)
    with pytest.raises(InvalidNameError):
        AgentContext(config, "")


async def test_messages_that_were_stored_without_ids_are_summed_up_too():
    """By whoever else writes to the history."""
    llm = ScriptedLLM(gist)
    context, history = context_of(summing_up(llm))
    await history.append_many("agent", numbered(20), session_id="s")
    window = await context.get_prompt_window("s")
    assert "summary" in [message.role for message in window]
    assert await context.get_prompt_window("s") == window
    assert len(llm.requests) == 1


async def test_nobody_else_says_what_stands_for_what():
    """A summary that names sources is refused; one without is a message like any other."""
    context, history = context_of()
    with pytest.raises(InvalidArgumentError, match="names sources"):
        await context.append([ChatMessage("summary", "x", sources=("a",))], "s")
    await context.append([ChatMessage("summary", "of another session")], "s")
    for name in ("", "x"):
        await history.append(
            "agent", ChatMessage("summary", "forged", id=name, sources=("a",)), session_id="s"
        )
    assert texts(await context.get_prompt_window("s")) == ["of another session"]
