"""Rankers: what every one promises, and that ours ranks as brute force does through any changes."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem.retrieval import GraphRanker, RankBM25Ranker, bm25, text_index
from kaosmem.retrieval.bm25 import BM25
from kaosmem.retrieval.rankers import BM25Ranker, LinearRanker
from kaosmem.retrieval.scores import best, top
from kaosmem.testing import RankerContract
from tests.retrieval.brute_force import exact_ranking, textbook_scores
from tests.retrieval.seeded import seeded, text_of

texts = seeded.map(text_of)
BM25_RANKERS = [BM25Ranker(), RankBM25Ranker()]


def entries_of(texts):
    """Return texts by ordinal as what an index takes."""
    return [(ordinal, text_item(text)) for ordinal, text in dict(texts).items()]


def exact(index, ranked):
    """Return a ranking with its scores in whole numbers."""
    unit = BM25.of(1.5, 0.75).unit
    return [(ordinal, round(score / unit)) for ordinal, score in ranked]


@pytest.fixture(autouse=True)
def merged_and_settled_often(monkeypatch):
    """Have small indexes go through the changes of large ones."""
    monkeypatch.setattr(bm25, "_MAX_MERGED", 500)
    monkeypatch.setattr(bm25, "_SORTED_AT_ONCE", 16)
    monkeypatch.setattr(text_index, "_LEAST_STALE", 16)
    monkeypatch.setattr(bm25, "_SCORED_AT_ONCE", 16)


@given(
    entries=st.dictionaries(st.integers(0, 5_000), texts, max_size=80),
    query=texts,
    limit=st.integers(0, 100),
)
@settings(max_examples=3 * settings().max_examples)
def test_an_index_ranks_as_brute_force_does(entries, query, limit):
    """Among all entries and among some. That no change leaves a trace is proved in `test_stored_index.py`."""
    index = BM25Ranker().index()
    index.add(entries_of(entries))
    expected = exact_ranking(entries, query)
    assert exact(index, index.rank(query, limit)) == expected[:limit]
    among = {ordinal for ordinal in entries if ordinal % 3}
    chosen = [each for each in expected if each[0] in among]
    assert exact(index, index.rank(query, limit, among=among)) == chosen[:limit]


@pytest.mark.parametrize("k1, b", [(1.5, 0.75), (1.2, 0.0), (2.0, 1.0), (0.1, 0.5)])
def test_scores_are_those_of_the_textbook(k1, b):
    """All but near ties are in the textbook's order, and scores are within 0.5 % of its scores."""
    entries = dict(enumerate(["", *seeded_texts(600, words=60)]))
    index = BM25Ranker(k1=k1, b=b).index()
    index.add(entries_of(entries))
    for query in seeded_queries(20):
        expected = textbook_scores(entries, query, k1=k1, b=b)
        ranked = index.rank(query, len(entries))
        assert {ordinal for ordinal, _ in ranked} == {n for n, score in expected.items() if score}
        for ordinal, score in ranked:
            assert score == pytest.approx(expected[ordinal], rel=0.005)
        for (first, _), (second, _) in pairwise(ranked):
            assert expected[first] > 0.995 * expected[second]


@pytest.mark.parametrize("n_others", [4, 60])
def test_a_term_repeated_very_often_counts_in_full(n_others):
    """Occurrences are not cut at a byte or two, whether the term is common or rare, the entry new or updated."""
    entries = dict(
        enumerate(["lease " * 300, "lease " * 70_000, "lease rent", *["cure notice"] * n_others])
    )
    index = BM25Ranker().index()
    index.add(entries_of(entries))
    for query in ("lease", "notice lease rent"):
        expected = textbook_scores(entries, query)
        for ordinal, score in index.rank(query, 100):
            assert score == pytest.approx(expected[ordinal], rel=0.01)
    assert [ordinal for ordinal, _ in index.rank("lease", 2)] == [1, 0]
    index.update(2, text_item("rent " + "lease " * 1_000))
    index.remove(1)
    assert [ordinal for ordinal, _ in index.rank("lease", 2)] == [2, 0]


def test_more_entries_than_postings_can_number_are_refused(
    monkeypatch,
):
    monkeypatch.setattr(text_index, "MAX_SLOTS", 3)
    index = BM25Ranker().index()
    index.add(entries_of(enumerate(["lease", "rent"])))
    with pytest.raises(ValueError, match="room for 3 entries; use several sections"):
        index.add(entries_of([(5, "cure"), (6, "notice")]))
    assert len(index) == 2


