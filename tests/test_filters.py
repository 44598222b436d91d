"""Filters on metadata: what each condition means, and that a section is narrowed as item by item."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    DEFAULT_SECTIONS,
    BM25Ranker,
    InvalidArgumentError,
    Reason,
    SectionSpec,
    SessionMemory,
)
from kaosmem.filters import parse_filter
from kaosmem.sources import FactSource
from kaosmem.stores import InMemoryLongTermMemory
from tests.session.notes import Notes


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
        ({"year": {"gte": 2021}}, r"did you mean '\$gte'\? An object"),
        ({"year": {"$gt": None}}, "a number or a text"),
        ({"year": {"$exists": 1}}, "True or False"),
        ({"year": {"$in": "2021"}}, "takes a list"),
        ({"year": {"$in": 2021}}, "takes a list"),
        ({"$or": {"year": 2021}}, "takes a list"),
        ({"$or": ["year"]}, "a filter is a mapping"),
        ({"$if_present": ["year"]}, "a filter is a mapping"),
    ],
)
def test_what_means_nothing_is_refused(given_filter, message):
    """The error says what was expected."""
    with pytest.raises(InvalidArgumentError, match=message):
        parse_filter(given_filter)


def test_a_filter_nested_beyond_reason_is_refused():
    """Depth is bounded."""
    nested = {"a": 1}
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
changes = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "update"]), st.integers(0, 30), metadata)
)


@given(changes, plain_filters, st.integers(0, 5), st.integers(0, 2))
def test_a_narrowed_section_shows_just_what_passes(changes, given_filter, threshold, recent):
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
    expected = {item.id for item in items if wanted(item.metadata)}
    context = asyncio.run(
        memory.assemble_context("notice term", budget=10_000, filter=given_filter)
    )
    assert {item.id for item in context.items} == expected
    for item in items:
        if item.id not in expected:
            assert context.decision(item.id).reason is Reason.FILTERED
    found = memory.search("notice term", "documents", len(items), filter=given_filter)
    assert {item.id for item, _ in found} <= expected


async def test_a_filter_narrows_everything_that_depends_on_the_query():
    """The system prompt and the conversation stay, notes without the field go; BM25 keeps its scores."""
    specs = [
        replace(spec, ranker=BM25Ranker()) if spec.name == "documents" else spec
        for spec in DEFAULT_SECTIONS
    ]
    memory = SessionMemory.test_mode(sections=specs)
    memory.add("role", "You are careful.")
    memory.add("working", "Compare the notice periods.")
    memory.add("messages", "What is the notice period?")
    for number in range(45):
        memory.add(
            "documents",
            f"notice period of clause {number}",
            metadata={"source": f"{number % 3}.pdf"},
        )
    whole = await memory.assemble_context(budget=5_000)
    context = await memory.assemble_context(budget=5_000, filter={"source": "1.pdf"})
    shown = {item.metadata.get("source") for item in context.items if item.section == "documents"}
    assert shown == {"1.pdf"}
    assert context.by_section["documents"].items == 15
    assert {item.section for item in context.items} == {"role", "messages", "documents"}
    assert context.notices == (
        "the filter leaves out all of 'working': none has the field 'source'",
    )
    lenient = await memory.assemble_context(
        budget=5_000, filter={"$if_present": {"source": "1.pdf"}}
    )
    assert {item.section for item in lenient.items} == {"role", "working", "messages", "documents"}
    assert lenient.by_section["documents"].items == 15
    assert lenient.notices == ()
    few = await memory.assemble_context(
        budget=60, filter={"source": {"$in": ["1.pdf"]}}, sections=["documents"]
    )
    assert {decision.reason for decision in few.decisions if decision.included} == {Reason.RELEVANT}
    scores = {decision.item_id: decision.score for decision in whole.decisions}
    assert all(
        scores[decision.item_id] == decision.score
        for decision in context.decisions
        if decision.section == "documents"
    )


async def test_a_filter_on_a_misspelled_field_shows_nothing_and_says_so():
    """Nobody's documents are shown, and the nearest field is named; a search finds nothing either."""
    memory = SessionMemory.test_mode()
    for tenant in ("acme", "globex"):
        memory.add("documents", f"The rent of {tenant} is 900 euros.", metadata={"tenant": tenant})
    context = await memory.assemble_context("rent", budget=500, filter={"tennant": "acme"})
    assert context.items == ()
    assert context.notices == (
        "the filter leaves out all of 'documents': none has the field 'tennant'; the nearest is "
        "'tenant'",
    )
    assert "note: the filter leaves out all of 'documents'" in context.explain()
    assert memory.search("rent", filter={"tennant": "acme"}) == []
    assert memory.search("rent", "documents", filter={"tennant": "acme"}) == []


