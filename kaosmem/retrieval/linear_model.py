"""The linear model of a ranking: the weighted sum of a candidate's signals, and its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import exps
from kaosmem.retrieval.scores import CHANCE, ONE, chances, on_log_scale, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.columns import Int64s

BY_HAND: Mapping[str, float] = {"quoted": 0.5, "definition": 4.5, "test_source": -1.5}
"""Weights of signals with too few questions to learn from.

A weight is an addend to the logarithm of a score.

quoted: share of the query's quoted phrases that the entry has in full.
definition: the entry defines a name that the query asks for.
test_source: the entry is from a test, and the query does not ask for tests.
"""
_PASSAGE = 0.4
"""Weight of the passage of an entry of a document: by hand, as the model makes its scores."""
REACH = 6
"""Entries of one source at most so many places apart are of one passage."""
_LITTLE = CHANCE // 1_000
"""Lower chances of neighbours hardly count."""
_WEIGHT_UNITS = 1_000_000
"""Weights are whole numbers of millionths."""
_UNIT = _WEIGHT_UNITS * ONE
"""Sums of weighted signals are in units of 1 / _UNIT."""
_BELOW = _UNIT // 100
"""The difference between the best test of a thing and the thing, in the logarithm of a score."""
_PRESSED = 16.0
_DECIMALS = 10**12
"""Scores have twelve decimals."""


@dataclass(frozen=True)
class Candidates:
    """The entries that all signals look at, best proposed first, with the signals of each.

    Attributes:
        ordinals: Shape (n,).
        signals: By name, each of shape (n,), most of them from 0 to ONE.
        numbers: Numbers of their sources: shape (n,).
        is_conversation: Whether they are of a conversation, or of documents.
        trust: How much their sources count, 0 to ONE.
        named: How surely the query names a source, 0 to ONE.
    """

    ordinals: Int64s
    signals: Mapping[str, Int64s]
    numbers: NDArray[np.int32]
    is_conversation: bool
    trust: int
    named: int


def weighted(found: Candidates, model: Mapping[str, float]) -> dict[str, Int64s]:
    """Return the weighted signals of candidates, by name. model: the weights of their kind."""
    added = {}
    for name, weight in {**model, **BY_HAND}.items():
        if weight and name in found.signals:
            added[name] = round(weight * _WEIGHT_UNITS) * found.signals[name]
    if not found.is_conversation:
        _add_place(found, added)
    return added


def _add_place(found: Candidates, added: dict[str, Int64s]) -> None:
    """Add the signals of documents that depend on the sums of the others.

    The best test ranks below the best definition outside of tests, if there is one. Tests keep
    their order.
    """
    sums = np.sum([*added.values()], axis=0)
    passages = passage_scores(found.ordinals, found.numbers, chances(sums, _UNIT))
    weight = round(_PASSAGE * _WEIGHT_UNITS)
    added["passage"] = weight * product(passages, found.trust)
    if "definition" not in found.signals:
        return
    sums += added["passage"]
    is_test = found.signals["test_source"] > 0
    is_defining = (found.signals["definition"] > 0) & ~is_test
    if is_test.any() and is_defining.any():
        surplus = int(sums[is_test].max()) - int(sums[is_defining].max()) + _BELOW
        added["test_source"][is_test] -= max(0, surplus)


def hundredths(sums: Int64s) -> Int64s:
    """Return e to the power of each sum, as hundredths of the best: from 100 down to 0.0000002.

    Ratios are exact down to e**-16. Smaller scores are pressed together, and stay in order.

    Returns:
        Whole numbers of 1 / _DECIMALS.
    """
    below = (sums - sums.max()) / _UNIT
    pressed = -_PRESSED - 4 * (1 - exps(np.minimum(0.0, below + _PRESSED) / 4))
    shares = exps(np.where(below < -_PRESSED, pressed, below))
    found: Int64s = np.rint(100 * _DECIMALS * shares).astype(np.int64)
    return found


def matches_of(ordinals: Int64s, scores: Int64s) -> list[tuple[int, float]]:
    """Return entries with their scores."""
    values = scores / _DECIMALS
    return list(zip(ordinals.tolist(), values.tolist(), strict=True))


def scaled_below(
    least: int,
    ordinals: Int64s,
    scores: Int64s,
) -> list[tuple[int, float]]:
    """Return entries with scores up to `least`, in proportion to their own."""
    scaled = np.rint(scores * (least / int(scores[0]))).astype(np.int64)
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
            found[name] = round((int(added[name][place]) - mean) / _UNIT, 9)
        return found

    return signals


def passage_scores(
    ordinals: Int64s,
    numbers: NDArray[np.int32],
    chance: Int64s,
) -> Int64s:
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
