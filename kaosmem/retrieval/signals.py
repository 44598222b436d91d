"""Signals of candidates by their place among others of the same source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.arrays import are_changes
from kaosmem.retrieval.shares import CHANCE, ONE, on_log_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s

REACH = 6
"""Entries of one source at most so many places apart are of one passage."""
_LITTLE = CHANCE // 1_000
"""Lower chances of neighbours hardly count."""


def best_of_source(numbers: NDArray[np.int32], scores: Int64s) -> Int64s:
    """Return for each candidate the best score in its source, whose number is given."""
    most = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, numbers, scores)
    found: Int64s = most[numbers]
    return found


def place_in_source(numbers: NDArray[np.int32], scores: Int64s) -> Int64s:
    """Return 2 / (2 + n) for a candidate, where n others of its source have a better score."""
    order = np.lexsort((-scores, numbers))
    ordered = scores[order]
    is_other = are_changes(numbers[order])
    is_lower = is_other | are_changes(ordered)
    at = np.arange(len(order))
    first_of_source = np.maximum.accumulate(at * is_other)
    first_of_score = np.maximum.accumulate(at * is_lower)
    found = np.empty(len(order), np.int64)
    found[order] = 2 * ONE // (2 + first_of_score - first_of_source)
    return found


def passage_scores(ordinals: Int64s, numbers: NDArray[np.int32], chance: Int64s) -> Int64s:
    """Return the chances of the candidates near each candidate, on a logarithmic scale.

    A candidate is near if it stands within REACH places in the same named source.

    Args:
        chance: The chance of each candidate, as a share of CHANCE.
    """
    if not numbers.any():
        return np.zeros(len(numbers), np.int64)
    order = np.argsort(ordinals)
    at = ordinals[order]
    source = numbers[order]
    own = np.where(source > 0, chance[order], 0)
    total = np.zeros(len(order), np.int64)
    for step in range(1, min(REACH + 1, len(order))):
        together = (at[step:] - at[:-step] <= REACH) & (source[step:] == source[:-step])
        total[step:] += together * own[:-step]
        total[:-step] += together * own[step:]
    found = np.empty(len(order), np.int64)
    found[order] = on_log_scale(total, _LITTLE)
    return found


def values_at(values: Int64s, slots: Int64s, near: Int64s) -> Int64s:
    """Return the values of the candidates in the slots `near`, 0 for a slot of no candidate."""
    order = np.argsort(slots)
    places = order[np.minimum(np.searchsorted(slots, near, sorter=order), len(slots) - 1)]
    return np.where(slots[places] == near, values[places], 0)
