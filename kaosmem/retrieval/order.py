"""The order of a ranking, decided by whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s

_BLOCKS = 8
"""So many blocks for each wanted score find a floor that few others reach."""
DECIMALS = 1e9
"""Scores that are no whole numbers are compared by nine decimals."""


def floor(scores: NDArray[np.integer], limit: int) -> int:
    """Return a score that at least `limit` of the scores reach, 0 if there are too few scores.

    The limit-th best of the maxima of blocks is at most the limit-th best score. It is found in a
    fraction of the time.
    """
    width = len(scores) // (_BLOCKS * limit)
    if width == 0:
        return 0
    maxima = scores[: len(scores) // width * width].reshape(width, -1).max(axis=0)
    return int(np.partition(maxima, -limit)[-limit])


def top(scores: NDArray[np.integer], ordinals: Int64s, limit: int) -> Int64s:
    """Return the places of the `limit` best scores, best first.

    Of equal scores, the larger ordinal comes first. Scores of 0 or less are left out.

    >>> top(np.array([5, 0, 7, 5]), np.array([0, 1, 2, 3]), 3).tolist()
    [2, 3, 0]
    """
    if limit < 1:
        return np.empty(0, np.int64)
    least = max(1, floor(scores, limit))
    (kept,) = np.nonzero(scores >= least)
    order = np.lexsort((ordinals[kept], scores[kept]))[: -limit - 1 : -1]
    found: Int64s = kept[order]
    return found


def best(ordinals: Int64s, scores: NDArray[np.float64], limit: int) -> list[tuple[int, float]]:
    """Return the `limit` best (ordinal, score), scores being rounded to nine decimals."""
    rounded = np.rint(scores * DECIMALS).astype(np.int64)
    places = top(rounded, ordinals, limit)
    values = rounded[places] / DECIMALS
    return list(zip(ordinals[places].tolist(), values.tolist(), strict=True))
