"""Rankers: what every one promises, and that ours has the scores of rank_bm25 through any changes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from rank_bm25 import BM25Okapi

from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from kaosmem.language.analysis import analyze
from kaosmem.retrieval import Index, RankBM25Ranker
from kaosmem.retrieval.postings import Postings
from kaosmem.retrieval.ranker import Ranker
from kaosmem.retrieval.rankers import BM25Ranker, LinearRanker
from kaosmem.retrieval.scores import best
from kaosmem.testing import RankerContract
from kaosmem.types.items import Item
from tests.retrieval.seeded import WORDS, seeded, text_of

texts = seeded.map(text_of)
BM25_RANKERS = [BM25Ranker(), BM25Ranker("okapi"), RankBM25Ranker()]


def entries_of(texts: Mapping[int, str] | Iterable[tuple[int, str]]) -> list[tuple[int, Item]]:
    """Return texts by ordinal as what an index takes."""
    return [(ordinal, text_item(text)) for ordinal, text in dict(texts).items()]


def okapi_scores(entries: dict[int, str], query: str) -> dict[int, float]:
    """Return what rank_bm25 itself gives each text: 0 where it can't be built."""
    terms = [analyze(text) for text in entries.values()]
    if not any(terms):
        return dict.fromkeys(entries, 0.0)
    return dict(zip(entries, BM25Okapi(terms).get_scores(analyze(query)).tolist(), strict=True))


def ranked_by(scores: dict[int, float]) -> list[tuple[int, float]]:
    """Return what should be ranked of entries with these scores, in order."""
    rounded = ((round(score, 9), ordinal) for ordinal, score in scores.items())
    return [(ordinal, score) for score, ordinal in sorted(rounded, reverse=True) if score > 0]


class IndexMachine(RuleBasedStateMachine):
    """An index after any sequence of changes, beside a plain dict of what it should hold."""

    ordinals = Bundle("ordinals")

    @initialize(entries=st.lists(texts, max_size=80))
    def load(self, entries: list[str]) -> None:
        self.index = BM25Ranker("okapi").index()
        self.entries = dict(enumerate(entries))
        self.index.add(entries_of(self.entries))

    @rule(target=ordinals, text=texts, ordinal=st.integers(min_value=100, max_value=2**63 - 1))
    def add(self, text: str, ordinal: int) -> int:
        if ordinal in self.entries:
            with pytest.raises(ValueError, match="taken"):
                self.index.add([(ordinal, text_item(text))])
        else:
            self.index.add([(ordinal, text_item(text))])
            self.entries[ordinal] = text
        return ordinal

    @rule(ordinal=ordinals | st.integers(0, 79), text=texts)
    def update(self, ordinal: int, text: str) -> None:
        if ordinal in self.entries:
            self.index.update(ordinal, text_item(text))
            self.entries[ordinal] = text
        else:
            with pytest.raises(KeyError):
                self.index.update(ordinal, text_item(text))

    @rule(ordinal=consumes(ordinals) | st.integers(0, 79))
    def remove(self, ordinal: int) -> None:
        if ordinal in self.entries:
            self.index.remove(ordinal)
            del self.entries[ordinal]
        else:
            with pytest.raises(KeyError):
                self.index.remove(ordinal)

    @rule(query=texts)
    def scores_are_those_of_rank_bm25(self, query: str) -> None:
        assert self.index.scores(query) == pytest.approx(
            okapi_scores(self.entries, query), abs=1e-9, rel=0
        )

    @rule(query=texts, limit=st.integers(0, 100))
    def changes_leave_no_trace(self, query: str, limit: int) -> None:
        fresh = BM25Ranker("okapi").index()
        for ordinal in sorted(self.entries):
            fresh.add([(ordinal, text_item(self.entries[ordinal]))])
        assert self.index.rank(query, limit) == fresh.rank(query, limit)

    @rule(query=texts, limit=st.integers(0, 100))
    def ranks_by_the_scores(self, query: str, limit: int) -> None:
        assert self.index.rank(query, limit) == ranked_by(self.index.scores(query))[:limit]

    @invariant()
    def holds_its_entries(self) -> None:
        assert len(self.index) == len(self.entries)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(stateful_step_count=30)


def test_scores_are_those_of_rank_bm25_after_10_000_changes() -> None:
    """A long run of changes accumulates no error: still 1e-9 from rank_bm25 built anew."""
    rng = random.Random(7)
    pool = seeded_texts(1_500, words=30)
    index = BM25Ranker("okapi").index()
    entries = dict[int, str]()
    for change in range(10_000):
        text = rng.choice(pool)
        kind = rng.random()
        if not entries or kind < (0.5 if len(entries) < 600 else 0.2):
            index.add([(change, text_item(text))])
            entries[change] = text
        elif kind < 0.7:
            ordinal = rng.choice(list(entries))
            index.update(ordinal, text_item(text))
            entries[ordinal] = text
        else:
            ordinal = rng.choice(list(entries))
            index.remove(ordinal)
            del entries[ordinal]
        if change % 1_000 == 999:
            for query in seeded_queries(3, seed=change):
                assert index.scores(query) == pytest.approx(
                    okapi_scores(entries, query), abs=1e-9, rel=0
                )
    assert len(entries) > 100


