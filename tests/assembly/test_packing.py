"""What a packing shows of each section: within its cap and floor, each message once, and no half of a unit."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import (
    Item,
    Reason,
    SectionSpec,
    SessionMemory,
    ToolResultBlock,
    WindowTooSmallError,
)
from kaosmem.assembly.allocation import Line, TokenTally, least_tokens, line_maker
from kaosmem.assembly.fitting import Share
from kaosmem.language.duplicates import DuplicateFinder
from kaosmem.sections import Candidate
from kaosmem.tokens import get_counter
from tests.talk import talk

FORMATS = ["text", "openai", "anthropic"]
QUESTION = "When does licence QX-7741 expire?"
FACT = "Licence QX-7741 expires in March."


def unit(position, *, source=""):
    item = Item(str(position), "notes", "note", source, 7, datetime(2024, 1, 1, tzinfo=UTC))
    return Candidate((item,), position, True, False, False, position + 1, None, 7)


def line_of(item, note):
    """Return a line whose label depends on its item: of the first of a group it counts."""
    return (
        Line((item.content,), 7, 5 + int(item.id)) if item.content else Line((), 12 + int(item.id))
    )


HEADER = 4


@given(st.permutations(range(6)), st.lists(st.sampled_from(["a", "b", ""]), min_size=6, max_size=6))
def test_a_run_counts_what_it_shows(order, sources):
    """Its tokens are those of its items in their final order, in whichever order they were taken."""
    tally = TokenTally(HEADER, line_of)
    shown = {}
    for number, position in enumerate(order, 1):
        taken = unit(position, source=sources[position])
        tally.add(*tally.cost_of([taken]))
        shown[position] = sources[position]
        labelled = [
            at
            for at in shown
            if not shown[at] or at == min(each for each in shown if shown[each] == shown[at])
        ]
        assert tally.used == HEADER + 7 * number + sum(5 + at for at in labelled)


PARTS = [
    " ",
    "\n",
    "\n\n",
    "\r\n ",
    "[",
    "/",
    "#",
    "a",
    "internationalization",
    "日本",
    "🙂",
    "\ufe0f",
]


@given(
    st.lists(st.sampled_from([*PARTS, "\x1b[0m", "\U000e0041"]), max_size=12).map("".join),
    st.sampled_from([{}, {"source": "a.md"}, {"source": "s", "timestamp": "2024-05-07"}]),
    st.sampled_from(["", "user", "Emi"]),
    st.sampled_from(["o200k_base", "cl100k_base", "estimate"]),
)
def test_a_unit_takes_no_less_than_it_is_said_to(text, metadata, role, name):
    """Whatever label its text stands behind, and whatever of the text is hidden."""
    counter = get_counter(name)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    item = Item("1", "notes", role, text, counter(text), at, metadata=metadata)
    line = line_maker(SectionSpec("notes").labels, counter)(item, None)
    least = least_tokens(Candidate((item,), 0, True, False, False, 1, None, item.tokens))
    assert least <= line.tokens


def test_a_replaced_version_brings_its_successor():
    """The current version stands after the replaced one, and is taken once."""
    replaced = unit(0)._replace(needs=(1,), is_replaced=True, display_order=(1, 0, 0))
    current = unit(1)
    share = Share(SectionSpec("notes"), (replaced, current), TokenTally(HEADER, line_of), 100)
    share.take(replaced, 100, DuplicateFinder(()))
    share.take(current, 100, DuplicateFinder(()))
    assert share.kept() == [replaced, current]
    assert share.tally.used == HEADER + 12 + 13


def test_half_of_a_replaced_version_and_its_successor_is_not_taken():
    """If both do not fit together, neither is in."""
    replaced = unit(0)._replace(needs=(1,), is_replaced=True, display_order=(1, 0, 0))
    current = unit(1)
    share = Share(SectionSpec("notes"), (replaced, current), TokenTally(HEADER, line_of), 100)
    share.take(replaced, HEADER + 12 + 12, DuplicateFinder(()))
    assert share.kept() == []
    assert share.tally.used == 0


@pytest.mark.parametrize("format_", FORMATS)
async def test_a_long_history_leaves_a_section_its_floor(format_):
    """Even if it would fill the window by itself."""
    specs = (
        SectionSpec("messages", placement="history", priority=9),
        SectionSpec("notes", floor=0.5, eviction="none"),
    )
    memory = SessionMemory.test_mode(sections=specs, counter="estimate")
    for number, text in enumerate(seeded_texts(80, words=20)):
        memory.add("messages", text, role=("user", "assistant")[number % 2])
        memory.add("notes", f"On the licence: {text[::-1]}")
    context = await memory.assemble_context(QUESTION, budget=1_000, format=format_)
    assert context.by_section["notes"].used > 400


@pytest.mark.parametrize("recall", [0.1, 0.5])
@pytest.mark.parametrize("placement", ["query", "history"])
async def test_recalled_items_stay_within_their_share(placement, recall):
    """Evicted items that answer the question take no more than their share of the section's budget."""
    spec = SectionSpec("notes", 300, recall=recall, placement=placement)
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    for number in range(60):
        text = FACT if number < 30 else "The rent of a crane is due in May."
        memory.add("notes", f"{number}. {text}", role="user")
    context = await memory.assemble_context(QUESTION, budget=5_000)
    tokens = sum(each.tokens for each in context.decisions if each.reason is Reason.RECALLED)
    assert 0 < tokens <= recall * 300
    assert context.by_section["notes"].used <= 300


