"""Loops of tools that are longer than the section that holds them."""

import pytest

from kaosmem import DEFAULT_SECTIONS, Reason, SessionMemory, ToolResultBlock, ToolUseBlock


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
