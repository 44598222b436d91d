"""Duplicates: one of them is shown, and the decisions of the others name it."""

from datetime import timedelta
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts, text_item
from kaosmem import (
    BM25Ranker,
    Context,
    ImageBlock,
    Item,
    Reason,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.language.duplicates import DuplicateFinder, duplicate_key, newest_first
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from tests.contexts import assembled
from tests.worlds import budgets, formats, queries, worlds


def says_the_same(one, other):
    """Return whether two texts are duplicates, by the definition."""
    return one.casefold().split() == other.casefold().split()


words = st.sampled_from(
    ["a", "of", "fee", "Fee", "not", "indemnity", "日本語", "ü", "1.5", "$1.5", "north", "south"]
)
texts = st.lists(words, max_size=8).map(" ".join)


def admitted(shown, *items):
    """Return the ids of the twins of a unit. A unit without twins is shown from now on."""
    twins = shown.twins(items)
    if not twins:
        shown.note(items)
    return twins


@st.composite
def edited(draw):
    """Draw a text, and another in which some case, some white space and perhaps a word differ."""
    text = draw(st.lists(words, min_size=1, max_size=60))
    other = [draw(st.sampled_from([word, word, word.upper()])) for word in text]
    if draw(st.booleans()):
        other[draw(st.integers(0, len(other) - 1))] = draw(words)
    return " ".join(text), " \n".join(other)


@given(st.one_of(edited(), st.tuples(texts, texts)))
@example(("ok then", "OK  then\n"))
@example(("ok then", "ok"))
@example(("the north building", "the south building"))
@example(("he is away", "he is not away"))
@example(("", " "))
def test_duplicates_are_found_and_nothing_else(pair):
    """An item is a duplicate exactly where the definition says so, and a text with another word never is."""
    one, other = map(text_item, pair)
    same = says_the_same(*pair)
    assert (duplicate_key(one) == duplicate_key(other)) == same
    assert bool(admitted(DuplicateFinder([one]), other)) == same
    told = DuplicateFinder()
    assert not told.knows(one)
    assert told.knows(other) == same


PARKING = "For the Harbour Street office the landlord confirmed that cars may be parked in the court of the {} building"


@pytest.mark.parametrize("asked", ["north", "south"])
@pytest.mark.parametrize("threshold", [0, 1_000])
@pytest.mark.parametrize(
    "sides", [("north", "south"), ("south", "north"), ("north", "south", "north")]
)
async def test_another_value_is_no_duplicate_and_the_newest_statement_stays(
    sides, threshold, asked
):
    """Each value is shown once, in order of the newest statement of it, whichever is asked for."""
    spec = SectionSpec("findings", eviction="none", retrieval_threshold=threshold)
    memory = SessionMemory.test_mode(sections=(spec,))
    for side in sides:
        memory.add("findings", PARKING.format(side))
    context = await memory.assemble_context(
        f"May cars be parked at the {asked} building?", budget=1_000
    )
    assert [item.text for item in context.items] == [PARKING.format(side) for side in sides[-2:]]


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_statement_made_again_after_another_is_shown_after_it(pinned):
    """A value that holds again stands below the value in between, also where its first statement is pinned."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("findings", eviction="none"),))
    memory.add("findings", "The door is open.", pinned=pinned)
    memory.add("findings", "The door is shut.")
    memory.add("findings", "The door is open.")
    context = await memory.assemble_context("Is the door open or shut?", budget=1_000)
    shown = [item.text for item in context.items]
    assert shown == ["The door is open."] * pinned + ["The door is shut.", "The door is open."]


@given(st.lists(st.integers(0, 3), max_size=12))
def test_duplicates_change_places_with_one_another_alone(statements):
    """The newest of the units that say the same comes in the first place that any of them had."""
    start = text_item("").created_at
    items = [
        Item(str(at), "s", "", f"statement {each}", 1, start + timedelta(seconds=at))
        for at, each in enumerate(statements)
    ]
    units = [
        Candidate(
            (item,), at, cut=False, must=False, orphan=False, rank=at + 1, score=None, tokens=1
        )
        for at, item in enumerate(items)
    ]
    ordered = newest_first(units)
    assert [unit.items[0].text for unit in ordered] == [unit.items[0].text for unit in units]
    for text in {unit.items[0].text for unit in units}:
        positions = [unit.position for unit in ordered if unit.items[0].text == text]
        assert positions == sorted(positions, reverse=True)


def test_only_text_is_compared():
    """Two images are not one, though both are told alike in words; blocks of text are."""
    result = ToolResultBlock("c", (TextBlock("a chart"), ImageBlock("data:image/png;base64,AA==")))
    memory = SessionMemory.test_mode()
    for content in ([ImageBlock("https://x/1.png")], [result]):
        one, other = (memory.add("documents", content) for _ in range(2))
        assert admitted(DuplicateFinder([one]), other) == ()
    one = memory.add("documents", [TextBlock("the same")])
    other = memory.add("documents", "the same")
    assert admitted(DuplicateFinder([other]), one) == (other.id,)


def test_what_comes_together_is_left_out_together_or_not_at_all():
    """A call that was made before comes with its new result."""
    memory = SessionMemory.test_mode()
    call, result, news = memory.add_many("documents", ["find(x)", "found nothing", "found it"])
    shown = DuplicateFinder([call, result])
    assert admitted(shown, call, news) == ()
    assert admitted(shown, call, result) == (call.id, result.id)
    assert admitted(shown, news, call) == (news.id, call.id)


async def talk_till_recalled(memory, item_id):
    """Say one thing after another until an early message is out of the tail, and is recalled."""
    for text in seeded_texts(60, words=12):
        memory.add("messages", text)
        memory.add("messages", "Noted.", role="assistant")
        context = await memory.assemble_context("Is the vault open or shut in Zurich?", budget=900)
        if context.decision(item_id).reason is Reason.RECALLED:
            return context
    raise AssertionError("never recalled")


async def test_calls_in_a_history_are_recalled_with_new_results():
    """Two recalled calls that read alike are both there if their results differ."""
    spec = SectionSpec(
        "messages",
        400,
        placement="history",
        eviction="none",
        recall=0.6,
        retrieval_threshold=0,
        ranker=BM25Ranker(),
    )
    memory = SessionMemory.test_mode(sections=(spec,))
    for number, found in enumerate(["the vault is open", "the vault is shut", "the vault is open"]):
        memory.add(
            "messages", [ToolUseBlock(f"c{number}", "look", '{"at": "vault"}')], role="assistant"
        )
        memory.add("messages", [ToolResultBlock(f"c{number}", found)], role="tool", id=f"r{number}")
    context = await talk_till_recalled(memory, "r2")
    reasons = sorted(context.decision(f"r{number}").reason for number in range(3))
    assert reasons == [Reason.DUPLICATE, Reason.RECALLED, Reason.RECALLED]


def chosen(context):
    """Return what retrieval brought into a context."""
    by_choice = (Reason.RELEVANT, Reason.NEWEST, Reason.NEWER, Reason.RECALLED)
    return [item for item in context.items if context.decision(item.id).reason in by_choice]


@given(worlds(), queries, budgets, formats)
def test_no_two_items_that_retrieval_chose_say_the_same(world, query, budget, format):
    """Neither one another nor what is shown anyway; and each that is out as a duplicate names one that is in."""
    context = assembled(world, query, budget, format)
    if not isinstance(context, Context):
        return
    by_id = {item.id: item for item in context.items}
    alone = {
        unit.items[0].id
        for name in context.by_section
        for proposal in [
            world.memory[name].proposer.propose(Query(context.query), cap=context.budget)
        ]
        for unit in (*proposal.candidates, *proposal.earlier)
        if len(unit.items) == 1 and world.memory[name].spec.placement != "static"
    }
    block = [item for item in chosen(context) if item.id in alone]
    for one, other in combinations(block, 2):
        assert not says_the_same(one.text, other.text)
    anyway = [item for item in context.items if item not in chosen(context)]
    repeated = [
        (one, other) for one in block for other in anyway if says_the_same(one.text, other.text)
    ]
    # A newer item of the section says again what an older one says, such as a pinned one: the
    # newest word is shown.
    assert all(
        one.section == other.section and one.created_at > other.created_at
        for one, other in repeated
    )
    for decision in context.decisions:
        assert (decision.same_as is not None) == (decision.reason is Reason.DUPLICATE)
        if decision.same_as is not None:
            assert world.memory[decision.section].spec.placement != "static"
            proposed = world.memory[decision.section]
            text = (proposed.get(decision.item_id) or proposed.archive.get(decision.item_id)).text
            assert says_the_same(text, by_id[decision.same_as].text)


SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", placement="history", eviction="none"),
    SectionSpec("findings", eviction="none", priority=1, retrieval_threshold=0),
    SectionSpec("documents", eviction="none", retrieval_threshold=0),
)


TEXT = seeded_texts(1, words=60)[0]


def variants(number):
    """Return so many texts that say the same."""
    return [f"{TEXT} {' ' * at}copy" for at in range(number)]


@pytest.mark.parametrize("threshold", [0, 1_000])
async def test_copies_do_not_fill_a_window(threshold):
    """However many copies there are, one is in, and the others' room goes to what else is wanted."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("documents", eviction="none", retrieval_threshold=threshold),)
    )
    others = [
        memory.add("documents", f"{text} {TEXT[:20]}") for text in seeded_texts(8, seed=5, words=30)
    ]
    memory.add_many("documents", variants(60))
    context = await memory.assemble_context(TEXT, budget=1_500)
    assert sum(TEXT in item.text for item in context.items) == 1
    assert {item.id for item in others} <= {item.id for item in context.items}
    (stands,) = [item.id for item in context.items if TEXT in item.text]
    copies = [each for each in context.decisions if each.reason is Reason.DUPLICATE]
    assert len(copies) > 5
    assert {each.same_as for each in copies} == {stands}
    assert f"duplicate of {TEXT[:6]}" in context.explain()


