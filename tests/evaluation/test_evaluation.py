"""The evaluation: what it reads and refuses, what it measures, and how that is shown."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from kaosmem import BM25Ranker, KaosmemError, SessionMemory, get_counter
from kaosmem.errors import (
    InvalidArgumentError,
    MissingExtraError,
    MissingFileError,
    NotFoundError,
)
from kaosmem.evaluation import Selection, evaluate, read_corpora
from kaosmem.evaluation.assemblers import (
    ASSEMBLERS,
    RANKER_ASSEMBLERS,
    SessionAssembler,
    get_assembler,
)
from kaosmem.evaluation.evidence import (
    Corpus,
    EvidenceItem,
    Question,
    read_items,
    read_questions,
)
from kaosmem.evaluation.report import (
    Outcome,
    Report,
    draw,
    save_plot,
)
from kaosmem.formats import FORMATS
from kaosmem.tokens.counters import EstimateCounter
from tests.worlds import WORDS, texts

ITEM = {
    "id": "i1",
    "session": "s",
    "timestamp": "2024-05-01",
    "role": "user",
    "text": "The notice is thirty days.",
}
QUESTION = {
    "id": "q1",
    "query": "how long is the notice",
    "evidence_ids": ["i1"],
    "category": "terms",
}


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


# What is read


def test_items_and_questions_are_read_as_they_are_written(tmp_path):
    """Fields come through unchanged; all but id, text, query and evidence may be missing; blank lines and a byte-order
    mark are passed over, and what else a line has is nobody's business."""
    items = tmp_path / "items.jsonl"
    questions = tmp_path / "questions.jsonl"
    items.write_bytes(
        b"\xef\xbb\xbf"
        + (lines(ITEM | {"more": 1}) + "\n \n" + lines({"id": "i2", "text": "é"})).encode()
    )
    questions.write_text(
        lines(QUESTION, {"id": "q2", "query": "?", "evidence_ids": ["i2", "i1", "i2"]})
    )
    read = read_items(items)
    assert read == (
        EvidenceItem("i1", "The notice is thirty days.", "s", "2024-05-01", "user"),
        EvidenceItem("i2", "é"),
    )
    assert read_questions(questions, items=read) == (
        Question("q1", "how long is the notice", ("i1",), "terms"),
        Question("q2", "?", ("i2", "i1", "i2")),
    )
    (corpus,) = read_corpora(items, questions)
    assert (corpus.name, corpus.items) == ("items", read)


def test_a_folder_is_its_corpora_by_name(tmp_path):
    """Every file of items is read with the questions beside it, in order of name; one of them can be named alone."""
    for name in ("b", "a"):
        (tmp_path / f"{name}.items.jsonl").write_text(lines(ITEM | {"text": name}))
        (tmp_path / f"{name}.questions.jsonl").write_text(lines(QUESTION))
    (tmp_path / "README.md").write_text("no corpus")
    assert [(corpus.name, corpus.items[0].text) for corpus in read_corpora(tmp_path)] == [
        ("a", "a"),
        ("b", "b"),
    ]
    assert [corpus.name for corpus in read_corpora(tmp_path / "b.items.jsonl")] == ["b"]


def test_questions_on_superseded_items_and_without_an_answer_are_read(tmp_path):
    """Superseded items, the moment of a question and missing answers come through."""
    questions = tmp_path / "questions.jsonl"
    asked = {"id": "q1", "query": "?", "evidence_ids": ["i2"], "stale_ids": ["i1"], "as_of": "i2"}
    nothing = {"id": "q2", "query": "?", "evidence_ids": [], "unanswerable": True}
    questions.write_text(lines(asked, nothing))
    items = [EvidenceItem(f"i{number}", "t") for number in range(4)]
    read = read_questions(questions, items=items)
    assert read == (
        Question("q1", "?", ("i2",), "", ("i1",), "i2"),
        Question("q2", "?", (), unanswerable=True),
    )
    assert list(Corpus("c", tuple(items), read).moments()) == [
        (tuple(items[:3]), read[:1]),
        (tuple(items), read[1:]),
    ]


