"""The scores of units for a query, and their order of worth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kaosmem.sections.dated_index import Found
from kaosmem.sections.item_table import ItemTable
from kaosmem.types.outcomes import Outcomes

RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

_MOST_IMPORTANT = 3
_IMPORTANCE_BASE = 29
"""The score of a unit is multiplied by the sum of this number and its importance, from -1 to 3.

So importance changes the order of two units if the better one is at most an eighth better.
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of units for a query.

    Attributes:
        of: By first ordinal.
        by_worth: The units in order of worth.
        are_all: Whether no other unit has a score.
        signals: The parts of a unit's score; of several items, those of the best.
    """

    of: Mapping[int, float]
    by_worth: Sequence[int]
    signals: Callable[[int], Mapping[str, float]]
    are_all: bool = False

    @classmethod
    def of_units(
        cls,
        held: ItemTable,
        found: Found,
        limit: int,
    ) -> Scores:
        """Return the scores of units, each the sum over its items.

        The score of a procedure is multiplied by its smoothed rate of success. Units of the
        query's periods without any of its words have no score. Their place is that of
        `found.newest`.
        """
        ranked = found.ranked.matches
        signals = found.ranked.signals
        scores: dict[int, float] = {}
        best_of: dict[int, int] = {}
        if not held.units.are_tied:
            scores = dict(ranked)
        else:
            for first, (ordinal, score) in zip(
                held.units.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True
            ):
                scores[first] = round(scores[first] + score, 9) if first in scores else score
                best_of.setdefault(first, ordinal)
        for item_id, runs in [*held.ledger.outcomes.items()]:  # another thread may count a run
            first = held.ordinals.get(item_id, -1)
            if first in scores:
                scores[first] = round(scores[first] * Outcomes.of_runs(runs.values()).prior, 9)
        by_worth = in_order_of_worth(held, with_importance(held, scores))
        if found.newest:
            parts = [by_worth, held.units.firsts(found.newest)]
            if found.are_newest_first:
                parts.reverse()
            by_worth = [*dict.fromkeys(chain.from_iterable(parts))]
        return cls(
            scores, by_worth, lambda first: signals(best_of.get(first, first)), len(ranked) < limit
        )

    def best_first(self, near: Collection[int]) -> list[int]:
        """Return the units by score down to the best one that is not `near`, then by worth.

        So the best-scored unit is not left out for a shorter one with a lower score.
        """
        if (
            not self.by_worth or self.by_worth[0] not in self.of
        ):  # the newest units of a period come first
            return [*self.by_worth]
        by_score = sorted(self.of, key=lambda first: (-self.of[first], -first))
        best = next(
            (place for place, first in enumerate(by_score) if first not in near), len(by_score)
        )
        return list(dict.fromkeys((*by_score[: best + 1], *self.by_worth)))


UNRANKED = Scores({}, (), lambda _: {})
"""The scores of a section that the query does not rank."""


def with_importance(held: ItemTable, scores: Mapping[int, float]) -> Mapping[int, float]:
    """Return scores that prefer used units among those that match about as well.

    Nothing changes until a reply used an item of the section. The best match gains as much as the
    most important unit, so that no popular item comes before it.
    """
    if not held.ledger.credited or not scores:
        return scores
    best = max(scores.values())
    weighted = {}
    for first, score in scores.items():
        importance = _MOST_IMPORTANT if score == best else held.importance(first)
        weighted[first] = score * (_IMPORTANCE_BASE + importance)
    return weighted


def in_order_of_worth(held: ItemTable, scores: Mapping[int, float]) -> list[int]:
    """Return units in order of worth: score over the square root of tokens, newest first.

    Division by the tokens themselves would prefer scraps. Without a division, one long text would
    crowd out several good ones.
    """
    import numpy as np

    firsts = np.fromiter(scores, np.int64, len(scores))
    lasts = firsts
    if not held.units.are_tied:
        tokens = held.item_tokens(scores)
    else:
        tokens = [held.tokens(first) for first in scores]
        lasts = np.array([held.units.last(first) for first in scores], np.int64)
    relevance = np.fromiter(scores.values(), np.float64, len(scores))
    sizes = np.maximum(1, np.array(tokens, np.float64))
    worst_first = np.lexsort((lasts, relevance / np.sqrt(sizes)))
    best_first: list[int] = firsts[worst_first[::-1]].tolist()
    return best_first
