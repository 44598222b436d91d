"""Eight parallel results that exceed a budget together are cut to one length, in each host of a conversation."""

import pytest

from kaosmem import (
    ChatMessage,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
    WindowTooSmallError,
    render_messages,
)
from kaosmem.compaction import (
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetCompaction,
)
from kaosmem.context import AgentContext, ContextConfig
from kaosmem.conversation import ActionEvent, EventLog, ObservationEvent, StrategyCondenser
from kaosmem.formats import count_messages
from kaosmem.sources import ConversationSource, HistorySource
from kaosmem.stores import InMemoryHistoryProvider

BUDGET = 1_500
STRATEGIES = [
    TokenBudgetCompaction([SlidingWindowCompaction(50)], BUDGET),
    SlidingWindowCompaction(20),
    SummarizationCompaction(None, recent_token_budget=500, min_old_tokens=100),
]
strategies = pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
formats = pytest.mark.parametrize("format", ["openai", "anthropic"])


def read_files(*, is_one, short=""):
    """Return a question, one answer with eight calls, and their results of about 400 words each."""
    calls = tuple(ToolUseBlock(f"c{each}", "read", f'{{"path": "f{each}"}}') for each in range(8))
    results = [
        ToolResultBlock(f"c{each}", f"begin {each} " + "words of a file " * 100 + f"end {each}")
        for each in range(8)
    ]
    if short:
        results[3] = ToolResultBlock("c3", short)
    question = ChatMessage("user", "Read the files.", id="question")
    answered = [question, ChatMessage("assistant", calls, id="calls")]
    if is_one:
        return [*answered, ChatMessage("tool", tuple(results), id="results")]
    messages = [ChatMessage("tool", (each,), id=f"r{n}") for n, each in enumerate(results)]
    return [*answered, *messages]


def results_in(messages):
    return [
        str(block.content)
        for message in messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


def is_even(texts):
    """Say whether all eight results have a beginning and an end, and about one length."""
    assert all(text.startswith(f"begin {n}") for n, text in enumerate(texts))
    assert all(text.endswith(f"end {n}") for n, text in enumerate(texts))
    lengths = [len(text) for text in texts]
    return len(texts) == 8 and max(lengths) - min(lengths) < 8


@strategies
@formats
@pytest.mark.parametrize("is_one", [True, False])
async def test_an_agent_context_cuts_them(strategy, format, is_one):
    config = ContextConfig(InMemoryHistoryProvider(), strategy)
    context = AgentContext(config, "reader", format=format)
    await context.append(read_files(is_one=is_one), "room")
    window = await context.get_prompt_window("room", budget=BUDGET)
    assert count_messages(render_messages(window, format).messages, format) <= BUDGET
    texts = results_in(window)
    assert is_even(texts)
    name = "results" if is_one else "r0"
    assert f"message {name} is the whole" in texts[0]
    (whole,) = await context.expand("room", name)
    assert len(results_in([whole])[0]) > 1_000


@pytest.mark.parametrize("is_one", [True, False])
async def test_an_attached_thread_cuts_them(is_one):
    history = InMemoryHistoryProvider()
    await history.append_many("reader", read_files(is_one=is_one), session_id="room")
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(history, "reader", "room"), required=True)
    context = await memory.assemble_context("files", budget=BUDGET, format="anthropic")
    texts = results_in([item.message for item in context.items])
    assert is_even(texts)
    whole = await memory.fetch("history/results" if is_one else "history/r0")
    assert len(results_in([whole.message])[0]) > 1_000


async def test_an_attached_conversation_cuts_them():
    log = EventLog()
    log.append(ActionEvent("message", "Read the files.", source="user"))
    _, calls, *results = read_files(is_one=False)
    log.append_reply(calls)
    for message in results:
        (block,) = message.blocks
        log.append(ObservationEvent("result", block.content, block.tool_use_id))
    for condenser in (None, *map(StrategyCondenser, STRATEGIES)):
        memory = SessionMemory.test_mode()
        await memory.attach(ConversationSource(log, condenser), required=True)
        context = await memory.assemble_context("files", budget=BUDGET, format="openai")
        assert is_even(results_in([item.message for item in context.items]))
        whole = await memory.fetch(f"conversation/{log[-1].id}")
        assert len(results_in([whole.message])[0]) > 1_000


@strategies
@formats
@pytest.mark.parametrize("is_one", [True, False])
async def test_a_section_with_a_strategy_cuts_them(strategy, format, is_one):
    spec = SectionSpec("messages", BUDGET, placement="history", compaction=strategy)
    memory = SessionMemory.test_mode(sections=[spec])
    for message in read_files(is_one=is_one):
        memory.add_message(message)
    context = await memory.assemble_context("files", budget=BUDGET, format=format)
    assert context.used <= BUDGET
    assert len(results_in([item.message for item in context.items])) == 8


@strategies
async def test_a_short_result_stays_whole(strategy):
    """So do errors and answers of a few words: the longest are cut, as little as possible."""
    context = AgentContext(ContextConfig(InMemoryHistoryProvider(), strategy), "reader")
    await context.append(read_files(is_one=False, short="no such file"), "room")
    window = await context.get_prompt_window("room", budget=BUDGET)
    texts = results_in(window)
    assert texts[3] == "no such file"
    used = count_messages(render_messages(window, "openai").messages, "openai")
    assert used > BUDGET * 9 // 10


async def test_a_pinned_result_is_never_cut():
    history = read_files(is_one=False)
    pinned = [ChatMessage(m.role, m.content, id=m.id, pinned=True) for m in history]
    context = AgentContext(ContextConfig(InMemoryHistoryProvider()), "reader")
    await context.append(pinned, "room")
    with pytest.raises(WindowTooSmallError):
        await context.get_prompt_window("room", budget=BUDGET)
