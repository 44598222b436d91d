"""The ranking of a section for a query: by its ranker, by the days that are asked for, by worth.

A ranker's index scores items. It also knows the day of each entry, for queries that name a period.
The scores of items become those of units, and the order of worth compares them with their tokens.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self, cast

from kaosmem.exact import log
from kaosmem.language.dates import day_of
from kaosmem.retrieval.ranker import Ranking, ranking_of
from kaosmem.sections.item_table import ItemTable
from kaosmem.types.outcomes import Outcomes

if TYPE_CHECKING:
    from kaosmem.language.dates import Period
    from kaosmem.language.query import Query
    from kaosmem.retrieval import Index
    from kaosmem.retrieval.ranker import CollectionStatistics, StorableIndex, StorableRanker
    from kaosmem.types.items import Item

_DUMP_ALIGNMENT = 64
"""A dump begins with the number of days in 8 bytes and the days in 4 bytes each.

This beginning is filled up to a multiple of so many bytes.
"""
_OUTSIDE_PERIOD_DIVISOR = 50
"""An item outside the periods counts this fraction of its score.

Of the LoCoMo questions that name a date, 94 % have their evidence in that period. "Last week" is
often meant loosely. With 50, evidence in the period comes first, and a far better match outside it
is not lost.
"""

_EARLIER_QUERY_WEIGHT = 0.2
"""The weight of the messages before a question that names nothing by its own words."""

RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

_MOST_IMPORTANT = 3
_IMPORTANCE_BASE = 29
"""The score of a unit is multiplied by the sum of this number and its importance, from -1 to 3.

