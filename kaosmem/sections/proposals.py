"""What a section proposes for a window: units in order of want."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.duplicates import Told
from kaosmem.filters import MetadataFilter
from kaosmem.retrieval.ranker import Ranking
from kaosmem.sections.facets import Facets
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.lazy_index import IndexDump, LazyIndex, StoredIndex
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import Item
from kaosmem.units import Link

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker

RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

_TO_READ = 1.25
"""For each token that recalled units may take, so much is proposed of what was evicted, whose texts have to be read.

Of what is at hand it is 2.
"""

_READ_AT_ONCE = 4_096
"""How many evicted items are read at a time where the index lacks them."""


class Candidate(NamedTuple):
    """One unit that a source proposes: a tuple, since hundreds are made in each turn.

    items: in stored order. position, offset: items and tokens the section had ever taken before the first of them.
    cut: whether a history may start with it. must: whether it must be shown. orphan: whether it is nothing but
    results without a call. rank: its place in the order of want, from 1. score: what the query gives it, None
    where it was not ranked. tokens: of all its items. recalled: whether it is shown as an earlier one, evicted or from
    before the place where a history is cut.
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
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a source would like to be shown.

    candidates: in order of want. earlier: of a history, what may be recalled, in order of worth.
    total, taken: tokens and items that the section has ever taken; without a total a history is cut by the positions of
    its units, and their offsets mean nothing. evicted: items that it holds no more, and may recall.
    signals: what made up the score of the candidate at a position, by name; nothing where the ranker does not say.
    unread: evicted items whose texts it takes to propose; as long as there are any, the rest is none to be shown.
    """

    candidates: tuple[Candidate, ...]
    earlier: tuple[Candidate, ...] = ()
    total: int | None = 0
    taken: int = 0
    evicted: int = 0
    signals: Callable[[int], Mapping[str, float]] = field(default=lambda _: {}, repr=False, compare=False)
    unread: tuple[EvictedItem, ...] = ()

    @classmethod
    def of(cls, ranked: Iterable[tuple[Item, float | None]]) -> Proposal:
        """Return a proposal of items that stand alone, best first, each with its score, None for one not ranked."""
        return cls(
            tuple(
                Candidate((item,), place, 0, False, False, False, place + 1, score, item.tokens)
                for place, (item, score) in enumerate(ranked)
            )
        )


class Scores(dict[int, float]):
    """What a query gives to units, by first ordinal.

    signals: what made up the score of one, of several items that of the best.
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


