"""The best of many scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


FLOOR_SHARE = 8
"""Of so many times the scores that are wanted and more, it pays to look for a floor before sorting."""


def floor(scores: NDArray[np.floating], limit: int) -> float:
    """Return a score above 0 that at least `limit` of the scores reach, or 0: at most the limit-th best."""
    # The limit-th best of the maxima of blocks is at most the limit-th best score, and much cheaper to find.
    width = len(scores) // (FLOOR_SHARE * limit)
    if width == 0:
        return 0.0
    maxima = scores[: len(scores) // width * width].reshape(width, -1).max(axis=0)
    return max(0.0, float(np.partition(maxima, -limit)[-limit]))


def best(
    ordinals: NDArray[np.int64], scores: NDArray[np.float64], limit: int, *, decimals: int = 9
) -> list[tuple[int, float]]:
    """Return the `limit` best (ordinal, score) in the order that `Index.rank` promises.

    ordinals, scores: shape (n,). Scores are rounded to so many decimals, and those that are not above 0 are left out.
    """
    if limit < 1 or not len(scores):
        return []
    # A little below the floor: a score that rounds to the last one's is compared by ordinal.
    least = 10.0**-decimals
    (kept,) = np.nonzero(scores >= max(floor(scores, limit) - least, least / 10))
    kept_ordinals, rounded = ordinals[kept], np.round(scores[kept], decimals)
    order = np.lexsort((kept_ordinals, rounded))[: -limit - 1 : -1]
    order = order[rounded[order] > 0]
    return list(zip(kept_ordinals[order].tolist(), rounded[order].tolist(), strict=True))


def is_tied(ranked: Sequence[tuple[int, float]], place: int) -> bool:
    """Return whether the entries on both sides of a place in a ranking have one score."""
    return len(ranked) > place and ranked[place - 1][1] == ranked[place][1]


def scaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as shares of the best, as they are where none is above 0."""
    most = scores.max(initial=0.0)
    return scores / most if most > 0 else scores
