"""The confidence of a context, and `min_confidence`, which leaves out what was retrieved for nothing."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import calibrate_confidence
from benchmarks.corpus import text_item
from kaosmem import (
    BM25Ranker,
    InvalidArgumentError,
    LinearRanker,
    Reason,
    SectionSpec,
    SessionMemory,
    WindowTooSmallError,
)
from kaosmem.assembly.confidence import BIAS, confidence_of, confidence_weights, terms_of
from kaosmem.retrieval import GraphRanker, RankBM25Ranker
from kaosmem.sections.proposal import CandidatePool, Proposal
from tests.worlds import WORDS, budgets, formats, queries, texts, worlds

QUESTION = "What does the tenant of room 17 pay?"
STRANGE = "Which wine goes with oysters?"
CLAUSES = [
    f"The tenant of room {n} pays {50 + n} euros on the first of the month." for n in range(100)
]


def lease(**sections):
    """Return a session with a hundred clauses, a finding and a short history."""
    memory = SessionMemory.test_mode(**sections)
    memory.add("role", "You are a careful clerk.")
    memory.add_many("documents", CLAUSES)
    memory.add("findings", "Ann manages the house.")
    memory.add("messages", "Good morning.")
    return memory


def assembled(memory, query, *, budget=300, least=0.0):
    return asyncio.run(memory.assemble_context(query, budget=budget, min_confidence=least))


def items_of(said):
    return [replace(text_item(text), id=f"i{place}", tokens=9) for place, text in enumerate(said)]


def test_an_answerable_question_has_more_confidence_than_a_strange_one():
    """The words of the question are in the window, or they are not."""
    memory = lease()
    likely, unlikely = (assembled(memory, query).confidence for query in (QUESTION, STRANGE))
    assert likely > 0.8
    assert unlikely < 0.35


def test_without_confidence_nothing_retrieved_is_shown():
    """Required items and a section that is shown whole stay; everything retrieved is out, with its own reason."""
    memory = lease()
    pinned = memory.add("documents", "The house is in Oslo.", pinned=True)
    before, context = (
        assembled(memory, "Which wine goes with oysters on the first?", least=least)
        for least in (0, 0.5)
    )
    assert len(before.items) > 10
    assert [item.text for item in context.items] == [
        "You are a careful clerk.",
        "Good morning.",
        "Ann manages the house.",
        pinned.text,
    ]
    out = {decision.reason for decision in context.decisions if not decision.included}
    assert out == {Reason.LOW_CONFIDENCE}
    assert context.confidence == before.confidence
    assert "low_confidence" in context.explain()
    assert all(
        f"confidence: {context.confidence:.2f}" in each
        for each in (context.explain(), context._repr_html_())
    )
    assert assembled(memory, QUESTION, least=0.5).text == assembled(memory, QUESTION).text


class Listing:
    """A source that shows clauses, with scores or whatever the query."""

    def __init__(self, name, scores):
        self.spec = SectionSpec(name)
        self._ranked = [
            (replace(text_item(text), id=f"{name}-{place}", section=name, tokens=20), score)
            for place, (text, score) in enumerate(zip(CLAUSES, scores, strict=False))
        ]

    async def propose(self, query, *, cap, wanted=None):
        return Proposal.of(self._ranked)

    async def get(self, item_id):
        return None


def test_a_source_that_does_not_rank_is_shown_without_confidence():
    """The tasks of a board stay, the findings of a search go."""
    board = Listing("board", [None] * 5)
    search = Listing("search", [3.0, 2.0, 1.0])
    memory = SessionMemory.test_mode()
    for source in (board, search):
        asyncio.run(memory.attach(source))
    context = assembled(memory, STRANGE, least=0.9)
    assert {name: use.items for name, use in context.by_section.items() if use.items} == {
        "board": 5
    }


@given(worlds(), queries, budgets, formats, st.sampled_from([0.2, 0.5, 1.0]))
def test_little_confidence_takes_out_what_was_retrieved_and_nothing_else(
    world, query, budget, format, least
):
    """With enough confidence, or none that can be told, nothing changes; else what stays was there before."""

    def assemble(least):
        try:
            return asyncio.run(
                world.memory.assemble_context(
                    query, budget=budget, format=format, min_confidence=least
                )
            )
        except WindowTooSmallError:
            return None

    before = assemble(0)
    context = assemble(least)
    if before is None or context is None:
        assert before is context
        return
    assert context.confidence == before.confidence
    assert context.confidence is None or 0 <= context.confidence <= 1
    if context.confidence is None or context.confidence >= least:
        assert context.rendered == before.rendered
        return
    assert Reason.RECALLED not in {decision.reason for decision in context.decisions}
    reasons = {decision.item_id: decision.reason for decision in before.decisions}
    for decision in context.decisions:
        stays = Reason.MUST, Reason.TAIL, Reason.SHORTENED
        assert (decision.reason in stays) == (reasons[decision.item_id] in stays)
        spec = world.memory[decision.section].spec
        if decision.included and spec.placement == "query" and decision.reason is not Reason.MUST:
            held = list(world.memory[decision.section])
            assert len(held) <= spec.retrieval_threshold or decision.item_id in recent(
                held, spec.recent
            )


def recent(held, count):
    """Return the ids of items that may belong to the newest units; a unit here has three items at the most."""
    return {item.id for item in held[len(held) - 3 * count :]} if count else ()


def confidence_in(items, query, frequencies):
    pool = CandidatePool(1_000, 10_000, dict(zip(terms_of(query), frequencies, strict=False)))
    found = confidence_of(query, items, [Proposal((), pool=pool)])
    assert found is not None
    return found


asked = st.lists(st.sampled_from(WORDS[:12]), min_size=1, max_size=6).map(" ".join)
counts = st.lists(st.integers(0, 1_000), min_size=6, max_size=6)


@given(asked, counts, st.lists(texts, max_size=8), texts)
def test_one_more_item_never_lowers_the_confidence(query, known, said, more):
    """Whatever it says, and in any order."""
    items = items_of([*said, more])
    found = confidence_in(items, query, known)
    assert (
        0
        <= confidence_in(items[:-1], query, known)
        <= found
        == confidence_in(reversed(items), query, known)
        <= 1
    )


@given(asked, counts, st.lists(texts, min_size=1, max_size=8), st.data())
def test_one_more_match_never_lowers_the_confidence(query, known, said, data):
    """An item that has another term of the query beside what it had is never worth less."""
    place = data.draw(st.integers(0, len(said) - 1))
    term = data.draw(st.sampled_from(query.split()))
    better = [*said[:place], f"{said[place]} moreover {term} nevertheless", *said[place + 1 :]]
    found = [confidence_in(items_of(each), query, known) for each in (said, better)]
    assert found == sorted(found)


def test_no_figure_can_lower_the_confidence():
    """All weights but the bias are 0 or above."""
    assert all(weight >= 0 for name, weight in confidence_weights().items() if name != BIAS)


@pytest.mark.parametrize("ranker", [LinearRanker(), BM25Ranker(), RankBM25Ranker(), GraphRanker()])
def test_the_confidence_depends_on_what_is_shown_and_not_on_scores(ranker):
    """It is high if the clause is shown, whatever scale the scores of a ranker have."""
    context = assembled(lease(ranker=ranker), QUESTION)
    assert CLAUSES[17] in {item.text for item in context.items}
    assert context.confidence > 0.85


def test_a_rare_word_that_is_missing_counts_more_than_common_ones():
    """All findings are about the user, and none of them is about a bicycle."""
    memory = SessionMemory.test_mode()
    memory.add_many(
        "findings", [f"The user likes the colour {n} of the painting." for n in range(60)]
    )
    bicycle, colour = (
        assembled(memory, f"Which {each} does the user like?") for each in ("bicycle", "colour")
    )
    assert colour.confidence is not None
    assert bicycle.confidence < colour.confidence - 0.2


def test_words_for_a_period_are_not_looked_for():
    """They filter items by their day, so no item needs to have them."""
    memory = lease()
    plain, dated = (
        assembled(memory, query).confidence
        for query in ("tenant room 17", "tenant room 17 last week")
    )
    assert plain == dated


def test_a_question_without_terms_has_no_confidence():
    """Stop words ask for nothing; neither does no question. Then nothing is left out."""
    memory = lease()
    for query in ("", "What is it?", "?!"):
        context = assembled(memory, query, least=1)
        assert context.confidence is None
        assert len(context.items) > 10
        assert "confidence" not in context.explain() + context._repr_html_()


def test_nothing_shown_gives_no_confidence_at_all():
    """The confidence of an empty session is 0, and the question is no evidence for itself."""
    memory = SessionMemory.test_mode()
    assert assembled(memory, QUESTION).confidence == 0
    for question in (QUESTION, "What did the tenant of room 17 pay last week?"):
        memory = SessionMemory.test_mode()
        memory.add("messages", question)
        context = assembled(memory, None)
        assert [item.text for item in context.items] == [question]
        assert context.confidence == 0


@pytest.mark.parametrize("least", [-0.1, 1.1, float("nan"), True, "high", None])
def test_a_confidence_is_a_number_from_0_to_1(least):
    """Anything else is refused by name."""
    with pytest.raises(
        InvalidArgumentError, match=r"min_confidence is .*; give a number from 0 to 1"
    ):
        assembled(lease(), QUESTION, least=least)


def test_the_benchmark_learns_weights_and_measures_them(tmp_path, capsys):
    """A row for each data set; weights that prefer a context in which the words of the question stand."""
    for name, noun in (("leases", "tenant"), ("farms", "farmer"), ("ships", "sailor")):
        folder = tmp_path / name
        folder.mkdir()
        items = [
            {"id": f"{n}", "text": f"The {noun} of {name} {n} pays {n + 50} euros."}
            for n in range(150)
        ]
        questions = [
            {
                "id": f"q{n}",
                "query": f"What does the {noun} of {name} {n} pay?",
                "evidence_ids": [f"{n}"],
            }
            for n in range(12)
        ]
        for kind, lines in (("items", items), ("questions", questions)):
            (folder / f"a.{kind}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    saved = tmp_path / "confidence.json"
    calibrate_confidence.main(["--data", str(tmp_path), "--save", str(saved), "--every", "3"])
    learned = json.loads(saved.read_text())
    assert learned.keys() == confidence_weights().keys()
    assert all(weight >= 0 for name, weight in learned.items() if name != BIAS)
    table = capsys.readouterr().out
    assert [line.split()[0] for line in table.splitlines()[1:5]] == [
        "farms",
        "leases",
        "ships",
        "mean",
    ]
    mean = dict(
        zip(table.splitlines()[0].split()[2:], table.splitlines()[4].split()[1:], strict=False)
    )
    assert float(mean["foreign"]) > 0.9
