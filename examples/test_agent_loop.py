"""An agent whose conversation is summarised as it grows, and a helper whose messages are cleared after its run."""

from __future__ import annotations

from collections.abc import Sequence

from kaosmem import ChatMessage, TextBlock, ToolResultBlock, ToolUseBlock
from kaosmem.clients import LLMClient
from kaosmem.compaction import SummarizationCompaction
from kaosmem.compaction.outline import MessageSizes
from kaosmem.context import AgentContext, ContextConfig, HistoryRetention
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import ScriptedLLM

WINDOW = 2_000
TURNS = 100
TOOLS = [{"name": "look_up", "description": "Look something up.", "parameters": {"type": "object"}}]


def agent_answers(window: Sequence[ChatMessage]) -> ChatMessage | str:
    """Stand for the agent's model: look up what is asked, and answer with what was found."""
    newest = window[-1]
    if newest.role == "tool":
        return f"It says: {newest.text}"
    return ChatMessage(
        "assistant",
        (
            TextBlock("I look it up."),
            ToolUseBlock(newest.id, "look_up", f'{{"path": "/deal/{newest.id}"}}'),
        ),
    )


def summary_answers(_: Sequence[ChatMessage]) -> str:
    """Stand for the model that sums up, badly: it names nothing that matters."""
    return "The user asked about several documents, and the assistant looked them up."


async def turn(context: AgentContext, model: LLMClient, question: ChatMessage, run_id: str) -> str:
    """Run the agent until it answers; this is the code under test."""
    await context.append([question], "deal-42", run_id)
    while True:
        window = await context.get_prompt_window("deal-42", budget=WINDOW)
        reply = await model.chat(window, tools=TOOLS)
        await context.append([reply], "deal-42", run_id)
        calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
        if not calls:
            return reply.text
        results = (
            ToolResultBlock(call.id, f"the fee in {call.id} is {len(call.id) * 111}. " * 6)
            for call in calls
        )
        await context.append(
            [ChatMessage("tool", (result,)) for result in results], "deal-42", run_id
        )


async def test_a_hundred_turns_in_a_small_window() -> None:
    model = ScriptedLLM(agent_answers)
    summing = ScriptedLLM(summary_answers)
    history = InMemoryHistoryProvider()
    strategy = SummarizationCompaction(summing, 700, 300)
    context = AgentContext(ContextConfig(history, strategy), "analyst")
    await context.append(
        [ChatMessage("user", "Never quote a fee without its source.", id="rule")], "deal-42"
    )
    await context.append(
        [ChatMessage("assistant", (ToolUseBlock("slow", "order_report"),), id="open")], "deal-42"
    )

    for number in range(TURNS):
        question = ChatMessage("user", f"What is the fee in document {number}?", id=f"q{number}")
        assert await turn(context, model, question, f"turn-{number}") != ""

    # No request was over the window, and each had the instruction and the question. The first call
    # was abandoned when the user went on without its result, so it is summed up like any other
    # message.
    sizes = MessageSizes()
    for request in model.requests:
        assert sizes.total(request) <= WINDOW
        assert "rule" in {message.id for message in request}
        assert any(message.role == "user" for message in request[-3:])
    assert len(summing.requests) < TURNS / 2

    # One summary stands for what is old. It has the last paths to the letter, though its model
    # dropped them, and what it was made of is found by its id, to the first word.
    window = await context.get_prompt_window("deal-42")
    (summary,) = (message for message in window if message.role == "summary")
    assert "/deal/q2" in summary.text
    originals = await context.expand("deal-42", summary.id)
    assert [message.id for message in originals[:2]] == ["open", "q0"]
    assert originals[1].text == "What is the fee in document 0?"
    assert len(window) - 1 + len(originals) == 2 + TURNS * 4


async def test_a_helper_leaves_its_answer_and_nothing_else() -> None:
    history = InMemoryHistoryProvider()
    model = ScriptedLLM(agent_answers)
    context = AgentContext(ContextConfig(history), "analyst")
    helper = AgentContext(ContextConfig(history, retention=HistoryRetention.RUN), "helper")

    answer = await turn(helper, model, ChatMessage("user", "What is the fee?", id="q"), "errand-1")
    await helper.end_run("deal-42", "errand-1")
    await context.append([ChatMessage("assistant", f"My helper found: {answer}")], "deal-42")

    assert await history.count_messages("helper", session_id="deal-42") == 0
    assert [message.role for message in await context.get_prompt_window("deal-42")] == ["assistant"]
