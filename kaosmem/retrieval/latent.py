"""The main dimensions of a query's candidates, found with the same bits on every machine."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import logs
from kaosmem.retrieval.shares import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.candidate_terms import CandidateTerms

BUCKETS = 1024
"""Terms are hashed into so many signed sums, which changes angles by a few per cent at most."""
DIMENSIONS = 18
ENOUGH_TEXTS = 128
"""Fewer say little of which words go together, and count for less in proportion."""
# texts at a time: products so small take one core, where more would mostly wait for one another
_BLOCK = 16
_MISSING = 1e-9  # a direction that has so little of its own left is one of those before it

# Every product of matrices is of whole numbers and exact, in whatever order a kernel adds them up.
# Those with texts are in single precision, which holds sums up to 2**24: a text has the length 2**7
# and a column of at most 512 texts 2**11.5, a direction 2**12 and a vector 2**16.5. All others are
# in double precision, which holds sums up to 2**53.
_TEXT_BITS = 7
_BASIS_BITS = 12
_VECTOR_BITS = 11
_BITS = 20


def term_hash(term: str) -> int:
    """Return a number of 32 bits that is the same in every process."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


class LatentSpace:
    """The main dimensions of texts: a singular value decomposition of their tf-idf vectors.

    Source: Deerwester et al. 1990; of a query's candidates alone: Hull 1994; the decomposition:
    Halko et al. 2011, here by Cholesky factors, which need no more than exact sums.

    Args:
        terms: The terms of at most 512 texts.
        hash_of: Returns the hashes of terms, by their numbers.
        asked: Numbers of the query's terms. They are left out, so that two texts that differ only
            in these terms are equally near.
    """

    def __init__(
        self,
        terms: CandidateTerms,
        hash_of: Callable[[Int64s], Int64s],
        asked: Collection[int] = (),
    ) -> None:
        self._size = terms.size
        texts = _text_vectors(terms, hash_of, asked)
        vectors = _whole(_across(texts, _start(self._size)), _VECTOR_BITS)
        basis = _orthonormal(_onto(texts, vectors, self._size))
        vectors = _whole(_across(texts, basis), _VECTOR_BITS)
        # A text's place is its projection onto the vectors, in axes at right angles.
        shares = _onto(texts, vectors, self._size)
        self._places = _whole(_solved(_factor(vectors @ vectors.T), shares), _BITS)
        self._factor = _factor(self._places @ self._places.T)
        squares = (self._places * self._places).sum(axis=0)
        self._lengths = np.sqrt(np.maximum(1.0, squares))

    def similarities(self, matches: Int64s) -> Int64s:
        """Return how near each text is to the texts that match a query, in units of 1 / ONE.

        Args:
            matches: How well each text matches the query's words, in units of 1 / ONE. It weighs
                the texts.

        Source: Rocchio 1971, "Relevance feedback in information retrieval".
        """
        sums = self._places @ matches.astype(np.float64)
        half = _solved(self._factor, sums[:, None])
        # Solved by the transposed factor, from the last row to the first.
        place = _solved(self._factor.T[::-1, ::-1], half[::-1])[::-1, 0]
        place = _whole(place, _BITS)
        length = np.sqrt((place * place).sum())
        if not length:
            return np.zeros(self._size, np.int64)
        near = np.maximum(0.0, place @ self._places) / (self._lengths * length)
        trust = min(1.0, self._size / ENOUGH_TEXTS)
        found: Int64s = np.rint(ONE * trust * near).astype(np.int64)
        return found


