"""A window that is packed anew shows the exchange before the question, also if messages are long."""

import pytest

from kaosmem import SessionMemory, ToolResultBlock, ToolUseBlock


def long_message(number):
    """Return a text of about 400 tokens."""
    return " ".join(f"word{number} and {place}" for place in range(80))


async def rebased_contexts(memory, *, turns, budget):
    """Return the context of each turn that packs the window anew, with the messages before it."""
    found = []
    said = []
    for number in range(turns):
        said.append(memory.add("messages", long_message(2 * number)))
        context = await memory.assemble_context(budget=budget, format="openai", window="main")
        if context.rebased == "full":
            found.append((context, said[:]))
        said.append(memory.add("messages", long_message(2 * number + 1), role="assistant"))
    return found


@pytest.mark.parametrize("documents", [0, 20])
async def test_a_follow_up_question_has_the_exchange_before_it(documents):
    """The question and the reply before the newest question are shown right after each rebase."""
    memory = SessionMemory.test_mode()
    for number in range(documents):
        memory.add("documents", f"Passage {number} of word{number}.")
    budget = 8 * memory.add("messages", long_message(0), role="assistant").tokens
    rebased = await rebased_contexts(memory, turns=20, budget=budget)
    assert len(rebased) > 3
    for context, said in rebased:
        shown = {item.id for item in context.items}
        assert shown.issuperset(item.id for item in said[-3:])
        assert context.used < budget * 0.7


async def test_the_exchange_leaves_room_for_the_block():
    """Messages that fill the budget leave a quarter of their share to what the question needs."""
    memory = SessionMemory.test_mode()
    memory.add("documents", "The annex has a Vaillant boiler.")
    size = memory.add("messages", long_message(0), role="assistant").tokens
    memory.add("messages", f"Which boiler heats the annex? {long_message(1)}")
    context = await memory.assemble_context(budget=2 * size + 120, format="openai", window="main")
    assert "The annex has a Vaillant boiler." in {item.text for item in context.items}


async def test_a_loop_of_tools_keeps_its_newest_results():
    """A window that is packed anew within a loop shows the results before the newest ones."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Read all files.")
    results = []
    rebased = 0
    budget = 6 * SessionMemory.test_mode().add("messages", long_message(0)).tokens
    for number in range(12):
        memory.add("messages", (ToolUseBlock(f"c{number}", "read", {}),), role="assistant")
        block = ToolResultBlock(f"c{number}", long_message(number))
        results.append(memory.add("messages", (block,), role="user").id)
        context = await memory.assemble_context(budget=budget, format="openai", window="main")
        if context.rebased == "full":
            rebased += 1
            shown = {item.id for item in context.items}
            assert shown.issuperset(results[-3:])
    assert 0 < rebased < 8
