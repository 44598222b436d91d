"""The units that a section proposes for a window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from kaosmem.filters import MetadataFilter
from kaosmem.language.duplicates import Told
from kaosmem.retrieval import Query, analyze
from kaosmem.sections.facets import Facets
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.newer import Newer
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.periods import find
from kaosmem.sections.proposal import Candidate, Proposal, Stock
from kaosmem.sections.recall import recallable
from kaosmem.sections.required import Required
from kaosmem.sections.scores import Scores, unit_scores
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.versions import ShownVersions
from kaosmem.types import Item, StoredItem, ThinkingBlock, block_text

_RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

LABEL_TOKENS = 32
"""The most that a layout adds to an item, in general."""

_TO_READ = 1.25
"""For each token that recalled units may take, so many tokens of evicted units are proposed, whose texts must be read.

Of units at hand it is 2.
"""

_READ_AT_ONCE = 4_096
"""How many evicted items are read at a time where the index lacks them."""


class Proposer:
    """Orders the units of one section by want. It is told of every change, and changes nothing itself."""

    def __init__(self, spec: SectionSpec, held: Holdings, index: LazyIndex) -> None:
        self._spec = spec
        self._held = held
        self._index = index
        self._facets = Facets(held)
        self._newer = Newer(spec, held, index)
        self._required = Required(spec, held)
        self._scored: tuple[object, Scores] = None, Scores()  # of the last ranking

    @property
    def newest_question(self) -> Item | None:
        """Return the newest item of role user with more than tool results, in a history."""
        return self._required.newest_question

    @property
    def required(self) -> list[Item]:
        """Return the items that must be shown, in order."""
        return [item for first in sorted(self._required.units()) for item in self._held.unit(first)[0]]

    def added(self, ordinal: int) -> None:
        """Note a new item."""
        self._required.note(ordinal)
        self._index.added((ordinal,))
        self._facets.added(ordinal)

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        self._required.note(ordinal)
        self._index.changed(ordinal)
        self._facets.changed(ordinal)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        self.evicted(ordinal)
        self._index.removed(ordinal)

    def evicted(self, ordinal: int) -> None:
        """Note that an item is held no more, but may be recalled."""
        self._required.drop(ordinal)
        self._facets.removed(ordinal)

    def forgotten(self, held: Iterable[int], past: Iterable[int]) -> None:
        """Note that items held so far, and evicted ones, are forgotten: nothing of them is kept."""
        for ordinal in held:
            self.removed(ordinal)
        for ordinal in past:
            self._index.removed(ordinal)
        self._facets.purge()

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

    def rank(self, query: Query, limit: int, *, wanted: MetadataFilter | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score) of held items that pass a filter, best first for a query.

        Items of the query's periods without any of its words come last, or first if no item of the periods has one.
        """
        passing = self.passing(wanted)
        if passing is None and self._held.past:
            passing = set(self._held)
        return find(self._index, query, limit, passing).scored(limit)

    def unindexed_evicted(self) -> list[EvictedItem]:
        """Return evicted items that have to be read before the index can have them, some at a time."""
        unread = self._index.unread(_READ_AT_ONCE)
        if unread:
            self._held.past.texts = {}  # of those read before: the index keeps none
        return unread

    def ranks(self, cap: int, *, is_crowded: bool) -> bool:
        """Return whether a proposal may ask the index; `is_crowded` as in `propose`."""
        held, past = self._held, self._held.past
        if self._spec.placement == "history":
            is_crowded = is_crowded or held.used + LABEL_TOKENS * (len(held) + 1) > cap
            return self._spec.recall > 0 and (len(past) > 0 or is_crowded)
        is_more = is_crowded or len(held) + len(past) > self._spec.retrieval_threshold
        return self._spec.placement == "query" and is_more

    def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None, is_crowded: bool = True
    ) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens, with all that must be shown.

        The units that must be shown come first, then the `recent` newest ones. The rest of a `query` section follows by
        worth, or newest first if there are few and all fit. The units of a history come newest first. `earlier` has
        the units that the query finds in it: the best-scored one that is far enough back to be cut off, then by worth.
        wanted: of a `query` section, propose only units with an item that passes.
        is_crowded: whether something may be left out of the window, so that the order of the units matters.
        """
        past = self._held.past
        is_ranked = self.ranks(cap, is_crowded=is_crowded) or self._asks_for_versions(query)
        if past and is_ranked and (unread := self.unindexed_evicted()):
            return Proposal((), unread=tuple(unread))
        is_history = self._spec.placement == "history"
        proposal = (
            self._propose_history(query, cap, is_ranked) if is_history else self._propose(query, cap, wanted, is_ranked)
        )
        if past and not proposal.unread:
            past.keep_texts(unit.position for unit in (*proposal.candidates, *proposal.earlier) if unit.recalled)
        return proposal

    def _asks_for_versions(self, query: Query) -> bool:
        """Return whether the query may bring replaced versions back, to those facts alone that match it."""
        return query.past is not None and self._held.past.has_keys and self._spec.placement == "query"

    def _propose(self, query: Query, cap: int, wanted: MetadataFilter | None, is_ranked: bool) -> Proposal:
        must = self._required.units()
        passing = self.passing(wanted)
        if passing is not None and must:
            must &= set(self._held.firsts(passing))
        scores = self._scores(query, cap, passing) if is_ranked else Scores()
        first_wanted = dict.fromkeys(sorted(must, key=self._held.units.last, reverse=True))
        first_wanted |= dict.fromkeys(islice(self._newest_first(passing), self._spec.recent))
        told, room = Told(), int(self._spec.recall * cap)
        left, left_to_recall = 2 * cap - sum(self._share(first, cap, told) for first in first_wanted), _TO_READ * room
        versions = ShownVersions(self._held, query.past, scores)
        ordered = versions.order(chain(scores.by_worth, self._newest_first(passing)))
        for first in recallable(self._held, ordered, wanted=None if passing is None else wanted):
            if left <= 0:
                break
            if first in first_wanted or not self._passes(first, passing):
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
        newer = self._newer.find(first_wanted, scores, among=passing)
        first_wanted |= dict.fromkeys(newer.units)
        candidates = versions.labelled(self._candidates(first_wanted, must=must, cuts=frozenset(), scores=scores))
        candidates = newer.tied(candidates)
        live = sum(len(unit.items) for unit in candidates if not unit.recalled)
        return Proposal(
            candidates,
            (),
            taken=self._held.taken,
            evicted=len(self._held.past),
            stock=self._stock(query if is_ranked else None),
            is_all=live == len(self._held) <= self._spec.retrieval_threshold,
            signals=scores.signals,
        )

    def passing(self, wanted: MetadataFilter | None) -> set[int] | None:
        """Return the ordinals of the items that pass a filter; None where it does not narrow the section.

        It narrows `query` sections in which some item has one of its fields.
        """
        return None if wanted is None or self._spec.placement != "query" else self._facets.passing(wanted)

    def _passes(self, first: int, passing: set[int] | None) -> bool:
        """Return whether a unit passes a filter; evicted units are looked at where they are recalled."""
        return passing is None or first in self._held.past or not passing.isdisjoint(self._held.units.members(first))

    def _newest_first(self, passing: set[int] | None) -> Iterator[int]:
        if passing is None:
            yield from self._held.newest_first()
        else:
            yield from dict.fromkeys(self._held.firsts(sorted(passing, reverse=True)))

    def _propose_history(self, query: Query, cap: int, is_ranked: bool) -> Proposal:
        must = self._required.units()
        walked, cuts, is_all = self._walk_back(must, 2 * cap)
        wanted = dict.fromkeys([*sorted(must, key=self._held.units.last, reverse=True), *walked])
        near, weight = set(), 0
        for first in walked:
            weight += self._weight(first)
            if weight > cap:
                break
            near.add(first)
        scores, stock = Scores(), self._stock(None)
        versions = ShownVersions(self._held, query.past, {})
        earlier: dict[int, None] = {}
        if is_ranked:
            scores, stock = self._scores(query, cap), self._stock(query)
            versions = ShownVersions(self._held, query.past, scores)
            room = int(self._spec.recall * cap)
            left: float = 2 * room
            told = Told()
            newest_first = chain(self._held.newest_first(), self._held.past.newest_first())
            by_worth = versions.order(scores.best_first(near) if scores else newest_first)
            for first in recallable(self._held, by_worth):
                if left <= 0:
                    break
                if first not in must and not self._is_orphan(first):
                    earlier[first] = None
                    share = 0 if first in near else self._share(first, room, told)
                    left -= share * 2 / _TO_READ if first in self._held.past else share
        if unread := self._held.past.unread(earlier):
            return Proposal((), unread=unread)
        newer = self._newer.find(earlier, scores)
        earlier |= dict.fromkeys(newer.units)
        before = versions.labelled(self._candidates(earlier, must=must, cuts=cuts, scores=scores))
        before = newer.tied(before)
        return Proposal(
            self._candidates(wanted, must=must, cuts=cuts, scores={}),
            tuple(unit if unit.recalled else unit._replace(recalled=True) for unit in before),
            taken=self._held.taken,
            evicted=len(self._held.past),
            stock=stock,
            is_all=is_all,
            signals=scores.signals,
        )

    def _stock(self, query: Query | None) -> Stock:
        """Return all that the section could propose. query: one that was just ranked by, so that the index is there."""
        held, past = self._held, self._held.past
        frequencies = None if query is None else self._index.frequencies(analyze(query.topic))
        return Stock(len(held) + len(past), held.used + past.used, frequencies)

    def _is_orphan(self, first: int) -> bool:
        past = self._held.past
        return past.is_orphan(first) if first in past else self._held.units.is_orphan(first)

    def _walk_back(self, must: set[int], weight: int) -> tuple[list[int], set[int], bool]:
        """Return the newest units until they weigh so much, those with a legal cut before them, and whether it is all.

        A cut is legal where no unit but those shown anyway has items on both sides.
        """
        units = self._held.units
        walked: list[int] = []
        cuts: set[int] = set()
        reach = self._held.taken
        for ordinal in reversed(self._held):
            first = units.first(ordinal)
            if units.last(ordinal) == ordinal:
                if weight <= 0 and first not in must:
                    return walked, cuts, False
                weight -= max(1, sum(_sure_tokens(self._held.as_stored(each)) for each in units.members(first)))
                walked.append(first)
                reach = reach if first in must else min(reach, first)
            if first == ordinal <= reach:
                cuts.add(first)
        return walked, cuts, True

    def _scores(self, query: Query, cap: int, passing: set[int] | None = None) -> Scores:
        """Return the scores of units for the query, and their order."""
        mean = max(1, self._held.used // max(1, len(self._held)))
        among = passing if passing is None or not self._held.past else {*passing, *self._held.past}
        limit = _RANK_SLACK + 2 * cap // mean
        found = find(self._index, query, limit, among)
        if query.past is None and self._are_crowded_out(found.ranked, limit):
            found = find(self._index, query, limit, self._current(among))
        if found.ranked is not self._scored[0]:  # as after the reading of the proposed texts
            self._scored = found.ranked, unit_scores(self._held, found)
        return self._scored[1]

    def _are_crowded_out(self, ranked: Sequence[tuple[int, float]], limit: int) -> bool:
        """Return whether replaced versions take so much of a ranking that current items may be missing."""
        if not self._held.past.has_keys or len(ranked) < limit:
            return False
        versions = ShownVersions(self._held, None, {})
        return 2 * sum(versions.is_replaced(ordinal) for ordinal, _ in ranked) > limit

    def _current(self, among: set[int] | None) -> set[int]:
        """Return the ordinals of all items that may be recalled or are live, without replaced versions."""
        versions = ShownVersions(self._held, None, {})
        every = {*self._held, *self._held.past} if among is None else among
        return {ordinal for ordinal in every if not versions.is_replaced(ordinal)}

    def _share(self, first: int, cap: int, told: Told) -> int:
        """Return a unit's part of the twice `cap` tokens that are proposed.

        One that is larger than the cap, or that the query's block will not show for saying what one before it says, is
        proposed for the record alone: it keeps no room from those that fit.
        """
        weight = self._weight(first)
        item = self._held.known(first)
        if weight <= cap and (
            self._spec.placement == "static" or isinstance(item, EvictedItem) or not told.knows(item)
        ):
            return weight
        return min(weight, 1 + 2 * cap // _RANK_SLACK)

    def _weight(self, first: int) -> int:
        return max(1, self._held.tokens(first))  # even the empty are so many at most

    def _candidates(
        self, firsts: Iterable[int], *, must: set[int], cuts: Collection[int], scores: Mapping[int, float]
    ) -> tuple[Candidate, ...]:
        past, candidates = self._held.past, []
        for rank, first in enumerate(firsts, 1):
            evicted = first in past
            items, tokens = self._evicted_unit(first) if evicted else self._held.unit(first)
            is_orphan = past.is_orphan(first) if evicted else self._held.units.is_orphan(first)
            is_cut, is_must, score = first in cuts, first in must, scores.get(first)
            candidates.append(Candidate(items, first, is_cut, is_must, is_orphan, rank, score, tokens, evicted))
        return tuple(candidates)

    def _evicted_unit(self, first: int) -> tuple[tuple[Item, ...], int]:
        """Return an evicted unit that was read as `Holdings.unit` does."""
        past = self._held.past
        return tuple(item for item in past.known_unit(first) if isinstance(item, Item)), past.tokens(first)


def _sure_tokens(item: Item | StoredItem) -> int:
    """Return about how many tokens of an item every format shows: some leave thinking out."""
    if isinstance(item, StoredItem) or isinstance(item.content, str):
        return item.tokens
    thinking = sum(len(block_text(block)) for block in item.content if isinstance(block, ThinkingBlock))
    return item.tokens - item.tokens * thinking // max(1, len(item.text))
