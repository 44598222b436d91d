"""`context.why`: a sentence with numbers for each item, found by id or by its words."""

import re

import pytest

from kaosmem import SectionSpec, SessionMemory, Window
from kaosmem.assembly.context import Reason
from kaosmem.sections.default_sections import DEFAULT_SECTIONS

ROOMS = [f"Room {number} costs {number} euros." for number in range(200)]


async def _rooms(budget=60, **given):
    memory = SessionMemory.test_mode()
    memory.add_many("documents", ROOMS)
    given = {"query": "What does room 17 cost?", **given}
    return memory, await memory.assemble_context(budget=budget, **given)


async def test_every_item_has_a_sentence_with_its_reason():
    """Any item of the session, by id or text, gets the sentence of its own decision."""
    memory, context = await _rooms()
    for item in memory["documents"]:
        by_id = context.why(item.id)
        assert by_id.decision == context.decision(item.id)
        assert context.why(item.text).decision == by_id.decision
        assert (") is in, " in str(by_id)) is by_id.decision.included
        assert str(by_id).endswith(".")


async def test_a_file_is_found_by_its_path():
    """Whoever looks for a passage knows its file better than its words."""
    memory = SessionMemory.test_mode()
    source = {"source": "app/config.py", "lines": [3, 4]}
    passage = memory.add("documents", "TIMEOUT = 45", metadata=source)
    context = await memory.assemble_context("timeout", budget=60)
    for words in ("app/config.py", "config.py:3-4"):
        assert context.why(words).decision.item_id == passage.id


