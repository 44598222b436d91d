"""Where a history is cut."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import Item, SectionSpec, SessionMemory, TextBlock, ThinkingBlock
from kaosmem.assembly.tail import Tail, TailCutter
from kaosmem.sections import Candidate
from kaosmem.units import roundest_first

MARK = 5
HEADER = 2


def history(sizes: list[int], *, users: frozenset[int], skipped: int = 0) -> list[Candidate]:
    """Return single-item units of so many tokens, the first ones evicted; the newest and the newest user are musts."""
    newest_user = max((index for index in range(len(sizes)) if index in users), default=-1)
    units, offset = [], 0
    for index, tokens in enumerate(sizes):
        if index >= skipped:
            role = "user" if index in users else "assistant"
            item = Item(str(index), "messages", role, "x", tokens, datetime(2024, 1, 1, tzinfo=UTC))
            must = index in (len(sizes) - 1, newest_user)
            units.append(Candidate((item,), index, offset, True, must, False, len(units) + 1, None, tokens))
        offset += tokens
    return units


def cutter(
    units: list[Candidate], sizes: list[int], low_water: float, *, mark: int = MARK, header: int = HEADER
) -> TailCutter:
    return TailCutter(
        SectionSpec("messages", placement="history", low_water=low_water),
        units,
        taken=len(sizes),
        total=sum(sizes),
        size=lambda unit: unit.items[0].tokens,
        mark_size=lambda left_out: mark if left_out else 0,
        header=header,
    )


sizes_of = st.lists(st.integers(1, 60), min_size=1, max_size=40)
low_waters = st.sampled_from([0.0, 0.3, 0.5, 1.0])


@given(sizes_of, st.sets(st.integers(0, 39)), st.integers(0, 5), low_waters, st.integers(0, 600))
def test_a_tail_is_unbroken_within_its_cap_and_counts_itself(sizes, users, skipped, low_water, cap) -> None:
    """The tail is a suffix, fits, says what it uses, and its mark counts what is before it and not kept."""
    skipped = min(skipped, len(sizes) - 1)
    units = history(sizes, users=frozenset(users), skipped=skipped)
    cut = cutter(units, sizes, low_water)
    cap = max(cap, cut.must)
    tail = cut.cut(cap)
    assert list(tail.units) == units[len(units) - len(tail.units) :]
    assert tail.used <= cap
    shown = [unit.tokens for unit in (*tail.before, *tail.units)]
    assert tail.used == HEADER + sum(shown) + (MARK if tail.left_out else 0)
    assert all(unit in (*tail.before, *tail.units) for unit in units if unit.must)
    first = tail.units[0].position if tail.units else len(sizes)
    if tail.left_out is not None:
        assert tail.left_out == first - len(tail.before)
    else:
        assert len(shown) == len(units)


messages_of = st.lists(st.tuples(st.integers(1, 60), st.sampled_from("uaa")), min_size=10, max_size=40)


@given(messages_of, st.sampled_from([0.2, 0.5, 0.8]), st.integers(100, 300))
def test_the_cut_is_where_the_formula_says(messages, low_water, cap) -> None:
    """Where rendering adds nothing, a history is cut as near its target as the design says, or a step further on."""
    sizes = [size for size, _ in messages]
    users = {index for index, (_, kind) in enumerate(messages) if kind == "u"}
    units = history(sizes, users=frozenset(users))
    cut = cutter(units, sizes, low_water, mark=0, header=0)
    cap = max(cap, cut.must)
    tail = cut.cut(cap)
    assert tail.units[0].position == start_of(sizes, users, low_water, cap)


def start_of(sizes: list[int], users: set[int], low_water: float, cap: int) -> int:
    """Return where a history is cut whose units may all be cut before."""
    total, step = sum(sizes), int((1 - low_water) * cap)
    if total <= cap:
        return 0
    newest_user = max(users, default=-1)
    last = len(sizes) - 2 if newest_user == len(sizes) - 2 >= 0 else len(sizes) - 1
    offsets = [sum(sizes[:index]) for index in range(last + 1)]
    target, start = step * math.ceil((total - cap) / step), -1
    while True:
        slack = min(step, low_water * cap) / 2
        near = [index for index in range(last + 1) if target - slack <= offsets[index] < target + slack]
        turns = [index for index in near if index in users]
        beyond = [index for index in range(last + 1) if offsets[index] >= target]
        choice = turns or near or beyond or [last]
        found = max([index for index in choice if offsets[index] <= target], default=choice[0])
        start = found if found > start else start + 1
        question = sizes[newest_user] if 0 <= newest_user < start else 0
        if start == last or sum(sizes[start:]) + question <= cap:
            return start
        target += step


@given(st.lists(st.integers(5, 40), min_size=30, max_size=120), st.sampled_from([0.3, 0.5]))
def test_a_cut_holds_for_many_turns_and_only_moves_on(sizes: list[int], low_water: float) -> None:
    """As a history grows its cut never moves back, and moves less often than once for every quarter of a step."""
    cap, starts = 400, []
    for turn in range(1, len(sizes) + 1):
        units = history(sizes[:turn], users=frozenset(range(0, turn, 2)))
        tail = cutter(units, sizes[:turn], low_water).cut(cap)
        starts.append(tail.units[0].position)
    assert starts == sorted(starts)
    step = (1 - low_water) * cap
    assert len(set(starts)) <= 2 + sum(sizes) / (step / 4)


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from("uaaaaac")), min_size=20, max_size=60), low_waters)
def test_a_cut_moves_back_only_with_the_question_before_it(messages: list[tuple[int, str]], low_water: float) -> None:
    """However long the turns and whatever is not to be cut, only a question that goes from before the mark makes room.

    u: a user's message, c: one that a history may not begin with.
    """
    sizes, kinds = [size for size, _ in messages], [kind for _, kind in messages]
    tails: list[Tail] = []
    for turn in range(1, len(sizes) + 1):
        users = frozenset(index for index in range(turn) if kinds[index] == "u")
        units = [
            unit._replace(cut=kind != "c")
            for unit, kind in zip(history(sizes[:turn], users=users), kinds, strict=False)
        ]
        cut = cutter(units, sizes[:turn], low_water)
        tails.append(cut.cut(max(400, cut.must)))
        assert tails[-1].left_out is None or all(unit.cut for unit in tails[-1].units[:1])
    for last, tail in pairwise(tails):
        assert starts_at(tail) >= starts_at(last) or tail.before != last.before


def starts_at(tail: Tail) -> float:
    return tail.units[0].position if tail.units else math.inf


def test_the_newest_question_is_kept_before_the_mark() -> None:
    """In a long tool loop the user's question stays, before the mark, although the tail begins after it."""
    sizes = [10, *[40] * 20]
    units = history(sizes, users=frozenset({0}))
    tail: Tail = cutter(units, sizes, 0.5).cut(300)
    assert [unit.position for unit in tail.before] == [0]
    assert tail.left_out == tail.units[0].position - 1
    assert tail.used <= 300


