"""Loops of tools that are longer than the section that holds them."""

import pytest

from kaosmem import (
    DEFAULT_SECTIONS,
    Reason,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
)


def session(budget):
    """Return a session whose messages may hold so many tokens."""
    return SessionMemory.test_mode(sections=DEFAULT_SECTIONS.replace(messages={"budget": budget}))


def look(memory, number, role):
    """Add a round of a loop: a call, and its result in a message of this role."""
    memory.add("messages", [ToolUseBlock(f"call-{number}", "look")], role="assistant")
    result = ToolResultBlock(f"call-{number}", f"Nothing leaks in room {number}. " * 20)
    memory.add("messages", [result], role=role)


@pytest.mark.parametrize("role", ["tool", "user"])
async def test_a_loop_that_is_longer_than_its_section_keeps_its_task(role):
    """The newest question stays while older rounds leave. After another question it leaves, too."""
    memory = session(2_000)
    task = memory.add("messages", "Find the leak, and write it down in NOTES.md.")
    for number in range(60):
        look(memory, number, role)
        context = await memory.assemble_context(budget=4_000, format="openai")
        assert context.decision(task.id).reason is Reason.MUST
        assert context.query == task.text
    assert len(memory["messages"].archive) > 50
    memory.add("messages", "Now mend it.")
    for number in range(60, 80):
        look(memory, number, role)
    assert task.id not in memory["messages"]


def test_a_question_that_leaves_no_room_for_an_answer_gives_way():
    """No message is refused for the sake of a question."""
    memory = session(600)
    task = memory.add("messages", "Find the leak. " * 120)
    answer = memory.add("messages", "I look. " * 80, role="assistant")
    assert task.id not in memory["messages"]
    assert answer.id in memory["messages"]


async def test_each_of_two_agents_with_histories_of_their_own_is_asked_its_own_question():
    """The query is the newest message of the histories that are shown, not that of the other agent."""
    researcher = SectionSpec("researcher", 32_000, 90, placement="history")
    memory = SessionMemory.test_mode(sections=(*DEFAULT_SECTIONS, researcher))
    memory.add("messages", "Write a report on whales.")
    memory.add("researcher", "Which whale is the largest?")
    memory.add("researcher", "The blue whale.", role="assistant")
    queries = []
    for sections in (["messages", "findings"], ["researcher", "findings"], ["findings"]):
        context = await memory.assemble_context(budget=500, sections=sections)
        queries.append(context.query)
    asked = "Which whale is the largest?"
    assert queries == ["Write a report on whales.", asked, asked]
