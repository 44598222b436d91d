"""The table of word vectors, and the topics of texts by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import text_item
from kaosmem import LinearRanker
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.vocabulary import NO_ROW, TOPIC_UNITS, word_vectors


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [("car", "vehicle", "wife"), ("doctor", "physician", "engine"), ("rent", "lease", "oyster")],
)
def test_words_alike_in_meaning_have_vectors_alike(word, near, far):
    """The cosine of two words alike is above 0.4, that of others below."""
    table = word_vectors()
    rows = table.rows_of([analyze(each)[0] for each in (word, near, far)])
    assert NO_ROW not in rows
    vector = table.mean_of(analyze(word), np.array([1]))
    ones = np.ones(len(rows), np.int64)
    same, of_near, of_far = table.cosines(table.products(rows, vector) * ones, ones, vector)
    assert of_far < 0.4 * same < of_near


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=8), st.integers(0, 5_000))
def test_products_are_those_of_whole_numbers(rows, other):
    """Single precision loses nothing, whichever kernel adds up."""
    table = word_vectors()
    vector = table.rows[other].astype(np.int64)
    exact = table.rows[rows].astype(np.int64) @ vector
    assert table.products(np.array(rows), vector).tolist() == exact.tolist()


def test_a_long_message_of_the_rarest_terms_has_the_cosine_of_one():
    """The sum of 256 products by the largest weights does not wrap around."""
    table = word_vectors()
    rows = table.rows_of(analyze("doctor"))
    vector = table.mean_of(analyze("doctor"), np.array([1]))
    weight = TOPIC_UNITS * 15  # of a term in one of three million entries
    product = weight * int(table.products(rows, vector)[0])
    sums = np.array([product, 256 * product])
    squares = np.array([weight**2, 256 * 256 * weight**2])
    one, many = table.cosines(sums, squares, vector).tolist()
    assert one == many > 0


def test_a_message_in_other_words_has_a_higher_topic():
    """Of messages with the same word of a query, the one that means the same is nearest."""
    texts = [
        "The physician was kind to Ada.",
        "The engine was loud near Ada.",
        "The oysters were served to Ada.",
        "The curtains were sold to Ada.",
    ]
    index = LinearRanker().index()
    roles = ("user", "assistant")
    index.add((n, replace(text_item(text), role=roles[n % 2])) for n, text in enumerate(texts))
    found = index.candidates("Which doctor did Ada see?")
    assert found.ordinals[found.signals["topic"].argmax()] == 0


def test_a_query_in_another_script_has_no_topic():
    """The table has English words alone: texts of other scripts rank by all other signals."""
    index = LinearRanker().index()
    texts = ["東京の家賃は高い", "大阪の家賃", "京都の庭"]
    index.add((n, replace(text_item(text), role=f"{n}")) for n, text in enumerate(texts))
    found = index.candidates("家賃")
    assert not found.signals["topic"].any()