class TestBM25Ranker(RankerContract):
    """The default scores of BM25, kept incrementally."""

    def make(self):
        return BM25Ranker()


class TestRankBM25Ranker(RankerContract):
    """The package rank_bm25."""

    def make(self):
        return RankBM25Ranker()


class TestLinearRanker(RankerContract):
    """The default ranker, whose signals compare the entries that it chooses among."""

    scores_each_alone = False

    def make(self):
        return LinearRanker()


@pytest.mark.parametrize(
    "ranker", [*BM25_RANKERS, LinearRanker(), GraphRanker()], ids=lambda ranker: ranker.name
)
def test_a_wrong_ordinal_is_refused_and_changes_nothing(ranker):
    """A taken, repeated or negative ordinal refuses the batch. An unknown one is a KeyError."""
    index = ranker.index()
    index.add(entries_of(enumerate(["lease", "rent", "cure"])))
    for ordinals in ((3, 0), (3, 3), (-1,), (2**63,)):
        with pytest.raises(ValueError, match=r"ordinal -?\d+ is"):
            index.add([(ordinal, text_item("deposit")) for ordinal in ordinals])
    with pytest.raises(KeyError, match="no entry has ordinal 3"):
        index.update(3, text_item("deposit"))
    with pytest.raises(KeyError, match="no entry has ordinal 3"):
        index.remove(3)
    assert len(index) == 3
    assert index.rank("deposit", 10) == []


@pytest.mark.parametrize("ranker", [*BM25_RANKERS, LinearRanker()], ids=lambda ranker: ranker.name)
def test_stop_words_find_nothing(ranker):
    """A question of stop words alone finds no entry, nor does a text of them alone."""
    index = ranker.index()
    index.add(entries_of([(0, ""), (1, "the of"), (2, "lease")]))
    assert index.rank("what is it", 10) == []
    assert [ordinal for ordinal, _ in index.rank("the lease of it", 10)] == [2]


@given(
    scores=st.lists(st.integers(-2, 60), max_size=300),
    limit=st.integers(-1, 320),
    seed=st.integers(0, 9),
)
def test_selection_is_that_of_sorting_everything(scores, limit, seed):
    """The few best by blocks are the first of all when sorted by score, then by ordinal."""
    ordinals = random.Random(seed).sample(range(10_000), len(scores))
    expected = sorted(zip(scores, ordinals, range(300), strict=False), reverse=True)
    places = [place for score, _, place in expected if score > 0]
    found = top(np.array(scores, np.int64), np.array(ordinals, np.int64), limit)
    assert found.tolist() == places[: max(limit, 0)]


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_selection_among_many_equals_keeps_the_newest(limit):
    """However many scores tie, or tie once rounded, the newest of them win."""
    rng = random.Random(limit)
    scores = np.array([rng.choice([0.5, 0.5 + 3e-10, 0.5 - 3e-10, 0.1]) for _ in range(20_000)])
    expected = [n for n in range(19_999, -1, -1) if scores[n] > 0.4][:limit]
    assert best(np.arange(20_000), scores, limit) == [(n, 0.5) for n in expected]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BM25Ranker(k1=0), "give a number above 0"),
        (lambda: BM25Ranker(k1=1e9), "give a number from 0.000001 to 1,000"),
        (lambda: BM25Ranker(k1=float("nan")), "give a number above 0"),
        (lambda: BM25Ranker(b=1.5), "give a number from 0 to 1"),
        (lambda: RankBM25Ranker(b=-0.1), "give a number from 0 to 1"),
        (lambda: RankBM25Ranker(epsilon=-1), "give a number from 0 up"),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_range(make, message):
    """A ranker that could not score is refused when it is made, in words that help."""
    with pytest.raises(ValueError, match=message):
        make()


def test_any_analysis_can_be_used():
    """A ranker finds by the terms of the analysis that it was given."""
    index = BM25Ranker(analyze=lambda text: list(text)).index()
    index.add(entries_of([(0, "abc"), (1, "xyz"), (2, "uvw")]))
    assert [ordinal for ordinal, _ in index.rank("the z", 10)] == [1]
