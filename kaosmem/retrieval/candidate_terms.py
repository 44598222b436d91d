"""The terms of the candidates of a query, and the phrases that they have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.bm25 import idf_q16
from kaosmem.retrieval.shares import share_of_best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.columns import Ragged

MAX_TERMS = 256
"""So many of the first terms of an entry are looked at, which bounds the cost of a query."""
TELLING_PAIRS = 3
"""In a query with so many pairs of neighbouring words, or fewer, a phrase counts in full."""


class CandidateTerms:
    """The first terms of candidates.

    Args:
        sequences: Numbers of the terms of each slot, in order.
        slots: Slots of the candidates.

    Attributes:
        size: Number of candidates.
        numbers: Numbers of terms, one candidate after another.
        rows: The candidate of each number.
    """

    def __init__(self, sequences: Ragged, slots: Int64s) -> None:
        numbers, sizes = sequences.gathered(slots, most=MAX_TERMS)
        self.size = len(slots)
        self.numbers = numbers.astype(np.int64)
        self.rows = np.repeat(np.arange(self.size), sizes)
        self._ends = np.cumsum(sizes)

    def sums(self, values: Int64s) -> Int64s:
        """Return the sum of each candidate's terms, from a value for each number of a term."""
        totals = np.concatenate([[0], np.cumsum(values[self.numbers])])
        found: Int64s = np.diff(totals[self._ends], prepend=0)
        return found

    def phrase_shares(self, terms: Sequence[int]) -> Int64s:
        """Return the score of each candidate for the pairs of neighbouring terms of a query.

        It is a share of the best. A pair counts more if few candidates have it. In a long query,
        one pair says little.
        """
        scores = np.zeros(self.size, np.int64)
        if len(self.numbers) < 2:
            return scores
        starts = self._starts_of(terms)
        seconds = self.numbers[starts + 1]
        firsts = self.numbers[starts]
        for first, second in sorted(set(pairwise(terms))):
            is_pair = (firsts == first) & (seconds == second)
            if is_pair.any():
                having = np.unique(self.rows[starts[is_pair]])
                scores[having] += idf_q16(self.size, len(having))
        return share_of_best(scores) * TELLING_PAIRS // max(TELLING_PAIRS, len(terms) - 1)

    def _starts_of(self, terms: Sequence[int]) -> Int64s:
        """Return the places of terms of the query after which the same candidate has another."""
        is_asked = np.zeros(1 + max([int(self.numbers.max()), *terms]), np.bool_)
        is_asked[list(terms)] = True
        starts = np.flatnonzero(is_asked[self.numbers[:-1]])
        is_in_row = self.rows[starts] == self.rows[starts + 1]
        found: Int64s = starts[is_in_row]
        return found

    def having(self, terms: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether each candidate has these terms one after another. 0 is an unknown term."""
        found = np.zeros(self.size, np.bool_)
        count = len(self.numbers) - len(terms) + 1
        if count < 1 or not terms or 0 in terms:
            return found
        (at,) = np.nonzero(self.numbers[:count] == terms[0])
        for step, number in enumerate(terms):
            at = at[self.numbers[at + step] == number]
        at = at[self.rows[at] == self.rows[at + len(terms) - 1]]
        found[self.rows[at]] = True
        return found

    def count_of(self, terms: Sequence[int]) -> Int64s:
        """Return how often each candidate has any of these terms."""
        is_one = np.isin(self.numbers, terms)
        return np.bincount(self.rows[is_one], minlength=self.size)