async def test_the_section_that_is_served_first_shows_it():
    """Duplicates are found across sections; the one of the higher priority is in."""
    memory = SessionMemory.test_mode(sections=SPECS)
    document = memory.add("documents", TEXT)
    finding = memory.add("findings", TEXT.upper())
    context = await memory.assemble_context(TEXT, budget=1_000)
    assert context.items == (finding,)
    decision = context.decision(document.id)
    assert (decision.reason, decision.same_as, decision.included) == (
        Reason.DUPLICATE,
        finding.id,
        False,
    )
    assert decision.why == f"duplicate of {finding.id}"
    assert context.decision(finding.id).same_as is None


async def test_what_is_shown_anyway_stands_for_its_duplicates():
    """What stands in the system message or the tail is not repeated in the block, and is never left out itself."""
    memory = SessionMemory.test_mode(sections=SPECS)
    memory.add("role", "Answer in the language of the question.")
    rule = memory.add("role", "Answer in the language of the question.")
    asked = [memory.add("messages", TEXT), memory.add("messages", TEXT)]
    pinned = [memory.add("findings", TEXT, pinned=True) for _ in range(2)]
    known = [memory.add("documents", text) for text in (TEXT, rule.text)]
    context = await memory.assemble_context(TEXT, budget=2_000)
    assert {item.id for item in known}.isdisjoint(item.id for item in context.items)
    assert [context.decision(item.id).same_as for item in known] == [asked[1].id, rule.id]
    assert all(context.decision(item.id).included for item in (*asked, *pinned, *memory["role"]))


@pytest.mark.parametrize("eviction", ["none", "fifo"])
async def test_what_the_tail_says_is_not_recalled(eviction):
    """An earlier message that is said again in the tail stays out, and its decision names the later one."""
    spec = SectionSpec(
        "messages", 300, placement="history", eviction=eviction, recall=0.5, retrieval_threshold=0
    )
    memory = SessionMemory.test_mode(sections=(spec,))
    fact = "The vault code of the Zurich office is 4711."
    first = memory.add("messages", fact)
    await talk_till_recalled(memory, first.id)
    again = memory.add("messages", fact)
    context = await memory.assemble_context("Is the vault open or shut in Zurich?", budget=900)
    assert (context.decision(first.id).reason, context.decision(first.id).same_as) == (
        Reason.DUPLICATE,
        again.id,
    )
