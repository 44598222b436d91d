"""What a section proposes for a window: units in order of want."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaosmem.holdings import Holdings
from kaosmem.specs import SectionSpec
from kaosmem.types import Item
from kaosmem.units import Link

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker

RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""


class Candidate(NamedTuple):
    """One unit that a source proposes: a tuple, since hundreds are made in each turn.

    items: in stored order. position, offset: items and tokens the section had ever taken before the first of them.
    cut: whether a history may start with it. must: whether it must be shown. orphan: whether it is nothing but
    results without a call. rank: its place in the order of want, from 1. score: what the query gives it, None
    where it was not ranked. tokens: of all its items.
    """

    items: tuple[Item, ...]
    position: int
    offset: int
    cut: bool
    must: bool
    orphan: bool
    rank: int
    score: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a source would like to be shown.

    candidates: in order of want. earlier: of a history, what may be recalled, in order of worth.
    total, taken: tokens and items that the section has ever taken.
    """

    candidates: tuple[Candidate, ...]
    earlier: tuple[Candidate, ...] = ()
    total: int = 0
    taken: int = 0


class Source(Protocol):
    """Where candidates come from."""

    @property
    def spec(self) -> SectionSpec:
        """Return how the source is budgeted and shown."""
        ...

    def propose(self, query: str, *, cap: int) -> Proposal:
        """Return candidates worth about twice `cap` tokens."""
        ...

    def get(self, item_id: str) -> Item | None:
        """Return a live item, which counts as a use of it."""
        ...


