"""The axioms of retrieval: of two texts that differ in one respect, the better match never scores less."""

import math
import random
from dataclasses import replace
from itertools import count, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import text_item
from benchmarks.learning import AXIOMS
from kaosmem import LinearRanker
from kaosmem.retrieval import linear_index
from kaosmem.retrieval.rankers import default_weights

TERMS = ["lease", "tenant", "rent", "notice", "room", "14", "2018", "roof", "harbour", "TASK-17"]
OTHERS = ["garden", "blue", "paid", "morning", "7", "letter", "window", "street"]
PAIR = 10_000, 20_000
"""The ordinals of the better and of the worse text: the worse is newer, and neither has a neighbour."""


def fillers():
    """Yield words that occur once."""
    for number in count():
        yield f"zq{'abcdefghij'[number % 10]}{'klmnopqrst'[number // 10 % 10]}x"


def spaced(words, other):
    """Return words with a filler before and after each."""
    return [next(other), *(each for word in words for each in (word, next(other)))]


def one_more_match(query, rng, other):
    worse = spaced(rng.choices(query, k=rng.randrange(3)), other)
    better = list(worse)
    better[rng.choice([place for place, word in enumerate(worse) if word not in query])] = (
        rng.choice(query)
    )
    return better, worse


def adjacent_in_order(query, rng, other):
    place = rng.randrange(len(query) - 1)
    first, second = query[place : place + 2]
    before = next(other)
    between = next(other)
    after = next(other)
    apart = rng.choice(
        [[second, first, between], [first, between, second], [second, between, first]]
    )
    return [before, first, second, between, after], [before, *apart, after]


def exact_identifier(query, rng, other):
    around = spaced(rng.sample(query, 1), other)
    query.append("TASK-17")
    return [*around, "TASK-17"], [
        *around,
        *rng.choice([["task", next(other), "17"], ["17", "task", next(other)]]),
    ]


def quoted_phrase(query, rng, other):
    phrase = query[:]
    around = [next(other), next(other)]
    query[0], query[-1] = f'"{query[0]}', f'{query[-1]}"'
    mixed = rng.choice([list(each) for each in permutations(phrase) if list(each) != phrase][:20])
    return [around[0], *phrase, around[1]], [around[0], *mixed, around[1]]


def scores(texts, corpus, query, *, source, roles, looked_at):
    """Return the scores of the better and of the worse text among others."""
    metadata = {"source": source} if source else {}
    pair = [
        replace(text_item(" ".join(text)), tokens=9, role=roles[0], metadata=metadata)
        for text in texts
    ]
    others = [
        replace(
            text_item(text), role=roles[place % len(roles)], metadata=metadata if place % 3 else {}
        )
        for place, text in enumerate(corpus)
    ]
    index = LinearRanker().index()
    index.add([*enumerate(others), *zip(PAIR, pair, strict=True)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_index, "CANDIDATES", looked_at)
        patch.setattr(linear_index, "_MATCHES_WITH_NEIGHBOURS", looked_at // 4)
        found = dict(index.rank(query, len(index)))
    return found.get(PAIR[0], 0.0), found.get(PAIR[1], 0.0)


settings_of_a_corpus = {
    "seed": st.integers(0, 1 << 32),
    "size": st.integers(0, 40),
    "source": st.sampled_from(["", "lease 2018"]),
    "roles": st.sampled_from([[""], ["user", "assistant"]]),
    "looked_at": st.sampled_from([4, 384]),
}


def corpus_of(rng, size):
    """Return random texts, in which some words are common and others rare."""
    words = rng.sample([*TERMS, *OTHERS], len(TERMS) + len(OTHERS))
    shares = [1 / (place + 1) for place in range(len(words))]
    return [" ".join(rng.choices(words, shares, k=rng.randrange(1, 9))) for _ in range(size)]


@pytest.mark.parametrize(
    "pair", [one_more_match, adjacent_in_order, exact_identifier, quoted_phrase]
)
@given(**settings_of_a_corpus)
def test_a_better_match_never_scores_less(pair, seed, size, source, roles, looked_at):
    """One more match, terms side by side in order, an exact identifier, a quoted phrase."""
    rng = random.Random(seed)
    query = rng.sample(TERMS[:-1], rng.randrange(2, 5))
    texts = pair(query, rng, fillers())
    better, worse = scores(
        texts,
        corpus_of(rng, size),
        " ".join(query),
        source=source,
        roles=roles,
        looked_at=looked_at,
    )
    assert better >= worse


@given(**settings_of_a_corpus)
def test_a_rarer_term_never_scores_less(seed, size, source, roles, looked_at):
    """Of two texts with one term of the query each, the text with the rarer term."""
    rng = random.Random(seed)
    other = fillers()
    query = rng.sample(TERMS[:-1], rng.randrange(2, 5))
    corpus = corpus_of(rng, size)
    having = {term: sum(term in text.split() for text in corpus) for term in query}
    rarer, commoner = sorted(rng.sample(query, 2), key=having.__getitem__)
    around = [next(other), next(other)]
    texts = [around[0], rarer, around[1]], [around[0], commoner, around[1]]
    better, worse = scores(
        texts, corpus, " ".join(query), source=source, roles=roles, looked_at=looked_at
    )
    assert better >= worse or having[rarer] == having[commoner]


@pytest.mark.parametrize("file", ["weights.json", "weights_dense.json"])
def test_no_better_match_counts_against_a_text(file):
    """Every weight that comes with kaosmem is within the bounds that the axioms set; phrases count."""
    weights = default_weights(file)
    for model in (weights.conversation, weights.documents):
        for name, weight in model.items():
            low, high = AXIOMS.get(name, (-math.inf if name == "size" else 0.0, math.inf))
            assert low <= weight <= high, name
        assert model["phrases"] > 0
        assert model["match"] > 0


@pytest.mark.parametrize("roles", [[""], ["user", "assistant"]])
@pytest.mark.parametrize("source", ["", "house"])
def test_a_colour_belongs_to_its_noun(source, roles):
    """Of two texts with the same words, the text in which each colour stands before the noun that is asked for."""
    rng = random.Random(1)
    other = fillers()
    colours = "red blue green black white grey".split()
    nouns = "chair table lamp sofa desk shelf".split()
    corpus = [
        f"A {rng.choice(colours)} {rng.choice(nouns)} and a {rng.choice(nouns)}." for _ in range(40)
    ]
    for _ in range(20):
        (one, two), (first, second) = rng.sample(colours, 2), rng.sample(nouns, 2)
        texts = [one, first, next(other), two, second], [two, first, next(other), one, second]
        query = f"the {one} {first} and the {two} {second}"
        better, worse = scores(texts, corpus, query, source=source, roles=roles, looked_at=384)
        assert better > worse


@pytest.mark.parametrize("words", ["", "today again late early twice well"])
def test_a_numbered_room_is_found_among_thousands(words):
    """The phrase decides where thousands of short texts have the same words."""
    rng = random.Random(2)
    texts = []
    for place in range(3_000):
        room = rng.choice([each for each in range(1, 41) if each != 14])
        day = rng.randint(1, 28)
        if place % 250 == 7:
            room = 14
            day = 2
        rest = " ".join(rng.choices(words.split(), k=rng.randrange(5))) if words else ""
        texts.append(f"Room {room} was cleaned on day {day} and the keys were returned {rest}")
    index = LinearRanker().index()
    index.add(enumerate(map(text_item, texts)))
    best = [ordinal for ordinal, _ in index.rank("What happened in room 14?", 12)]
    assert all(texts[ordinal].startswith("Room 14 ") for ordinal in best)