@pytest.mark.parametrize("format_", FORMATS)
async def test_a_result_without_its_call_is_not_shown(format_):
    """Neither in the tail of a history, nor as a recalled message; its decision says so."""
    spec = SectionSpec("messages", placement="history", recall=0.5)
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    early = memory.add("messages", [ToolResultBlock("gone", FACT)], role="tool")
    talk(memory, seeded_texts(60, words=20))
    late = memory.add("messages", [ToolResultBlock("gone too", FACT)], role="tool")
    memory.add("messages", QUESTION, role="user")
    context = await memory.assemble_context(budget=600, format=format_)
    assert not {early.id, late.id} & {item.id for item in context.items}
    assert context.decision(late.id).reason is Reason.ORPHAN


@pytest.mark.parametrize("placement", ["static", "query", "history"])
async def test_what_is_shown_of_a_section_stays_within_its_budget(placement):
    """Header and labels included, though its items alone would fill the budget."""
    spec = SectionSpec("notes", 200, placement=placement)
    memory = SessionMemory.test_mode(sections=(spec,), counter="estimate")
    for text in seeded_texts(40, words=8):
        memory.add("notes", text, metadata={"source": "rates.md"}, role="user")
    assert sum(item.tokens for item in memory["notes"]) > 180
    context = await memory.assemble_context(budget=5_000)
    assert 150 < context.by_section["notes"].used <= 200