class Proposer:
    """Orders the units of one section by want. It is told of every change, and changes nothing itself.

    ranker: for a spec without its own; None is BM25.
    """

    def __init__(self, spec: SectionSpec, held: Holdings, *, ranker: Ranker | None) -> None:
        self._spec = spec
        self._held = held
        self._index = LazyIndex(spec.ranker or ranker, held)
        self._needed: set[int] = set()  # pinned, or of role system in a static section
        self._questions: OrderedDict[int, None] = OrderedDict()  # of a history: what users said, ascending
        for ordinal in held:
            self.added(ordinal)

    @property
    def newest_question(self) -> Item | None:
        """Return the newest item of role user with more than tool results, in a history."""
        return self._held[next(reversed(self._questions))] if self._questions else None

    def added(self, ordinal: int) -> None:
        """Note a new item."""
        self._note(ordinal)
        self._index.added(ordinal)

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        self._note(ordinal)
        self._index.changed(ordinal)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        self._needed.discard(ordinal)
        self._questions.pop(ordinal, None)
        self._index.removed(ordinal)

    def _note(self, ordinal: int) -> None:
        item = self._held[ordinal]
        needed = item.pinned or (self._spec.placement == "static" and item.role == "system")
        (self._needed.add if needed else self._needed.discard)(ordinal)
        if self._spec.placement != "history" or item.role != "user" or Link.of(item).is_results:
            self._questions.pop(ordinal, None)
        elif ordinal not in self._questions:
            is_newest = ordinal > next(reversed(self._questions), -1)
            self._questions[ordinal] = None
            if not is_newest:
                self._questions = OrderedDict.fromkeys(sorted(self._questions))

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score) of items for a query, best first."""
        return self._index.rank(query, limit)

    def propose(self, query: str, *, cap: int) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown.

        First what must be shown, then the `recent` newest, then the rest: newest first or, in a `query` section
        past its threshold, by worth. A history's are all newest first, and what the query finds in it is `earlier`.
        """
        must = self._must()
        if self._spec.placement == "history":
            return self._propose_history(query, cap, must)
        scores = self._scores(query, cap) if self._spec.placement == "query" else {}
        wanted = dict.fromkeys(sorted(must, key=self._held.units.last, reverse=True))
        wanted |= dict.fromkeys(islice(self._held.newest_first(), self._spec.recent))
        left = 2 * cap - sum(self._share(first, cap) for first in wanted)
        for first in chain(self._by_worth(scores), self._held.newest_first()):
            if left <= 0:
                break
            if first not in wanted:
                wanted[first] = None
                left -= self._share(first, cap)
        candidates = self._candidates(wanted, must=must, cuts=frozenset(), scores=scores)
        return Proposal(candidates, (), self._held.total, self._held.taken)

    def _propose_history(self, query: str, cap: int, must: set[int]) -> Proposal:
        walked, cuts = self._walk_back(must, 2 * cap)
        wanted = dict.fromkeys([*sorted(must, key=self._held.units.last, reverse=True), *walked])
        near, weight = set(), 0
        for first in walked:
            weight += self._weight(first)
            if weight > cap:
                break
            near.add(first)
        scores: dict[int, float] = {}
        earlier: dict[int, None] = {}
        if sum(len(self._held.units.members(first)) for first in near) < len(self._held):
            scores = self._scores(query, cap)
            room = int(self._spec.recall * cap)
            left = 2 * room
            for first in self._by_worth(scores) if scores else self._held.newest_first():
                if left <= 0:
                    break
                if first not in must and not self._held.units.is_orphan(first):
                    earlier[first] = None
                    left -= 0 if first in near else self._share(first, room)
        return Proposal(
            self._candidates(wanted, must=must, cuts=cuts, scores={}),
            self._candidates(earlier, must=must, cuts=cuts, scores=scores),
            self._held.total,
            self._held.taken,
        )

    def _walk_back(self, must: set[int], weight: int) -> tuple[list[int], set[int]]:
        """Return the units met going back from the newest until they weigh so much, and at which one may cut.

        Cutting is legal where no unit but those shown anyway has items on both sides.
        """
        units = self._held.units
        walked: list[int] = []
        cuts: set[int] = set()
        reach = self._held.taken
        for ordinal in reversed(self._held):
            first = units.first(ordinal)
            if units.last(ordinal) == ordinal:
                if weight <= 0 and first not in must:
                    break
                weight -= self._weight(first)
                walked.append(first)
                reach = reach if first in must else min(reach, first)
            if first == ordinal <= reach:
                cuts.add(first)
        return walked, cuts

    def _must(self) -> set[int]:
        """Return the first ordinals of the units that must be shown."""
        units = self._held.units
        must = {units.first(ordinal) for ordinal in chain(self._needed, islice(reversed(self._questions), 1))}
        if self._spec.placement == "history":
            shown = (first for first in self._held.newest_first() if not units.is_orphan(first))
            must |= set(islice(shown, 1))
        return {first for first in must if not units.is_orphan(first)}

    def _scores(self, query: str, cap: int) -> dict[int, float]:
        """Return what the query gives to units, by first ordinal; nothing while there are too few to choose among."""
        if len(self._held) <= self._spec.retrieval_threshold:
            return {}
        mean = max(1, self._held.used // len(self._held))
        ranked = self._index.rank(query, RANK_SLACK + 2 * cap // mean)
        if self._held.all_alone:
            return dict(ranked)
        scores: dict[int, float] = {}
        for first, (_, score) in zip(self._held.units.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True):
            scores[first] = round(scores[first] + score, 9) if first in scores else score
        return scores

    def _by_worth(self, scores: Mapping[int, float]) -> list[int]:
        """Return units in order of worth, score over the square root of tokens, the newest first among equals.

        Dividing by the tokens themselves would prefer scraps, by nothing let one long text crowd out several good ones.
        """
        import numpy as np

        firsts = np.fromiter(scores, np.int64, len(scores))
        relevance = np.fromiter(scores.values(), np.float64, len(scores))
        sizes = np.maximum(1, np.array(self._held.tokens_of(scores), np.float64))
        newest = firsts if self._held.all_alone else np.array(self._held.units.lasts(scores))
        worst_first = np.lexsort((newest, relevance / np.sqrt(sizes)))
        best_first: list[int] = firsts[worst_first[::-1]].tolist()
        return best_first

    def _share(self, first: int, cap: int) -> int:
        """Return what a unit takes of the twice `cap` tokens that are proposed.

        One that is larger than the cap is proposed for the record alone: it keeps no room from those that fit.
        """
        weight = self._weight(first)
        return weight if weight <= cap else 1 + 2 * cap // RANK_SLACK

    def _weight(self, first: int) -> int:
        return max(1, self._held.tokens(first))  # even the empty are so many at most

    def _candidates(
        self, firsts: Iterable[int], *, must: set[int], cuts: Collection[int], scores: Mapping[int, float]
    ) -> tuple[Candidate, ...]:
        is_orphan = self._held.units.is_orphan
        candidates = []
        for rank, first in enumerate(firsts, 1):
            items, offset, tokens = self._held.unit(first)
            candidates.append(
                Candidate(
                    items,
                    first,
                    offset,
                    first in cuts,
                    first in must,
                    is_orphan(first),
                    rank,
                    scores.get(first),
                    tokens,
                )
            )
        return tuple(candidates)


class LazyIndex:
    """A ranker's index over holdings: made when first asked, then told of changes in batches, just before it ranks."""

    def __init__(self, ranker: Ranker | None, held: Holdings) -> None:
        self._ranker = ranker
        self._held = held
        self._index: Index | None = None
        self._stale: dict[int, bool] = {}  # held ordinal, new or changed -> whether the index has it
        self._gone: list[int] = []  # ordinals that the index has still

    def added(self, ordinal: int) -> None:
        """Note a new item."""
        if self._index is not None:
            self._stale[ordinal] = False

    def changed(self, ordinal: int) -> None:
        """Note an item's new text."""
        if self._index is not None:
            self._stale.setdefault(ordinal, True)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        if self._index is not None and self._stale.pop(ordinal, True):
            self._gone.append(ordinal)

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first."""
        return self._synced().rank(query, limit)

    def _synced(self) -> Index:
        if self._index is None:
            self._index = self._made()
            self._stale = dict.fromkeys(self._held, False)
        for ordinal in self._gone:
            self._index.remove(ordinal)
        for ordinal, indexed in self._stale.items():
            if indexed:
                self._index.update(ordinal, self._held[ordinal].text)
        self._index.add((ordinal, self._held[ordinal].text) for ordinal, indexed in self._stale.items() if not indexed)
        self._gone.clear()
        self._stale.clear()
        return self._index

    def _made(self) -> Index:
        if self._ranker is None:
            from kaosmem.retrieval.bm25 import BM25Ranker

            self._ranker = BM25Ranker()
        return self._ranker.index()
