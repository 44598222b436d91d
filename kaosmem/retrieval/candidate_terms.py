"""The terms of the candidates of a query: phrases that they have, and how near in meaning they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.exact import logs
from kaosmem.retrieval.bm25 import idf_q16
from kaosmem.retrieval.columns import are_changes
from kaosmem.retrieval.scores import ONE, share_of_best
from kaosmem.retrieval.vocabulary import GRID, word_vectors

if TYPE_CHECKING:
    from kaosmem.retrieval.columns import Bools, Float64s, Int64s, RaggedColumn

MAX_TERMS = 256
"""So many of the first terms of an entry are looked at, which bounds the cost of a query."""
TELLING_PAIRS = 3
"""In a query with so many pairs of neighbouring words, or fewer, a phrase counts in full."""


ENOUGH_TEXTS = 128
"""Fewer say little of which words go together, and count for less in proportion."""
# A weight times the occurrences of a term in a text is below 2**18, a coordinate and a share at most
# 2**10, and the mean of 512 texts below 2**29. Sums of whole numbers in floats are below 2**53, and
# so exact.
_WEIGHT_UNITS = 1 << 6
_LENGTH = 1 << 10
_LEAST_SPREAD = GRID // 20
"""A smaller spread of cosines does not tell a few similar texts apart."""
_MOST_SPREADS = 3


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
    times: Float64s
    size: int

    def sums(self, values: Float64s) -> Float64s:
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

    def __init__(self, sequences: RaggedColumn, slots: Int64s) -> None:
        numbers, sizes = sequences.gathered(slots, most=MAX_TERMS)
        self.size = len(slots)
        self.numbers = numbers.astype(np.int64)
        self.rows = np.repeat(np.arange(self.size), sizes)

    def counts(self) -> TermCounts:
        """Return how often each candidate has each of its terms."""
        bits = int(self.numbers.max(initial=0)).bit_length()
        numbers_room = 1 << bits
        keys = self.rows << bits | self.numbers
        if self.size << bits < 1 << 32:
            keys = keys.astype(np.uint32)  # sorted in half the time
        keys.sort()
        starts = np.flatnonzero(are_changes(keys))
        keys = keys[starts].astype(np.int64)
        numbers = keys & numbers_room - 1
        is_present = np.zeros(numbers_room, np.bool_)
        is_present[numbers] = True
        present = np.flatnonzero(is_present)
        place_of = np.empty(numbers_room, np.int64)
        place_of[present] = np.arange(len(present))
        times = np.diff(starts, append=len(self.numbers))
        rows = keys >> bits
        return TermCounts(present, rows, place_of[numbers], times.astype(np.float64), self.size)

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
            at = starts[(firsts == first) & (seconds == second)]
            having = self.rows[at]
            having = having[are_changes(having)]
            if len(having):
                scores[having] += idf_q16(self.size, len(having))
        pairs = max(TELLING_PAIRS, len(terms) - 1)
        return share_of_best(scores) * TELLING_PAIRS // pairs

    def having(self, terms: Sequence[int]) -> Bools:
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

    def having_each(self, terms: Int64s) -> Bools:
        """Return whether each candidate has each of some rising terms: shape (terms, size)."""
        found = np.zeros((len(terms), self.size), np.bool_)
        at = np.flatnonzero(self._are_any_of(terms.tolist()))
        places = terms.searchsorted(self.numbers[at])
        found[places, self.rows[at]] = True
        return found

    def repeating(self, terms: Sequence[int]) -> Bools:
        """Return whether each candidate has most of a query's terms, and few others beside them.

        It has four of five terms of the query. At least half of its own terms are among these.

        Args:
            terms: Numbers of the query's terms, 0 for a term that no entry has.
        """
        asked = np.unique(np.array(terms, np.int64))
        matched = np.count_nonzero(self.having_each(asked), axis=0)
        own = np.bincount(self.rows, minlength=self.size)
        of_query = np.bincount(self.rows[self._are_any_of(asked.tolist())], minlength=self.size)
        found: Bools = (5 * matched >= 4 * len(asked)) & (2 * of_query >= own) & (matched > 0)
        return found

    def having_pair(self, firsts: Sequence[int], seconds: Sequence[int]) -> Bools:
        """Return whether each candidate has one of some terms, and one of others right after it."""
        found = np.zeros(self.size, np.bool_)
        found[self.rows[self._pairs(firsts, seconds)]] = True
        return found

    def _pairs(self, firsts: Sequence[int], seconds: Sequence[int]) -> Int64s:
        """Return the places of terms from `firsts` with one from `seconds` right after them."""
        are_firsts = self._are_any_of(firsts)
        are_seconds = are_firsts
        if seconds is not firsts:
            are_seconds = self._are_any_of(seconds)
        (starts,) = (are_firsts[:-1] & are_seconds[1:]).nonzero()
        found: Int64s = starts[self.rows[starts] == self.rows[starts + 1]]
        return found

    def _are_any_of(self, terms: Sequence[int]) -> Bools:
        """Return whether each number is one of these terms."""
        largest = max([int(self.numbers.max(initial=0)), *terms])
        is_one = np.zeros(1 + largest, np.bool_)
        is_one[[*terms]] = True
        return is_one[self.numbers]


class RelevanceFeedback:
    """The texts of candidates as vectors of tf-idf, all of one length.

    Source: Rocchio 1971, "Relevance feedback in information retrieval".

    Args:
        terms: The terms of the texts.
        asked: Numbers of the query's terms. They are left out, so that two texts that differ only
            in these terms are equally near.
    """

    def __init__(self, terms: CandidateTerms, asked: Collection[int] = ()) -> None:
        counts = terms.counts()
        self._counts = counts
        weights = _term_weights(counts, asked)
        weighted = weights[counts.places] * counts.times
        squares = counts.sums(weighted * weighted)
        lengths = np.sqrt(np.maximum(1, squares))
        # Whole numbers, as floats: they are multiplied and added up as such.
        self._coordinates = np.rint(_LENGTH * weighted / lengths[counts.rows])

    def similarities(self, matches: Int64s) -> Int64s:
        """Return how near each text is to the mean of those that match, as a share of ONE.

        The text itself is part of the mean. Otherwise the one text that matches would be less near
        than its look-alikes.

        Args:
            matches: How well each text matches the query's words, in units of 1 / ONE. It weighs
                the texts.
        """
        counts = self._counts
        shares = (matches * _LENGTH // ONE).astype(np.float64)
        weighted = self._coordinates * shares[counts.rows]
        mean = np.bincount(counts.places, weighted, len(counts.present))
        square = int((mean.astype(np.int64) ** 2).sum())
        length = np.sqrt(max(1, square))
        products = counts.sums(self._coordinates * mean[counts.places])
        near = products / (_LENGTH * length)
        trust = min(1.0, counts.size / ENOUGH_TEXTS)
        found: Int64s = np.rint(ONE * trust * np.minimum(1.0, near)).astype(np.int64)
        return found


def _term_weights(counts: TermCounts, asked: Collection[int]) -> Float64s:
    """Return the weight of each term that texts have, larger for a rarer one.

    A term that occurs once tells nothing about other texts. It has the weight 0, as have the terms
    that are asked for.
    """
    sums = np.bincount(counts.places, counts.times, len(counts.present))
    occurrences = sums.astype(np.int64)
    occurrences[np.isin(counts.present, [*asked])] = 0
    numbers = np.arange(1 + occurrences.max(initial=0))
    by_number = np.rint(_WEIGHT_UNITS * logs(1 + counts.size / (numbers + 0.5)))
    by_number[:2] = 0
    return by_number[occurrences]


def topics(
    counts: TermCounts,
    rows: Int64s,
    weights: Int64s,
    vector: Int64s,
    rarest: int,
) -> Int64s:
    """Return how near the mean vector of each candidate is to a vector, from -ONE to ONE.

    It is by how many spreads the cosine is above the average of the candidates. Each candidate is
    taken to have one more rare term, which is like no other: a few common words tell little.

    Args:
        counts: The terms of the candidates.
        rows: The row of each term in the table of word vectors.
        weights: The weight of each term, 0 for one without a vector.
        rarest: The weight of the rarest term.
    """
    table = word_vectors()
    products = table.products(rows, vector)
    # Of 256 terms, whose weights are below 2**16 and products below 2**18, sums are below 2**42.
    sums = counts.sums((weights * products)[counts.places] * counts.times)
    squares = counts.sums((weights * weights)[counts.places] * counts.times).astype(np.int64)
    cosines = table.cosines(sums.astype(np.int64), squares + rarest * rarest, vector)
    rest = cosines - int(cosines.sum()) // counts.size
    variance = int((rest * rest).sum()) // counts.size
    spread = max(isqrt(variance), _LEAST_SPREAD)
    return np.clip(rest * ONE // (_MOST_SPREADS * spread), -ONE, ONE)
