"""What BM25 gives every entry for the terms of a query, worked out only as far as it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.selection import FLOOR_SHARE, floor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.postings import Postings


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

    weights: by term. norms: of slots, what the formula adds to an entry's occurrences of a term.
    It views what it is of: to be let go of before the next change.
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
        self._rare = np.zeros(size)
        np.add.at(self._rare, slots, occurrences * by_posting / (occurrences + norms(slots)))

    def at(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores of some slots."""
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
        return self._all[slots] / self._most if self._most > 0 else self._all[slots]

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        return by_chunks(self.at, len(self._rare)) if self._common else self._rare

    @cached_property
    def _most(self) -> float:
        return float((self._all if self._common else self._rare[self.scored]).max(initial=0.0))

    @cached_property
    def scored(self) -> NDArray[np.int64] | slice:
        """The slots whose scores are above 0: all where a term is common, as most are then."""
        return slice(None) if self._common else np.flatnonzero(self._rare > 0)

    def contenders(self, limit: int) -> NDArray[np.int64] | slice:
        """Return the slots whose scores may be among the `limit` best."""
        if not self._common or len(self._rare) < FLOOR_SHARE * limit:
            return self.scored
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
