"""The promises of assembly, each as a property over random sessions."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    Context,
    KaosmemError,
    Reason,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
    WindowTooSmallError,
)
from kaosmem.display import width
from kaosmem.formats import BlockPlace, get_format
from kaosmem.formats.delimiters import BLOCK_BEGIN, OPENING
from kaosmem.formats.text import header_piece
from kaosmem.language.query import Query
from tests.contexts import COUNTERS, MERGING, assembled, before_block, counted, handed_over
from tests.formats.checked import check_context
from tests.pieces import item_piece
from tests.worlds import budgets, formats, label_group, queries, questions, texts, worlds

least_confidences = st.sampled_from([0, 0, 0.3, 1])


@given(worlds(counters=COUNTERS), queries, budgets, formats, st.integers(0, 20), least_confidences)
def test_what_is_handed_over_counts_what_it_says_and_fits(
    world, query, budget, format, reserve, least
):
    """Counted again from scratch a context is exactly `used`, within the budget, and each section within its cap."""
    reserve = min(reserve, budget)
    context = assembled(world, query, budget, format, reserve=reserve, min_confidence=least)
    if isinstance(context, WindowTooSmallError):
        assert sum(context.need.values()) > min(
            [
                budget - reserve,
                *(
                    spec.budget
                    for spec in world.memory.sections
                    if spec.name in context.need and spec.budget
                ),
            ]
        )
        return
    assert counted(context, world.memory.admin.counter) == context.used
    assert context.used <= context.budget == budget - reserve
    assert context.frame + sum(use.used for use in context.by_section.values()) == context.used
    for name, use in context.by_section.items():
        cap = world.memory[name].budget
        assert cap is None or use.used <= cap


@given(worlds(counters=COUNTERS), queries, budgets, formats)
def test_assembling_loses_and_changes_nothing(world, query, budget, format):
    """Every accepted item is live or in the archive, before and after, and what is not compacted is as it was."""
    names = [spec.name for spec in world.memory.sections if spec.compaction is None]
    before = {name: (list(world.memory[name]), len(world.memory[name].archive)) for name in names}
    assembled(world, query, budget, format)
    after = {name: (list(world.memory[name]), len(world.memory[name].archive)) for name in names}
    assert before == after
    for item_id in world.accepted:
        assert asyncio.run(_fetched(world.memory, item_id)) == item_id


async def _fetched(memory, item_id):
    return (await memory.fetch(item_id)).id


@given(worlds(), queries, budgets, formats)
def test_the_same_gives_the_same(world, query, budget, format):
    """Assembling twice gives the same context and the same decisions."""
    first, second = (assembled(world, query, budget, format) for _ in range(2))
    if isinstance(first, Context):
        assert isinstance(second, Context)
        assert handed_over(first) == handed_over(second)
        assert first.decisions == second.decisions
        assert first == second


@given(worlds(), queries, budgets, formats)
def test_calls_and_results_come_together(world, query, budget, format):
    """A call and its results are in or out together, and messages obey the provider's order."""
    context = assembled(world, query, budget, format)
    if isinstance(context, WindowTooSmallError):
        return
    included = {item.id for item in context.items}
    for spec in world.memory.sections:
        proposal = world.memory[spec.name].proposer.propose(
            Query(context.query), cap=context.budget
        )
        for unit in (*proposal.candidates, *proposal.earlier):
            assert len({item.id in included for item in unit.items}) == 1
    check_context(context, world.memory.admin.counter)


_OF_OTHERS = (Reason.OUTRANKED, Reason.NOT_SHOWN, Reason.ARCHIVED, Reason.UNRELATED)
"""The reasons of items that their sections did not propose."""


@given(worlds(counters=COUNTERS), queries, budgets, formats, least_confidences)
def test_every_candidate_has_a_decision(world, query, budget, format, least):
    """What is in is decided to be in, every proposed item is decided once, and any other can be asked about."""
    context = assembled(world, query, budget, format, min_confidence=least)
    if isinstance(context, WindowTooSmallError):
        return
    decided = {decision.item_id: decision for decision in context.decisions}
    assert len(decided) == len(context.decisions)
    assert {item.id for item in context.items} == {
        item_id for item_id, decision in decided.items() if decision.included
    }
    assert len({item.id for item in context.items}) == len(context.items)
    for name in context.by_section:
        spec = world.memory[name].spec
        cap = context.budget if spec.budget is None else min(spec.budget, context.budget)
        proposal = world.memory[name].proposer.propose(Query(context.query), cap=cap)
        for unit in (*proposal.candidates, *proposal.earlier):
            assert {item.id for item in unit.items} <= decided.keys()
    for item_id in world.accepted:
        decision = context.decision(item_id)
        assert decision.item_id == item_id
        if item_id not in decided:
            assert decision.reason in _OF_OTHERS
    with pytest.raises(KaosmemError, match="no item"):
        context.decision("no such id")
    assert f"{context.used:,}" in context.explain()
    assert all(width(line) <= 80 for line in context.explain().splitlines())


