"""Agents that think and call tools for long: each host keeps a window, and each request obeys the providers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WindowTooSmallError,
    render_messages,
)
from kaosmem.compaction import (
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
)
from kaosmem.context import AgentContext, ContextConfig
from kaosmem.conversation import (
    ActionEvent,
    ConversationMemory,
    EventLog,
    LLMSummarizingCondenser,
    ObservationEvent,
)
from kaosmem.sources import ConversationSource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import ScriptedLLM, check_anthropic_messages, check_openai_messages
from kaosmem.testing.contracts.compaction import tokens_of
from tests.tool_conversations import conversations

ROUNDS = (50, 400)
RESULT = "The clause on the fee is in section 4 of the agreement. " * 4


def thought(number):
    return ThinkingBlock(f"I look at page {number}.", f"seal {number}")


def loop(rounds, *, tool="read"):
    """Return a user's message and so many rounds of a signed answer with a call and its result."""
    messages = [ChatMessage("user", "Find the fee.")]
    for number in range(rounds):
        messages.append(
            ChatMessage("assistant", (thought(number), ToolUseBlock(f"c{number}", tool)))
        )
        messages.append(
            ChatMessage("tool", (ToolResultBlock(f"c{number}", f"{number}: {RESULT}"),))
        )
    return messages


def reply(message):
    """Return an answer as Anthropic's API gave it."""
    return render_messages([message], "anthropic").messages[1]["content"]


def check_taken(messages, said):
    """Check that both providers take messages, with the thinking of the latest answer as it was said."""
    check_openai_messages(render_messages(messages, "openai").messages)
    rendered = render_messages(messages, "anthropic")
    answers = [message for message in said[-8:] if message.role == "assistant"]
    check_anthropic_messages(
        rendered.messages, rendered.system, thinking=True, replies=map(reply, answers)
    )


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize(
    ("strategy", "least"),
    [
        (SlidingWindowCompaction(40), 39),
        (TokenBudgetCompaction([], 3_000), 40),
        (SelectiveToolCallCompaction(20), 40),
    ],
    ids=["window", "budget", "calls"],
)
def test_a_strategy_keeps_the_newest_rounds(strategy, least, rounds):
    """The window is full, ends with the newest result, and both providers take it."""
    said = [ChatMessage("system", "Be brief."), *loop(rounds)]
    left = asyncio.run(strategy.compact(said))
    assert left[:2] == said[:2]
    assert left[-least + 2 :] == said[-least + 2 :]
    assert len(left) <= 42 or tokens_of(left) <= 3_000
    check_taken(left, said)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_the_default_window_of_an_agent_is_full(rounds):
    """It has at most a hundred messages, and no fewer than its first question and the rounds that fit."""
    context = AgentContext(ContextConfig(InMemoryHistoryProvider()), "bot")
    said = loop(rounds)
    await context.append(said[:99], "s")
    assert len(await context.get_prompt_window("s")) == 99
    await context.append(said[99:], "s")
    window = await context.get_prompt_window("s")
    assert len(window) == 99
    check_taken(window, said)


async def test_a_summary_takes_the_place_of_old_rounds():
    """A budget of 8,000 tokens is enough at every step of 120 rounds."""
    llm = ScriptedLLM(lambda _: "The agent looks for the fee.")
    strategy = TokenBudgetCompaction([SummarizationCompaction(llm, 4_000, 1_000)], 8_000)
    context = AgentContext(ContextConfig(InMemoryHistoryProvider(), strategy), "bot")
    said = loop(120)
    for begin in range(0, len(said), 9):
        await context.append(said[begin : begin + 9], "s")
        window = await context.get_prompt_window("s", budget=8_000)
        check_taken(window, said[: begin + 9])
    assert len(window) > 30


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_default_session_takes_in_a_loop_of_any_length(rounds):
    """The oldest rounds are evicted, and the context has the newest ones."""
    memory = SessionMemory.test_mode()
    said = loop(rounds)
    for message in said:
        memory.add("messages", message.content, role=message.role)
    for format_ in ("openai", "anthropic"):
        context = await memory.assemble_context("fee", budget=8_000, format=format_)
        assert context.used > 3_000
        assert f"{rounds - 1}: {RESULT}" in str(context.messages)
        if format_ == "openai":
            check_openai_messages(context.messages)
        else:
            answers = [reply(message) for message in said[-8:] if message.role == "assistant"]
            check_anthropic_messages(
                context.messages, context.system, thinking=True, replies=answers
            )
    assert memory["messages"].used <= 32_000