@pytest.mark.parametrize("k1, b, epsilon", [(1.2, 0.0, 0.25), (2.0, 1.0, 0.0), (0.1, 0.5, 1.0)])
def test_parameters_mean_what_they_mean_to_rank_bm25(k1: float, b: float, epsilon: float) -> None:
    """k1, b and epsilon give the same scores as in the package."""
    entries = entries_of(enumerate(["", *seeded_texts(60, words=20)]))
    ours = BM25Ranker("okapi", k1=k1, b=b, epsilon=epsilon).index()
    reference = RankBM25Ranker(k1=k1, b=b, epsilon=epsilon).index()
    for index in (ours, reference):
        index.add(entries)
    for query in seeded_queries(5):
        assert ours.scores(query) == pytest.approx(reference.scores(query), abs=1e-9, rel=0)


def test_a_batch_counts_as_its_entries_one_by_one() -> None:
    """Adding many at once, after queries too, gives the index that adding each gives."""
    entries = [
        (n, text_item(f"{text} {WORDS[n % 5]}"))
        for n, text in enumerate(seeded_texts(5_000, words=12))
    ]
    at_once = BM25Ranker("okapi").index()
    one_by_one = BM25Ranker("okapi").index()
    for start, stop in ((0, 200), (200, 240), (240, 5_000)):
        at_once.add(entries[start:stop])
        for entry in entries[start:stop]:
            one_by_one.add([entry])
        for query in seeded_queries(10):
            assert (
                at_once.rank(f"lease {query}", 100) == one_by_one.rank(f"lease {query}", 100) != []
            )


@pytest.mark.parametrize("n_others", [4, 60])
def test_a_term_repeated_very_often_counts_in_full(n_others: int) -> None:
    """Occurrences are not cut at a byte or two, whether the term is common or rare, the entry new or updated."""
    entries = dict(
        enumerate(["lease " * 300, "lease " * 70_000, "lease rent", *["cure notice"] * n_others])
    )
    index = BM25Ranker("okapi").index()
    index.add(entries_of(entries))
    for query in ("lease", "notice lease rent"):
        assert index.scores(query) == pytest.approx(okapi_scores(entries, query), abs=1e-9, rel=0)
    assert [ordinal for ordinal, _ in index.rank("lease", 2)] == [1, 0]
    index.update(2, text_item("rent " + "lease " * 1_000))
    index.remove(1)
    assert [ordinal for ordinal, _ in index.rank("lease", 2)] == [2, 0]


@cache
def of_thousands(idf: Literal["lucene", "okapi"]) -> Index:
    index = BM25Ranker(idf).index()
    index.add(entries_of(enumerate(seeded_texts(3_000, words=60))))
    return index


@pytest.mark.parametrize("idf", ["lucene", "okapi"])
@pytest.mark.parametrize("limit", [1, 7, 60])
def test_the_best_of_thousands_are_those_with_the_best_scores(
    idf: Literal["lucene", "okapi"], limit: int
) -> None:
    """What is left out of the ranking before all scores are known would not have been ranked."""
    index = of_thousands(idf)
    for query in seeded_queries(30):
        assert index.rank(query, limit) == ranked_by(index.scores(query))[:limit] != []


def test_scores_too_close_for_half_the_precision_are_told_apart() -> None:
    """Of many entries whose scores differ in the eighth digit, the best are found."""
    rng = random.Random(3)
    five = WORDS[:5]
    counted = (
        " ".join(word for each in five for word in [each] * rng.randint(1, 2)) for _ in range(1_500)
    )
    index = BM25Ranker(b=1e-6).index()
    index.add(entries_of(enumerate(text + " cure" * rng.randint(0, 400) for text in counted)))
    index.add((n, text_item("renewal")) for n in range(1_500, 2_000))
    expected = ranked_by(index.scores(" ".join(five)))
    for limit in range(1, 250):
        assert index.rank(" ".join(five), limit) == expected[:limit]


