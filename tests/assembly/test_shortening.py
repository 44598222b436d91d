"""overflow="cut": what must be shown and does not fit is shortened, as little as it takes, and nothing is lost."""

import asyncio

import pytest
from hypothesis import given

from benchmarks.corpus import seeded_texts
from kaosmem import (
    Reason,
    SectionFullError,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WindowTooSmallError,
)
from kaosmem.testing import check_anthropic_messages, check_openai_messages
from tests.contexts import COUNTERS, counted, handed_over
from tests.worlds import budgets, formats, queries, worlds


def assembled(memory, **given):
    return asyncio.run(memory.assemble_context(overflow="cut", **given))


def long_text(words, seed=0):
    return seeded_texts(1, seed=seed, words=words)[0]


@given(worlds(counters=COUNTERS), queries, budgets, formats)
def test_what_is_cut_fits_counts_and_changes_nothing_that_fits(world, query, budget, format):
    """Within budget and caps, counted exactly; the same as ever where nothing overflows; every item still there."""
    memory = world.memory
    try:
        whole = asyncio.run(memory.assemble_context(query, budget=budget, format=format))
    except WindowTooSmallError:
        whole = None
    try:
        context = assembled(memory, query=query, budget=budget, format=format)
    except WindowTooSmallError:
        assert whole is None
        return
    if whole is not None:
        assert handed_over(context) == handed_over(whole)
        return
    assert counted(context, memory.admin.counter) == context.used <= budget
    for name, use in context.by_section.items():
        cap = memory[name].budget
        assert cap is None or use.used <= cap
    shortened = {
        decision.item_id for decision in context.decisions if decision.reason is Reason.SHORTENED
    }
    assert shortened
    for item in context.items:
        original = asyncio.run(memory.fetch(item.id))
        assert (item != original) == (item.id in shortened)
        assert item.tokens <= original.tokens
        assert memory[item.section].spec.placement != "static" or item.id not in shortened


@pytest.mark.parametrize("format_name", ["text", "openai", "anthropic"])
@pytest.mark.parametrize("budget", [200, 1_000, 8_000])
async def test_a_long_tool_result_is_cut_in_the_middle_and_fills_the_window(format_name, budget):
    """Its beginning and end stay, and a note says how much is left out and which item has it."""
    memory = SessionMemory.test_mode()
    memory.add("role", "You are a careful analyst.")
    memory.add("messages", "Read the contract.")
    memory.add("messages", [ToolUseBlock("c1", "read", "{}")], role="assistant")
    text = f"FIRST WORDS {long_text(10_000)} LAST WORDS"
    result = memory.add("messages", [ToolResultBlock("c1", text)], role="tool")
    with pytest.raises(WindowTooSmallError):
        await memory.assemble_context(budget=budget, format=format_name)
    context = await memory.assemble_context(budget=budget, format=format_name, overflow="cut")
    assert 0.85 * budget < context.used <= budget
    shown = str(context.text if format_name == "text" else context.messages)
    assert "FIRST WORDS" in shown
    assert "LAST WORDS" in shown
    assert "characters left out" in shown
    assert result.id in shown
    assert context.decision(result.id).reason is Reason.SHORTENED
    assert (await memory.fetch(result.id)).content == (ToolResultBlock("c1", text),)
    assert {item.section for item in context.items} == {"role", "messages"}
    assert len(context.explain()) > 0


async def test_only_the_section_that_is_over_its_own_budget_is_cut():
    """A pinned item larger than its section's share does not shorten the question."""
    memory = SessionMemory.test_mode(
        sections=(
            SectionSpec("messages", placement="history"),
            SectionSpec("notes", 100, eviction="none"),
        )
    )
    question = memory.add("messages", long_text(300))
    note = memory.add("notes", long_text(400, seed=1), pinned=True)
    context = await memory.assemble_context(budget=4_000, overflow="cut")
    assert context.decision(question.id).reason is Reason.MUST
    assert context.decision(note.id).reason is Reason.SHORTENED
    assert 60 < context.by_section["notes"].used <= 100


async def test_what_is_shorter_than_the_note_stays_whole():
    """In the smallest window that holds anything, the long result is a note and the short question itself."""
    memory = SessionMemory.test_mode()
    question = memory.add("messages", "What does it say about notice?")
    memory.add("messages", [ToolUseBlock("c", "read", "{}")], role="assistant")
    result = memory.add("messages", [ToolResultBlock("c", long_text(3_000))], role="tool")
    for budget in range(20, 200):
        try:
            context = await memory.assemble_context(budget=budget, format="openai", overflow="cut")
        except WindowTooSmallError:
            continue
        assert context.used <= budget < 80
        assert context.decision(question.id).reason is Reason.MUST
        assert context.decision(result.id).reason is Reason.SHORTENED
        assert context.messages[-1]["content"].startswith("… ")
        return
    raise AssertionError("no window was large enough")