class Proposer:
    """Orders the units of one section by want. It is told of every change, and changes nothing itself.

    ranker: for a spec without its own; None is `LinearRanker`.
    """

    def __init__(self, spec: SectionSpec, held: Holdings, *, ranker: Ranker | None) -> None:
        self._spec = spec
        self._held = held
        self._index = LazyIndex(spec.ranker or ranker, held)
        self._facets = Facets(held)
        self._needed: set[int] = set()  # pinned, or of role system in a static section
        self._questions: OrderedDict[int, None] = OrderedDict()  # of a history: what users said, ascending
        self._scored: tuple[object, Scores] = None, Scores()  # what the last ranking came to
        # What is not decoded is not pinned: in a `query` section it need not be shown.
        for ordinal in held.read() if spec.placement == "query" else held:
            self._note(ordinal)

    @property
    def newest_question(self) -> Item | None:
        """Return the newest item of role user with more than tool results, in a history."""
        return self._held[next(reversed(self._questions))] if self._questions else None

    def added(self, ordinal: int) -> None:
        """Note a new item."""
        self._note(ordinal)
        self._index.added((ordinal,))
        self._facets.added(ordinal)

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        self._note(ordinal)
        self._index.changed(ordinal)
        self._facets.changed(ordinal)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        self.evicted(ordinal)
        self._index.removed(ordinal)

    def evicted(self, ordinal: int) -> None:
        """Note that an item is held no more, but may be recalled."""
        self._needed.discard(ordinal)
        self._questions.pop(ordinal, None)
        self._facets.removed(ordinal)

    def forgotten(self, held: Iterable[int], past: Iterable[int]) -> None:
        """Note that items held so far, and evicted ones, are forgotten: nothing of them is kept."""
        for ordinal in held:
            self.removed(ordinal)
        for ordinal in past:
            self._index.removed(ordinal)
        self._index.purge()
        self._facets.purge()

    def inherit(self, other: Proposer, shared: int) -> None:
        """Take another's index of a section that knew the same of the first `shared` items."""
        self._index.inherit(other._index, shared)

    @property
    def wants_index(self) -> bool:
        """Return whether it would help to be offered an index that was kept."""
        return self._index.is_wanted

    def offer_index(self, stored: StoredIndex) -> None:
        """Give an index of the section that was kept."""
        self._index.offer(stored)

    def dump_index(self) -> IndexDump | None:
        """Return the index to be kept, as `LazyIndex.dump` does."""
        return self._index.dump()

    def index_not_stored(self) -> None:
        """Note that nothing is kept of the index."""
        self._index.not_stored()

    def loaded(self, ordinals: Iterable[int]) -> None:
        """Note that items evicted earlier may be recalled from now on."""
        self._index.added(ordinals)

    def read(self, ordinals: Iterable[int]) -> None:
        """Note that the texts of evicted items are at hand."""
        self._index.read(ordinals)

    def lost(self, ordinals: Iterable[int]) -> None:
        """Note that evicted items can't be recalled any more."""
        for ordinal in ordinals:
            self._index.removed(ordinal)

    def _note(self, ordinal: int) -> None:
        item = self._held.as_stored(ordinal)
        needed = item.pinned or (self._spec.placement == "static" and item.role == "system")
        (self._needed.add if needed else self._needed.discard)(ordinal)
        if self._spec.placement != "history" or item.role != "user" or Link.of(item).is_results:
            self._questions.pop(ordinal, None)
        elif ordinal not in self._questions:
            is_newest = ordinal > next(reversed(self._questions), -1)
            self._questions[ordinal] = None
            if not is_newest:
                self._questions = OrderedDict.fromkeys(sorted(self._questions))

    @property
    def index(self) -> Index:
        """Return the ranker's index of the section, which has all changes."""
        return self._index.synced()

    def rank(self, query: str, limit: int, *, wanted: MetadataFilter | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score) of held items that pass a filter, best first for a query."""
        passing = self.passing(wanted)
        if passing is None and self._held.past:
            passing = set(self._held)
        return self._index.rank(query, limit, among=passing)

    def propose(self, query: str, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown.

        First what must be shown, then the `recent` newest, then the rest: newest first or, in a `query` section
        past its threshold, by worth. A history's are all newest first, and what the query finds in it is `earlier`.
        wanted: of a `query` section, propose only units with an item that passes.
        """
        past = self._held.past
        if past and self._is_ranked and (unread := self._index.unread(_READ_AT_ONCE)):
            past.texts = {}  # the index keeps none
            return Proposal((), unread=tuple(unread))
        is_history = self._spec.placement == "history"
        proposal = self._propose_history(query, cap) if is_history else self._propose(query, cap, wanted)
        if past and not proposal.unread:
            past.keep_texts(unit.position for unit in (*proposal.candidates, *proposal.earlier) if unit.recalled)
        return proposal

    def _propose(self, query: str, cap: int, wanted: MetadataFilter | None) -> Proposal:
        must = self._must()
        passing = self.passing(wanted)
        if passing is not None and must:
            must &= set(self._held.firsts(passing))
        scores = self._scores(query, cap, passing) if self._spec.placement == "query" else Scores()
        first_wanted = dict.fromkeys(sorted(must, key=self._held.units.last, reverse=True))
        first_wanted |= dict.fromkeys(islice(self._newest_first(passing), self._spec.recent))
        told, room = Told(), int(self._spec.recall * cap)
        left, left_to_recall = 2 * cap - sum(self._share(first, cap, told) for first in first_wanted), _TO_READ * room
        recallable = self._recallable(
            self._superseded_last(scores.by_worth), wanted=None if passing is None else wanted
        )
        for first in chain(recallable, self._newest_first(passing)):
            if left <= 0:
                break
            if first in first_wanted:
                continue
            if first in self._held.past:
                if left_to_recall <= 0:
                    continue
                left_to_recall -= self._share(first, room, told)
            else:
                left -= self._share(first, cap, told)
            first_wanted[first] = None
        if unread := self._held.past.unread(first_wanted):
            return Proposal((), unread=unread)
        candidates = self._candidates(first_wanted, must=must, cuts=frozenset(), scores=scores)
        evicted = len(self._held.past)
        return Proposal(candidates, (), self._held.total, self._held.taken, evicted, signals=scores.signals)

    def passing(self, wanted: MetadataFilter | None) -> set[int] | None:
        """Return the ordinals of the items that pass a filter; None where it does not narrow the section.

        It narrows `query` sections in which some item has one of its fields.
        """
        return None if wanted is None or self._spec.placement != "query" else self._facets.passing(wanted)

    def _newest_first(self, passing: set[int] | None) -> Iterator[int]:
        if passing is None:
            yield from self._held.newest_first()
        else:
            yield from dict.fromkeys(self._held.firsts(sorted(passing, reverse=True)))

    def _propose_history(self, query: str, cap: int) -> Proposal:
        must = self._must()
        walked, cuts = self._walk_back(must, 2 * cap)
        wanted = dict.fromkeys([*sorted(must, key=self._held.units.last, reverse=True), *walked])
        near, weight = set(), 0
        for first in walked:
            weight += self._weight(first)
            if weight > cap:
                break
            near.add(first)
        scores = Scores()
        earlier: dict[int, None] = {}
        shown = sum(len(self._held.units.members(first)) for first in near)
        if self._spec.recall and shown < len(self._held) + len(self._held.past):
            scores = self._scores(query, cap)
            room = int(self._spec.recall * cap)
            left: float = 2 * room
            told = Told()
            newest_first = chain(self._held.newest_first(), self._held.past.newest_first())
            by_worth = self._superseded_last(scores.by_worth)
            for first in self._recallable(by_worth if scores else newest_first):
                if left <= 0:
                    break
                if first not in must and not self._is_orphan(first):
                    earlier[first] = None
                    share = 0 if first in near else self._share(first, room, told)
                    left -= share * 2 / _TO_READ if first in self._held.past else share
        if unread := self._held.past.unread(earlier):
            return Proposal((), unread=unread)
        before = self._candidates(earlier, must=must, cuts=cuts, scores=scores)
        return Proposal(
            self._candidates(wanted, must=must, cuts=cuts, scores={}),
            tuple(unit if unit.recalled else unit._replace(recalled=True) for unit in before),
            self._held.total,
            self._held.taken,
            len(self._held.past),
            scores.signals,
        )

    def _recallable(self, firsts: Iterable[int], *, wanted: MetadataFilter | None = None) -> Iterator[int]:
        """Yield the units that may be shown: of those evicted under one id one alone, and none that is live again.

        wanted: what was evicted has to pass it.
        """
        past, evicted = self._held.past, set[str]()
        if not past:
            yield from firsts
            return
        for first in firsts:
            if items := past.known_unit(first):
                ids = [item.id for item in items]
                if not evicted.isdisjoint(ids) or any(map(self._held.__contains__, ids)):
                    continue
                # What is not read yet may pass: it is read since it is proposed.
                if wanted is not None and not any(
                    isinstance(item, EvictedItem) or wanted(item.metadata) for item in items
                ):
                    continue
                evicted.update(ids)
            yield first

    def _superseded_last(self, firsts: Sequence[int]) -> Iterable[int]:
        """Return units in order, but what was superseded after what supersedes it, which it must not stand for."""
        if not self._held.past.has_keys:
            return firsts
        ranks: dict[int, int] = {first: rank for rank, first in enumerate(firsts)}

        def place(first: int) -> tuple[int, bool]:
            successors = (ranks.get(successor, -1) for successor in self._successors(first))
            last = max(successors, default=-1)
            return max(last, ranks[first]), last > ranks[first]

        return sorted(firsts, key=place)

    def _successors(self, first: int) -> list[int]:
        """Return the first ordinals of the live units with keys of an evicted one."""
        past = self._held.past
        ordinals = map(self._held.keyed, past.keys(first) if first in past else ())
        return self._held.firsts(ordinal for ordinal in ordinals if ordinal is not None)

    def _is_orphan(self, first: int) -> bool:
        past = self._held.past
        return past.is_orphan(first) if first in past else self._held.units.is_orphan(first)

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

    @property
    def _is_ranked(self) -> bool:
        """Return whether there are enough to choose among."""
        count = len(self._held) + len(self._held.past)
        return self._spec.placement != "static" and count > self._spec.retrieval_threshold

    def _scores(self, query: str, cap: int, passing: set[int] | None = None) -> Scores:
        """Return what the query gives to units; nothing while there are too few to choose among."""
        if not self._is_ranked:
            return Scores()
        mean = max(1, self._held.used // max(1, len(self._held)))
        among = passing if passing is None or not self._held.past else {*passing, *self._held.past}
        ranked = self._index.rank(query, RANK_SLACK + 2 * cap // mean, among=among)
        if ranked is not self._scored[0]:  # as after the reading of what this ranking proposes
            scores = self._scores_of(ranked)
            scores.by_worth = self._by_worth(scores)
            self._scored = ranked, scores
        return self._scored[1]

    def _scores_of(self, ranked: list[tuple[int, float]]) -> Scores:
        signals = ranked.signals if isinstance(ranked, Ranking) else (lambda _: {})
        if self._held.all_alone:
            return Scores(ranked, signals=signals)
        scores: dict[int, float] = {}
        best_of: dict[int, int] = {}
        for first, (ordinal, score) in zip(self._held.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True):
            scores[first] = round(scores[first] + score, 9) if first in scores else score
            best_of.setdefault(first, ordinal)
        return Scores(scores, signals=lambda first: signals(best_of.get(first, first)))

    def _by_worth(self, scores: Mapping[int, float]) -> list[int]:
        """Return units in order of worth, score over the square root of tokens, the newest first among equals.

        Dividing by the tokens themselves would prefer scraps, by nothing let one long text crowd out several good ones.
        """
        import numpy as np

        firsts = np.fromiter(scores, np.int64, len(scores))
        relevance = np.fromiter(scores.values(), np.float64, len(scores))
        sizes = np.maximum(1, np.array(self._held.tokens_of(scores), np.float64))
        newest = firsts if self._held.all_alone else np.array(self._held.lasts(scores))
        worst_first = np.lexsort((newest, relevance / np.sqrt(sizes)))
        best_first: list[int] = firsts[worst_first[::-1]].tolist()
        return best_first

    def _share(self, first: int, cap: int, told: Told) -> int:
        """Return what a unit takes of the twice `cap` tokens that are proposed.

        One that is larger than the cap, or that the query's block will not show for saying what one before it says, is
        proposed for the record alone: it keeps no room from those that fit.
        """
        weight = self._weight(first)
        item = self._held.known(first)
        if weight <= cap and (
            self._spec.placement == "static" or isinstance(item, EvictedItem) or not told.knows(item)
        ):
            return weight
        return min(weight, 1 + 2 * cap // RANK_SLACK)

    def _weight(self, first: int) -> int:
        return max(1, self._held.tokens(first))  # even the empty are so many at most

    def _candidates(
        self, firsts: Iterable[int], *, must: set[int], cuts: Collection[int], scores: Mapping[int, float]
    ) -> tuple[Candidate, ...]:
        past, candidates = self._held.past, []
        for rank, first in enumerate(firsts, 1):
            evicted = first in past
            items, offset, tokens = self._evicted_unit(first) if evicted else self._held.unit(first)
            is_orphan = past.is_orphan(first) if evicted else self._held.units.is_orphan(first)
            is_cut, is_must, score = first in cuts, first in must, scores.get(first)
            candidates.append(Candidate(items, first, offset, is_cut, is_must, is_orphan, rank, score, tokens, evicted))
        return tuple(candidates)

    def _evicted_unit(self, first: int) -> tuple[tuple[Item, ...], int, int]:
        """Return what was read of an evicted unit as `Holdings.unit` does, nothing taken before it."""
        past = self._held.past
        return tuple(item for item in past.known_unit(first) if isinstance(item, Item)), 0, past.tokens(first)
