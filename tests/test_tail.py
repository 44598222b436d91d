"""Where a history is cut."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import Item, SectionSpec
from kaosmem.assembly.tail import Tail, TailCutter
from kaosmem.sections import Candidate

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


def cutter(units: list[Candidate], sizes: list[int], low_water: float) -> TailCutter:
    return TailCutter(
        SectionSpec("messages", placement="history", low_water=low_water),
        units,
        taken=len(sizes),
        total=sum(sizes),
        size=lambda unit: unit.items[0].tokens,
        mark_size=lambda left_out: MARK if left_out else 0,
        header=HEADER,
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


@given(sizes_of, st.integers(10, 400))
def test_the_target_is_the_formula(sizes: list[int], cap: int) -> None:
    """Where rendering adds nothing, the first unit shown is the first user's turn at the formula's target."""
    units = history(sizes, users=frozenset(range(len(sizes))))
    cut = TailCutter(
        SectionSpec("messages", placement="history", low_water=0.5),
        units,
        taken=len(sizes),
        total=sum(sizes),
        size=lambda unit: unit.items[0].tokens,
        mark_size=lambda _: 0,
        header=0,
    )
    cap = max(cap, cut.must)
    tail = cut.cut(cap)
    total, step = sum(sizes), int(0.5 * cap)
    target = 0 if total <= cap else step * math.ceil((total - cap) / step)
    at_target = next((unit for unit in units if unit.offset >= target), units[-1])
    assert tail.units[0] is at_target or at_target.position > units[-1].position


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


def test_the_newest_question_is_kept_before_the_mark() -> None:
    """In a long tool loop the user's question stays, before the mark, although the tail begins after it."""
    sizes = [10, *[40] * 20]
    units = history(sizes, users=frozenset({0}))
    tail: Tail = cutter(units, sizes, 0.5).cut(300)
    assert [unit.position for unit in tail.before] == [0]
    assert tail.left_out == tail.units[0].position - 1
    assert tail.used <= 300
