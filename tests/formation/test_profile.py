"""The profile of a person: keyed facts in the system message, and the tools that show their sources."""

from kaosmem import SessionMemory
from kaosmem.formation import PatternFormer
from kaosmem.sources import ProfileSource


async def said(memory, text, role="user"):
    memory.add("messages", text, role=role)
    await memory.form(PatternFormer())


async def test_a_profile_has_the_current_facts_of_one_person():
    memory = SessionMemory.test_mode()
    await said(memory, "I live in Oslo. My name is Ann. Always answer in French.")
    await said(memory, "I live in Rome.", "Bob")
    await memory.attach(ProfileSource(memory["findings"], "user"))
    context = await memory.assemble_context("hi", budget=400, sections=["profile"])
    assert "Rome" not in context.text
    assert "French" not in context.text
    assert context.text.index("Oslo") < context.text.index("Ann")
    await said(memory, "I moved to Bergen.")
    context = await memory.assemble_context("hi", budget=400, sections=["profile"])
    assert "Oslo" not in context.text
    assert "Bergen" in context.text


async def test_a_profile_keeps_its_budget():
    memory = SessionMemory.test_mode()
    for number in range(30):
        await said(memory, f"My favourite thing{number:02} is number {number}.")
    await memory.attach(ProfileSource(memory["findings"], "user", budget=40))
    context = await memory.assemble_context("hi", budget=2_000, sections=["profile"])
    assert 0 < len(context.items) < 6
    assert "number 29" in context.text


async def test_a_profile_rebases_no_window_while_it_stays_the_same():
    """A new fact is appended. Forgetting its source ends the window that shows it."""
    memory = SessionMemory.test_mode()
    await said(memory, "I live in Oslo.")
    await memory.attach(ProfileSource(memory["findings"], "user"))
    rebased = []
    for turn in range(4):
        memory.add("messages", f"Question {turn}?")
        memory.add("messages", f"Answer {turn}.", role="assistant")
        context = await memory.assemble_context("hi", budget=2_000, window="main")
        rebased.append(context.rebased is not None)
    assert rebased == [True, False, False, False]
    await said(memory, "My name is Ann.")
    context = await memory.assemble_context("hi", budget=2_000, window="main")
    assert context.rebased is None
    assert "Ann" in context.text
    first = next(iter(memory["messages"]))
    await memory.forget(first.id)
    context = await memory.assemble_context("hi", budget=2_000, window="main")
    assert context.rebased is not None
    assert "Oslo" not in context.text


async def test_the_tools_give_the_words_of_a_fact():
    memory = SessionMemory.test_mode()
    await said(memory, "Good morning! I live in Oslo. Is it cold?")
    (fact,) = memory["findings"]
    assert fact.id in await memory.call_tool(
        "search_memory", {"query": "Where does the user live?"}
    )
    read = await memory.call_tool("read_memory", {"id": fact.id})
    assert "I live in Oslo.\nIt comes from:\n" in read
    assert "Good morning! I live in Oslo. Is it cold?" in read