async def test_a_ranked_item_is_told_with_the_score_that_it_lacks():
    """The sentence has the item's rank and score, and the difference to the lowest score in."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", [*ROOMS, "Room 200 costs 200 euros with the noise of the bar."])
    context = await memory.assemble_context("What does room 17 cost?", budget=60)
    why = context.why("noise of the bar")
    decision = why.decision
    assert decision.reason is Reason.OUTRANKED
    lowest = min(d.score for d in context.decisions if d.included and d.score is not None)
    assert decision.score is not None
    lacking = re.search(r"lacked about ([\d.]+) of score", str(why))
    # It is shown with three decimals.
    assert float(lacking[1]) == pytest.approx(lowest - decision.score, abs=0.000_51)
    assert f"ranked {decision.rank:,} with score {decision.score:.2f}" in str(why)


@pytest.mark.parametrize("budget", [60, 2_000])
async def test_a_section_at_its_own_budget_is_named_as_the_cause(budget):
    """A larger budget of the call would not bring the item in: that of the section would."""

    async def answer(own):
        sections = (SectionSpec("findings", placement="query", budget=own),)
        memory = SessionMemory.test_mode(sections=sections)
        for number in range(12):
            memory.add(
                "findings", f"Ann owns deal number {number}, as she told us.", id=f"f{number}"
            )
        context = await memory.assemble_context("Who owns the deal?", budget=budget)
        missed = [each for each in context.decisions if each.reason is Reason.NO_ROOM]
        assert len(missed) in range(1, 12)
        assert str(memory.why(missed[0].item_id)) == str(context.why(missed[0].item_id))
        return str(context.why(missed[0].item_id))

    is_own = "tokens of its section's own budget." in await answer(60)
    assert is_own == (budget == 2_000)
    if budget < 2_000:
        assert "own budget" not in await answer(None)


@pytest.mark.parametrize("block", [30, 40, 60])
async def test_the_missing_tokens_of_a_window_s_block_let_the_item_in(block):
    """The block of a window has less room than the window: its missing tokens are told."""

    async def decided(size, item_id=""):
        memory = SessionMemory.test_mode()
        for number in range(12):
            text = f"Ann owns deal number {number}, and nobody else has a share in it."
            memory.add("findings", text, id=f"deal-{number}")
        window = Window("main", block=size)
        query = "Who owns the deal number 3?"
        context = await memory.assemble_context(query, budget=2_000, window=window)
        if item_id:
            return context.decision(item_id)
        missed = next(each for each in context.decisions if each.reason is Reason.NO_ROOM)
        told.append(str(context.why(missed.item_id)))
        return missed

    told = []
    missed = await decided(block)
    lacking = int(told[0].split("lacked about ")[1].split(" tokens")[0])
    assert not (await decided(block + lacking - 1, missed.item_id)).included
    assert (await decided(block + lacking, missed.item_id)).included


async def test_an_item_that_only_files_hold_is_found(tmp_path):
    """An evicted or removed item is not called never stored; a silent source is named instead."""
    sections = DEFAULT_SECTIONS.replace(findings={"budget": 100})
    async with SessionMemory.open(tmp_path, "s", trace=True, sections=sections) as memory:
        memory.add("findings", "The plumber is called Otto.")
        memory.remove(memory.add("findings", "The cook is called Rita.").id)
        memory.add_many("findings", [f"Finding {n} about the weather." for n in range(40)])
        await memory.forget(memory.add("findings", "A secret.").id)
        await memory.assemble_context("weather?", budget=60)
    async with SessionMemory.open(tmp_path, "s", sections=sections) as memory:
        context = await memory.assemble_context("weather?", budget=60, sections=["findings"])
        assert "keeps at most 100 tokens" in str(context.why("plumber is called Otto"))
        assert "it was removed on " in str(context.why("cook is called Rita"))
        assert "it was removed on " in str(memory.why("cook is called Rita", turn=1))
        assert "did not offer it to this turn" in str(memory.why("plumber is called Otto", turn=1))
        memory.add("documents", "The rent is 900 euros.", metadata={"year": "2024"})
        context = await memory.assemble_context("rent?", budget=60, sections=["findings"])
        assert "the turn asked for findings alone" in str(context.why("rent is 900"))
        context = await memory.assemble_context("rent?", budget=60, filter={"year": 2024})
        expected = str(context.why("rent is 900"))
    async with SessionMemory.open(tmp_path, "s", read_only=True) as memory:
        assert "after this turn" in str(memory.why("rent is 900", turn=1))
        assert "was never stored" in str(memory.why("the wine list of the house", turn=1))
    assert "'year' is a text and the filter gives a number" in expected


async def test_a_replaced_item_names_its_successor_and_the_day():
    memory = SessionMemory.test_mode()
    for name in ("Ann", "Bob"):
        memory.add("findings", f"{name} owns the deal.", key="owner")
    context = await memory.assemble_context("Who owns the deal?", budget=100)
    assert "'Bob owns the deal.' with the same key replaced it on 2024-01-01" in str(
        context.why("Ann owns")
    )


async def test_a_key_names_the_current_version():
    memory = SessionMemory.test_mode()
    for name in ("Ann", "Bob"):
        memory.add("findings", f"{name} owns the deal.", key="deal-42")
    context = await memory.assemble_context("Who owns the deal?", budget=100)
    for seen in (context, memory):
        assert str(seen.why("deal-42")).startswith("'Bob owns the deal.' (findings) is in")


async def test_a_filter_is_named_with_its_field_and_types():
    memory = SessionMemory.test_mode()
    memory.add("documents", "The rent is 900 euros.", metadata={"year": "2024"})
    memory.add("documents", "The rent is 800 euros.", metadata={"year": 2024})
    context = await memory.assemble_context("rent?", budget=100, filter={"year": 2024})
    assert "'year' is a text and the filter gives a number" in str(context.why("900 euros"))


async def test_words_that_nothing_says_name_the_nearest_texts():
    """A text that was never stored has no decision; the nearest texts are named."""
    _, context = await _rooms()
    why = context.why("room service brings oysters and wine")
    assert why.decision is None
    assert why.nearest
    assert "never stored" in str(why)
    assert "Room" in str(why)
    assert context.why("\u2603").nearest == ()


async def test_an_item_that_is_in_is_preferred_among_equal_matches():
    """Words that many items have mean the item that is in, and the others are counted."""
    _, context = await _rooms()
    why = context.why("costs")
    assert why.decision.included
    assert f"{len(ROOMS) - 1} other items match as well" in str(why)


@pytest.mark.parametrize("budget", [30, 60, 120])
async def test_a_message_before_the_cut_is_told_by_the_tokens_to_reach_it(budget):
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("messages", placement="history", recall=0.0),)
    )
    for number in range(20):
        memory.add("messages", f"This is the message with the number {number}.")
    context = await memory.assemble_context(budget=budget)
    missed = [each for each in context.decisions if each.reason is Reason.BEFORE_TAIL]
    why = context.why(missed[0].item_id)
    lacking = int(str(why).split("lacked about ")[1].split(" tokens")[0])
    more = await memory.assemble_context(budget=budget + lacking)
    assert more.decision(why.decision.item_id).included
