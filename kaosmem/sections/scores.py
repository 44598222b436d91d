"""The scores of a section's items and units for a query, and their order by value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

from kaosmem.filters import MetadataFilter
from kaosmem.retrieval import Ranking
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.past import EvictedItem

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

    ranked: Ranking
    newest: tuple[int, ...] = ()
    are_newest_first: bool = False

    def scored(self, limit: int) -> list[tuple[int, float]]:
        """Return the best of all with scores. The newest get as much as the best match if they come first, else 0."""
        if not self.are_newest_first:
            return [*self.ranked.matches, *((each, 0.0) for each in self.newest)][:limit]
        most = _OTHERS * self.ranked.matches[0][1] if self.ranked.matches else 1.0
        return [*((each, most) for each in self.newest), *self.ranked.matches][:limit]


def preferring(meant: Collection[int], ranked: Ranking, within: Ranking, limit: int) -> Found:
    """Return at most `limit` ranked items, and as many newest ones, preferring the items of the query's periods.

    meant: ordinals of the items of the periods. ranked: the ranking of all items.
    within: the ranking of the items of the periods alone, by the topic. Its scores are not comparable with those of
        all. An item that all others outrank gets a share of the worst score.
    """
    scores = dict(ranked.matches)
    worst = ranked.matches[-1][1] if scores else 1.0
    matches = {each: scores.get(each, worst * score / within.matches[0][1]) for each, score in within.matches}
    matches |= {each: score / _OTHERS for each, score in ranked.matches if each not in meant}
    best = sorted(matches.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    newest = sorted((each for each in meant if each not in matches), reverse=True)[:limit]

    def signals(ordinal: int) -> Mapping[str, float]:
        """Return the signals of an item. One of the periods has `period` too: its addend to the score's logarithm."""
        found = ranked.signals(ordinal) or within.signals(ordinal)
        return {**found, "period": round(log(_OTHERS), 9)} if ordinal in meant else found

    return Found(Ranking(best, signals), tuple(newest), not within.matches)


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of units for a query.

    of: by first ordinal. by_worth: the units in order of worth.
    signals: the parts of a unit's score; of several items, those of the best.
    """

    of: Mapping[int, float]
    by_worth: Sequence[int]
    signals: Callable[[int], Mapping[str, float]]

    @classmethod
    def of_units(cls, held: Holdings, found: Found) -> Scores:
        """Return the scores of units, each the sum over its items.

        Units of the query's periods without any of its words have no score. Their place is that of `found.newest`.
        """
        ranked, signals = found.ranked.matches, found.ranked.signals
        scores: dict[int, float] = {}
        best_of: dict[int, int] = {}
        if held.all_alone:
            scores = dict(ranked)
        else:
            for first, (ordinal, score) in zip(held.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True):
                scores[first] = round(scores[first] + score, 9) if first in scores else score
                best_of.setdefault(first, ordinal)
        worth, newest = _by_worth(held, scores), held.firsts(found.newest)
        by_worth = [*dict.fromkeys((*newest, *worth) if found.are_newest_first else (*worth, *newest))]
        return cls(scores, by_worth, lambda first: signals(best_of.get(first, first)))

    def best_first(self, near: Collection[int]) -> list[int]:
        """Return the units by score down to the best one that is not `near`, then by worth.

        So the best-scored unit is not left out for a shorter one with a lower score.
        """
        if not self.by_worth or self.by_worth[0] not in self.of:  # the newest units of a period come first
            return [*self.by_worth]
        by_score = sorted(self.of, key=lambda first: (-self.of[first], -first))
        best = next((place for place, first in enumerate(by_score) if first not in near), len(by_score))
        return list(dict.fromkeys((*by_score[: best + 1], *self.by_worth)))


UNRANKED = Scores({}, (), lambda _: {})
"""The scores of a section that the query does not rank."""


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


def recallable(held: Holdings, firsts: Iterable[int], *, wanted: MetadataFilter | None = None) -> Iterator[int]:
    """Yield the units that may be shown: of those evicted under one id one alone, and none that is live again.

    wanted: the filter that evicted items have to pass.
    """
    past, evicted = held.past, set[str]()
    if not past:
        yield from firsts
        return
    for first in firsts:
        if items := past.known_unit(first):
            ids = [item.id for item in items]
            if not evicted.isdisjoint(ids) or any(map(held.__contains__, ids)):
                continue
            # An item that is not read yet may pass: it is read since it is proposed.
            if wanted is not None and not any(isinstance(item, EvictedItem) or wanted(item.metadata) for item in items):
                continue
            evicted.update(ids)
        yield first