async def test_required_items_that_do_not_fit_a_sections_budget_are_an_error():
    """The error names the section, its budget and the need; the window is large enough."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("notes", 60),), counter="estimate")
    while memory["notes"].used < 55:
        memory.add("notes", "Due.", pinned=True, metadata={"source": "rates.md"})
    with pytest.raises(WindowTooSmallError, match="section 'notes' must show") as caught:
        await memory.assemble_context(budget=5_000)
    assert caught.value.need["notes"] > 60


async def test_the_frame_of_the_required_items_is_in_the_sums_of_a_window_that_is_too_small():
    """A history that begins with the assistant needs an opening.

    A window of what the error names is large enough.
    """
    memory = SessionMemory.test_mode(sections=(SectionSpec("messages", placement="history"),))
    memory.add("messages", "Hello, how may I help?", role="assistant")
    with pytest.raises(WindowTooSmallError) as raised:
        await memory.assemble_context("", budget=5, format="anthropic")
    need = sum(raised.value.need.values())
    context = await memory.assemble_context("", budget=need, format="anthropic")
    assert context.used == need


@pytest.mark.parametrize(
    ("record", "question", "answers"),
    [
        ("Customer C{g} bought product P{n} for {p} dollars.", "What did customer C4 buy?", 5),
        ("Did Ann pay? The customer C{g} has paid for {p}.", "Has customer C4 paid?", 5),
    ],
)
async def test_corrections_keep_no_good_match_out(record, question, answers):
    """All answers of one pattern are shown as without corrections, in any window."""
    shown = {}
    for corrections in (True, False):
        spec = SectionSpec("notes", eviction="none", retrieval_threshold=0, corrections=corrections)
        memory = SessionMemory.test_mode(sections=(spec,))
        for n in range(12 * answers):
            memory.add("notes", record.format(n=n, g=n % 12, p=n * 7), role="Ann", id=f"r{n}")
        for budget in range(14, 160, 3):
            context = await memory.assemble_context(question, budget=budget)
            found = [context.decision(f"r{n}").included for n in range(4, 12 * answers, 12)]
            shown[budget, corrections] = sum(found)
    for budget in range(14, 160, 3):
        assert shown[budget, True] == shown[budget, False]
    assert shown[158, True] == answers


async def test_the_best_match_is_shown_without_a_label_that_does_not_fit():
    """It is shown in each window in which it is shown without corrections, and labelled in a larger one."""
    shown = {}
    for corrections in (True, False):
        spec = SectionSpec("notes", retrieval_threshold=0, corrections=corrections)
        memory = SessionMemory.test_mode(sections=(spec,))
        long = " We all agreed to that at the long meeting in the old hall by the lake." * 4
        memory.add("notes", "The rent of the flat is 900 euros.", role="Emi", id="old")
        memory.add("notes", f"So the rent of the flat is 950 euros.{long}", role="Emi")
        for budget in range(10, 40):
            context = await memory.assemble_context("rent of the flat 900", budget=budget)
            assert context.used <= budget
            label = "possibly replaced" in context.text
            shown[budget, corrections] = context.decision("old").included, label
    for budget in range(10, 40):
        assert shown[budget, True][0] == shown[budget, False][0]
    assert (True, False) in {shown[budget, True] for budget in range(10, 40)}
    assert shown[39, True] == (True, True)


@pytest.mark.parametrize(("format_", "budget"), [("text", 60), ("openai", 75), ("anthropic", 75)])
@pytest.mark.parametrize("window", [90, 120, 4_000])
async def test_a_small_history_recalls_its_best_message(window, format_, budget):
    """The message may take more than the share for recall, in any window."""
    spec = SectionSpec("messages", budget, placement="history")
    memory = SessionMemory.test_mode(sections=(spec,))
    fact = memory.add("messages", "The launch code is SWORDFISH.", role="user")
    talk(memory, (f"Note {number} says the weather is fine." for number in range(20)))
    question = "What is the launch code?"
    context = await memory.assemble_context(question, budget=window, format=format_)
    assert context.decision(fact.id).reason is Reason.RECALLED
    assert context.by_section["messages"].used <= budget


@pytest.mark.parametrize(("window", "least"), [(None, 150), ("main", 750)])
async def test_weak_matches_of_a_large_section_leave_room_for_a_good_match(window, least):
    """A section of a lower priority shows its best match if that has more of the query's words.

    A section whose matches are weaker than those of the large one gets what is left.
    """
    sections = (
        SectionSpec("messages", placement="history"),
        SectionSpec("documents", priority=50),
        SectionSpec("facts", priority=40),
        SectionSpec("notes", priority=30),
    )
    memory = SessionMemory.test_mode(sections=sections)
    for number in range(200):
        memory.add("documents", f"Page {number} on the birthday of king {number}.")
        memory.add("facts", f"The customer called about invoice {number}.")
        memory.add("notes", f"The colleague {number} has a birthday, too, and is away.")
    memory.add("facts", "The birthday of Anna is on the third of May.")
    memory.add("messages", "When is the birthday of Anna?")
    for budget in range(least, 1_200, 150):
        name = window and f"{window}-{budget}"
        context = await memory.assemble_context(budget=budget, window=name)
        assert "third of May" in context.text
        assert context.by_section["documents"].items > 1
        assert context.used <= budget
        if budget >= 600 and not window:
            assert context.by_section["facts"].used + context.by_section["notes"].used < budget // 4


async def test_notes_that_repeat_the_question_take_no_room_from_documents():
    """An agent writes down the questions that it works on. They match best, and say nothing."""
    question = "When is the birthday of Anna?"
    sections = (SectionSpec("documents", priority=50), SectionSpec("notes", priority=30))
    shown = {}
    for notes in ([], [f"To do: {question}", f"Did I answer {question!r}?"]):
        memory = SessionMemory.test_mode(sections=sections)
        for number in range(200):
            memory.add("documents", f"Page {number} on the birthday of Anna of house {number}.")
            memory.add("notes", f"The weather was fine on day {number}.")
        memory.add_many("notes", notes)
        for budget in range(100, 500, 100):
            context = await memory.assemble_context(question, budget=budget)
            shown[budget, bool(notes)] = context.by_section["documents"].items
    for budget in range(100, 500, 100):
        assert shown[budget, True] == shown[budget, False]
