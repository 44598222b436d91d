"""What nothing in a question speaks for is left out, and the context says so."""

from datetime import UTC, datetime, timedelta

import pytest

from kaosmem import InvalidArgumentError, Reason, SectionSpec, SessionMemory, SessionOptions
from kaosmem.sources import BlobSource, FactSource, StateSource
from kaosmem.stores import InMemoryFileStore, InMemoryLongTermMemory, InMemoryShortTermMemory

TICKETS = [
    f"Ticket {n}: the build failed with exit code {n % 5 + 1} on runner {n % 3}." for n in range(60)
]


def session(texts=TICKETS, **fields):
    """Return a session with findings, a graph and a short history."""
    spec = SectionSpec("findings", eviction="none", **fields)
    memory = SessionMemory.test_mode(sections=(SectionSpec("messages", placement="history"), spec))
    for number, text in enumerate(texts):
        memory.add("findings", text, id=f"t{number}", role="assistant")
    memory.add("messages", "Good morning.", role="user", id="hello")
    return memory


async def test_a_question_without_a_match_shows_no_noise():
    """The tail stays.

    Each item that was offered, or not, says that it is unrelated; the notices name the section.
    """
    context = await session().assemble_context("apples", budget=200)
    assert [item.id for item in context.items] == ["hello"]
    assert {context.decision(f"t{number}").reason for number in range(60)} == {Reason.UNRELATED}
    assert any("'findings'" in notice for notice in context.notices)
    assert "unrelated" in context.explain()


async def test_a_question_about_the_past_without_a_match_shows_no_noise():
    """A replaced version comes with the current one, and only where one of them matches."""
    memory = session()
    for place in ("Lima", "Quito"):
        memory.add("findings", f"Bob lives in {place}.", key="bob", role="assistant")
    for number, text in enumerate(TICKETS[:8]):
        memory.add("findings", f"{text} It was the second time.", id=f"s{number}", role="assistant")
    asked = await memory.assemble_context("Was the zebra striped before?", budget=200)
    assert [item.id for item in asked.items] == ["hello"]
    found = await memory.assemble_context("Where did Bob live before?", budget=200)
    assert {"Bob lives in Lima.", "Bob lives in Quito."} <= {item.text for item in found.items}


async def test_a_graph_without_a_match_shows_no_line():
    """Lines of a graph that no entity of the question touches are left out."""
    memory = SessionMemory.test_mode()
    memory.graph.add(
        [], [{"source": f"n{n}", "target": f"n{n + 1}", "type": "next"} for n in range(100)]
    )
    assert (await memory.assemble_context("apples", budget=200)).items == ()
    assert "n95 -[next]-> n96" in (await memory.assemble_context("n95", budget=200)).text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "Summarise this",
        "Please go on.",
        "What happened?",
        "Fasse das zusammen",
        "?",
        "TL;DR",
        "What did we discuss?",
        "Summarise the conversation so far in three bullet points",
        "Translate this into French",
        "Any updates?",
        "Was ist passiert?",
        "Résume tout ça, s'il te plaît",
        "Resumen por favor",
        "Riassumi",
        "Подведи итог",
        "请总结一下",
        "この会話を要約してください",
        "요약해 줘",
        "What have we got so far?",
        "Give me the gist",
        "Qu'est-ce qu'on a dit ?",
        "Hazme un resumen",
        "Wat hebben we besproken?",
        "Ge mig en sammanfattning",
        "Bana bir özet ver",
        "हमने क्या बात की?",
        "👍",
    ],
)
async def test_a_question_without_a_subject_shows_the_newest(query):
    """It is about all that there is."""
    context = await session().assemble_context(query, budget=200)
    assert context.decision("t59").reason is Reason.NEWEST
    assert context.notices == ()


@pytest.mark.parametrize(
    "query",
    ["French", "three points", "Any updates on the lease?", "总结合同", "りんごの要約", "话费多少"],
)
async def test_a_question_with_a_subject_is_about_that_alone(query):
    """A word for the form of an answer is a subject if nothing is asked for, and so is a word beside a request."""
    context = await session().assemble_context(query, budget=200)
    assert [item.id for item in context.items] == ["hello"]


async def test_sources_without_a_match_show_no_noise_and_say_so():
    """Handles, lines of state and facts are left out where nothing speaks for them, if not all fit."""
    files, states, facts = InMemoryFileStore(), InMemoryShortTermMemory(), InMemoryLongTermMemory()
    for number in range(60):
        await files.upload(f"f{number}.txt", b"hello", content_type="text/plain")
        await states.update_state("s", {f"key{number:02}": f"value {number}"})
    await facts.save("a", "The rent is 900 euros.")
    memory = SessionMemory.test_mode()
    for source in (BlobSource(files), StateSource(states, "s"), FactSource(facts, "a")):
        await memory.attach(source)
    context = await memory.assemble_context("apples", budget=300)
    assert context.items == ()
    assert context.notices == (
        "nothing in 'files', 'state' speaks for the query: 120 candidates left out",
        "nothing in 'facts' speaks for the query",
    )
    await states.update_state("s", {"size": "bicycle, large", "goal": "buy a bicycle"})
    found = await memory.assemble_context("bicycle", budget=200)
    assert [item.text for item in found.items] == ["goal: buy a bicycle", "size: bicycle, large"]
    everything = await memory.assemble_context("apples", budget=20_000)
    assert everything.by_section["state"].items == 62
    assert (await memory.assemble_context("Go on", budget=300)).by_section["state"].items > 5


