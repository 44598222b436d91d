"""Near-duplicates: which items are, that one of them is shown, and that the decisions of the others name it."""

from __future__ import annotations

import asyncio
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
from kaosmem.assembly import packing
from kaosmem.duplicates import Shown, Told, are_near, shingles, sketch
from kaosmem.sections import proposer
from tests.test_promises import assembled, handed_over
from tests.worlds import budgets, formats, queries, worlds


def says_the_same(one: str, other: str) -> bool:
    """Return whether two texts are near-duplicates, by the definition."""
    ours, theirs = (
        {" ".join(words[at : at + 5]) for at in range(len(words) - 4)} or {str(words)}
        for words in (one.lower().split(), other.lower().split())
    )
    return len(ours & theirs) / len(ours | theirs) >= 0.8


words = st.sampled_from(["a", "of", "fee", "Fee", "party", "indemnity", "日本語", "ü", "1.5"])
plain = st.lists(words, max_size=40).map(" ".join)


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a text, and another with some of its words changed, dropped or added."""
    text = draw(st.lists(words, min_size=1, max_size=60))
    other = list(text)
    for place in draw(st.lists(st.integers(0, len(text) - 1), max_size=3)):
        other[place : place + draw(st.integers(0, 2))] = draw(st.lists(words, max_size=2))
    return " ".join(text), " \n".join(other)


FIVE = "one two three four five six seven eight nine ten eleven twelve thirteen"


@given(st.one_of(edited(), st.tuples(plain, plain)))
@example((FIVE, FIVE + " more still"))  # 9 of 11
@example((FIVE, FIVE + " more still now"))  # 9 of 12
@example((" ".join(str(n) for n in range(9)), " ".join(str(n) for n in range(8))))  # 4 of 5
@example(("ok then", "OK  then\n"))
@example(("ok then", "ok"))
@example(("", " "))
def test_near_duplicates_are_found_and_nothing_else(texts: tuple[str, str]) -> None:
    """What is asked is told a duplicate just where the definition says so, however the texts are stored."""
    one, other = map(text_item, texts)
    near = says_the_same(*texts)
    assert are_near(shingles(one), shingles(other)) == near
    assert bool(Shown([one]).admit((other,))) == near
    assert not near or not set(sketch(one)).isdisjoint(sketch(other))
    told = Told()
    assert not told.knows(one)
    assert not told.knows(other) or near


SHORT = [f"{number:03}" for number in range(400)]


@pytest.mark.parametrize(
    "more",
    [[f"extraordinary-{number}" for number in range(98)], ["extraordinary"] * 120],
    ids=["a fifth more", "one word again and again"],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_long_words_hide_no_near_duplicate(more: list[str], is_before: bool) -> None:
    """What sketches look at first may be all that two texts don't share: just so much that they are near."""
    one = text_item(" ".join(SHORT))
    other = text_item(" ".join(more + SHORT if is_before else SHORT + more))
    assert says_the_same(one.text, other.text)
    assert Shown([one]).admit((other,))
    assert Shown([other]).admit((one,))


@given(st.lists(edited(), max_size=8))
def test_the_first_that_is_shown_stands_for_the_others(pairs: list[tuple[str, str]]) -> None:
    """Asked one after another, items are admitted or named after the earliest admitted one that says the same."""
    texts = [text for pair in pairs for text in pair]
    items = [Item(str(at), "s", "", text, 0, text_item("").created_at) for at, text in enumerate(texts)]
    shown, admitted = Shown(items[:1]), items[:1]
    for item in items[1:]:
        twins = [other.id for other in admitted if says_the_same(other.text, item.text)]
        assert shown.admit((item,)) == tuple(twins[:1])
        if not twins:
            admitted.append(item)


def test_only_text_is_compared() -> None:
    """Two images are not one, though both are told alike in words; blocks of text are."""
    result = ToolResultBlock("c", (TextBlock("a chart"), ImageBlock("data:image/png;base64,AA==")))
    memory = SessionMemory.test_mode()
    for content in ([ImageBlock("https://x/1.png")], [result]):
        one, other = (memory.add("documents", content) for _ in range(2))
        assert Shown([one]).admit((other,)) == ()
    one, other = memory.add("documents", [TextBlock("the same")]), memory.add("documents", "the same")
    assert Shown([one]).admit((other,)) == (one.id,)