def _across(texts: NDArray[np.float32], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of texts, weighed by each row of the basis: shape (len(basis), BUCKETS)."""
    weights = np.zeros((len(basis), len(texts) * _BLOCK), np.float32)
    weights[:, : basis.shape[1]] = basis
    by_block = weights.reshape(len(basis), len(texts), _BLOCK).transpose(1, 0, 2)
    sums: NDArray[np.float64] = (by_block @ texts).sum(axis=0).astype(np.float64)
    return sums


def _onto(
    texts: NDArray[np.float32], vectors: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the product of each vector with each text: shape (len(vectors), size)."""
    products = (vectors.astype(np.float32) @ texts.transpose(0, 2, 1)).transpose(1, 0, 2)
    found: NDArray[np.float64] = products.reshape(len(vectors), -1)[:, :size].astype(np.float64)
    return found


def _text_vectors(
    terms: CandidateTerms, hash_of: Callable[[Int64s], Int64s], asked: Collection[int]
) -> NDArray[np.float32]:
    """Return the vectors of texts in whole numbers, all of about the same length.

    The shape is (blocks, _BLOCK, BUCKETS).
    """
    occurrences = np.bincount(terms.numbers)
    occurrences[[number for number in asked if number < len(occurrences)]] = 0
    # A term that occurs once tells nothing about other texts.
    telling = np.flatnonzero(occurrences > 1)
    counts = np.arange(int(occurrences.max(initial=0)) + 1)
    idf = np.rint(4096 * logs(1 + terms.size / (counts + 0.5)))
    mixed = _mixed(hash_of(telling).astype(np.uint64))
    signs = (mixed >> np.uint64(63)).astype(np.float64) * 2 - 1
    weights = np.zeros(len(occurrences))
    weights[telling] = idf[occurrences[telling]] * signs
    buckets = np.zeros(len(occurrences), np.int64)
    buckets[telling] = (mixed % np.uint64(BUCKETS)).astype(np.int64)
    addends = weights[terms.numbers]
    kept = np.flatnonzero(addends)
    addends = addends[kept]
    rows = terms.rows[kept]
    places = rows * BUCKETS + buckets[terms.numbers[kept]]
    blocks = -(-terms.size // _BLOCK)
    sums = np.bincount(places, addends, blocks * _BLOCK * BUCKETS)
    # A text has a tenth of the buckets: the others are left alone. Each addend of a bucket times
    # its sum is, added up, the square of the sum.
    found = sums[places]
    squares = np.bincount(rows, addends * found, blocks * _BLOCK)
    scales = 2**_TEXT_BITS / np.sqrt(np.maximum(1.0, squares))
    vectors = np.zeros(len(sums), np.float32)
    vectors[places] = np.rint(found * scales[rows])
    return vectors.reshape(blocks, _BLOCK, BUCKETS)


def _whole(
    values: NDArray[np.float64], bits: int, *, axis: int | None = None
) -> NDArray[np.float64]:
    """Return values in whole numbers of so many bits, all multiplied by one power of two.

    Args:
        axis: Each row along this axis has a power of its own. None is one power for all values.
    """
    most = np.abs(values).max(axis=axis, initial=0.0, keepdims=True)
    _, exponents = np.frexp(most)
    found: NDArray[np.float64] = np.rint(values * np.ldexp(1.0, bits - exponents))
    return found


def _orthonormal(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows at right angles that span the same space.

    They are in whole numbers, of which 2**_BASIS_BITS is a length of 1.
    """
    # Each row by itself, so that a short one keeps its digits.
    rows = _whole(vectors, _BITS, axis=1)
    found: NDArray[np.float64] = np.rint(_solved(_factor(rows @ rows.T), rows) * 2**_BASIS_BITS)
    return found


def _factor(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Cholesky factor of a matrix of products, the lower one.

    A missing direction has a row of zeros.
    """
    found = np.zeros_like(products)
    rest = products.copy()
    for place in range(len(products)):
        left = rest[place, place]
        if left <= _MISSING * products[place, place]:
            found[place] = 0.0
            continue
        column = rest[place:, place] / math.sqrt(left)
        found[place:, place] = column
        rest[place:, place:] -= column[:, None] * column
    return found


def _solved(factor: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows that, multiplied by the factor, give `rows`.

    It takes one row after another, so that no sum has an order to choose.
    """
    left = rows.copy()
    found = np.zeros_like(rows)
    for place in range(len(rows)):
        if factor[place, place]:
            found[place] = left[place] / factor[place, place]
            left[place + 1 :] -= factor[place + 1 :, place, None] * found[place]
    return found


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random. Source: Steele et al. 2014, the finalizer of SplitMix64."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


@lru_cache(maxsize=512)
def _start(size: int) -> NDArray[np.float64]:
    """Return the directions to start from, in whole numbers: shape (DIMENSIONS, size)."""
    mixed = _mixed(np.arange(1, DIMENSIONS * size + 1, dtype=np.uint64)) >> np.uint64(57)
    return mixed.astype(np.float64).reshape(DIMENSIONS, size) - 64
