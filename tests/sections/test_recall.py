"""What a section evicts stays recallable: in the process that evicted it, and after it is opened again."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import Reason, SectionSpec, SessionMemory, ToolResultBlock, ToolUseBlock
from kaosmem.language.query import Query
from kaosmem.persistence import log as session_log

SPECS = (
    SectionSpec(
        "messages", 400, placement="history", recall=0.5, retrieval_threshold=5, eviction="fifo"
    ),
)
FACT = "The vault code of the Zurich office is 4711."
QUESTION = "What is the vault code in Zurich?"


def told(memory, turns):
    for turn, text in enumerate(seeded_texts(2 * turns, words=12)):
        memory.add("messages", text, role="user" if turn % 2 == 0 else "assistant")


def recalled(context):
    return {
        decision.item_id for decision in context.decisions if decision.reason is Reason.RECALLED
    }


async def test_an_evicted_message_comes_back_for_a_question_about_it():
    """It stands in the query's block, among the earlier ones; without recall it stays out."""
    memory = SessionMemory.test_mode(sections=SPECS)
    fact = memory.add("messages", FACT)
    told(memory, 40)
    assert fact.id not in memory
    context = await memory.assemble_context(QUESTION, budget=1_000, format="openai")
    assert recalled(context) >= {fact.id}
    assert FACT in str(context.messages[-1])
    assert fact in context.items
    left_out = context.messages[-1]["content"]
    assert "earlier ones" in str(left_out)
    elsewhere = await memory.assemble_context("zzyzx", budget=1_000)
    assert fact.id not in recalled(elsewhere)
    memory.remove(next(iter(memory["messages"])).id)
    found = memory.search(QUESTION, limit=100)
    assert {hit.item.id: hit.is_archived for hit in found} == {
        hit.item.id: hit.item.id not in memory for hit in found
    }
    assert found[0].item.id == fact.id
    assert all(item.id in memory for item, _ in memory.search(QUESTION, limit=100, archived=False))


@pytest.mark.parametrize("eviction", ["fifo", "lifo", "priority", "lru"])
async def test_an_evicted_finding_comes_back_for_a_question_about_it(eviction, tmp_path):
    """It stands in its place among the items of the section: in that process, and in the next."""
    spec = SectionSpec("findings", 400, eviction=eviction, recall=0.5, retrieval_threshold=5)
    async with SessionMemory.open(tmp_path, sections=(spec,)) as memory:
        if eviction == "lifo":
            memory.add("findings", "This is not the newest. " * 60, role="finding")
        fact = memory.add("findings", FACT, role="finding")
        for text in seeded_texts(60, words=12):
            memory.add("findings", text, role="finding", priority=1)
        assert fact.id not in memory
        first = await memory.assemble_context(QUESTION, budget=300)
    async with SessionMemory.open(tmp_path, sections=(spec,)) as memory:
        for context in (first, await memory.assemble_context(QUESTION, budget=300)):
            assert fact.id in recalled(context)
            assert context.decision(fact.id).why.startswith("recalled")
            assert context.text.index("## findings\n") < context.text.index(FACT)
            assert memory.admin.counter(context.text) == context.used <= 300
        assert fact.id not in {item.id for item, _ in memory.search(QUESTION, archived=False)}
        elsewhere = await memory.assemble_context("zzyzx", budget=300)
        assert recalled(elsewhere) == set()


def test_few_evicted_items_are_proposed():
    """No more than a quarter above the share for recall, as the texts of all that are proposed must be read."""
    spec = SectionSpec("findings", 200, recall=0.25, retrieval_threshold=0)
    memory = SessionMemory.test_mode(sections=(spec,))
    for number in range(100):
        memory.add("findings", f"{number}. {FACT}")
    proposal = memory["findings"].proposer.propose(Query(QUESTION), cap=200)
    sizes = [unit.tokens for unit in proposal.candidates if unit.recalled]
    assert 0.25 * 200 < sum(sizes) <= 1.25 * 0.25 * 200 + max(sizes)


async def test_what_is_recalled_passes_the_filter():
    """A filter narrows what was evicted as it narrows what the section has."""
    spec = SectionSpec("findings", 100, recall=1.0, retrieval_threshold=0)
    memory = SessionMemory.test_mode(sections=(spec,))
    facts = [
        memory.add("findings", f"{FACT} ({source})", metadata={"source": source})
        for source in ("a.md", "b.md")
    ]
    for text in seeded_texts(20, words=12):
        memory.add("findings", text, metadata={"source": "b.md"})
    assert not any(fact.id in memory for fact in facts)
    assert recalled(await memory.assemble_context(QUESTION, budget=300)) >= {
        fact.id for fact in facts
    }
    context = await memory.assemble_context(QUESTION, budget=300, filter={"source": "b.md"})
    assert facts[0].id not in recalled(context)
    assert facts[1].id in recalled(context)