@pytest.mark.parametrize(
    ("given_filter", "reason"),
    [
        ({"year": "2023"}, "'year' is a number and the filter gives a text"),
        ({"year": {"$gte": "2020"}}, "'year' is a number and the filter gives a text"),
        ({"year": {"$in": ["2023"]}}, "'year' is a number and the filter gives a text"),
        ({"tennant": {"$ne": "globex"}}, "none has the field 'tennant'; the nearest is 'tenant'"),
        (
            {"$not": {"$and": [{"tennant": "globex"}]}},
            "none has the field 'tennant'; the nearest is 'tenant'",
        ),
        ({"year": {"$ne": "2023"}}, "'year' is a number and the filter gives a text"),
        ({"$not": {"year": {"$gt": "2022"}}}, "'year' is a number and the filter gives a text"),
        (
            {"$not": {"$if_present": {"year": "2023"}}},
            "'year' is a number and the filter gives a text",
        ),
    ],
)
async def test_a_filter_that_no_item_can_answer_shows_nothing_and_says_so(given_filter, reason):
    """Neither a context, nor a search, nor a store shows what another type or a misspelled negation lets through."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("documents", 20),))
    fields = {"tenant": "globex", "year": 2023}
    for number in range(4):
        memory.add("documents", f"The secret rent {number} is 900.", metadata=fields)
    store = InMemoryLongTermMemory()
    await store.save("a", "The secret rent is 900.", metadata=fields)
    await memory.attach(FactSource(store, "a"))
    context = await memory.assemble_context("secret rent", budget=500, filter=given_filter)
    assert context.items == ()
    assert context.notices == (
        f"the filter leaves out all of 'documents': {reason}",
        f"the filter leaves out all of 'facts': {reason}",
    )
    live = next(iter(memory["documents"]))
    assert context.decision(live.id).why == f"filtered: {reason}"
    assert memory.search("secret rent", filter=given_filter) == []


@pytest.mark.parametrize(
    "given_filter",
    [
        {"tenant": {"$ne": "acme"}},
        {"year": {"$ne": None}},
        {"$not": {"year": {"$lt": 2000}}},
        {"$or": [{"draft": {"$exists": False}}, {"draft": {"$ne": True}}]},
        {"$if_present": {"$and": [{"draft": {"$ne": True}}]}},
        {"$or": [{"tennant": "acme"}, {"$if_present": {"year": 2023}}]},
        {"floor": {"$ne": 3}},
        {"tags": {"$ne": "house"}},
    ],
)
async def test_a_negation_that_some_item_answers_or_that_names_the_field_lets_others_pass(
    given_filter,
):
    """An item without the field passes where another one has it, or where the filter says that it may be absent."""
    memory = SessionMemory.test_mode()
    fields = {"tenant": "globex", "year": 2023, "floor": 2, "tags": ["flat"]}
    memory.add("documents", "The rent is 900.", metadata=fields)
    memory.add("documents", "The rent of the yard is 90.", metadata={"floor": "ground"})
    context = await memory.assemble_context("rent", budget=500, filter=given_filter)
    assert (len(context.items), context.notices) == (2, ())


@pytest.mark.parametrize(
    ("given_filter", "why"),
    [
        ({"tenant": "acme"}, "the filter asks for 'tenant', which it lacks"),
        (
            {"$and": [{"year": 2020}, {"tenant": "acme"}]},
            "the filter asks for another value of 'year', "
            "the filter asks for 'tenant', which it lacks",
        ),
        (
            {"$or": [{"year": 2020}, {"tenant": "acme"}]},
            "the filter's $or of 'tenant', 'year' refuses it",
        ),
        ({"$not": {"year": 2024}}, "the filter's $not of 'year' refuses it"),
        ({"$if_present": {"year": 2020}}, "the filter asks for another value of 'year'"),
        ({"tags": 5}, "'tags' is a list and the filter gives a number"),
        ({"draft": 1}, "'draft' is a boolean and the filter gives a number"),
        ({"note": "x"}, "'note' is null and the filter gives a text"),
        ({"place": 5}, "'place' is an object and the filter gives a number"),
        ({"year": {"$in": []}}, "the filter asks for another value of 'year'"),
    ],
)
def test_faults_name_fields_and_types(given_filter, why):
    """They quote no value."""
    metadata = {"year": 2024, "tags": ["x"], "draft": True, "note": None, "place": {}}
    assert parse_filter(given_filter).faults(metadata) == why


async def test_no_correction_of_another_tenant_comes_along():
    """A later item that corrects a shown one is shown only if it passes."""
    memory = SessionMemory.test_mode()
    for number in range(300):
        memory.add("documents", f"Room {number} is painted white.", metadata={"tenant": "acme"})
    memory.add("documents", "The notice period is thirty days.", metadata={"tenant": "acme"})
    memory.add(
        "documents",
        "Correction: the notice period is now sixty days.",
        metadata={"tenant": "globex"},
    )
    context = await memory.assemble_context(
        "How long is the notice period?", budget=200, filter={"tenant": "acme"}
    )
    assert any("thirty" in item.text for item in context.items)
    assert {item.metadata["tenant"] for item in context.items} == {"acme"}


async def test_no_version_of_another_tenant_comes_along():
    """A replaced version is not shown without the current one, so neither is shown if one of them fails."""
    memory = SessionMemory.test_mode()
    for tenant, text in (("acme", "The rent is 900 euros."), ("globex", "The rent is 950 euros.")):
        memory.add("findings", text, key="rent", metadata={"tenant": tenant})
    for question in ("What was the rent before?", "What is the rent?"):
        context = await memory.assemble_context(question, budget=500, filter={"tenant": "acme"})
        assert context.items == ()
        past = await memory.assemble_context(question, budget=500, filter={"tenant": "globex"})
        assert [item.text for item in past.items] == ["The rent is 950 euros."]


async def test_recalled_messages_pass_the_filter():
    """The newest messages are the conversation.

    Earlier ones that the question finds pass, or are not recalled.
    """
    memory = SessionMemory.test_mode()
    for tenant in ("acme", "globex"):
        memory.add("messages", f"The code of {tenant} is SWORDFISH.", metadata={"tenant": tenant})
    for number in range(200):
        memory.add("messages", f"We talked about the weather of day {number}.")
    memory.add("messages", "What is the code?")
    texts = {}
    for name, wanted in {
        "none": None,
        "acme": {"tenant": "acme"},
        "typo": {"tennant": "acme"},
        "lenient": {"$if_present": {"tenant": "acme"}},
    }.items():
        context = await memory.assemble_context(budget=600, filter=wanted)
        texts[name] = {item.text for item in context.items if "SWORDFISH" in item.text}
        assert "What is the code?" in context.text
    acme, globex = (f"The code of {tenant} is SWORDFISH." for tenant in ("acme", "globex"))
    assert texts == {"none": {acme, globex}, "acme": {acme}, "typo": set(), "lenient": {acme}}


async def test_the_graph_is_narrowed():
    """A relationship of another source is not found, nor any by a property that is no metadata."""
    memory = SessionMemory.test_mode()
    memory.graph.add(
        relationships=[
            {
                "source": "Ann",
                "target": "Acme",
                "type": "owns",
                "properties": {"source": "acme.md"},
            },
            {
                "source": "Ann",
                "target": "Globex",
                "type": "owns",
                "properties": {"source": "globex.md"},
            },
        ]
    )
    context = await memory.assemble_context(
        "What does Ann own?", budget=500, filter={"source": "acme.md"}
    )
    assert [item.text for item in context.items] == ["Ann -[owns]-> Acme"]
    context = await memory.assemble_context(
        "What does Ann own?", budget=500, filter={"tenant": "acme"}
    )
    assert context.items == ()


async def test_a_window_is_packed_anew_for_another_filter():
    """It would show on what the new filter leaves out. With the same filter it goes on."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "What is the rent?")
    for tenant in ("acme", "globex"):
        memory.add("documents", f"The rent of {tenant} is 900 euros.", metadata={"tenant": tenant})
    reasons = []
    texts = []
    for tenant in ("acme", "acme", "globex", "globex"):
        context = await memory.assemble_context(
            budget=2_000,
            format="openai",
            window="main",
            filter={"tenant": tenant, "$if_present": {"$not": {"draft": True}}},
        )
        reasons.append(context.rebased)
        texts.append(str(context.messages))
        memory.add("messages", "Noted.", role="assistant")
        memory.add("messages", "And what is the rent now?")
    assert reasons == ["new", None, "filter", None]
    assert ["globex" in text for text in texts] == [False, False, True, True]
    assert ["acme" in text for text in texts] == [True, True, False, False]


