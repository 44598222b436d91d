"""What candidates gain from their place in their source and from their passage, and which clause is the question."""

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.corpus import text_item
from kaosmem import LinearRanker
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.query_terms import QueryTerms, SourceMatches
from kaosmem.retrieval.scores import ONE


def index_of(texts, source, roles=("user",)):
    index = LinearRanker().index()
    items = [
        replace(text_item(text), metadata={"source": source} if source else {}) for text in texts
    ]
    index.add((at, replace(item, role=roles[at % len(roles)])) for at, item in enumerate(items))
    return index


def test_what_stands_in_a_passage_of_answers_is_preferred():
    """Of two equal lines, that which has other answers near it in a named source, though none beside it."""
    filler = ["Blue.", "Red.", "Green."]
    texts = [
        "The rent is due.",
        *filler * 4,
        "The rent is due.",
        *filler,
        "Rent is paid.",
        *filler,
        "A due rent.",
    ]
    ranked = index_of(texts, "lease").ranking("When is rent due by the lease?", 40)
    places = {ordinal: place for place, (ordinal, _) in enumerate(ranked.matches)}
    assert places[13] < places[0]
    assert ranked.signals(13)["passage"] > ranked.signals(0)["passage"]
    ranked = index_of(texts, "lease").ranking("When is rent due?", 40)
    assert not any(ranked.signals(ordinal).get("passage") for ordinal, _ in ranked.matches)
    for source, roles in ("", ("user",)), ("lease", ("user", "assistant")):
        ranked = index_of(texts, source, roles).ranking("When is rent due by the lease?", 40)
        assert not any(ranked.signals(ordinal).get("passage") for ordinal, _ in ranked.matches)


@pytest.mark.parametrize(
    ("query", "last"),
    [
        ("Consider the lease; who pays? Answer in one word.", "who pays?"),
        ("Who signed? In which month? Round to days.", "In which month?"),
        ("Consider the lease; the notice period", "the notice period"),
        ("The lease. ...", "The lease."),
        ("", ""),
    ],
)
def test_the_last_question_is_what_is_asked(query, last):
    """How to answer it is not, and where nothing ends in a question mark, it is the last clause with a word."""
    asked = QueryTerms(query, analyze)
    assert asked.last == last
    assert asked.clause == analyze(last)


@pytest.mark.parametrize(
    ("query", "source", "share"),
    [
        ("How is a session opened?", "sessions.md", 0),
        ("How is a window rebased?", "windows.md", ONE),
        ("What did the report of 2018 say?", "report-2018.md", ONE),
        ("What is the weather?", "windows.md", 0),
        ("What is the usage of a crane?", "usage.md", 0),
        ("What did Acme sell?", "acme.md", ONE),
    ],
    ids=[
        "in every text",
        "in few texts",
        "a year in every text",
        "no name",
        "in more texts of others",
        "in a few texts of many others",
    ],
)
def test_a_source_counts_as_far_as_the_query_names_it(query, source, share):
    """A word names the source that has most of the texts with it. A year names its report."""
    others = [f"other{n}.md" for n in range(20)]
    texts = []
    for name in ("sessions.md", "windows.md", "report-2018.md", "usage.md", *others):
        text = f"A session of 2018 is a folder. This is the page {name.split('.')[0]}."
        texts.append((name, text))
    texts += [(name, "Its usage is like that of Acme.") for name in others]
    texts += [("acme.md", f"Acme sold {n} cranes.") for n in range(60)]
    index = LinearRanker().index()
    items = [replace(text_item(text), metadata={"source": name}) for name, text in texts]
    index.add(enumerate(items))
    asked = QueryTerms(query, index.analyze)
    counts = Counter(filter(None, index.numbers_of(asked.terms)))
    named = SourceMatches(index, asked, counts).named()
    assert abs(named - share) <= ONE // 10