So importance changes the order of two units if the better one is at most an eighth better.
"""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """The items that are ranked for a query.

    Attributes:
        ranked: The items that match its words, best first.
        newest: The other items of the query's periods, newest first. They come after the ranked
            items.
        are_newest_first: No item of the periods matches, and the newest come before the ranked
            items.
    """

    ranked: Ranking
    newest: tuple[int, ...] = ()
    are_newest_first: bool = False

    def scored(self, limit: int) -> list[tuple[int, float]]:
        """Return the best of all with scores.

        The newest get as much as the best match if they come first, else 0.
        """
        if not self.are_newest_first:
            return [*self.ranked.matches, *((each, 0.0) for each in self.newest)][:limit]
        most = _OUTSIDE_PERIOD_DIVISOR * self.ranked.matches[0][1] if self.ranked.matches else 1.0
        return [*((each, most) for each in self.newest), *self.ranked.matches][:limit]


def _preferring(
    meant: Collection[int],
    ranked: Ranking,
    within: Ranking,
    limit: int,
) -> RankedItems:
    """Return at most `limit` ranked items and `limit` newest ones, best those of the periods.

    Args:
        meant: Ordinals of the items of the periods.
        ranked: The ranking of all items.
        within: The ranking of the items of the periods alone, by the topic. Its scores are not
            comparable with those of all. An item that all others outrank gets a share of the worst
            score.
    """
    scores = dict(ranked.matches)
    worst = ranked.matches[-1][1] if scores else 1.0
    matches = {}
    for each, score in within.matches:
        matches[each] = scores.get(each, worst * score / within.matches[0][1])
    for each, score in ranked.matches:
        if each not in meant:
            matches[each] = score / _OUTSIDE_PERIOD_DIVISOR
    best = sorted(matches.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    newest = sorted((each for each in meant if each not in matches), reverse=True)[:limit]

    def signals(ordinal: int) -> Mapping[str, float]:
        """Return the signals of an item.

        One of the periods has `period` too: its addend to the score's logarithm.
        """
        found = ranked.signals(ordinal) or within.signals(ordinal)
        if ordinal in meant:
            return {**found, "period": round(log(_OUTSIDE_PERIOD_DIVISOR), 9)}
        return found

    return RankedItems(Ranking(best, signals), tuple(newest), not within.matches)


def _preferring_earlier(
    ranked: Ranking,
    before: Ranking,
    limit: int,
) -> Ranking:
    """Return a ranking in which items that match the earlier messages come first among equals.

    The best match of the earlier messages gains a fifth of the best score. The scores are scaled so
    that the best one stays.
    """
    best = ranked.matches[0][1] if ranked.matches else 1.0
    most = before.matches[0][1] if before.matches else 0.0
    if min(best, most) <= 0:  # a ranker of the caller's may break the contract
        return ranked
    scores = dict(ranked.matches)
    gains = {}
    for ordinal, score in before.matches:
        gains[ordinal] = round(_EARLIER_QUERY_WEIGHT * score / most, 9)
        scores[ordinal] = scores.get(ordinal, 0.0) + best * gains[ordinal]
    in_order = sorted(scores.items(), key=lambda each: (-each[1], -each[0]))[:limit]
    scale = best / in_order[0][1]
    matches = [(ordinal, score * scale) for ordinal, score in in_order]

    def signals(ordinal: int) -> Mapping[str, float]:
        """Return the signals of an item, and as `earlier` its gain as a share of the best score."""
        found = ranked.signals(ordinal)
        if ordinal in gains:
            return {**found, "earlier": gains[ordinal]}
        return found

    return Ranking(matches, signals)


class DatedIndex:
    """The entries of a ranker's index, each with its day.

    Attributes:
        index: The ranker's own.
        is_sound: Whether each entry is known here. If an addition fails half way, the index may
            have a part of it.
    """

    def __init__(self, index: Index, days: array[int] | None = None) -> None:
        self.index = index
        self.is_sound = True
        # By ordinal, as `date.toordinal` counts; 0 without an entry.
        self._days = array("i") if days is None else days

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and ordinal < len(self._days) and self._days[ordinal] != 0

    @property
    def ordinals(self) -> set[int]:
        """Return the ordinals of all entries."""
        return {ordinal for ordinal, day in enumerate(self._days) if day}

    def of_periods(self, periods: Iterable[Period]) -> set[int]:
        """Return the ordinals of the entries that are of one of these periods."""
        import numpy as np

        days = np.frombuffer(self._days, np.int32)
        meant = np.zeros(len(days), np.bool_)
        for first, last in periods:
            meant |= (first.toordinal() <= days) & (days <= last.toordinal())
        return set(np.flatnonzero(meant).tolist())

    def find(
        self,
        query: Query,
        limit: int,
        among: set[int] | None,
    ) -> RankedItems:
        """Return at most `limit` ranked entries and `limit` newest ones.

        Args:
            among: The ordinals to choose from; None for all.
        """
        ranked = ranking_of(self.index, query.text, limit, among=among)
        if query.earlier and self._is_vague(query.text):
            before = ranking_of(self.index, query.earlier, limit, among=among)
            ranked = _preferring_earlier(ranked, before, limit)
        meant = self.of_periods(query.periods) if query.periods else set()
        if among is not None:
            meant &= among
        if not meant:
            return RankedItems(ranked)
        within = ranking_of(self.index, query.topic, max(limit, len(meant)), among=meant)
        return _preferring(meant, ranked, within, limit)

    def by_words(self, text: str, limit: int, among: Collection[int] | None) -> list[int]:
        """Return at most `limit` entries with words of a text, best first.

        An index that can do so ranks by the words alone, which is quicker.
        """
        rank = getattr(self.index, "by_words", None)
        if rank is None:
            matches = ranking_of(self.index, text, limit, among=among).matches
        else:
            matches = rank(text, limit, among=among)
        return [ordinal for ordinal, _ in matches]

    def frequencies(self, query: str) -> Mapping[str, int] | None:
        """Return the number of entries with each term of a query; None if the index counts none."""
        count = getattr(self.index, "frequencies", None)
        return None if count is None else count(query)

    def _is_vague(self, text: str) -> bool:
        """Return whether the words of a question together are expected to be in several entries.

        Words that no entry has tell nothing, and a question of such words is not vague. An index
        that does not count its words cannot tell.
        """
        frequencies = self.frequencies(text)
        if frequencies is None:
            return False
        size = max(1, len(self))
        collection: CollectionStatistics | None = getattr(self.index, "collection", None)
        if collection is not None:  # the entries are a sample that matches the words
            size = collection.entries
            frequencies = collection.frequencies
        expected = float(size)
        known = [*filter(None, frequencies.values())]
        for frequency in known:
            expected *= frequency / size
        return bool(known) and expected > 1

    def remove(self, ordinal: int) -> None:
        """Remove an entry."""
        self.index.remove(ordinal)
        self._days[ordinal] = 0

    def put(self, items: Mapping[int, Item | None]) -> None:
        """Have these items, and no entries of those that are None. Raises as the index does."""
        new = []
        for ordinal, item in items.items():
            if item is None:
                if ordinal in self:
                    self.remove(ordinal)
            elif ordinal in self:
                self.index.update(ordinal, item)
                self._days[ordinal] = day_of(item).toordinal()
            else:
                new.append((ordinal, item))
        before = len(self.index)
        try:
            self.index.add(new)
        except BaseException:
            self.is_sound = len(self.index) == before
            raise
        for ordinal, item in new:
            missing = ordinal + 1 - len(self._days)
            if missing > 0:
                self._days.frombytes(bytes(self._days.itemsize * missing))
            self._days[ordinal] = day_of(item).toordinal()

    def dump(self) -> Iterable[bytes] | None:
        """Return the index as it is now, in bytes; None if its ranker cannot store it.

        The bytes may be asked for later, and in another thread.
        """
        import numpy as np

        chunks = cast("StorableIndex", self.index).dump()
        if chunks is None:
            return None
        size = 8 + 4 * len(self._days)
        count = len(self._days).to_bytes(8, "little")
        days = np.array(self._days, "<i4").tobytes()
        return chain((count, days, bytes(-size % _DUMP_ALIGNMENT)), chunks)

    @classmethod
    def load(cls, ranker: StorableRanker, data: memoryview) -> Self:
        """Return the index of a dump. Raises ValueError for a damaged one."""
        import numpy as np

        count = int.from_bytes(data[:8], "little")
        size = 8 + 4 * count
        if size > len(data):
            raise ValueError(f"the dump of an index has {len(data)} bytes; its days take {size}")
        days = array("i", np.frombuffer(data[8:size], "<i4").tolist())
        index = ranker.load(data[size + -size % _DUMP_ALIGNMENT :])
        dated = cls(index, days)
        if dated.ordinals != {*index.ordinals.tolist()}:
            raise ValueError("the dump of an index has days of other entries")
        return dated


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
        found: RankedItems,
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
        # The newest units of a period come first.
        if not self.by_worth or self.by_worth[0] not in self.of:
            return [*self.by_worth]
        found: dict[int, None] = {}
        for _, first in sorted(zip(self.of.values(), self.of, strict=True), reverse=True):
            found[first] = None
            if first not in near:
                break
        return [*(found | dict.fromkeys(self.by_worth))]


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
