"""The periods that a query names, such as "last week" or "May 2023": a soft filter on ranked items."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from kaosmem.retrieval import Ranking

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaosmem.retrieval import Query
    from kaosmem.sections.lazy_index import LazyIndex

_OTHERS = 50
"""An item outside the periods counts this fraction of its score.

Of the LoCoMo questions that name a date, 94 % have their evidence in that period. "Last week" is often meant loosely.
With 50, evidence in the period comes first, and a far better match outside it is not lost.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The items that are ranked for a query.

    ranked: the items that match its words, best first.
    newest: the other items of the query's periods, newest first. They come after the ranked items.
    are_newest_first: no item of the periods matches, and the newest come before the ranked items.
    """

    ranked: list[tuple[int, float]]
    newest: tuple[int, ...] = ()
    are_newest_first: bool = False

    def scored(self, limit: int) -> list[tuple[int, float]]:
        """Return the best of all with scores. The newest get as much as the best match if they come first, else 0."""
        if not self.are_newest_first:
            return [*self.ranked, *((each, 0.0) for each in self.newest)][:limit]
        most = _OTHERS * self.ranked[0][1] if self.ranked else 1.0
        return [*((each, most) for each in self.newest), *self.ranked][:limit]


def find(index: LazyIndex, query: Query, limit: int, among: set[int] | None = None) -> Found:
    """Return at most `limit` ranked items of all or of those `among` these ordinals, and as many newest ones."""
    ranked = index.rank(query.text, limit, among=among)
    if not query.periods:
        return Found(ranked)
    meant = index.of_periods(query.periods)
    if among is not None:
        meant &= among
    if not meant:
        return Found(ranked)
    within = index.rank(query.topic, max(limit, len(meant)), among=meant)
    scores = _preferring(meant, ranked, within)
    best = sorted(scores.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    newest = sorted(meant.difference(scores), reverse=True)[:limit]
    return Found(Ranking(best, signals=_Signals(meant, ranked, within)), tuple(newest), not within)


def _preferring(
    meant: Collection[int], ranked: list[tuple[int, float]], within: list[tuple[int, float]]
) -> dict[int, float]:
    """Return the scores of matching items, in which those of the periods keep theirs.

    within: the ranking of the periods' items alone, by the topic. Its scores are not comparable with those of all. An
    item that all others outrank gets a share of the worst score.
    """
    scores = dict(ranked)
    worst = ranked[-1][1] if ranked else 1.0
    matches = {each: scores.get(each, worst * score / within[0][1]) for each, score in within}
    return matches | {each: score / _OTHERS for each, score in ranked if each not in meant}


class _Signals:
    """The signals of a ranking. An item of the periods has `period` too: its addend to the logarithm of the score."""

    def __init__(self, meant: Collection[int], *rankings: list[tuple[int, float]]) -> None:
        self._meant, self._rankings = meant, [each for each in rankings if isinstance(each, Ranking)]

    def __call__(self, ordinal: int) -> Mapping[str, float]:
        found = next(filter(None, (each.signals(ordinal) for each in self._rankings)), {})
        return {**found, "period": round(log(_OTHERS), 9)} if ordinal in self._meant else found
