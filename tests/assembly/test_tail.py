"""The tail of a history: unbroken, as long as fits, and never shorter in a larger window."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    Item,
    Reason,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    WindowTooSmallError,
)
from kaosmem.assembly.tails import TailCutter
from kaosmem.formats import get_format
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.types.items import ChatMessage
from tests.worlds import formats, queries, worlds

HEADER = 2
TALK = SectionSpec("history", 2_000, 50, 0.1, placement="history")


class Sizes:
    """Costs that can be counted by hand."""

    def entries(self, unit):
        return unit.tokens

    counter = None

    @property
    def format(self):
        return self

    def history_header_tokens(self, title, counter):
        return HEADER

    def entry_tokens(self, mark, counter):
        return len(str(mark.left_out)) + 3


@st.composite
def histories(draw):
    """Draw single-item units of which some may not begin a tail; the newest and the newest user message are musts."""
    kinds = draw(
        st.lists(st.tuples(st.integers(1, 60), st.sampled_from("uaac")), min_size=1, max_size=40)
    )
    newest_user = max((index for index, (_, kind) in enumerate(kinds) if kind == "u"), default=-1)
    skipped = draw(st.integers(0, 5))
    units = []
    for index, (tokens, kind) in enumerate(kinds):
        role = "user" if kind == "u" else "assistant"
        item = Item(str(index), "messages", role, "x", tokens, datetime(2024, 1, 1, tzinfo=UTC))
        must = index in (len(kinds) - 1, newest_user)
        units.append(
            Candidate(
                (item,), skipped + index, kind != "c", must, False, len(units) + 1, None, tokens
            )
        )
    return units


def cutter(units, *, is_whole, evicted):
    taken = units[-1].position + 1
    proposal = Proposal(tuple(units), taken=taken, evicted=evicted, is_all=is_whole)
    return TailCutter(TALK, proposal, Sizes())


@given(histories(), st.booleans(), st.integers(0, 3), st.integers(0, 600))
def test_a_tail_is_the_longest_that_fits_and_counts_itself(units, is_whole, evicted, cap):
    """It is a suffix beside the required units, it counts its tokens, and no longer one fits the cap."""
    cut = cutter(units, is_whole=is_whole, evicted=evicted)
    cap = max(cap, cut.must)
    tail = cut.cut(cap)
    start = len(units) - len(tail.shown) + tail.before
    assert tail.shown == [*(unit for unit in units[:start] if unit.must), *units[start:]]
    assert start in {
        0 if is_whole else len(units),
        len(units),
        *(at for at, unit in enumerate(units) if unit.cut),
    }

    def used(place):
        kept = [unit for unit in units[:place] if unit.must]
        first = units[place].position if place < len(units) else units[-1].position + 1
        left_out = 0 if place == 0 and is_whole and not evicted else first - len(kept)
        shown = sum(unit.tokens for unit in (*kept, *units[place:]))
        mark = len(str(left_out)) + 3 if left_out else 0
        return HEADER + shown + mark, left_out

    assert (tail.used, tail.left_out) == used(start)
    assert tail.used <= cap
    longer = [place for place in range(start) if units[place].cut or (place == 0 and is_whole)]
    assert all(used(place)[0] > cap for place in longer)


@given(histories(), st.booleans(), st.integers(0, 3))
def test_a_larger_cap_never_gives_a_shorter_tail(units, is_whole, evicted):
    cut = cutter(units, is_whole=is_whole, evicted=evicted)
    tails = map(cut.cut, range(cut.must, cut.must + 300))
    lengths = [len(tail.shown) - tail.before for tail in tails]
    assert lengths == sorted(lengths)


def assembled(memory, query, budget, format):
    try:
        return asyncio.run(memory.assemble_context(query, budget=budget, format=format))
    except WindowTooSmallError:
        return None


def tails(context):
    """Return the ids of the messages in the tails of the histories."""
    return {
        each.item_id
        for each in context.decisions
        if each.reason is Reason.TAIL or (each.reason is Reason.MUST and "history" in each.section)
    }


larger = st.lists(st.one_of(st.integers(1, 3), st.integers(1, 100)), min_size=1, max_size=6)


@settings(max_examples=settings().max_examples // 2)
@given(worlds(), queries, st.integers(20, 300), larger, formats)
def test_a_larger_budget_never_shows_a_shorter_tail(world, query, budget, more, format):
    """Beside any other sections, the tail in a larger budget has all messages of the tail in a smaller one."""
    assembled(world.memory, query, 5_000, format)  # what is to be compacted is compacted once
    contexts = []
    for step in (0, *more):
        budget += step
        if context := assembled(world.memory, query, budget, format):
            contexts.append(context)
    for smaller, greater in pairwise(contexts):
        assert tails(smaller) <= tails(greater)


@settings(max_examples=settings().max_examples // 4)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.lists(st.integers(1, 40), max_size=30),
    st.integers(60, 400),
    larger,
)
def test_beside_a_source_and_documents(words, documents, budget, more):
    """The same is true of a provider's thread and of a section, beside documents."""

    async def scenario():
        memory = SessionMemory.test_mode(sections=(*DEFAULT_SECTIONS, TALK))
        provider = InMemoryHistoryProvider()
        await provider.append_many(
            "a", [ChatMessage("user", "hm " * count) for count in words], session_id="s"
        )
        await memory.attach(HistorySource(provider, "a", "s"))
        for number, count in enumerate(words):
            memory.add("history", f"{number} " * count, role=("user", "assistant")[number % 2])
        memory.add_many(
            "documents", [f"{number} " * count for number, count in enumerate(documents)]
        )
        last = set()
        total = budget
        for step in (0, *more):
            total += step
            try:
                context = await memory.assemble_context("5 and 7", budget=total, format="openai")
            except WindowTooSmallError:
                continue
            shown = tails(context)
            assert last <= shown
            last = shown

    asyncio.run(scenario())


@settings(max_examples=settings().max_examples // 5)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), formats)
def test_a_history_fills_its_share(words, format):
    """A longer tail that a larger budget shows takes more than the smaller budget, an opening message apart."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("history", placement="history", recall=0.0),)
    )
    for number, count in enumerate(words):
        memory.add(
            "history", f"{number} " * count, role=("user", "assistant", "assistant")[number % 3]
        )
    layout = get_format(format)
    counter = memory.admin.counter
    openings = [
        layout.frame_tokens(static=False, first=ChatMessage(role, ""), block=None, counter=counter)
        for role in ("assistant", "user")
    ]
    contexts = [
        context
        for budget in range(10, 700, 13)
        if (context := assembled(memory, "", budget, format))
    ]
    for smaller, greater in pairwise(contexts):
        if tails(smaller) != tails(greater):
            assert greater.used + openings[0] - openings[1] > smaller.budget


async def test_a_history_that_is_shorter_shown_than_stored_is_shown_whole():
    """Unsent reasoning weighs on the total; the history still fits wherever it does with what it is shown as."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "hi")
    memory.add("messages", [ThinkingBlock("word " * 200), TextBlock("ok")], role="assistant")
    memory.add("messages", "x")
    whole = await memory.assemble_context(budget=1_000, format="openai")
    assert len(whole.items) == 3
    for budget in range(whole.used + 20, whole.used + 250, 7):  # the frame of a block is kept free
        context = await memory.assemble_context(budget=budget, format="openai")
        assert context.used == whole.used
