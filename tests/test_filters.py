"""Filters on metadata: what each condition means, and that a section is narrowed as item by item."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import DEFAULT_SECTIONS, BM25Ranker, InvalidArgumentError, Reason, SectionSpec, SessionMemory
from kaosmem.filters import parse_filter

MSA = {"source": "msa.pdf", "year": 2021, "draft": False, "parties": ["Acme", "Beta"]}


@pytest.mark.parametrize(
    ("given_filter", "passes"),
    [
        ({}, True),
        ({"source": "msa.pdf"}, True),
        ({"source": "sow.pdf"}, False),
        ({"source": "msa.pdf", "year": 2020}, False),
        ({"absent": "x"}, False),
        ({"absent": None}, False),
        ({"source": {"$in": ["sow.pdf", "msa.pdf"]}}, True),
        ({"source": {"$in": []}}, False),
        ({"source": {"$ne": "sow.pdf"}}, True),
        ({"absent": {"$ne": "x"}}, True),
        ({"year": {"$gte": 2021, "$lt": 2022}}, True),
        ({"year": {"$gt": 2021}}, False),
        ({"year": {"$lte": 2020.5}}, False),
        ({"year": {"$gt": "2020"}}, False),
        ({"draft": {"$lt": 1}}, False),
        ({"draft": 0}, False),
        ({"draft": False}, True),
        ({"absent": {"$exists": False}}, True),
        ({"source": {"$exists": True}}, True),
        ({"parties": "Acme"}, True),
        ({"parties": ["Acme", "Beta"]}, True),
        ({"parties": {"$in": ["Gamma", "Beta"]}}, True),
        ({"parties": {"$ne": "Acme"}}, False),
        ({"$or": [{"year": 1999}, {"source": "msa.pdf"}]}, True),
        ({"$or": []}, False),
        ({"$and": [{"year": 2021}, {"draft": True}]}, False),
        ({"$not": {"draft": True}}, True),
        ({"$not": {"$or": [{"year": 2021}]}, "source": "msa.pdf"}, False),
    ],
)
def test_each_condition_means_what_it_says(given_filter: dict[str, Any], passes: bool) -> None:
    """A condition holds of metadata or it does not."""
    assert parse_filter(given_filter)(MSA) is passes


@pytest.mark.parametrize(
    ("given_filter", "message"),
    [
        ("source", "a filter is a mapping"),
        ("$.x == 99 || 1 == 1", "a filter is a mapping"),
        ({"$where": "sleep(9)"}, r"\$and, \$or, \$not"),
        ({"text": {"$regex": "(a+)+$"}}, r"use one of \$eq"),
        ({5: "x"}, "a field's name"),
        ({"$nor": []}, r"\$and, \$or, \$not"),
        ({"year": {"$around": 5}}, r"use one of \$eq"),
        ({"year": {"$gt": 5, "plain": 6}}, r"use one of \$eq"),
        ({"year": {"$gt": None}}, "a number or a text"),
        ({"year": {"$exists": 1}}, "True or False"),
        ({"year": {"$in": "2021"}}, "takes a list"),
        ({"$or": {"year": 2021}}, "takes a list"),
        ({"$or": ["year"]}, "a filter is a mapping"),
    ],
)
def test_what_means_nothing_is_refused(given_filter: Any, message: str) -> None:
    """The error says what was expected."""
    with pytest.raises(InvalidArgumentError, match=message):
        parse_filter(given_filter)


def test_a_filter_nested_beyond_reason_is_refused() -> None:
    """Depth is bounded."""
    nested: dict[str, Any] = {"a": 1}
    for _ in range(100):
        nested = {"$not": nested}
    with pytest.raises(InvalidArgumentError, match="nested"):
        parse_filter(nested)


values = st.sampled_from(["a", "b", 1, 2, True, None, ["a", "b"], {"x": 1}])
metadata = st.dictionaries(st.sampled_from(["source", "year"]), values, max_size=2)
plain_filters = st.dictionaries(
    st.sampled_from(["source", "year"]),
    values
    | st.fixed_dictionaries({"$in": st.lists(values, max_size=2)})
    | st.fixed_dictionaries({"$exists": st.booleans()}),
    min_size=1,
    max_size=2,
)
changes = st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "update"]), st.integers(0, 30), metadata))


@given(changes, plain_filters, st.integers(0, 5), st.integers(0, 2))
def test_a_narrowed_section_shows_just_what_passes(changes, given_filter, threshold, recent) -> None:
    """After any changes, before and after a first question, what is shown are the items that pass one by one."""
    spec = SectionSpec("documents", eviction="none", retrieval_threshold=threshold, recent=recent)
    memory = SessionMemory.test_mode(sections=(spec,))
    wanted = parse_filter(given_filter)
    for number, (change, which, fields) in enumerate(changes):
        live = [item.id for item in memory["documents"]]
        if change == "add" or not live:
            memory.add("documents", f"notice {number}", metadata=fields, pinned=which == 0)
        elif change == "remove":
            memory.remove(live[which % len(live)])
        else:
            memory.update(live[which % len(live)], f"term {number}")
        if number % 4 == 1:
            asyncio.run(memory.assemble_context("notice", budget=50, filter=given_filter))
    items = list(memory["documents"])
    narrows = any(field in item.metadata for item in items for field in wanted.fields)
    expected = {item.id for item in items if not narrows or wanted(item.metadata)}
    context = asyncio.run(memory.assemble_context("notice term", budget=10_000, filter=given_filter))
    assert {item.id for item in context.items} == expected
    for item in items:
        if item.id not in expected:
            assert context.decision(item.id).reason is Reason.FILTERED
    found = memory.search("notice term", "documents", len(items), filter=given_filter)
    assert {item.id for item, _ in found} <= expected


async def test_a_filter_narrows_documents_and_leaves_the_rest() -> None:
    """The system prompt, the conversation and notes without the field stay; BM25 keeps its scores."""
    specs = [replace(spec, ranker=BM25Ranker()) if spec.name == "documents" else spec for spec in DEFAULT_SECTIONS]
    memory = SessionMemory.test_mode(sections=specs)
    memory.add("role", "You are careful.")
    memory.add("working", "Compare the notice periods.")
    memory.add("messages", "What is the notice period?")
    for number in range(45):
        memory.add("documents", f"notice period of clause {number}", metadata={"source": f"{number % 3}.pdf"})
    whole = await memory.assemble_context(budget=5_000)
    context = await memory.assemble_context(budget=5_000, filter={"source": "1.pdf"})
    shown = {item.metadata.get("source") for item in context.items if item.section == "documents"}
    assert shown == {"1.pdf"}
    assert context.by_section["documents"].items == 15
    assert {item.section for item in context.items} == {"role", "working", "messages", "documents"}
    few = await memory.assemble_context(budget=60, filter={"source": {"$in": ["1.pdf"]}}, sections=["documents"])
    assert {decision.reason for decision in few.decisions if decision.included} == {Reason.RELEVANT}
    scores = {decision.item_id: decision.score for decision in whole.decisions}
    assert all(
        scores[decision.item_id] == decision.score for decision in context.decisions if decision.section == "documents"
    )


async def test_an_item_that_gets_other_metadata_passes_by_those() -> None:
    """What a section is told of an item's new version counts from then on."""
    memory = SessionMemory.test_mode()
    item = memory.add("documents", "notice", metadata={"source": "draft.pdf"})
    wanted = {"source": "final.pdf"}
    memory.add("documents", "term", metadata=wanted)
    assert (await memory.assemble_context("notice", budget=100, filter=wanted)).by_section["documents"].items == 1
    memory["documents"].update(replace(item, metadata=wanted))
    assert (await memory.assemble_context("notice", budget=100, filter=wanted)).by_section["documents"].items == 2
