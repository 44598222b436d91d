"""Scores of candidates relative to others of their source and to their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.labels import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACH = 6
"""Entries of one source at most so many places apart are of one passage."""
_NO_MATCH = 0.02  # the share of the best score at which a text counts as good as without a match
_PRESSED = 16.0
_LITTLE = 0.001  # a share of the best candidate's score: lower scores of neighbours hardly count


def best_of_source(numbers: NDArray[np.int32], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each candidate the best score in its source, whose number is given."""
    most = np.zeros(int(numbers.max(initial=0)) + 1)
    np.maximum.at(most, numbers, scores)
    return most[numbers]


def place_in_source(numbers: NDArray[np.int32], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 for the best candidates of each source, 2/3 where one is better, 1/2 where two are, and so on."""
    rounded = np.round(scores, 9)
    better = (rounded > rounded[:, None]) & (numbers == numbers[:, None])
    places: NDArray[np.float64] = 2 / (2 + np.count_nonzero(better, axis=1))
    return places


def match_scores(words: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of the best BM25 score on a logarithmic scale: 1 for the best, 0 for a text without a match.

    A model that weighs this alone multiplies BM25 scores, and so ranks as BM25 does.
    """
    scores: NDArray[np.float64] = np.log1p(words / _NO_MATCH) / np.log1p(1 / _NO_MATCH)
    return scores


def hundredths(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e to the power of each sum, as hundredths of the best: from 100 down to 0.0000002.

    Ratios are exact down to e**-16. Smaller scores are pressed together, and stay in order.
    """
    below = sums - sums.max()
    pressed = -_PRESSED - 4 * (1 - np.exp(np.minimum(0.0, below + _PRESSED) / 4))
    scores: NDArray[np.float64] = 100 * np.exp(np.where(below < -_PRESSED, pressed, below))
    return scores


def passage_scores(
    ordinals: NDArray[np.int64], numbers: NDArray[np.int32], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how much those score that stand within REACH places in the same named source, on a logarithmic scale.

    sums: logarithms of scores.
    """
    order = np.argsort(ordinals)
    at, source, scores = ordinals[order], numbers[order], np.exp(np.maximum(sums - sums.max(), -30.0))[order]
    total = np.zeros(len(order))
    for step in range(1, min(REACH + 1, len(order))):
        together = (at[step:] - at[:-step] <= REACH) & (source[step:] == source[:-step]) & (source[step:] != NONE)
        total[step:] += together * scores[:-step]
        total[:-step] += together * scores[step:]
    found = np.empty(len(order))
    found[order] = np.log1p(total / _LITTLE)
    return found


def values_at(values: NDArray[np.float64], slots: NDArray[np.int64], near: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values of candidates in these slots at other ones, 0 for a slot of no candidate."""
    order = np.argsort(slots)
    places = order[np.minimum(np.searchsorted(slots, near, sorter=order), len(slots) - 1)]
    return np.where(slots[places] == near, values[places], 0.0)
