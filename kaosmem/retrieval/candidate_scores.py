"""Scores of candidates relative to others of their source and to their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.labels import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACH = 6
"""So many places off, what stands in the same source is of the same passage."""
_LITTLE = 0.001  # a share of the best candidate's score: what neighbours score less hardly counts


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
    """Return the values of candidates in these slots at other ones, 0 for what is no candidate."""
    order = np.argsort(slots)
    places = order[np.minimum(np.searchsorted(slots, near, sorter=order), len(slots) - 1)]
    return np.where(slots[places] == near, values[places], 0.0)