async def test_a_history_that_is_shorter_shown_than_stored_is_shown_whole() -> None:
    """Unsent reasoning weighs on the total; the history still fits wherever it does with what it is shown as."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "hi")
    memory.add("messages", [ThinkingBlock("word " * 200), TextBlock("ok")], role="assistant")
    memory.add("messages", "x")
    whole = await memory.assemble_context(budget=1_000, format="openai")
    for budget in range(whole.used + 1, whole.used + 250):
        context = await memory.assemble_context(budget=budget, format="openai")
        assert context.used <= budget
        assert "x" in str(context.messages[-1])


def by_position(units: list[Candidate], low_water: float, *, before: int) -> TailCutter:
    """Return what cuts where nothing is known of so many items but that they were before these."""
    return TailCutter(
        SectionSpec("messages", placement="history", low_water=low_water),
        [unit._replace(position=before + unit.position, offset=0) for unit in units],
        taken=before + len(units),
        total=None,
        evicted=before,
        size=lambda unit: unit.items[0].tokens,
        mark_size=lambda left_out: MARK if left_out else 0,
        header=HEADER,
    )


@given(sizes_of, st.sets(st.integers(0, 39)), low_waters, st.integers(0, 600), st.integers(0, 3_000))
def test_a_tail_cut_by_position_is_unbroken_within_its_cap(sizes, users, low_water, cap, before) -> None:
    """Where it is not known how many tokens came before, too; it begins with a user's turn where one is near."""
    units = history(sizes, users=frozenset(users))
    cut = by_position(units, low_water, before=before)
    cap = max(cap, cut.must)
    tail = cut.cut(cap)
    start = len(units) - len(tail.units)
    assert [unit.items for unit in tail.units] == [unit.items for unit in units[start:]]
    assert [unit.items for unit in tail.before] == [unit.items for unit in units[:start] if unit.must]
    assert tail.left_out == (before + start - len(tail.before) or None)

    def used(place: int) -> int:
        kept = [unit for unit in units[:place] if unit.must]
        mark = MARK if before + place > len(kept) else 0
        return HEADER + mark + sum(unit.items[0].tokens for unit in (*kept, *units[place:]))

    assert tail.used == used(start) <= cap
    if not before and sum(sizes) + HEADER <= cap:
        assert start == 0
        return
    last = max((place for place in range(len(units)) if not all(unit.must for unit in units[place:])), default=-1) + 1
    turns = [place for place in range(last + 1) if place < len(units) and units[place].items[0].role == "user"]
    if any(low_water * cap <= used(place) <= cap for place in turns):
        assert start in turns


@given(st.lists(st.integers(1, 9), min_size=60, max_size=60), st.integers(0, 10**6))
def test_the_roundest_position_of_a_range_that_moves_on_stays_for_long(steps, first) -> None:
    """While a range moves on by its own length it changes three or four times at most, and never back, whatever the
    steps and wherever they begin."""
    positions = [first + sum(steps[:number]) for number in range(len(steps))]
    order = roundest_first(positions)
    assert sorted(order) == list(range(len(positions)))
    width = 100
    chosen = []
    for start in range(first, positions[-1] - width):
        inside = [rank for rank in order if start <= positions[rank] < start + width]
        chosen.append(inside[0])
    changes = sum(one != other for one, other in pairwise(chosen))
    assert changes <= 3.5 * len(chosen) / width + 2
    assert chosen == sorted(chosen)
