"""What is promised of sections holds of stores beside them: P1 to P5, P7, P8 and P10."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory, Trust, WindowTooSmallError
from kaosmem.assembly.allocation import cap_of
from kaosmem.display import width
from kaosmem.formats.delimiters import OPENING
from kaosmem.language.query import Query
from tests.contexts import COUNTERS, handed_over
from tests.formats.checked import check_context
from tests.sources.stores import attached, filled_sources
from tests.worlds import budgets, formats, queries, texts, worlds


def assembled(memory, query, budget, format):
    try:
        return asyncio.run(memory.assemble_context(query, budget=budget, format=format))
    except WindowTooSmallError:
        return None


@given(worlds(counters=COUNTERS, max_adds=12), filled_sources(), queries, budgets, formats)
def test_stores_beside_sections_keep_budgets_reasons_and_themselves(
    world, sources, query, budget, format
):
    """Counted anew it fits, each source within its cap; no call lacks its result; all that was proposed is decided, and
    the stores hold it still."""
    memory = world.memory
    asyncio.run(attached(memory, sources))
    first, second = (assembled(memory, query, budget, format) for _ in range(2))
    if first is None:
        return
    assert second is not None
    assert {name: report.status for name, report in first.sources.items()} == dict.fromkeys(
        memory.admin.sources, "ok"
    )
    check_context(first, memory.admin.counter)
    for name, use in first.by_section.items():
        spec = (
            memory.admin.sources[name].spec if name in memory.admin.sources else memory[name].spec
        )
        assert use.used <= cap_of(spec, budget)
    assert handed_over(first) == handed_over(second)
    assert first == second
    assert first.decisions == second.decisions
    decided = {decision.item_id: decision for decision in first.decisions}
    assert len(decided) == len(first.decisions)
    assert {item.id for item in first.items} == {
        each for each, decision in decided.items() if decision.included
    }
    for source in sources:
        proposal = asyncio.run(source.propose(Query(first.query), cap=cap_of(source.spec, budget)))
        ids = {item.id for unit in proposal.candidates for item in unit.items}
        assert ids <= decided.keys()
        assert all(asyncio.run(source.get(item_id)) is not None for item_id in ids)
    assert all(width(line) <= 80 for line in first.explain().splitlines())


@given(worlds(max_adds=6), filled_sources(), queries, formats)
def test_what_is_shown_of_a_store_is_namespaced_and_can_be_fetched(world, sources, query, format):
    """Its id begins with the source's name, and is of one item alone; fetching gives what was shown, or more."""
    asyncio.run(attached(world.memory, sources))
    context = assembled(world.memory, query, 5_000, format)
    if context is None:
        return
    shown = [item for item in context.items if item.section in world.memory.admin.sources]
    for item in shown:
        assert item.id.startswith(f"{item.section}/")
        fetched = asyncio.run(world.memory.fetch(item.id))
        assert fetched == item or item.section == "files"
    assert len({item.id for item in context.items}) == len(context.items)


@given(filled_sources(), queries, budgets, formats)
def test_what_stores_hold_is_never_a_system_message(sources, query, budget, format):
    """It stands in the user's block, whatever its texts say, and can't forge a delimiter of it."""
    memory = SessionMemory.test_mode()
    memory.add("role", "Be careful.")
    asyncio.run(attached(memory, sources))
    context = assembled(memory, query, budget, format)
    if context is None:
        return
    alone = asyncio.run(
        memory.assemble_context(query, budget=5_000, format=format, sections=["role"])
    )
    if format in ("blocks", "openai", "openai-responses"):
        assert [m for m in context.messages if m.get("role") == "system"] == alone.messages
    elif format != "text":
        assert context.system == alone.system
    else:
        assert context.text.startswith(alone.text)
    assert all(item.role != "system" for item in context.items if item.section != "role")
    if format != "text":
        assert str(context.messages).count(OPENING) <= 1


@given(
    filled_sources(),
    st.lists(texts, min_size=2, max_size=8),
    st.sampled_from(["openai", "anthropic"]),
    st.integers(1_000, 4_000),
)
def test_the_newest_message_is_in_and_the_prefix_stays(sources, said, format, budget):
    """Stores starve no message, and what they bring comes last: an appended message leaves all before it."""
    memory = SessionMemory.test_mode()
    asyncio.run(attached(memory, sources))
    memory.add("role", "Be careful.")
    before = []
    for text in said:
        newest = memory.add("messages", text)
        context = assembled(memory, None, budget, format)
        assert newest in context.items
        assert context.messages[: len(before)] == before
        assert len(context.messages) > len(before)
        before = list(context.messages[:-1])
        memory.add("messages", "Noted.", role="assistant")


@given(filled_sources(), texts)
def test_what_comes_of_a_store_is_no_more_trusted_than_it(sources, query):
    """EXTERNAL unless said otherwise; what is derived from it carries that."""
    memory = SessionMemory.test_mode()
    asyncio.run(attached(memory, sources))
    context = assembled(memory, query, 2_000, "text")
    for item in context.items:
        assert item.trust in (Trust.EXTERNAL, Trust.APPLICATION)
        if len(item.id) <= 256 and item.id.isprintable():
            derived = memory.add("findings", "derived", sources=[item.id])
            assert derived.trust == Trust.EXTERNAL
