"""Relevance feedback: how near candidates are to those that match the query, in whole numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import logs
from kaosmem.retrieval.shares import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.candidate_terms import CandidateTerms, TermCounts

ENOUGH_TEXTS = 128
"""Fewer say little of which words go together, and count for less in proportion."""
# A weight times the occurrences of a term in a text is below 2**18, a coordinate and a share at most
# 2**10, and the mean of 512 texts below 2**29. Sums of whole numbers in floats are below 2**53, and
# so exact.
_WEIGHT_UNITS = 1 << 6
_LENGTH = 1 << 10


class RelevanceFeedback:
    """The texts of candidates as vectors of tf-idf, all of one length.

    Source: Rocchio 1971, "Relevance feedback in information retrieval".

    Args:
        terms: The terms of the texts.
        asked: Numbers of the query's terms. They are left out, so that two texts that differ only
            in these terms are equally near.
    """

    def __init__(self, terms: CandidateTerms, asked: Collection[int] = ()) -> None:
        self._counts = counts = terms.counts()
        weighted = _term_weights(counts, asked)[counts.places] * counts.times
        lengths = np.sqrt(np.maximum(1, counts.sums(weighted * weighted)))
        # Whole numbers, as floats: they are multiplied and added up as such.
        self._coordinates = np.rint(_LENGTH * weighted / lengths[counts.rows])

    def similarities(self, matches: Int64s) -> Int64s:
        """Return how near each text is to the mean of the others that match, as a share of ONE.

        Args:
            matches: How well each text matches the query's words, in units of 1 / ONE. It weighs
                the texts.
        """
        counts = self._counts
        shares = (matches * _LENGTH // ONE).astype(np.float64)
        weighted = self._coordinates * shares[counts.rows]
        mean = np.bincount(counts.places, weighted, len(counts.present))
        length = np.sqrt(max(1, int((mean.astype(np.int64) ** 2).sum())))
        # A text is not compared with itself: that would say once more how well it matches.
        others = mean[counts.places] - weighted
        near = counts.sums(self._coordinates * others) / (_LENGTH * length)
        trust = min(1.0, counts.size / ENOUGH_TEXTS)
        found: Int64s = np.rint(ONE * trust * np.minimum(1.0, near)).astype(np.int64)
        return found


def _term_weights(counts: TermCounts, asked: Collection[int]) -> NDArray[np.float64]:
    """Return the weight of each term that texts have, larger for a rarer one.

    A term that occurs once tells nothing about other texts. It has the weight 0, as have the terms
    that are asked for.
    """
    occurrences = np.bincount(counts.places, counts.times, len(counts.present)).astype(np.int64)
    for number in asked:
        occurrences[counts.present == number] = 0
    numbers = np.arange(1 + occurrences.max(initial=0))
    by_number = np.rint(_WEIGHT_UNITS * logs(1 + counts.size / (numbers + 0.5)))
    by_number[:2] = 0
    found: NDArray[np.float64] = by_number[occurrences]
    return found
