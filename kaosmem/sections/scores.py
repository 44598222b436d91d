"""Scores of a section's units for a query, and their order by value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kaosmem.retrieval.ranker import Ranking
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.periods import Found


class Scores(dict[int, float]):
    """The scores of units for a query, by first ordinal.

    signals: the parts of a unit's score, of several items that of the best.
    by_worth: the units in order of worth.
    """

    def __init__(
        self,
        scores: Mapping[int, float] | Iterable[tuple[int, float]] = (),
        *,
        signals: Callable[[int], Mapping[str, float]] = lambda _: {},
    ) -> None:
        super().__init__(scores)
        self.signals = signals
        self.by_worth: Sequence[int] = ()

    def best_first(self, near: Collection[int]) -> list[int]:
        """Return the units by score down to the best one that is not `near`, then by worth.

        So the best-scored unit is not left out for a shorter one with a lower score.
        """
        if not self.by_worth or self.by_worth[0] not in self:  # the newest units of a period come first
            return [*self.by_worth]
        by_score = sorted(self, key=lambda first: (-self[first], -first))
        best = next((place for place, first in enumerate(by_score) if first not in near), len(by_score))
        return list(dict.fromkeys((*by_score[: best + 1], *self.by_worth)))


def unit_scores(held: Holdings, found: Found) -> Scores:
    """Return the scores of units, each the sum over its items, and the units in order of worth.

    Units of the query's periods without any of its words have no score. Their place is that of `found.newest`.
    """
    ranked = found.ranked
    signals = ranked.signals if isinstance(ranked, Ranking) else (lambda _: {})
    if held.all_alone:
        scores = Scores(ranked, signals=signals)
    else:
        sums: dict[int, float] = {}
        best_of: dict[int, int] = {}
        for first, (ordinal, score) in zip(held.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True):
            sums[first] = round(sums[first] + score, 9) if first in sums else score
            best_of.setdefault(first, ordinal)
        scores = Scores(sums, signals=lambda first: signals(best_of.get(first, first)))
    by_worth, newest = _by_worth(held, scores), held.firsts(found.newest)
    scores.by_worth = [*dict.fromkeys((*newest, *by_worth) if found.are_newest_first else (*by_worth, *newest))]
    return scores


def _by_worth(held: Holdings, scores: Mapping[int, float]) -> list[int]:
    """Return units in order of worth, score over the square root of tokens, the newest first among equals.

    Dividing by the tokens themselves would prefer scraps, by nothing let one long text crowd out several good ones.
    """
    import numpy as np

    firsts = np.fromiter(scores, np.int64, len(scores))
    relevance = np.fromiter(scores.values(), np.float64, len(scores))
    sizes = np.maximum(1, np.array(held.tokens_of(scores), np.float64))
    newest = firsts if held.all_alone else np.array(held.lasts(scores))
    worst_first = np.lexsort((newest, relevance / np.sqrt(sizes)))
    best_first: list[int] = firsts[worst_first[::-1]].tolist()
    return best_first