async def test_a_section_that_fits_whole_is_shown_whole():
    """All of its items or none without a match: a larger window never shows less."""
    shown = []
    for budget in range(100, 2_000, 100):
        context = await session().assemble_context("apples", budget=budget)
        assert context.used <= budget
        shown.append(context.by_section["findings"].items)
    assert {*shown} == {0, 60}
    assert shown == sorted(shown)


async def test_required_pinned_and_recent_items_are_shown_without_a_match():
    """The application has asked for them."""
    memory = session(recent=2)
    memory.add("findings", "The house is in Oslo.", id="pinned", pinned=True)
    memory.add("findings", "The garden is large.", id="recent")
    context = await memory.assemble_context("apples", budget=100)
    assert {item.id for item in context.items} == {"hello", "pinned", "recent"}


async def test_a_floor_relative_to_the_best_match():
    """With `min_score`, weak matches are left out though all would fit; the best one and the newest `recent` stay."""
    query = "How did ticket 7 fail?"
    everything = await session().assemble_context(query, budget=20_000)
    assert everything.by_section["findings"].items == 60
    context = await session(min_score=50, recent=1).assemble_context(query, budget=20_000)
    assert [item.id for item in context.items if item.section == "findings"] == ["t7", "t59"]
    assert context.decision("t30").reason is Reason.UNRELATED
    few = await session(TICKETS[:9], min_score=50).assemble_context(query, budget=20_000)
    assert [item.id for item in few.items if item.section == "findings"] == ["t7"]
    for wrong in (-1, 101, True, "9"):
        with pytest.raises(InvalidArgumentError, match="min_score"):
            SectionSpec("findings", min_score=wrong)


async def test_an_outranked_item_has_its_rank_and_score():
    """Those that search gives it; ranks go on behind those of the candidates."""
    memory = session()
    query = "How did ticket 7 fail?"
    context = await memory.assemble_context(query, budget=60)
    scores = {item.id: score for item, score in memory.search(query, section="findings", limit=60)}
    offered = {decision.item_id for decision in context.decisions}
    outranked = [
        context.decision(f"t{number}") for number in range(60) if f"t{number}" not in offered
    ]
    assert len(outranked) > 10
    for decision in outranked:
        assert decision.reason is Reason.OUTRANKED
        assert decision.score == scores[decision.item_id]
    ranks = {decision.rank for decision in outranked}
    assert len(ranks) == len(outranked)


async def test_an_expired_item_says_when_it_expired():
    """So does an item that a look into the past leaves out say at which time it did not hold."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: now[0]))
    memory.add("findings", "The code is 12.", id="code", ttl_s=60)
    now[0] += timedelta(hours=1)
    context = await memory.assemble_context("What is the code?", budget=100)
    assert context.decision("code").why == "archived: it expired on 2026-01-01 00:01:00"
    memory.add("findings", "The code is 14.", id="later")
    past = await memory.at(as_of="2025-12-01").assemble_context("What is the code?", budget=100)
    assert "as_of=2025-12-01" in past.decision("later").why


async def test_a_section_whose_own_budget_leaves_items_out_is_named():
    """A larger window would not show them. Where the window has no room for them, nothing is said."""
    spec = SectionSpec("notes", 300, eviction="none", recall=0.5)
    memory = SessionMemory.test_mode(sections=(spec, SectionSpec("documents")))
    memory.add_many("notes", [f"Room {number} costs {number} euros." for number in range(90)])
    small = await memory.assemble_context("What does a room cost?", budget=250)
    assert not small.notices
    context = await memory.assemble_context("What does a room cost?", budget=4_000)
    (notice,) = context.notices
    number = sum(decision.lacking is not None for decision in context.decisions)
    assert notice == (
        f"section 'notes' leaves out {number} items for its own budget, and "
        f"{4_000 - context.used:,} tokens of the window are free; give it a SectionSpec with a "
        "larger budget"
    )
    memory.add_many("documents", [f"House {number} is for sale." for number in range(900)])
    full = await memory.assemble_context("Which room or house is for sale?", budget=2_000)
    assert not full.notices


async def test_an_answer_that_is_larger_than_the_window_is_said_to_be():
    """It is named if nothing shown has as many words of the question, and by no other question."""
    memory = SessionMemory.test_mode()
    text = "Some filler text. " * 200
    memory.add("documents", f"{text} The vault code is 8812. {text}", id="book")
    for number in range(30):
        memory.add("documents", f"Noise {number} vault of heaven.")
    context = await memory.assemble_context("What is the vault code?", budget=300)
    (notice,) = context.notices
    assert notice.startswith(
        "item 'book' has more of the query's words than what is shown, and its"
    )
    for question, budget in (("What noise is there?", 300), ("What is the vault code?", 3_000)):
        assert (await memory.assemble_context(question, budget=budget)).notices == ()
    memory.add("documents", "The vault code is 8813.")
    assert (await memory.assemble_context("What is the vault code?", budget=300)).notices == ()


async def test_a_budget_in_which_nothing_fits_says_how_much_more_the_best_match_needs():
    """With so many more tokens, the context shows it and has no notice."""
    memory = SessionMemory.test_mode()
    memory.add(
        "documents", "The rent is 900 euros, paid in advance on the first of the month. " * 9
    )
    empty = await memory.assemble_context("How high is the rent?", budget=60)
    (decision,) = empty.decisions
    assert (empty.items, empty.notices) == (
        (),
        (f"nothing fits: the best match needs {decision.lacking} more tokens; raise the budget",),
    )
    shown = await memory.assemble_context("How high is the rent?", budget=60 + decision.lacking)
    assert (len(shown.items), shown.notices) == (1, ())
