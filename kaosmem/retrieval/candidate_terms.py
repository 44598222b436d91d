"""The terms of the candidates of a query, and the phrases that they have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.retrieval.arrays import are_changes
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


class TermCounts(NamedTuple):
    """How often each candidate has each of its terms: one row for each pair of them.

    The candidates have a small part of all terms. So a term is named by its place in `present`, and
    arrays over terms are as small as that part.

    Attributes:
        present: Numbers of the terms that candidates have, rising.
        rows: Candidates, rising.
        places: Places of their terms in `present`, rising for each candidate.
        times: How often the candidate has the term, in whole numbers.
        size: Number of candidates, those without any term too.
    """

    present: Int64s
    rows: Int64s
    places: Int64s
    times: NDArray[np.float64]
    size: int

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the values of each candidate's rows.

        It is exact for whole numbers whose sums are below 2**53.
        """
        found = np.zeros(self.size)
        starts = np.flatnonzero(are_changes(self.rows))
        if len(starts):
            found[self.rows[starts]] = np.add.reduceat(values, starts)
        return found


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

    def counts(self) -> TermCounts:
        """Return how often each candidate has each of its terms."""
        bits = int(self.numbers.max(initial=0)).bit_length()
        keys = self.rows << bits | self.numbers
        if self.size << bits < 1 << 32:
            keys = keys.astype(np.uint32)  # sorted in half the time
        keys.sort()
        starts = np.flatnonzero(are_changes(keys))
        keys = keys[starts].astype(np.int64)
        numbers = keys & (1 << bits) - 1
        is_present = np.zeros(1 << bits, np.bool_)
        is_present[numbers] = True
        present = np.flatnonzero(is_present)
        place_of = np.empty(1 << bits, np.int64)
        place_of[present] = np.arange(len(present))
        times = np.diff(starts, append=len(self.numbers)).astype(np.float64)
        return TermCounts(present, keys >> bits, place_of[numbers], times, self.size)

    def phrase_shares(self, terms: Sequence[int]) -> Int64s:
        """Return the score of each candidate for the pairs of neighbouring terms of a query.

        It is a share of the best. A pair counts more if few candidates have it. In a long query,
        one pair says little.
        """
        scores = np.zeros(self.size, np.int64)
        starts = self._pairs(terms, terms)
        firsts = self.numbers[starts]
        seconds = self.numbers[starts + 1]
        for first, second in sorted(set(pairwise(terms))):
            having = self.rows[starts[(firsts == first) & (seconds == second)]]
            having = having[are_changes(having)]
            if len(having):
                scores[having] += idf_q16(self.size, len(having))
        return share_of_best(scores) * TELLING_PAIRS // max(TELLING_PAIRS, len(terms) - 1)

    def having(self, terms: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether each candidate has these terms one after another. 0 is an unknown term."""
        found = np.zeros(self.size, np.bool_)
        if not terms or 0 in terms:
            return found
        at = np.flatnonzero(self._are_any_of(terms[:1]))
        last = len(terms) - 1
        at = at[at + last < len(self.numbers)]
        for step, number in enumerate(terms):
            at = at[self.numbers[at + step] == number]
        at = at[self.rows[at] == self.rows[at + last]]
        found[self.rows[at]] = True
        return found

    def having_pair(self, firsts: Sequence[int], seconds: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether each candidate has one of some terms, and one of others right after it."""
        found = np.zeros(self.size, np.bool_)
        found[self.rows[self._pairs(firsts, seconds)]] = True
        return found

    def count_of(self, terms: Sequence[int]) -> Int64s:
        """Return how often each candidate has any of these terms."""
        return np.bincount(self.rows[self._are_any_of(terms)], minlength=self.size)

    def _pairs(self, firsts: Sequence[int], seconds: Sequence[int]) -> Int64s:
        """Return the places of terms from `firsts` with one from `seconds` right after them."""
        are_firsts = self._are_any_of(firsts)
        are_seconds = are_firsts
        if seconds is not firsts:
            are_seconds = self._are_any_of(seconds)
        (starts,) = (are_firsts[:-1] & are_seconds[1:]).nonzero()
        found: Int64s = starts[self.rows[starts] == self.rows[starts + 1]]
        return found

    def _are_any_of(self, terms: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether each number is one of these terms."""
        is_one = np.zeros(1 + max([int(self.numbers.max(initial=0)), *terms]), np.bool_)
        is_one[[*terms]] = True
        found: NDArray[np.bool_] = is_one[self.numbers]
        return found