async def test_an_id_that_was_given_again_is_shown_once():
    """What is live hides what was evicted under its id, and of two evicted ones one comes back."""
    memory = SessionMemory.test_mode(sections=SPECS)
    for number in range(2):
        memory.add("messages", f"{FACT} ({number})", id="fact")
        told(memory, 40)
    context = await memory.assemble_context(QUESTION, budget=1_000)
    assert [item.id for item in context.items].count("fact") == 1
    memory.add("messages", FACT, id="fact")
    context = await memory.assemble_context(QUESTION, budget=1_000)
    assert [item.id for item in context.items].count("fact") == 1
    assert context.decision("fact").reason is Reason.MUST


async def test_an_evicted_id_that_another_section_has_by_now_is_shown_once():
    """What is live anywhere hides what was evicted under its id."""
    memory = SessionMemory.test_mode(sections=(*SPECS, SectionSpec("documents", eviction="none")))
    memory.add("messages", FACT, id="fact")
    told(memory, 40)
    memory.add("documents", "The vault is in Zurich.", id="fact")
    context = await memory.assemble_context(QUESTION, budget=1_000)
    assert [item.section for item in context.items if item.id == "fact"] == ["documents"]
    assert len({decision.item_id for decision in context.decisions}) == len(context.decisions)


@pytest.mark.parametrize("log_bytes", [1_000, 10**6], ids=["from archive files", "from the log"])
async def test_what_was_counted_otherwise_is_counted_again(monkeypatch, log_bytes):
    """A session that is opened with another counter recalls within its budget in that one."""
    monkeypatch.setattr(session_log, "MIN_LOG_BYTES", log_bytes)
    fs = SessionMemory.test_mode().admin.fs
    async with SessionMemory.open(
        fs, "s", sections=SPECS, counter=lambda text: len(text)
    ) as memory:
        memory.add("messages", FACT)
        told(memory, 40)
    for counter in ("o200k_base", "estimate"):
        async with SessionMemory.open(fs, "s", sections=SPECS, counter=counter) as memory:
            context = await memory.assemble_context(QUESTION, budget=350)
            assert FACT in context.text
            assert memory.admin.counter(context.text) == context.used <= 350


@given(
    count=st.integers(2, 20),
    place=st.integers(0, 19),
    section=st.sampled_from(["documents", "findings", "lessons"]),
)
def test_of_few_items_the_one_that_is_asked_for_is_shown(count, place, section):
    """If not all fit, they are ranked, however few they are and however old the one that is asked for."""
    memory = SessionMemory.test_mode()
    for number in range(count):
        is_asked_for = number == place % count
        said = (
            "the osprey nests on the old mast"
            if is_asked_for
            else f"nothing of note happened in week {number}"
        )
        memory.add(section, said, id=f"i{number}")

    async def shown():
        whole = await memory.assemble_context("where does the osprey nest?", budget=10_000)
        assert {item.id for item in whole.items} == {f"i{number}" for number in range(count)}
        context = await memory.assemble_context(
            "where does the osprey nest?", budget=max(70, whole.used * 2 // 3)
        )
        return {item.id for item in context.items}

    assert f"i{place % count}" in asyncio.run(shown())


async def test_of_items_evicted_under_one_id_the_newest_is_recalled():
    """An application that adds an item again after it was evicted has replaced it."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("documents", max_items=2),))
    for rent in (903, 1234):
        memory.add("documents", f"The rent of flat 3 is {rent} euros.", id="rent")
        memory.add_many("documents", ["A garden.", "A cellar."])
    (hit,) = memory.search("rent of flat 3")
    context = await memory.assemble_context("What is the rent of flat 3?", budget=200)
    assert hit.item.text == "The rent of flat 3 is 1234 euros."
    assert hit.item in context.items
    assert "903" not in context.text


def call(memory, number, name, result):
    """Add a call without arguments, and its result."""
    memory.add("messages", [ToolUseBlock(f"call-{number}", name)], role="assistant")
    memory.add("messages", [ToolResultBlock(f"call-{number}", result)], role="tool")


async def rounds(results, question):
    """Return what is recalled for a question after rounds of one call among other messages."""
    memory = SessionMemory.test_mode(sections=SPECS)
    for number, result in enumerate(results):
        call(memory, number, "read_settings", result)
        told(memory, 10)
    return (await memory.assemble_context(question, budget=300)).text


async def test_of_the_same_call_made_again_the_last_result_is_recalled_first():
    """A file that was read again has changed, and the first reading is out of date."""
    readings = [f"timeout = {value}\n{'owner = office ' * value}" for value in (30, 31, 32)]
    shown = await rounds(readings, "What is the timeout?")
    assert "timeout = 32" in shown
    assert "timeout = 30" not in shown


async def test_a_result_that_matches_better_than_that_of_the_last_call_is_recalled():
    """The run of tests that failed is asked for, and a later run says nothing of the failure."""
    failed = "The test of the login failed: no space left on the disk of the runner."
    runs = [f"{name} tests have passed. " * 24 for name in ("Some", "Most", "All")]
    runs[0] = f"{failed} {runs[0]}"
    shown = await rounds(runs, "Which test failed with no space left on the disk?")
    assert failed in shown
