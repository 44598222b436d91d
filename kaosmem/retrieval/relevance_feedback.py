"""Relevance feedback: how near candidates are to those that match the query, in whole numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import logs
from kaosmem.retrieval.shares import ONE

if TYPE_CHECKING:
    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.candidate_terms import CandidateTerms

ENOUGH_TEXTS = 128
"""Fewer say little of which words go together, and count for less in proportion."""
# A weight times the occurrences of a term in a text is below 2**18, a coordinate and a share at most
# 2**10, and the mean of 512 texts below 2**29. All sums are of whole numbers below 2**53, and exact.
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
        self._size = terms.size
        entries = np.bincount(terms.numbers, minlength=1)
        entries[[number for number in asked if number < len(entries)]] = 0
        idf = np.rint(_WEIGHT_UNITS * logs(1 + terms.size / (entries + 0.5))).astype(np.int64)
        # A term that occurs once tells nothing about other texts.
        idf[entries < 2] = 0
        places, times = np.unique(terms.rows * len(idf) + terms.numbers, return_counts=True)
        self._rows, self._numbers = np.divmod(places, len(idf))
        weights = idf[self._numbers] * times
        lengths = np.sqrt(np.maximum(1, self._sums(weights * weights)))
        self._coordinates = np.rint(_LENGTH * weights / lengths[self._rows]).astype(np.int64)

    def similarities(self, matches: Int64s) -> Int64s:
        """Return how near each text is to the mean of the others that match, as a share of ONE.

        Args:
            matches: How well each text matches the query's words, in units of 1 / ONE. It weighs
                the texts.
        """
        shares = matches * _LENGTH // ONE
        weighted = self._coordinates * shares[self._rows]
        mean = np.bincount(self._numbers, weighted, minlength=1).astype(np.int64)
        length = np.sqrt(max(1, int((mean * mean).sum())))
        # A text is not compared with itself: that would say once more how well it matches.
        others = mean[self._numbers] - weighted
        near = self._sums(self._coordinates * others) / (_LENGTH * length)
        trust = min(1.0, self._size / ENOUGH_TEXTS)
        found: Int64s = np.rint(ONE * trust * np.minimum(1.0, near)).astype(np.int64)
        return found

    def _sums(self, values: Int64s) -> Int64s:
        """Return the sum of the values of each text."""
        return np.bincount(self._rows, values, self._size).astype(np.int64)