async def test_a_window_appends_no_newer_version_that_fails_the_filter():
    """A visible fact that another tenant's replaced leaves the window, and the other is not shown."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "What is the rent?")
    memory.add("findings", "The rent is 900 euros.", key="rent", metadata={"tenant": "acme"})
    asked = {"budget": 2_000, "format": "openai", "window": "main", "filter": {"tenant": "acme"}}
    assert "900" in str((await memory.assemble_context(**asked)).messages)
    memory.add("findings", "The rent is 950 euros.", key="rent", metadata={"tenant": "globex"})
    memory.add("messages", "And now?")
    context = await memory.assemble_context(**asked)
    assert context.rebased == "changed"
    assert "900" not in str(context.messages)
    assert "950" not in str(context.messages)


async def test_a_source_that_ignores_the_filter_is_narrowed_all_the_same():
    """Whatever a source of the caller's own proposes, only items that pass are shown."""

    other = SessionMemory.test_mode()
    items = [
        other.add("documents", f"rent of {each}", metadata={"tenant": each})
        for each in ("acme", "globex")
    ]
    memory = SessionMemory.test_mode()
    careless = Notes()
    careless.notes = {item.id: item for item in items}
    await memory.attach(careless)
    context = await memory.assemble_context("rent", budget=500, filter={"tenant": "acme"})
    assert [item.text for item in context.items] == ["rent of acme"]
    shared = SessionMemory.test_mode()
    await shared.attach(other["documents"])
    context = await shared.assemble_context("rent", budget=500, filter={"tenant": "acme"})
    assert [item.text for item in context.items] == ["rent of acme"]
    assert (await shared.assemble_context("rent", budget=500, filter={"tennant": "acme"})).notices