def test_what_comes_together_is_left_out_together_or_not_at_all() -> None:
    """A call that was made before comes with its new result."""
    memory = SessionMemory.test_mode()
    call, result, news = memory.add_many("documents", ["find(x)", "found nothing", "found it"])
    shown = Shown([call, result])
    assert shown.admit((call, news)) == ()
    assert shown.admit((call, result)) == (call.id, result.id)
    assert shown.admit((news, call)) == (news.id, call.id)


SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", placement="history", eviction="none"),
    SectionSpec("findings", eviction="none", priority=1, retrieval_threshold=0),
    SectionSpec("documents", eviction="none", retrieval_threshold=0),
)
TEXT = seeded_texts(1, words=60)[0]


def variants(number: int) -> list[str]:
    """Return so many texts that say the same but for one word."""
    return [f"{TEXT} copy{at}" for at in range(number)]


@pytest.mark.parametrize("threshold", [0, 1_000])
async def test_copies_do_not_fill_a_window(threshold: int) -> None:
    """However many copies there are, one is in, and the others' room goes to what else is wanted."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("documents", eviction="none", retrieval_threshold=threshold),)
    )
    others = [memory.add("documents", f"{text} {TEXT[:20]}") for text in seeded_texts(8, seed=5, words=30)]
    memory.add_many("documents", variants(60))
    context = await memory.assemble_context(TEXT, budget=1_500)
    assert sum(TEXT in item.text for item in context.items) == 1
    assert {item.id for item in others} <= {item.id for item in context.items}
    (stands,) = [item.id for item in context.items if TEXT in item.text]
    copies = [each for each in context.decisions if each.reason is Reason.DUPLICATE]
    assert len(copies) > 5
    assert {each.same_as for each in copies} == {stands}
    assert f"duplicate of {stands}" in context.explain()


async def test_the_section_that_is_served_first_shows_it() -> None:
    """Duplicates are found across sections; the one of the higher priority is in."""
    memory = SessionMemory.test_mode(sections=SPECS)
    document, finding = memory.add("documents", TEXT), memory.add("findings", TEXT.upper())
    context = await memory.assemble_context(TEXT, budget=1_000)
    assert context.items == (finding,)
    decision = context.decision(document.id)
    assert (decision.reason, decision.same_as, decision.included) == (Reason.DUPLICATE, finding.id, False)
    assert decision.why == f"duplicate of {finding.id}"
    assert context.decision(finding.id).same_as is None


async def test_what_is_shown_anyway_stands_for_its_duplicates() -> None:
    """What stands in the system message or the tail is not repeated in the block, and is never left out itself."""
    memory = SessionMemory.test_mode(sections=SPECS)
    rule = memory.add("role", "Answer in the language of the question.")
    memory.add("role", "Answer in the language of the question.")
    asked = [memory.add("messages", TEXT), memory.add("messages", TEXT)]
    pinned = [memory.add("findings", TEXT, pinned=True) for _ in range(2)]
    known = [memory.add("documents", text) for text in (TEXT, rule.text)]
    context = await memory.assemble_context(TEXT, budget=2_000)
    assert {item.id for item in known}.isdisjoint(item.id for item in context.items)
    assert [context.decision(item.id).same_as for item in known] == [asked[0].id, rule.id]
    assert all(context.decision(item.id).included for item in (*asked, *pinned, *memory["role"]))


async def talk_till_recalled(memory: SessionMemory, item_id: str) -> Context:
    """Say one thing after another until an early message is out of the tail, and the tail leaves room to recall it."""
    for text in seeded_texts(60, words=12):
        memory.add("messages", text)
        context = await memory.assemble_context("Is the vault open or shut in Zurich?", budget=900)
        if context.decision(item_id).reason is Reason.RECALLED and context.used < 250:
            return context
    raise AssertionError("never recalled")


@pytest.mark.parametrize("eviction", ["none", "fifo"])
async def test_what_the_tail_says_is_not_recalled(eviction: str) -> None:
    """An earlier message that is said again in the tail stays out, and its decision names the later one."""
    spec = SectionSpec(
        "messages", 300, placement="history", eviction=eviction, low_water=0.5, recall=0.5, retrieval_threshold=0
    )
    memory = SessionMemory.test_mode(sections=(spec,))
    fact = "The vault code of the Zurich office is 4711."
    first = memory.add("messages", fact)
    await talk_till_recalled(memory, first.id)
    again = memory.add("messages", fact)
    context = await memory.assemble_context("Is the vault open or shut in Zurich?", budget=900)
    assert (context.decision(first.id).reason, context.decision(first.id).same_as) == (Reason.DUPLICATE, again.id)


async def test_calls_in_a_history_are_recalled_with_new_results() -> None:
    """Two recalled calls that read alike are both there if their results differ."""
    spec = SectionSpec(
        "messages",
        400,
        placement="history",
        eviction="none",
        low_water=0.4,
        recall=0.6,
        retrieval_threshold=0,
        ranker=BM25Ranker(),
    )
    memory = SessionMemory.test_mode(sections=(spec,))
    for number, found in enumerate(["the vault is open", "the vault is shut", "the vault is open"]):
        memory.add("messages", [ToolUseBlock(f"c{number}", "look", '{"at": "vault"}')], role="assistant")
        memory.add("messages", [ToolResultBlock(f"c{number}", found)], role="tool", id=f"r{number}")
    context = await talk_till_recalled(memory, "r2")
    reasons = sorted(context.decision(f"r{number}").reason for number in range(3))
    assert reasons == [Reason.DUPLICATE, Reason.RECALLED, Reason.RECALLED]


def chosen(context: Context) -> list[Item]:
    """Return what retrieval brought into a context."""
    by_choice = (Reason.RELEVANT, Reason.NEWEST, Reason.RECALLED)
    return [item for item in context.items if context.decision(item.id).reason in by_choice]


@given(worlds(), queries, budgets, formats)
def test_no_two_items_that_retrieval_chose_say_the_same(world, query, budget, format) -> None:
    """Neither one another nor what is shown anyway; and each that is out as a duplicate names one that is in."""
    context = assembled(world, query, budget, format)
    if not isinstance(context, Context):
        return
    by_id = {item.id: item for item in context.items}
    alone = {
        unit.items[0].id
        for name in context.by_section
        for proposal in [world.memory[name].propose(context.query, cap=context.budget)]
        for unit in (*proposal.candidates, *proposal.earlier)
        if len(unit.items) == 1 and world.memory[name].spec.placement != "static"
    }
    block = [item for item in chosen(context) if item.id in alone]
    for one, other in combinations(block, 2):
        assert not says_the_same(one.text, other.text)
    anyway = [item for item in context.items if item not in chosen(context)]
    assert not any(says_the_same(one.text, other.text) for one in block for other in anyway)
    for decision in context.decisions:
        assert (decision.same_as is not None) == (decision.reason is Reason.DUPLICATE)
        if decision.same_as is not None:
            assert world.memory[decision.section].spec.placement != "static"
            proposed = world.memory[decision.section]
            text = (proposed.get(decision.item_id) or proposed.archive.get(decision.item_id)).text
            assert says_the_same(text, by_id[decision.same_as].text)


class AnyShown(Shown):
    """Admits all."""

    def admit(self, items: object) -> tuple[str, ...]:
        return ()


class NothingTold(Told):
    """Knows none."""

    def knows(self, item: Item) -> bool:
        return False


@given(worlds(), queries, budgets, formats)
def test_without_duplicates_contexts_are_as_if_nobody_looked(world, query, budget, format) -> None:
    """Where no two items say the same, looking for duplicates changes no byte and no decision."""
    items = [version.item for spec in world.memory.sections for version in world.memory[spec.name].archive.in_memory()]
    items += [item for spec in world.memory.sections for item in world.memory[spec.name]]
    if any(are_near(shingles(one), shingles(other)) for one, other in combinations(items, 2)):
        return
    context = assembled(world, query, budget, format)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "Shown", AnyShown)
        patch.setattr(proposer, "Told", NothingTold)
        plain = assembled(world, query, budget, format)
    if isinstance(context, Context):
        assert isinstance(plain, Context)
        assert handed_over(context) == handed_over(plain)
        assert context.decisions == plain.decisions


def test_copies_of_a_long_text_are_found_in_any_process() -> None:
    """Sketches depend on nothing but the text."""
    assert list(sketch(text_item("one two three four five six"))) == list(
        sketch(text_item("One two  three four five six"))
    )
    assert asyncio.run(_in_two_memories()) == [True, True]


async def _in_two_memories() -> list[bool]:
    found = []
    for _ in range(2):
        memory = SessionMemory.test_mode(sections=SPECS)
        memory.add_many("documents", variants(5))
        context = await memory.assemble_context(TEXT, budget=1_000)
        found.append(len(context.items) == 1)
    return found