@given(worlds(), queries, budgets, formats)
def test_no_unit_left_out_for_want_of_room_would_fit(world, query, budget, format):
    """A unit that had no room costs more than is left of the budget or of its section's cap."""
    context = assembled(world, query, budget, format)
    if isinstance(context, WindowTooSmallError):
        return
    count = world.memory.admin.counter
    layout = get_format(format)
    shown = {
        world.memory[name].spec.placement for name, use in context.by_section.items() if use.items
    }
    if Reason.RECALLED in {decision.reason for decision in context.decisions}:
        shown.add("query")
    for name, use in context.by_section.items():
        spec = world.memory[name].spec
        if spec.placement == "history":
            assert Reason.NO_ROOM not in {d.reason for d in context.decisions if d.section == name}
            continue
        block = None
        if "query" in shown or spec.placement == "query":
            block = (
                BlockPlace.IN_MESSAGE if ends_in_a_user_message(context) else BlockPlace.OWN_MESSAGE
            )
        frame = layout.frame_tokens(
            static="static" in shown or spec.placement == "static",
            first=first_of_history(context) if "history" in shown else None,
            block=block,
            counter=count,
        )
        cap = context.budget if spec.budget is None else min(spec.budget, context.budget)
        units = world.memory[name].proposer.propose(Query(context.query), cap=cap).candidates
        shown_units = [unit for unit in units if context.decision(unit.items[0].id).included]
        if not any(
            unit.needs for unit in shown_units
        ):  # test_corrections counts the marks of corrections
            assert use.used == tokens_of_section(spec, shown_units, count)
        for unit in units:
            if context.decision(unit.items[0].id).reason is Reason.NO_ROOM:
                more = tokens_of_section(spec, [*shown_units, unit], count)
                others = context.used - context.frame + frame - use.used
                earlier = sum(each.tokens for each in (*shown_units, unit) if each.recalled)
                has_no_share = unit.recalled and earlier > int(spec.recall * cap)
                assert has_no_share or more > cap or others + more > context.budget


def tokens_of_section(spec, units, count):
    """Return what units take under one header: items of one label stand together, but in a static section."""
    if not units:
        return 0
    if spec.is_verbatim:
        items = [item for unit in units for item in unit.items]
        return sum(count(item_piece(item, spec.labels)) for item in items)
    is_history = spec.placement == "history"
    pieces = [header_piece(f"{spec.title}: earlier ones" if is_history else spec.title)]
    groups = {}
    for unit in sorted(units, key=lambda unit: unit.position):
        for item in unit.items:
            group = None if spec.placement == "static" else label_group(item, spec.dates)
            groups.setdefault(group or item.id, []).append(item)
    for group in groups.values():
        pieces += [
            item_piece(item, spec.labels, continued=place > 0) for place, item in enumerate(group)
        ]
    return sum(map(count, pieces))


def first_of_history(context):
    """Return a message by whoever spoke first in the histories that a context shows."""
    opened = False
    if context.rendered.system is not None:
        first = context.messages[0]
        content = first["parts"] if context.format == "gemini" else first["content"]
        text = content if isinstance(content, str) else content[0].get("text")
        opened = text == OPENING
    return ChatMessage("assistant" if opened else "user", "")


def ends_in_a_user_message(context):
    """Say whether a block would stand, or stands, in the newest user message."""
    if context.format in MERGING:
        return True  # the block costs the same in a message of its own
    messages = [] if context.format == "text" else context.messages
    last = messages[-1] if messages else {"role": "none", "content": ""}
    if last.get("role") != "user":
        return False
    if isinstance(last["content"], list):
        return last["content"][0]["type"] != "tool_result"
    return (
        not last["content"].startswith((BLOCK_BEGIN, "["))
        or context.items[-1].content == last["content"]
    )