BAD_ITEMS = {
    "not JSON": (
        lines(ITEM) + '{"id": }\n',
        "line 2: Invalid JSON: expected value at line 1 column 8; write one JSON object a line",
    ),
    "not UTF-8": (b'{"id": "\xff"}\n', "line 1: Invalid JSON: invalid unicode"),
    "nested beyond reading": (
        "[" * 200_000 + "\n",
        "line 1: Invalid JSON: recursion limit exceeded",
    ),
    "a missing id": (
        '{"text": "t"}\n',
        "line 1: 'id': Field required; write one JSON object a line",
    ),
    "an id that is empty": (
        '{"id": "", "text": "t"}\n',
        "line 1: item id '' is not valid: use 1 to 256 characters",
    ),
    "a lone surrogate": (
        '{"id": "i", "text": "\\ud800"}\n',
        "line 1: Invalid JSON: unexpected end of hex escape",
    ),
    "an id twice": (
        "\n" + lines(ITEM) * 2,
        "line 3: the id 'i1' is that of line 2 too; give each its own",
    ),
    "no time": (
        lines(ITEM | {"timestamp": "yesterday"}),
        "line 1: timestamp is <str>; give a time",
    ),
    "no items": ("\n", "has no items; give a file of JSON objects, one a line"),
}
BAD_QUESTIONS = {
    "a missing query": (lines({"id": "q"}), "line 1: 'query': Field required"),
    "an empty query": (lines(QUESTION | {"query": " "}), "line 1: 'query' is empty; write"),
    "evidence that does not exist yet": (
        lines(QUESTION | {"as_of": "i1", "evidence_ids": ["i1", "i2"]}),
        "the evidence 'i2' comes after 'i1', the last item that 'as_of' lets exist; give",
    ),
    "no evidence": (
        lines(QUESTION, QUESTION | {"id": "q2", "evidence_ids": []}),
        "line 2: 'evidence_ids' is empty; give ids of items, or",
    ),
    "evidence that is no list": (
        lines(QUESTION | {"evidence_ids": "i1"}),
        "line 1: 'evidence_ids': Input should be a valid tuple",
    ),
    "evidence that no item is": (
        lines(QUESTION | {"evidence_ids": ["i1", "i9"]}),
        "no item has the id 'i9' of 'evidence_ids'; add",
    ),
    "evidence that is stale too": (
        lines(QUESTION | {"stale_ids": ["i1"]}),
        "'i1' is both evidence and stale; leave",
    ),
    "a moment that no item is": (
        lines(QUESTION | {"as_of": "i9"}),
        "no item has the id 'i9' of 'as_of'; add",
    ),
    "an id twice": (lines(QUESTION, QUESTION), "line 2: the id 'q1' is that of line 1 too"),
    "no questions": ("", "has no questions; give a file"),
}


MALFORMED = [(read_items, *each) for each in BAD_ITEMS.values()]
MALFORMED += [
    (partial(read_questions, items=[EvidenceItem("i1", "text"), EvidenceItem("i2", "t")]), *each)
    for each in BAD_QUESTIONS.values()
]