async def test_what_cannot_be_cut_still_raises_with_the_sums():
    """A system prompt, a call's arguments and signed reasoning are never shortened."""
    memory = SessionMemory.test_mode()
    memory.add("role", long_text(500))
    with pytest.raises(WindowTooSmallError, match="role"):
        await memory.assemble_context(budget=100, overflow="cut")
    memory = SessionMemory.test_mode()
    blocks = [
        ThinkingBlock(long_text(400), signature="s"),
        ToolUseBlock("c", "run", f'{{"code": "{long_text(400)}"}}'),
    ]
    memory.add("messages", [*blocks, TextBlock(long_text(400))], role="assistant")
    with pytest.raises(WindowTooSmallError, match="messages"):
        await memory.assemble_context(budget=900, format="openai", overflow="cut")
    enough = await memory.assemble_context(budget=2_700, format="anthropic", overflow="cut")
    assert enough.messages[-2]["content"][0]["thinking"] == blocks[0].thinking


async def test_an_overflow_that_means_nothing_is_refused():
    """The error names the two that there are."""
    with pytest.raises(ValueError, match="'raise' or 'cut'"):
        await SessionMemory.test_mode().assemble_context(budget=100, overflow="drop")


async def test_results_of_one_message_are_cut_to_one_length():
    """A short result stays whole beside long ones, which keep as much as each other."""
    memory = SessionMemory.test_mode()
    memory.add(
        "messages", [ToolUseBlock(f"c{each}", "read") for each in range(3)], role="assistant"
    )
    texts = [long_text(2_000), "It is 900 euros.", long_text(5_000, seed=1)]
    results = [ToolResultBlock(f"c{each}", text) for each, text in enumerate(texts)]
    memory.add("messages", results, role="tool")
    context = await memory.assemble_context(budget=2_000, format="openai", overflow="cut")
    shown = [message["content"] for message in context.messages if message["role"] == "tool"]
    assert 1_800 < context.used <= 2_000
    assert shown[1] == texts[1]
    assert abs(len(shown[0]) - len(shown[2])) < 20


@pytest.mark.parametrize("blocks", [False, True], ids=["text", "blocks"])
async def test_a_result_that_its_section_has_no_room_for_is_stored_whole_and_shown_cut(
    tmp_path, blocks
):
    """The call stays answered, the note names the whole, and so it is when the session is opened again."""
    text = long_text(40_001)
    async with SessionMemory.open(tmp_path, "s") as memory:
        memory.add("messages", "Find the fee.")
        memory.add("messages", [ToolUseBlock("c1", "read")], role="assistant")
        content = (TextBlock(text),) if blocks else text
        shown = memory.add(
            "messages", [ToolResultBlock("c1", content)], role="tool", id="page", key="k"
        )
        assert (await memory.fetch("page")).tokens > 40_000
    async with SessionMemory.open(tmp_path, "s") as memory:
        assert memory.get(shown.id) == shown
        assert memory["messages"].used < 5_000
        whole = await memory.fetch("page")
        assert whole.text == text
        assert [item.id for item in await memory.archive.expand(shown.id)] == ["page"]
        context = await memory.assemble_context(budget=8_000, format="openai")
        check_openai_messages(context.messages)
        assert "characters left out; item page is the whole" in context.messages[-1]["content"]
        await memory.forget("page")
        assert shown.id not in memory


async def test_results_that_fill_a_section_together_are_shown_ever_shorter():
    """Of a batch each result answers its call, though the batch has no room as a whole."""
    memory = SessionMemory.test_mode()
    memory.add(
        "messages", [ToolUseBlock(f"c{each}", "read") for each in range(4)], role="assistant"
    )
    shown = [
        memory.add("messages", [ToolResultBlock(f"c{each}", long_text(9_000))], role="tool")
        for each in range(4)
    ]
    assert memory["messages"].used <= 32_000
    for source in (source for item in shown for source in item.sources):
        assert (await memory.fetch(source)).tokens > 8_000
    assert len(shown[-1].sources) == 1
    context = await memory.assemble_context(budget=40_000, format="anthropic")
    check_anthropic_messages(context.messages, context.system)
    assert "no result was recorded" not in str(context.messages)


def test_only_a_result_is_cut_when_it_is_added():
    """Any other item that is larger than its section is refused, and nothing has changed."""
    memory = SessionMemory.test_mode()
    with pytest.raises(SectionFullError, match="split it, or raise the section's budget"):
        memory.add("messages", long_text(40_001))
    with pytest.raises(SectionFullError):
        memory.add("findings", [ToolResultBlock("c1", long_text(40_001))], role="tool")
    assert len(memory["messages"]) == len(memory["messages"].archive) == 0
