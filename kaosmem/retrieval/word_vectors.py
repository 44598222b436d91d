"""The table of word vectors that comes with kaosmem, and the topics of texts by it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.scores import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.candidate_terms import CandidateTerms
    from kaosmem.retrieval.columns import Int64s

FILE = "word_vectors.npz"
NO_ROW = 0
"""The row of all terms without a vector. It is a row of zeros."""
_BYTE = 127
TOPIC_UNITS = 1 << 12
"""Weights of terms are whole numbers of 1 / TOPIC_UNITS."""
_GRID = 1 << 20
"""Cosines are whole numbers of 1 / _GRID."""
_LEAST_SPREAD = _GRID // 20
"""A smaller spread of cosines does not tell a few similar texts apart."""
_MOST_SPREADS = 3


class WordVectors:
    """A vector for each common English term.

    Args:
        terms: The terms, of which the first has the row 1.
        rows: Shape (1 + terms, dimensions). The first row is of no term.

    Attributes:
        rows: Vectors of about the same length. A sum of the products of two of them is exact in
            single precision, in any order.
    """

    def __init__(self, terms: Iterable[str], rows: NDArray[np.int8]) -> None:
        self._numbers = {term: number for number, term in enumerate(terms, NO_ROW + 1)}
        self.rows = rows
        wide = rows.astype(np.int64)
        self._length = isqrt(int((wide * wide).sum()) // max(1, len(rows) - 1))

    def row_of(self, term: str) -> int:
        """Return the row of a term, NO_ROW for a term without a vector."""
        return self._numbers.get(term, NO_ROW)

    def mean_of(self, terms: Iterable[str], weights: Int64s) -> Int64s:
        """Return the direction of the weighted mean of terms, in whole numbers up to 127."""
        rows = self.rows[list(map(self.row_of, terms))]
        total = (weights[:, None] * rows).sum(axis=0)
        most = int(np.abs(total).max(initial=0))
        found: Int64s = total * _BYTE // max(1, most)
        return found

    def products(self, rows: Int64s, vector: Int64s) -> Int64s:
        """Return the product of a vector with each of some rows."""
        found = self.rows[rows].astype(np.float32) @ vector.astype(np.float32)
        return found.astype(np.int64)

    def cosines(
        self,
        sums: Int64s,
        squares: Int64s,
        vector: Int64s,
    ) -> Int64s:
        """Return the cosines of a vector with weighted means of terms, in units of 1 / _GRID.

        A mean is taken to be as long as if its terms had nothing in common.

        Args:
            sums: By mean, the sum of its weights times the products of its terms with the vector.
            squares: By mean, the sum of the squares of its weights.
        """
        length = np.sqrt(float((vector * vector).sum())) * self._length
        lengths = np.sqrt(squares) * max(1.0, length)
        # Of 256 terms, whose weights are below 2**16 and products below 2**18, it is below 2**62.
        scaled = sums * _GRID
        found: Int64s = np.rint(scaled / np.maximum(1.0, lengths)).astype(np.int64)
        return found


@cache
def word_vectors() -> WordVectors:
    """Return the table, read when it is first needed.

    `benchmarks/distill_word_vectors.py` makes it of all-MiniLM-L6-v2.
    """
    data = files("kaosmem.retrieval").joinpath(FILE).read_bytes()
    arrays = np.load(io.BytesIO(data))
    return WordVectors(arrays["terms"].tobytes().decode().split(), arrays["rows"])


def topics(
    terms: CandidateTerms,
    rows_of: Callable[[Int64s], Int64s],
    weights_of: Callable[[Int64s], Int64s],
    vector: Int64s,
    rarest: int,
) -> Int64s:
    """Return how near the mean vector of each candidate is to a vector, from -ONE to ONE.

    It is by how many spreads the cosine is above the average of the candidates. Each candidate is
    taken to have one more rare term, which is like no other: a few common words tell little.

    Args:
        terms: The terms of the candidates.
        rows_of: Returns the rows of terms, by their numbers.
        weights_of: Returns the weights of terms, by their numbers.
        rarest: The weight of the rarest term.
    """
    table = word_vectors()
    counts = terms.counts()
    rows = rows_of(counts.present)
    (with_vector,) = np.nonzero(rows != NO_ROW)
    weights = np.zeros(len(rows), np.int64)
    weights[with_vector] = weights_of(counts.present[with_vector])
    products = np.zeros(len(rows), np.int64)
    products[with_vector] = table.products(rows[with_vector], vector)
    # Of 256 terms, whose weights are below 2**16 and products below 2**18, sums are below 2**42.
    sums = counts.sums((weights * products)[counts.places] * counts.times).astype(np.int64)
    squares = counts.sums((weights * weights)[counts.places] * counts.times).astype(np.int64)
    cosines = table.cosines(sums, squares + rarest * rarest, vector)
    rest = cosines - int(cosines.sum()) // terms.size
    spread = max(isqrt(int((rest * rest).sum()) // terms.size), _LEAST_SPREAD)
    found: Int64s = np.clip(rest * ONE // (_MOST_SPREADS * spread), -ONE, ONE)
    return found
