"""Scores in whole numbers: their order, and the shares of which signals are made.

A share is in units of 1 / ONE. Logarithms and powers come from `kaosmem.exact` and are rounded at
once, so that every machine has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kaosmem.exact import exps, log, logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.columns import Float64s, Int64s

Scored: TypeAlias = list[tuple[int, float]]
"""Entries as (ordinal, score), best first."""

_BLOCKS = 8
"""So many blocks for each wanted score find a floor that few others reach."""
DECIMALS = 1e9
"""Scores that are no whole numbers are compared by nine decimals."""
ONE = 1 << 24
CHANCE = 1 << 30
"""The chance of the best candidate, of which the others have a share."""
WEIGHT_UNITS = 1_000_000
"""Weights are whole numbers of millionths."""
UNIT = WEIGHT_UNITS * ONE
"""Sums of weighted signals are in units of 1 / UNIT."""
RANK_GAP = UNIT // 100
"""An entry that has to rank below another one has a sum that is smaller by this."""
_PRESSED = 16.0
_DECIMALS = 10**12
"""Scores have twelve decimals."""
_STEEPNESS = 50
"""At a 50th of the best score, a text counts as little more than without a match."""
_LOG_OF_BEST = round(ONE * log(1 + _STEEPNESS))
_NO_CHANCE = 30
"""A candidate whose logarithm is so much smaller counts as this much smaller."""


def cutoff_score(scores: NDArray[np.integer], limit: int) -> int:
    """Return a score that at least `limit` of the scores reach, 0 if there are too few scores.

    The limit-th best of the maxima of blocks is at most the limit-th best score. It is found in a
    fraction of the time.
    """
    width = len(scores) // (_BLOCKS * limit)
    if width == 0:
        return 0
    maxima = scores[: len(scores) // width * width].reshape(width, -1).max(axis=0)
    return int(np.partition(maxima, -limit)[-limit])


def top(
    scores: NDArray[np.integer],
    ordinals: Int64s,
    limit: int,
) -> Int64s:
    """Return the places of the `limit` best scores, best first.

    Of equal scores, the larger ordinal comes first. Scores of 0 or less are left out.

    >>> top(np.array([5, 0, 7, 5]), np.array([0, 1, 2, 3]), 3).tolist()
    [2, 3, 0]
    """
    if limit < 1:
        return np.empty(0, np.int64)
    least = max(1, cutoff_score(scores, limit))
    (kept,) = np.nonzero(scores >= least)
    order = np.lexsort((ordinals[kept], scores[kept]))[: -limit - 1 : -1]
    return kept[order]


def best(
    ordinals: Int64s,
    scores: Float64s,
    limit: int,
) -> Scored:
    """Return the `limit` best (ordinal, score), scores being rounded to nine decimals."""
    rounded = np.rint(scores * DECIMALS).astype(np.int64)
    places = top(rounded, ordinals, limit)
    values = rounded[places] / DECIMALS
    return list(zip(ordinals[places].tolist(), values.tolist(), strict=True))


def share_of_best(scores: Int64s, best: int | None = None) -> Int64s:
    """Return scores as shares of the best, rounded up. All are 0 if no score is above 0.

    Args:
        scores: Numbers from 0 up.
        best: The best score. None is the largest of these.
    """
    if best is None:
        best = int(scores.max(initial=0))
    if best <= 0:
        return np.zeros(scores.shape, np.int64)
    # A product of two floats is the same on every machine, and much cheaper than a division.
    shares: Int64s = np.ceil(scores * (ONE / best)).astype(np.int64)
    return np.minimum(shares, ONE)


def product(one: Int64s, other: Int64s | int) -> Int64s:
    """Return the products of shares."""
    return one * other // ONE


def on_log_scale(values: Int64s, one: int) -> Int64s:
    """Return the logarithm of 1 + value / one, in units of 1 / ONE."""
    return np.rint(ONE * logs(1 + values / one)).astype(np.int64)


def match_scores(words: Int64s) -> Int64s:
    """Return shares of the best BM25 score on a logarithmic scale.

    The best has 1, and a text without a match 0. A model that weighs this alone multiplies BM25
    scores, and so ranks as BM25 does.
    """
    return on_log_scale(words, ONE // _STEEPNESS) * ONE // _LOG_OF_BEST


def chances(logarithms: Int64s, one: int) -> Int64s:
    """Return e to the power of each number as shares of CHANCE, which the largest has.

    Args:
        one: The unit of the logarithms is 1 / one.
    """
    below = np.maximum((logarithms - logarithms.max()) / one, -_NO_CHANCE)
    return np.rint(exps(below) * CHANCE).astype(np.int64)


# Scores of sums of weighted signals.


def hundredths(sums: Int64s) -> Int64s:
    """Return e to the power of each sum, as hundredths of the best: from 100 down to 0.0000002.

    Ratios are exact down to e**-16. Smaller scores are pressed together, and stay in order.

    Returns:
        Whole numbers of 1 / _DECIMALS.
    """
    below = (sums - sums.max()) / UNIT
    beyond = np.minimum(0.0, below + _PRESSED)
    pressed = -_PRESSED - 4 * (1 - exps(beyond / 4))
    shares = exps(np.where(below < -_PRESSED, pressed, below))
    return np.rint(100 * _DECIMALS * shares).astype(np.int64)


def matches_of(ordinals: Int64s, scores: Int64s) -> Scored:
    """Return entries with their scores."""
    values = scores / _DECIMALS
    return list(zip(ordinals.tolist(), values.tolist(), strict=True))


def scaled_below(
    least: int,
    ordinals: Int64s,
    scores: Int64s,
) -> Scored:
    """Return entries with scores up to `least`, in proportion to their own."""
    ratio = least / int(scores[0])
    scaled = np.rint(scores * ratio).astype(np.int64)
    order = np.lexsort((ordinals, scaled))[::-1]
    return matches_of(ordinals[order], np.maximum(1, scaled[order]))


def signals_of(ordinals: Int64s, added: Mapping[str, Int64s]) -> Callable[[int], dict[str, float]]:
    """Return a function that gives the addends of an entry, less their averages."""

    @cache
    def places() -> dict[int, int]:
        return {ordinal: place for place, ordinal in enumerate(ordinals.tolist())}

    @cache
    def means() -> dict[str, int]:
        return {name: int(values.sum()) // len(values) for name, values in added.items()}

    def signals(ordinal: int) -> dict[str, float]:
        place = places().get(ordinal)
        if place is None:
            return {}
        found = {}
        for name, mean in means().items():
            found[name] = round((int(added[name][place]) - mean) / UNIT, 9)
        return found

    return signals