@given(worlds(), queries, budgets, formats)
def test_the_newest_is_there_and_the_tail_has_no_holes(world, query, budget, format):
    """Of each history the newest user message and the newest unit are in, and what is in of the rest is a tail."""
    context = assembled(world, query, budget, format)
    if isinstance(context, WindowTooSmallError):
        return
    for name in context.by_section:
        section = world.memory[name]
        if section.spec.placement != "history":
            continue
        decisions = {item.id: context.decision(item.id) for item in section}
        sound = [item for item in section if decisions[item.id].reason is not Reason.ORPHAN]
        if not sound:
            continue
        assert decisions[sound[-1].id].included
        users = [item for item in sound if item.role == "user"]
        if users:
            assert decisions[users[-1].id].included
        tail = [decisions[item.id].reason in (Reason.TAIL, Reason.MUST) for item in sound]
        first = [decisions[item.id].reason is Reason.TAIL for item in sound]
        if True in first:
            assert all(tail[first.index(True) :])


@given(worlds(), budgets.filter(bool), formats)
def test_a_query_without_a_known_word_gives_the_newest(world, budget, format):
    """Where no word of the query is known, what is in of a section of equal items is its newest."""
    context = assembled(world, "zzyzx", budget, format)
    if isinstance(context, WindowTooSmallError):
        return
    assert all(decision.reason is not Reason.RELEVANT for decision in context.decisions)
    for name, use in context.by_section.items():
        spec = world.memory[name].spec
        if spec.placement == "query" and use.items:
            candidates = world.memory[name].proposer.propose(Query("zzyzx"), cap=budget).candidates
            places = {item.id: place for place, item in enumerate(world.memory[name])}
            rest = [places[unit.items[-1].id] for unit in candidates if not unit.must]
            assert rest[spec.recent :] == sorted(rest[spec.recent :], reverse=True)


UNCUT = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", placement="history", eviction="none"),
    SectionSpec("documents", eviction="none", retrieval_threshold=2),
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "critic", "tools"]), texts),
        min_size=1,
        max_size=12,
    ),
    texts,
    formats,
    queries,
)
def test_appending_leaves_the_prefix_as_it_was(turns, document, format, query):
    """While the history is not cut, all before the query's block stays byte for byte when a message is appended."""
    memory = SessionMemory.test_mode(sections=UNCUT)
    memory.add("role", "Answer with care.")
    previous = None
    for number, (role, text) in enumerate(turns):
        if role == "tools":
            memory.add("messages", [ToolUseBlock(f"c{number}", "f", "{}")], role="assistant")
            memory.add("messages", [ToolResultBlock(f"c{number}", text)], role="tool")
        else:
            memory.add("messages", text, role=role)
        memory.add("documents", document + str(number))
        context = asyncio.run(memory.assemble_context(query, budget=20_000, format=format))
        prefix = before_block(context)
        if previous is not None:
            assert prefix[: len(previous)] == previous
        previous = prefix


@given(worlds(), questions, queries, budgets, formats, least_confidences)
def test_before_its_block_the_query_decides_only_where_a_history_begins(
    world, one, other, budget, format, least
):
    """Of two tails of a history one is the end of the other. Without floors beside them, static sections are the same.

    A tail takes the room that no earlier message needs, and a static section the floors that nothing needs. Which items
    match depends on the query.
    """
    contexts = [
        assembled(world, one, budget, format),
        assembled(world, other or "", budget, format, min_confidence=least),
    ]
    if isinstance(contexts[0], WindowTooSmallError):
        assert str(contexts[0]) == str(contexts[1])
        return
    has_floors = any(spec.floor for spec in world.memory.sections if spec.placement == "query")
    is_same = True
    for spec in world.memory.sections:
        if spec.placement == "query":
            continue
        shown = [before_block_of(spec.name, context) for context in contexts]
        is_same = is_same and shown[0] == shown[1]
        if spec.is_history:
            shorter, longer = sorted(shown, key=len)
            assert shorter == [item_id for item_id in longer if item_id in shorter]
        else:
            assert shown[0] == shown[1] or has_floors
    if is_same and format != "text":
        assert before_block(contexts[0]) == before_block(contexts[1])


def before_block_of(section, context):
    """Return the ids of a section's items that are shown before the block, in order."""
    found = []
    for item in context.items:
        is_recalled = context.decision(item.id).reason is Reason.RECALLED
        if item.section == section and not is_recalled:
            found.append(item.id)
    return found
