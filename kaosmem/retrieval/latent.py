"""Latent semantic analysis of a query's candidates: similarity in other words."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.sequences import HASHES, term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS = 512
"""Terms are hashed into so many signed sums: the angles between texts change by a few per cent at most."""
DIMENSIONS = 18  # with the spare ones 24: of more than 25, LAPACK finds eigenvectors on several cores
ENOUGH_TEXTS = 128
"""Fewer say little of which words go together, and count for less in proportion."""
_SPARE = 6  # more dimensions than are kept make the iteration exact for those that are
_BLOCK = 16  # texts at a time: products so small take one core, where more would mostly wait for one another


class LatentSpace:
    """The main dimensions of texts: a singular value decomposition of the tf-idf vectors of their other words.

    hashes, rows: the texts' terms, as `Sequences.gathered` returns them. size: number of texts.
    asked: the query's terms. They are left out, so that two texts which differ only in these are equally near.
    Source: Deerwester et al. 1990; of a query's candidates alone: Hull 1994; the decomposition: Halko et al. 2011.
    """

    def __init__(
        self, hashes: NDArray[np.uint16], rows: NDArray[np.int64], size: int, asked: Iterable[str] = ()
    ) -> None:
        self._size = size
        occurrences = np.bincount(hashes, minlength=HASHES)
        occurrences[[term_hash(term) for term in asked]] = 0
        telling = np.flatnonzero(occurrences > 1)  # a term that occurs once tells nothing about other texts
        idf = np.zeros(HASHES)
        idf[telling] = np.log1p(size / (occurrences[telling] + 0.5))
        buckets, signs = _projection()
        blocks = -(-size // _BLOCK)
        vectors = np.zeros(blocks * _BLOCK * BUCKETS)
        vectors += np.bincount(rows * BUCKETS + buckets[hashes], idf[hashes] * signs[hashes], len(vectors))
        self._texts = _unit(vectors.reshape(blocks, _BLOCK, BUCKETS)).astype(np.float32)
        self._basis, self._values = _main_directions(self._texts)
        self._places = _unit(self._basis * self._values).reshape(-1, len(self._values))[:size]

    def similarities(self, matches: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how near each text is to the texts that match a query, 0 to 1: shape (size,).

        matches: score of each text by the query's words, shape (size,). It weighs the texts.
        Source: Rocchio 1971, "Relevance feedback in information retrieval".
        """
        weights = np.zeros(len(self._texts) * _BLOCK)
        weights[: self._size] = matches
        place = _across(self._basis, weights.reshape(-1, _BLOCK, 1))[:, 0] / self._values
        length = float(np.linalg.norm(place))
        if not length:
            return np.zeros(self._size)
        near: NDArray[np.float64] = (self._places * (place / length)).sum(axis=1)
        return np.maximum(0.0, near) * min(1.0, self._size / ENOUGH_TEXTS)


def _main_directions(texts: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the first left singular vectors of texts in columns, and their singular values, largest first.

    texts: shape (blocks, _BLOCK, BUCKETS), as are the vectors but for their last axis.
    """
    found = _start(len(texts))
    for _ in range(2):
        found = _orthonormal(texts @ _across(texts, found))
    inner = _across(texts, found)
    squares, turned = np.linalg.eigh(np.einsum("ij,ik->jk", inner, inner))
    kept = slice(None, -DIMENSIONS - 1, -1)
    return found @ turned[:, kept], np.sqrt(np.maximum(squares[kept], 1e-6))


def _across(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the product of the left matrix, transposed, and the right one, over all blocks."""
    product: NDArray[np.floating] = (left.transpose(0, 2, 1) @ right).sum(axis=0)
    return product


def _orthonormal(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return vectors of length 1 at right angles that span the same space; missing directions are zero."""
    squares, turned = np.linalg.eigh(np.einsum("bij,bik->jk", vectors, vectors))
    lengths = np.sqrt(np.maximum(squares, 0.0))
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 1e-7 * max(1.0, lengths[-1]))
    spanned: NDArray[np.floating] = vectors @ (turned * scales).astype(np.float32)
    return spanned


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.sqrt(np.einsum("bij,bij->bi", vectors, vectors))
    scaled: NDArray[np.floating] = vectors / np.maximum(lengths, 1e-9)[:, :, None]
    return scaled


@cache
def _projection() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the bucket and the sign of each hash."""
    random = np.random.Generator(np.random.PCG64(0))
    return random.integers(0, BUCKETS, HASHES), random.choice([-1.0, 1.0], HASHES)


@cache
def _start(blocks: int) -> NDArray[np.float32]:
    return np.random.Generator(np.random.PCG64(1)).standard_normal((blocks, _BLOCK, DIMENSIONS + _SPARE), np.float32)