def test_entries_beyond_what_4_bytes_can_number_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Postings stay exact where a slot and the occurrences in it no longer fit into 4 bytes."""
    monkeypatch.setattr("kaosmem.retrieval.postings._NARROW_SLOTS", 4)
    postings = Postings()
    for entry in ([], ["lease", "rent"], ["lease"], ["lease"] * 3):
        postings.attach(entry)
    flat = postings.frozen()(np.arange(4))
    assert flat.packed.itemsize == 4
    for grown in postings, Postings(flat, 4):
        grown.attach(["lease"] * 400 + ["deposit"])
        grown.attach_many([["rent"], ["lease"]])
        slots, occurrences, sizes = grown.unpacked(["lease", "rent"])
        assert slots.tolist() == [1, 2, 3, 4, 6, 1, 5]
        assert occurrences.tolist() == [1, 1, 3, 400, 1, 1, 1]
        assert sizes == [5, 2]
        grown.detach(3)
        assert grown.frozen()(np.array([0, 1, 2, -1, 3, 4, 5])).packed.itemsize == 8
        assert grown.unpacked(["lease"])[0].tolist() == [1, 2, 4, 6]


class TestBM25Ranker(RankerContract):
    """The default scores of BM25, kept incrementally."""

    def make(self) -> Ranker:
        return BM25Ranker()


class TestOkapiRanker(RankerContract):
    """The scores of rank_bm25, kept incrementally."""

    def make(self) -> Ranker:
        return BM25Ranker("okapi")


class TestRankBM25Ranker(RankerContract):
    """The package rank_bm25."""

    def make(self) -> Ranker:
        return RankBM25Ranker()


class TestLinearRanker(RankerContract):
    """The default ranker, whose signals compare the entries that it chooses among."""

    scores_each_alone = False

    def make(self) -> Ranker:
        return LinearRanker()


@pytest.mark.parametrize("ranker", [*BM25_RANKERS, LinearRanker()], ids=lambda ranker: ranker.name)
def test_stop_words_find_nothing(ranker: Ranker) -> None:
    """A question of stop words alone finds no entry, nor does a text of them alone."""
    index = ranker.index()
    index.add(entries_of([(0, ""), (1, "the of"), (2, "lease")]))
    assert index.rank("what is it", 10) == []
    assert [ordinal for ordinal, _ in index.rank("the lease of it", 10)] == [2]


@given(
    scores=st.lists(
        st.floats(-2, 5) | st.sampled_from([0.0, 1.0, 1.0 + 4e-10, 2.0, 3e-10]), max_size=300
    ),
    limit=st.integers(-1, 320),
    seed=st.integers(0, 9),
)
def test_selection_is_that_of_sorting_everything(
    scores: list[float], limit: int, seed: int
) -> None:
    """The few best by blocks are the first of all when sorted by rounded score, then by ordinal."""
    ordinals = random.Random(seed).sample(range(10_000), len(scores))
    rounded = np.round(np.array(scores), 9).tolist()
    expected = sorted(
        ((score, ordinal) for score, ordinal in zip(rounded, ordinals, strict=True) if score > 0),
        reverse=True,
    )
    selected = best(np.array(ordinals, np.int64), np.array(scores), limit)
    assert [(score, ordinal) for ordinal, score in selected] == expected[: max(limit, 0)]


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_selection_among_many_equals_keeps_the_newest(limit: int) -> None:
    """However many scores tie, or tie once rounded, the newest of them win."""
    rng = random.Random(limit)
    scores = np.array([rng.choice([0.5, 0.5 + 3e-10, 0.5 - 3e-10, 0.1]) for _ in range(20_000)])
    expected = [n for n in range(19_999, -1, -1) if scores[n] > 0.4][:limit]
    assert best(np.arange(20_000), scores, limit) == [(n, 0.5) for n in expected]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BM25Ranker("tfidf"), "use 'lucene' or 'okapi'"),  # type: ignore[arg-type]
        (lambda: BM25Ranker(k1=0), "give a number above 0"),
        (lambda: BM25Ranker(k1=float("nan")), "give a number above 0"),
        (lambda: BM25Ranker(b=1.5), "give a number from 0 to 1"),
        (lambda: RankBM25Ranker(b=-0.1), "give a number from 0 to 1"),
        (lambda: RankBM25Ranker(epsilon=-1), "give a number from 0 up"),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_range(
    make: Callable[[], Ranker], message: str
) -> None:
    """A ranker that could not score is refused when it is made, in words that help."""
    with pytest.raises(ValueError, match=message):
        make()


def test_lucene_ranks_a_word_that_most_entries_have() -> None:
    """The default scores a common word low but above 0, where Okapi's idf would be negative."""
    index: Index = BM25Ranker().index()
    index.add(entries_of([(0, "rent"), (1, "rent"), (2, "rent notice"), (3, "notice")]))
    assert {ordinal for ordinal, _ in index.rank("rent", 10)} == {0, 1, 2}


def test_any_analysis_can_be_used() -> None:
    """A ranker finds by the terms of the analysis that it was given."""
    index = BM25Ranker(analyze=lambda text: list(text)).index()
    index.add(entries_of([(0, "abc"), (1, "xyz"), (2, "uvw")]))
    assert [ordinal for ordinal, _ in index.rank("the z", 10)] == [1]


def test_rankers_are_imported_without_numpy() -> None:
    """Numpy, rank_bm25 and the stemmer are loaded by the first index or analysis, not by the import."""
    code = (
        "import sys; from kaosmem.retrieval.rankers import BM25Ranker, RankBM25Ranker\n"
        "BM25Ranker(); RankBM25Ranker()\n"
        "print({'numpy', 'rank_bm25', 'Stemmer'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert result.stdout.strip() == "set()"
