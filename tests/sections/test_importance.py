"""Importance orders units that match a question about as well, and nothing else."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaosmem import BM25Ranker, SectionSpec, SessionMemory
from kaosmem.sections.operations import Credit
from kaosmem.sections.ranking import in_order_of_worth, with_importance
from kaosmem.sections.section import Section
from kaosmem.types.items import Item

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USES = st.lists(st.sampled_from(["used", "shown", ""]), max_size=12)
ROWS = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 100), USES), min_size=1, max_size=12)
QUESTION = "What does a room cost in the old house?"


def credit(section, item_id, *, times=1, used=True):
    for _ in range(times):
        section.credit(Credit(section.spec.name, NOW, (item_id,) if used else (), (item_id,)))


@given(rows=ROWS, near=st.booleans())
@example(rows=[(10, 100.0, []), (10, 95.0, ["used"] * 8)], near=False)
def test_only_units_of_nearly_the_same_worth_change_places(rows, near):
    """An overtaken unit is at most an eighth better, has no best score, and is less important."""
    section = Section(SectionSpec("s"))
    scores = {}
    for place, (tokens, score, uses) in enumerate(rows):
        section.add(Item(f"i{place}", "s", "", "x", tokens, NOW))
        scores[place] = 90 + score / 10 if near else score
        for use in filter(None, uses):
            credit(section, f"i{place}", used=use == "used")
    before = in_order_of_worth(section.held, scores)
    after = in_order_of_worth(section.held, with_importance(section.held, scores))
    assert sorted(after) == sorted(before)
    if not section.ledger.credited:
        assert after == before
    importance = [section.ledger.importance(f"i{place}") for place in range(len(rows))]
    worth = [scores[place] ** 2 / max(1, rows[place][0]) for place in scores]
    best = max(scores.values())
    for ahead, first in enumerate(after):
        for second in after[ahead + 1 :]:
            if before.index(first) > before.index(second):
                assert importance[first] > importance[second] or scores[first] == best
                assert worth[first] >= (7 / 8) ** 2 * worth[second] - 1e-3
                assert scores[second] < best or scores[first] == best


async def test_a_used_item_comes_before_others_that_match_about_as_well():
    """It comes second: the best match keeps its place."""
    memory = SessionMemory.test_mode(ranker=BM25Ranker())
    texts = [f"Room {n} costs {n} euros a night." for n in range(30, 70)]
    memory.add_many("documents", ["Room 29 costs 29 euros.", *texts])
    question = "What does a room cost?"
    before = await memory.assemble_context(question, budget=40)
    best, *others = before.decisions
    near = next(each for each in others if not each.included)
    assert 7 / 8 * best.score < near.score < best.score
    credit(memory["documents"], near.item_id)
    context = await memory.assemble_context(question, budget=40)
    assert context.decision(best.item_id).rank == 1
    assert context.decision(near.item_id).rank == 2
    assert context.decision(near.item_id).included


async def test_a_popular_item_does_not_hide_the_only_answer():
    """Harm case: an item that a hundred replies used matches nearly as well as the answer."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", [f"Room {n} costs {n} euros." for n in range(30, 70)])
    popular = memory.add("documents", "A room in the new house costs 80 euros.")
    answer = memory.add("documents", "A room in the old house costs 70 euros.")
    credit(memory["documents"], popular.id, times=100)
    for budget in (20, 30, 60):
        context = await memory.assemble_context(QUESTION, budget=budget)
        assert answer in context.items


@pytest.mark.parametrize("budget", [25, 40, 100])
async def test_a_used_value_does_not_hide_the_newer_one(budget):
    """Harm case: a stale fact was used often, and its correction never."""
    memory = SessionMemory.test_mode()
    memory.add_many("findings", [f"The hall {n} is green." for n in range(30)])
    old = memory.add("findings", "My office is room 12.", role="Emi")
    new = memory.add("findings", "My office is room 47.", role="Emi")
    before = await memory.assemble_context("Which room is the office?", budget=budget)
    credit(memory["findings"], old.id, times=50)
    context = await memory.assemble_context("Which room is the office?", budget=budget)
    assert new in context.items
    assert context.text == before.text