def log_of(rounds, *, tool="read", first="", lost=None):
    """Return a log of signed rounds.

    first: the tool of the first round; lost: a round whose second result is lost.
    """
    log = EventLog()
    log.append(ActionEvent("message", "Find the fee.", source="user"))
    for number in range(rounds):
        name = first if first and not number else tool
        append_round(log, number, name, batch=2 if number == lost else 1)
    return log


def append_round(log, number, tool, *, batch=1):
    """Append a signed answer and its results; of a batch of calls all but the first result are lost."""
    for each in range(batch):
        content = (thought(number),) if not each else ()
        log.append(
            ActionEvent("tool_call", content, ToolUseBlock(f"c{number}-{each}", tool), f"r{number}")
        )
    log.append(ObservationEvent("tool_result", f"{number}: {RESULT}", f"c{number}-0"))


@pytest.mark.parametrize(
    ("first", "lost"), [("todo_write", None), ("", 0), ("", None)], ids=["tasks", "lost", "plain"]
)
async def test_a_log_is_condensed_at_every_step(first, lost):
    """A list of tasks stays without its loop, and a lost result keeps nothing in the view."""
    condenser = LLMSummarizingCondenser(
        ScriptedLLM(lambda _: "The agent looks for the fee."), max_size=None, max_tokens=2_500
    )
    log = log_of(1, first=first, lost=lost)
    for number in range(1, 101):
        append_round(log, number, "read")
        view = await condenser.condensed_view(log)
        assert f"{number}: {RESULT}" in view[-1].text
        assert any("todo_write" in event.text for event in view) == bool(first)
        if number > 50:
            assert not lost or all("0: " not in event.text for event in view)
        rendered = render_messages(ConversationMemory().process_events(view), "anthropic")
        check_anthropic_messages(rendered.messages, rendered.system, thinking=True)
    assert len(view) > 10


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_log_in_a_session_keeps_a_window(rounds):
    """Without a condenser the window shows a tail of the rounds."""
    memory = SessionMemory.test_mode()
    await memory.attach(ConversationSource(log_of(rounds)))
    context = await memory.assemble_context("fee", budget=4_000, format="anthropic")
    assert context.used > 1_500
    check_anthropic_messages(context.messages, context.system, thinking=True)


async def test_the_newest_round_is_never_dropped_without_a_word():
    """A result that does not fit is cut, and says so. If the answer does not fit, the error gives the sums."""
    said = loop(3)
    said[-1] = ChatMessage("tool", (ToolResultBlock("c2", RESULT * 100),))
    strategy = TokenBudgetCompaction([], 3_000)
    left = await strategy.compact(said)
    assert left[-2] == said[-2]
    assert "characters left out" in left[-1].text
    with pytest.raises(WindowTooSmallError, match="protected messages alone") as raised:
        await strategy.compact([*said[:-1], ChatMessage("assistant", RESULT * 100)])
        assert max(raised.value.need.values()) > 3_000
    memory = SessionMemory.test_mode()
    for message in said:
        memory.add("messages", message.content, role=message.role)
    with pytest.raises(WindowTooSmallError):
        await memory.assemble_context("fee", budget=3_000)


@pytest.mark.parametrize("format_", ["openai", "anthropic", "text"])
async def test_an_interrupted_call_is_repaired_when_a_window_is_rendered(format_):
    """The result that never came is stated, in every format, and counted in the budget."""
    context = AgentContext(ContextConfig(InMemoryHistoryProvider()), "bot")
    calls = (thought(0), ToolUseBlock("a", "read"), ToolUseBlock("b", "read"))
    said = [
        *(ChatMessage("user", "Find the fee."), ChatMessage("assistant", calls)),
        *(
            ChatMessage("tool", (ToolResultBlock("b", "42"),)),
            ChatMessage("user", (TextBlock("And now?"),)),
        ),
    ]
    await context.append(said, "s")
    window = await context.get_prompt_window("s", budget=tokens_of(said))
    rendered = render_messages(window, format_)
    if format_ == "text":
        assert "no result was recorded" in rendered.text
    else:
        check_taken(window, said)


@given(conversations(), st.integers(20, 2_000))
def test_any_window_is_taken_within_its_budget(history, budget):
    """Whatever was interrupted, the rendered window obeys both providers and its budget."""
    try:
        left = asyncio.run(TokenBudgetCompaction([], budget).compact(history))
    except WindowTooSmallError:
        return
    check_openai_messages(render_messages(left, "openai").messages)
    rendered = render_messages(left, "anthropic")
    if rendered.messages:
        check_anthropic_messages(rendered.messages, rendered.system)
    assert tokens_of(left) <= budget
