"""What each field of a spec that shapes a window does, seen from outside: a property each."""

import asyncio
from functools import cache

from hypothesis import assume, example, given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import Reason, SectionSpec, SessionMemory, WindowTooSmallError
from kaosmem.formats.text import header_piece
from tests.pieces import item_piece

sizes = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@cache
def texts():
    return seeded_texts(400, words=12)


def text(number, words):
    """Return a text of so many words that says what no other one does."""
    return " ".join([f"t{number}", *texts()[number % len(texts())].split()[1:words]])


def assembled(memory, budget, **given):
    return asyncio.run(memory.assemble_context("notice", budget=budget, **given))


@example([1] * 12 + [5, 3, 9, 8, 12, 11], [5, 10], 0.25, 60)
@given(sizes, sizes, st.sampled_from([0.1, 0.25, 0.5, 1.0]), st.integers(60, 600))
def test_a_floor_is_kept_free_from_those_served_first(low, high, floor, budget):
    """A section of the lowest priority gets its floor, but for what no unit that it proposed would fit in."""
    memory = SessionMemory.test_mode(
        sections=(
            SectionSpec("greedy", priority=9, eviction="none"),
            SectionSpec("modest", priority=1, floor=floor, eviction="none"),
        )
    )
    for number, words in enumerate(high):
        memory.add("greedy", text(number, words))
    for number, words in enumerate(low):
        memory.add("modest", text(number + 50, words))
    context = assembled(memory, budget)
    use = context.by_section["modest"]
    share = int(floor * (budget - context.frame))
    left_out = [
        item for item in memory["modest"] if context.decision(item.id).reason is Reason.NO_ROOM
    ]
    header = 0 if use.items else memory.admin.counter(header_piece("modest"))
    for item in left_out:
        assert use.used + header + memory.admin.counter(item_piece(item)) > share


@given(
    st.integers(21, 60), st.integers(0, 5), st.integers(40, 400), st.randoms(use_true_random=False)
)
def test_the_recent_come_before_what_the_query_chooses(count, recent, budget, rng):
    """The newest units are wanted first, in order of age, whatever the query is about."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("findings", recent=recent, eviction="none"),)
    )
    for number in range(count):
        about = rng.choice(["notice of termination", "governing law", "payment on time"])
        memory.add("findings", f"{about} {number}")
    context = assembled(memory, budget)
    newest = [item.id for item in reversed(memory["findings"])][:recent]
    assert [decision.item_id for decision in context.decisions[:recent]] == newest
    used = context.frame
    for item_id in newest:
        used += 6 + memory["findings"].peek(item_id).tokens
        if used + 4 < budget:
            assert context.decision(item_id).included


@given(st.integers(0, 400), st.integers(0, 400), sizes)
def test_a_reserve_is_a_smaller_budget(budget, reserve, words):
    """Reserving tokens gives the context of the budget less those, its error included."""
    assume(reserve <= budget)
    memory = SessionMemory.test_mode()
    for number, count in enumerate(words):
        memory.add("messages" if number % 3 else "documents", text(number, count))
    try:
        context = assembled(memory, budget, reserve=reserve)
    except WindowTooSmallError as error:
        try:
            assembled(memory, budget - reserve)
        except WindowTooSmallError as other:
            assert str(other) == str(error)
            assert other.need == error.need
            assert sum(error.need.values()) > budget - reserve
            return
        raise AssertionError("a reserve is not a smaller budget") from error
    assert context == assembled(memory, budget - reserve)
    assert context.used <= context.budget == budget - reserve


@given(st.floats(0, 1), st.integers(0, 60), st.integers(200, 1_200))
def test_recall_takes_at_most_its_share(share, turns, budget):
    """Recalled messages stay within their share of the history's cap, and within what its tail leaves of it."""
    spec = SectionSpec("messages", placement="history", recall=share, eviction="none")
    memory = SessionMemory.test_mode(sections=(spec,))
    for number in range(turns):
        memory.add("messages", text(number, 12))
    memory.add("messages", "What about the notice period of the supplier?")
    context = asyncio.run(memory.assemble_context(budget=budget, format="text"))
    recalled = [
        decision.item_id for decision in context.decisions if decision.reason is Reason.RECALLED
    ]
    pieces = sum(
        memory.admin.counter(item_piece(memory["messages"].peek(item_id))) for item_id in recalled
    )
    assert pieces <= share * budget
    assert (
        context.by_section.get("messages") is None or context.by_section["messages"].used <= budget
    )
    if recalled:
        assert "## messages: earlier ones\n" in context.text


@given(st.floats(0, 1), st.integers(30, 60), st.integers(0, 600))
def test_recall_takes_at_most_its_share_of_a_query_section(share, items, budget):
    """What was evicted stays within its share of the section's cap, its header included."""
    spec = SectionSpec("notes", 200, recall=share, retrieval_threshold=0)
    memory = SessionMemory.test_mode(sections=(spec,))
    for number in range(items):
        memory.add("notes", text(number, 12))
    context = asyncio.run(
        memory.assemble_context("the notice period of the supplier", budget=budget)
    )
    recalled = [d.item_id for d in context.decisions if d.reason is Reason.RECALLED]
    end = context.text.rfind("## notes\n") if "## notes\n" in context.text else len(context.text)
    run = context.text[context.text.find("## notes: ") : end] if recalled else ""
    assert memory.admin.counter(run) <= share * min(200, budget)
    assert (run.count("\n"), bool(run)) == (len(recalled) + bool(recalled), bool(recalled))
