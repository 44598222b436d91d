"""Scores of all entries by a query's words, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.postings import Postings


FLOOR_SHARE = 8
"""Of so many times the scores that are wanted and more, it pays to look for a floor before sorting."""


def floor(scores: NDArray[np.floating], limit: int) -> float:
    """Return a score above 0 that at least `limit` of the scores reach, or 0: at most the limit-th best."""
    # The limit-th best of the maxima of blocks is at most the limit-th best score, and much cheaper to find.
    width = len(scores) // (FLOOR_SHARE * limit)
    if width == 0:
        return 0.0
    maxima = scores[: len(scores) // width * width].reshape(width, -1).max(axis=0)
    return max(0.0, float(np.partition(maxima, -limit)[-limit]))


def best(
    ordinals: NDArray[np.int64], scores: NDArray[np.float64], limit: int, *, decimals: int = 9
) -> list[tuple[int, float]]:
    """Return the `limit` best (ordinal, score) in the order that `Index.rank` promises.

    ordinals, scores: shape (n,). Scores are rounded to so many decimals, and those that are not above 0 are left out.
    """
    if limit < 1 or not len(scores):
        return []
    # A little below the floor: a score that rounds to the last one's is compared by ordinal.
    least = 10.0**-decimals
    (kept,) = np.nonzero(scores >= max(floor(scores, limit) - least, least / 10))
    kept_ordinals, rounded = ordinals[kept], np.round(scores[kept], decimals)
    order = np.lexsort((kept_ordinals, rounded))[: -limit - 1 : -1]
    order = order[rounded[order] > 0]
    return list(zip(kept_ordinals[order].tolist(), rounded[order].tolist(), strict=True))


def is_tied(ranked: Sequence[tuple[int, float]], place: int) -> bool:
    """Return whether the entries on both sides of a place in a ranking have one score."""
    return len(ranked) > place and ranked[place - 1][1] == ranked[place][1]


def scaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as shares of the best, as they are where none is above 0."""
    most = scores.max(initial=0.0)
    return scores / most if most > 0 else scores


_CHUNK = 1 << 14  # numbers that stay in a processor's cache from one step of a formula to the next


def by_chunks(scores_of: Callable[[slice], NDArray[np.float64]], size: int) -> NDArray[np.float64]:
    """Return the scores of so many slots, worked out for some at a time, in half the time of all at once."""
    scores = np.empty(size)
    for start in range(0, size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        scores[chunk] = scores_of(chunk)
    return scores


class EntryScores:
    """The scores of all slots for some terms: of rare ones found by their postings, of common ones where asked.

    weights: by term. norms: of slots, the formula's addend to an entry's occurrences of a term.
    It views the index: let go of it before the next change.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        postings: Postings,
        norms: Callable[[NDArray[np.int64] | slice], NDArray[np.float64]],
        size: int,
    ) -> None:
        self._postings, self._norms = postings, norms
        self._common = {term: weight for term, weight in weights.items() if postings.is_common(term)}
        rare = {term: weight for term, weight in weights.items() if term not in self._common}
        slots, occurrences, sizes = postings.unpacked(rare)
        by_posting = np.repeat(np.fromiter(rare.values(), np.float64, len(rare)), sizes)
        self._given = slots, occurrences * by_posting / (occurrences + norms(slots))
        self._size = size

    def at(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores of some slots."""
        if not self._common and not isinstance(slots, slice):
            return self._found(slots)
        scores = self._rare[slots]
        if self._common:
            norms = self._norms(slots)
            common = np.zeros(len(norms))
            for term, weight in self._common.items():
                occurrences = self._postings.column(term)[slots]
                common += occurrences * weight / (occurrences + norms)
            scores = scores + common
        return scores

    def shares(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores of some slots as shares of the best of all, as they are where none is above 0."""
        scores = self._all[slots] if self._common else self.at(slots)
        return scores / self._most if self._most > 0 else scores

    @cached_property
    def _rare(self) -> NDArray[np.float64]:
        """The scores of all slots by rare terms."""
        scores = np.zeros(self._size)
        np.add.at(scores, *self._given)
        return scores

    @cached_property
    def _sums(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The slots that have a rare term, in order, and their scores by rare terms."""
        slots, scores = self._given
        order = np.argsort(slots, kind="stable")  # so that a sum is added up as in a column
        slots = slots[order]
        is_new = np.diff(slots, prepend=-1) > 0
        return slots[is_new], np.bincount(np.cumsum(is_new) - 1, scores[order]).astype(np.float64, copy=False)

    def _found(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of some slots by rare terms."""
        having, scores = self._sums
        if slots is having:
            return scores
        if not len(having):
            return np.zeros(len(slots))
        places = np.minimum(np.searchsorted(having, slots), len(having) - 1)
        return np.where(having[places] == slots, scores[places], 0.0)

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        return by_chunks(self.at, self._size)

    @cached_property
    def _most(self) -> float:
        return float((self._all if self._common else self._sums[1]).max(initial=0.0))

    @property
    def scored(self) -> NDArray[np.int64] | None:
        """The slots of entries with any of the terms, in order; None where these are most entries."""
        return None if self._common else self._sums[0]

    def contenders(self, limit: int) -> NDArray[np.int64] | slice:
        """Return the slots whose scores may be among the `limit` best."""
        if self.scored is not None:
            return self.scored
        if self._size < FLOOR_SHARE * limit:
            return slice(None)
        rough, error = self._rough()
        return np.flatnonzero(rough >= floor(rough, limit) - error - 1e-9)

    def _rough(self) -> tuple[NDArray[np.float32], float]:
        """Return the scores of all slots at half the precision and twice the speed, and how far off they may be."""
        rough = self._rare.astype(np.float32)
        norms = self._norms(slice(None)).astype(np.float32)
        for term, weight in self._common.items():
            shares = self._postings.column(term).astype(np.float32)
            divisors = shares + norms
            shares *= weight
            shares /= divisors
            rough += shares
        # Each step may be off by 2**-24 of a score, which is at most all the weights, here as at a floor.
        most = float(self._rare.max(initial=0.0)) + sum(map(abs, self._common.values()))
        return rough, 2**-22 * (8 + len(self._common)) * most