@pytest.mark.parametrize(
    ("read", "content", "message"), MALFORMED, ids=[*BAD_ITEMS, *BAD_QUESTIONS]
)
def test_malformed_files_are_refused_by_file_and_line(read, content, message, tmp_path):
    """The error names the file, the line, what is wrong and what to do; evidence that no item is is malformed, too."""
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidArgumentError) as raised:
        read(path)
    assert f"{str(path)!r}" in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (("nope.jsonl", "nope.jsonl"), "no file of items at"),
        (("here.jsonl",), "name their file too"),
        (("here.jsonl", "nope.jsonl"), "no file of questions at"),
        (("alone.items.jsonl",), "no file of questions at"),
        (("empty",), "no *.items.jsonl in the folder"),
        (("empty", "here.jsonl"), "can't be read"),
        (("a\0b", "here.jsonl"), "can't be read"),
    ],
)
def test_files_that_are_not_there_are_named(given, remedy, tmp_path):
    """A missing file, a folder without corpora and items without questions are typed errors with a remedy."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "here.jsonl").write_text(lines(ITEM))
    (tmp_path / "alone.items.jsonl").write_text(lines(ITEM))
    with pytest.raises(MissingFileError) as raised:
        read_corpora(*(tmp_path / name for name in given))
    assert remedy in str(raised.value)


# What is measured


@dataclass(frozen=True)
class Scripted:
    """An assembler that chooses what it is told to for each query."""

    script: dict[str, tuple[tuple[str, ...], int]]
    name: str = "scripted"

    def load(self, items):
        async def pack(query, budget):
            return Selection(*self.script[query])

        return pack


def corpus_of(items, questions):
    return Corpus(
        "c",
        tuple(EvidenceItem(f"i{number}", f"text {number}") for number in range(items)),
        tuple(
            Question(query, query, evidence, category)
            for query, (evidence, category) in questions.items()
        ),
    )


async def test_recall_is_the_share_of_the_evidence_and_nothing_for_what_breaks_a_rule():
    """Half the evidence is 0.5; over budget, with an unknown item or one twice it is 0 and a violation."""
    corpus = corpus_of(
        4, dict.fromkeys(("half", "all", "none", "over", "unknown", "twice"), (("i0", "i1"), "x"))
    )
    script = {
        "half": (("i0", "i2"), 10),
        "all": (("i3", "i1", "i0"), 10),
        "none": ((), 0),
        "over": (("i0", "i1"), 11),
        "unknown": (("i0", "i1", "i9"), 10),
        "twice": (("i0", "i1", "i0"), 10),
    }
    report = await evaluate([corpus], budgets=[10], assemblers=[Scripted(script)])
    assert {outcome.question_id: outcome.recall for outcome in report.outcomes} == {
        "half": 0.5, "all": 1.0, "none": 0.0, "over": 0.0, "unknown": 0.0, "twice": 0.0,
    }  # fmt: skip
    assert {outcome.question_id: outcome.violations for outcome in report.violations} == {
        "over": ("11 tokens are over the budget of 10",),
        "unknown": ("no item has the id 'i9'",),
        "twice": ("an item is in it twice",),
    }
    figures = report.figures("scripted", 10)
    assert (figures.questions, figures.violations) == (6, 3)
    assert figures.recall == pytest.approx(0.25)
    assert figures.fill == pytest.approx((10 + 10 + 0 + 11 + 10 + 10) / 60)


async def test_evidence_is_shown_by_any_item_of_its_text():
    """A session shows a text once, so one of two items alike stands for both."""
    items = [EvidenceItem(f"i{number}", f"Room {number} costs 500 euros.") for number in range(40)]
    items.append(replace(items[7], id="twin"))
    asked = [Question(str(ids), "What does room 7 cost?", ids) for ids in (("i7",), ("twin",))]
    asked.append(Question("both", "What does room 7 cost?", ("i7", "twin")))
    corpus = Corpus("c", tuple(items), tuple(asked))
    report = await evaluate([corpus], budgets=[100], assemblers=[SessionAssembler()])
    assert [outcome.recall for outcome in report.outcomes] == [1, 1, 1]


async def test_a_category_can_be_reported_without_counting_in_the_mean():
    """Adversarial questions have a recall of their own, and the mean over all is that of the others."""
    asked = {"a": (("i0",), "plain"), "b": (("i1",), "plain"), "c": (("i2",), "adversarial")}
    script = {"a": (("i0",), 1), "b": ((), 0), "c": (("i2",), 1)}
    report = await evaluate([corpus_of(3, asked)], budgets=[4], assemblers=[Scripted(script)])
    figures = report.figures("scripted", 4)
    assert (figures.questions, figures.recall) == (3, 0.5)
    assert report.categories == (("", "adversarial"), ("", "plain"))
    assert report.figures("scripted", 4, "adversarial").recall == 1.0
    assert report.figures("scripted", 4, "plain").recall == 0.5


async def test_the_mean_is_over_data_sets_and_within_one_over_questions():
    """A data set of many questions counts as one of few, and one whose questions do not count does not count."""
    hits = {"a": ("i0",), "b": ("i0",), "c": ("i1",), "d": ("i0",), "e": ("i0",)}
    script = dict.fromkeys(hits, (("i0",), 1))

    def corpus(name, queries, category="x"):
        asked = corpus_of(2, {query: (hits[query], category) for query in queries})
        return replace(asked, name=name, dataset=name.partition("/")[0])

    corpora = [
        corpus("one/1", "ab"),
        corpus("one/2", "c"),
        corpus("two/1", "c"),
        corpus("trap/1", "de", "adversarial"),
    ]
    report = await evaluate(corpora, budgets=[4], assemblers=[Scripted(script)])
    assert report.datasets == ("one", "two", "trap")
    assert report.figures("scripted", 4, dataset="one").recall == pytest.approx(2 / 3)
    assert report.figures("scripted", 4, dataset="two").recall == 0
    assert report.figures("scripted", 4, dataset="trap").recall is None
    overall = report.figures("scripted", 4)
    assert overall.recall == pytest.approx((2 / 3 + 0) / 2)
    assert (overall.questions, overall.scored) == (6, 4)
    assert report.figures("scripted", 4, "x").recall == pytest.approx(1 / 3)
    figures = report.summary()["figures"]
    by_dataset = [each for each in figures if each["dataset"] and each["category"] is None]
    assert [(each["dataset"], each["questions"]) for each in by_dataset] == [
        ("one", 3), ("two", 1), ("trap", 2),
    ]  # fmt: skip
    [axes] = draw(report).axes
    assert axes.get_title() == "6 questions on 8 items, mean of 3 data sets"


async def test_superseded_items_are_told_by_what_stands_beside_and_after_them():
    """A superseded item alone, before and after the evidence that replaces it are three different things."""
    scripts = {
        "absent": (("i3",), (False, False, None)),
        "alone": (("i0", "i1"), (True, True, False)),
        "replaced": (("i0", "i1", "i3"), (True, False, True)),
        "not by the newest": (("i1", "i2"), (True, False, False)),
        "as if current": (("i3", "i0"), (True, False, False)),
    }
    corpus = corpus_of(4, dict.fromkeys(scripts, (("i2", "i3"), "")))
    asked = tuple(replace(question, stale_ids=("i0", "i1")) for question in corpus.questions)
    script = {name: (chosen, 1) for name, (chosen, _) in scripts.items()}
    assembler = Scripted(script | {"no superseded items": ((), 1)})
    asked += (Question("no superseded items", "no superseded items", ()),)
    report = await evaluate([replace(corpus, questions=asked)], budgets=[4], assemblers=[assembler])
    found = {
        each.question_id: (each.stale.shown, each.stale.alone, each.stale.last_word)
        for each in report.outcomes
    }
    assert found == {name: told for name, (_, told) in scripts.items()} | {
        "no superseded items": (None, None, None)
    }
    figures = report.figures("scripted", 4)
    assert (figures.stale, figures.stale_alone, figures.last_word) == (0.8, 0.2, 0.25)
    assert (figures.questions, figures.scored, figures.may_be_stale) == (6, 5, 5)


async def test_items_that_come_after_a_question_are_hidden_from_it():
    """An assembler loads the items that exist when a question is asked, and no later ones."""
    loaded = []

    class Watched(Scripted):
        def load(self, items):
            loaded.append(len(items))
            return super().load(items)

    corpus = corpus_of(4, {"now": (("i3",), ""), "then": (("i1",), "")})
    now, then = corpus.questions
    script = {"now": (("i3",), 1), "then": (("i3",), 1)}
    corpora = [replace(corpus, questions=(now, replace(then, as_of="i1")))]
    report = await evaluate(corpora, budgets=[4, 8], assemblers=[Watched(script)])
    assert loaded == [4, 2]
    assert {each.question_id for each in report.violations} == {"then"}


async def test_framing_is_what_is_not_the_texts_of_items():
    """Of 20 tokens that hold an item of 3, 17 are framing; a context without a token has no share."""
    tokens = get_counter()("text 0")
    script = {"a": (("i0",), 20), "b": ((), 0), "c": (("i0", "i1"), 2 * tokens)}
    corpus = corpus_of(2, dict.fromkeys("abc", (("i0",), "")))
    report = await evaluate([corpus], budgets=[20], assemblers=[Scripted(script)])
    assert [outcome.content for outcome in report.outcomes] == [tokens, 0, 2 * tokens]
    assert report.figures("scripted", 20).framing == pytest.approx((1 - tokens / 20 + 0) / 2)


def test_figures_are_medians_and_percentiles_of_the_times():
    """Of 1 to 100 ms the median is 50.5 and the 95th percentile 95; over nothing there is no figure."""
    outcomes = tuple(
        Outcome("c", str(number), "", "a", 10, 1.0, 5, 5, number / 1_000)
        for number in range(100, 0, -1)
    )
    report = Report({"c": 1}, ("a",), (10,), outcomes, {"a": 0.0})
    figures = report.figures("a", 10)
    assert (figures.median_ms, figures.p95_ms) == (pytest.approx(50.5), pytest.approx(95))
    for assembler, budget in (("b", 10), ("a", 20)):
        with pytest.raises(NotFoundError, match="measured are a at 10"):
            report.figures(assembler, budget)
    nothing = report.figures("a", 10, "other")
    assert (nothing.questions, nothing.recall, nothing.p95_ms) == (0, None, None)


# What is compared


@st.composite
def corpora(draw):
    """Draw up to 30 items of hostile and ordinary texts, and questions on them."""
    contents = draw(st.lists(texts, min_size=1, max_size=30))
    items = [
        EvidenceItem(
            f"i{number}", text, draw(st.sampled_from(["", "a.md", "x]\n## y"])), "2024", role
        )
        for number, (text, role) in enumerate(
            (text, draw(st.sampled_from(["", "user", "system", "Caroline"]))) for text in contents
        )
    ]
    known = st.sampled_from([item.id for item in items])
    evidence = st.lists(known, min_size=1, max_size=3, unique=True).map(tuple)
    words = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    asked = draw(st.lists(st.tuples(words, evidence), min_size=1, max_size=3))
    return Corpus("c", tuple(items), tuple(Question(str(n), *each) for n, each in enumerate(asked)))


@given(
    corpora(), st.lists(st.integers(1, 400), min_size=1, max_size=3), st.sampled_from([*FORMATS])
)
@settings(max_examples=2 * settings().max_examples)
async def test_nothing_that_comes_with_kaosmem_breaks_a_rule(corpus, budgets, name):
    """Whatever items, budgets and format are, the three fill no budget beyond its end, and count right."""
    assemblers = [get_assembler(each, format=name) for each in ASSEMBLERS]
    report = await evaluate([corpus], budgets=budgets, assemblers=assemblers)
    assert report.violations == ()
    assert report.questions == len(corpus.questions)
    assert len(report.outcomes) == 3 * len(set(budgets)) * len(corpus.questions)


def charge(item):
    return get_counter()(f"{item.role}: {item.text}\n" if item.role else f"{item.text}\n")


@given(corpora(), st.integers(1, 200))
async def test_recency_is_the_newest_until_the_next_does_not_fit(corpus, budget):
    """It is a tail of the items that fits, and one more would not."""
    chosen = await get_assembler("recency").load(corpus.items)("anything", budget)
    assert (
        chosen.item_ids
        == tuple(item.id for item in corpus.items)[len(corpus.items) - len(chosen.item_ids) :]
    )
    charges = [charge(item) for item in corpus.items]
    start = len(charges) - len(chosen.item_ids)
    assert chosen.used == sum(charges[start:]) <= budget
    assert start == 0 or chosen.used + charges[start - 1] > budget


def words(text):
    return "".join(char if char.isalnum() or char == "_" else " " for char in text.lower()).split()


@given(corpora(), st.integers(1, 200))
async def test_rank_bm25_takes_what_fits_in_order_of_its_scores(corpus, budget):
    """It is what a loop over the scores of `rank_bm25.BM25Okapi` takes, in stored order, newest first of equals."""
    query = corpus.questions[0].query
    terms = [words(item.text) for item in corpus.items]
    scores = [0.0] * len(terms)
    if any(terms):
        scores = list(BM25Okapi(terms).get_scores(words(query)))
    room = budget
    taken = []
    for place in sorted(range(len(terms)), key=lambda place: (-scores[place], -place)):
        if charge(corpus.items[place]) <= room:
            room -= charge(corpus.items[place])
            taken.append(place)
    chosen = await get_assembler("rank-bm25").load(corpus.items)(query, budget)
    assert chosen.item_ids == tuple(corpus.items[place].id for place in sorted(taken))
    assert chosen.used == budget - room


async def test_assemblers_are_compared_by_names_too():
    """A named one counts as the evaluation does. What is no list of assemblers is refused with the remedy."""
    items = tuple(EvidenceItem(f"i{number}", f"Room {number} costs 500.") for number in range(40))
    corpus = Corpus("c", items, (Question("q", "What does room 7 cost?", ("i7",)),))
    names = ["kaosmem", "kaosmem-bm25"]
    report = await evaluate([corpus], budgets=[40], assemblers=names, counter=EstimateCounter())
    own = SessionAssembler(counter=EstimateCounter())
    again = await evaluate([corpus], budgets=[40], assemblers=[own], counter=EstimateCounter())
    assert report.assemblers == tuple(names)
    assert report.outcomes[0].used == again.outcomes[0].used > 0
    for wrong in (own, "kaosmem", [SessionAssembler], [own, own], [3], []):
        with pytest.raises(InvalidArgumentError, match="give"):
            await evaluate([corpus], budgets=[8], assemblers=wrong)
    listed = SimpleNamespace(name="listed", load=lambda items: AsyncMock(return_value=["i7"]))
    with pytest.raises(InvalidArgumentError, match="a context of listed is a list; give a Selec"):
        await evaluate([corpus], budgets=[8], assemblers=[listed])
    for wrong in ("items.jsonl", corpus, []):
        with pytest.raises(InvalidArgumentError, match="give a"):
            await evaluate(wrong, budgets=[8])
    with pytest.raises(InvalidArgumentError, match="give a list"):
        await evaluate([corpus], budgets=8)


def test_assemblers_have_names():
    """Another name is refused with the names that there are."""
    names = [*ASSEMBLERS, *RANKER_ASSEMBLERS]
    assert [get_assembler(name, counter="estimate").name for name in names] == names
    assert isinstance(get_assembler("kaosmem-bm25").spec.ranker, BM25Ranker)
    remedy = "'magic'; use one of kaosmem, recency, rank-bm25, kaosmem-linear, kaosmem-bm25"
    with pytest.raises(InvalidArgumentError, match=remedy):
        get_assembler("magic")


async def test_a_session_s_answer_is_that_of_a_session():
    """What is measured is what `assemble_context` gives for the same items in one section, with source and time."""
    items = [
        EvidenceItem(
            f"i{number}",
            f"Clause {number}: notice of {number} days.",
            f"{number % 2}.md",
            "2024-05-01",
            "user",
        )
        for number in range(60)
    ]
    memory = SessionMemory.test_mode()
    for item in items:
        memory.add(
            "documents",
            item.text,
            id=item.id,
            role=item.role,
            metadata={"source": item.session, "timestamp": item.timestamp},
        )
    for name, query in (("text", "notice of 7 days"), ("openai", "clause 12")):
        context = await memory.assemble_context(
            query, budget=300, format=name, sections=["documents"]
        )
        chosen = await SessionAssembler(format=name).load(items)(query, 300)
        assert chosen.item_ids == tuple(item.id for item in context.items)
        assert chosen.used == context.used


# What is shown


@pytest.fixture(scope="module")
def report():
    outcomes = [
        Outcome("c", f"q{number}", "x", name, budget, recall, budget // 2, budget // 4, 0.002)
        for name, recall in (("kaosmem", 1.0), ("mine", 0.5))
        for budget in (100, 1_000)
        for number in range(2)
    ]
    return Report(
        {"c": 7}, ("kaosmem", "mine"), (100, 1_000), tuple(outcomes), {"kaosmem": 0.1, "mine": 0.2}
    )


def test_a_report_as_json_has_its_figures_and_outcomes(report):
    """It survives JSON, with figures over all first, then by data set and category, and every outcome."""
    read = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert read == report.to_dict()
    assert (read["questions"], read["corpora"]) == (2, {"c": 7})
    groups = [(entry["dataset"], entry["category"]) for entry in read["figures"]]
    assert groups == [(None, None)] * 4 + [("", "x")] * 4  # questions of no set come once
    assert (
        read["figures"][1] | {"assembler": "mine", "budget": 100, "recall": 0.5}
        == read["figures"][1]
    )
    assert len(read["outcomes"]) == 8


def test_a_plot_needs_a_known_suffix_and_its_extra(report, tmp_path, monkeypatch):
    """What can't be drawn is a typed error with the remedy, and nothing is written."""
    with pytest.raises(InvalidArgumentError, match=r"'\.gif'; end the name in \.png, \.svg, \.pdf"):
        save_plot(report, tmp_path / "plot.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kaosmem\[plot\]'") as raised:
        save_plot(report, tmp_path / "plot.png")
    assert isinstance(raised.value, KaosmemError)
    assert list(tmp_path.iterdir()) == []