async def test_an_item_that_gets_other_metadata_passes_by_those():
    """What a section is told of an item's new version counts from then on."""
    memory = SessionMemory.test_mode()
    item = memory.add("documents", "notice", metadata={"source": 5})
    wanted = {"source": "final.pdf"}
    memory.add("documents", "term", metadata=wanted)
    assert (await memory.assemble_context("notice", budget=100, filter=wanted)).by_section[
        "documents"
    ].items == 1
    assert memory.search("notice", filter={"source": {"$ne": 7}})
    memory["documents"].update(replace(item, metadata=wanted))
    assert (await memory.assemble_context("notice", budget=100, filter=wanted)).by_section[
        "documents"
    ].items == 2
    # The source is a number no more, so that it cannot be compared with one.
    assert not memory.search("notice", filter={"source": {"$ne": 7}})


async def test_a_section_whose_items_just_do_not_match_is_no_notice():
    """The filter was answered: nothing is of that year.

    The decision names the field and no value.
    """
    memory = SessionMemory.test_mode()
    item = memory.add("documents", "The rent is 900 euros.", metadata={"year": 2024})
    context = await memory.assemble_context("rent", budget=500, filter={"year": {"$lt": 2020}})
    assert (context.items, context.notices) == ((), ())
    assert context.decision(item.id).why == "filtered: the filter asks for another value of 'year'"


async def test_a_summary_of_filtered_items_does_not_pass_for_them():
    """A derived item passes by its own metadata: without the field, it is left out."""
    memory = SessionMemory.test_mode()
    said = [
        memory.add("documents", f"The rent of {tenant} is 900 euros.", metadata={"tenant": tenant})
        for tenant in ("acme", "globex")
    ]
    memory.add("findings", "Both rents are 900 euros.", sources=[item.id for item in said])
    context = await memory.assemble_context("rent", budget=500, filter={"tenant": "acme"})
    assert [item.id for item in context.items] == [said[0].id]
