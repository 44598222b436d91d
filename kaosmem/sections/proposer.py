"""The units that a section proposes for a window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from kaosmem.filters import MetadataFilter
from kaosmem.language.analysis import analyze
from kaosmem.language.duplicates import Told
from kaosmem.language.query import Query
from kaosmem.sections.archive import EvictedItem
from kaosmem.sections.item_table import ItemTable, is_needed
from kaosmem.sections.lazy_index import Found, LazyIndex
from kaosmem.sections.proposal import Candidate, Hit, Proposal, Stock
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.versions import SectionCorrections, ShownVersions, tied
from kaosmem.types.content import unshown_chars
from kaosmem.types.items import Item, StoredItem
from kaosmem.types.outcomes import Outcomes

_RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

LABEL_TOKENS = 32
"""The most that a layout adds to an item, in general."""

_MOST_IMPORTANT = 3
_IMPORTANCE_BASE = 29
"""The score of a unit is multiplied by the sum of this number and its importance, from -1 to 3.

So importance changes the order of two units if the better one is at most an eighth better.
"""

_TO_READ = 1.25
"""So many tokens of evicted units are proposed for each token that recalled units may take.

Their texts must be read. Of units at hand it is 2.
"""


@dataclass(frozen=True, slots=True)
class _Scores:
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
    def of_units(cls, held: ItemTable, found: Found, limit: int) -> _Scores:
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
        worth = _by_worth(held, _with_importance(held, scores))
        newest = held.units.firsts(found.newest)
        by_worth = [
            *dict.fromkeys((*newest, *worth) if found.are_newest_first else (*worth, *newest))
        ]
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


_UNRANKED = _Scores({}, (), lambda _: {})
"""The scores of a section that the query does not rank."""


class Proposer:
    """Orders the units of one section for a proposal, and changes nothing.

    Its public methods wait while another thread asks or changes the index.

    Attributes:
        spec, held, corrections: The section's own.
        is_searched: A search has asked for evicted items. It finds those whose texts are at hand.
    """

    def __init__(self, spec: SectionSpec, held: ItemTable, index: LazyIndex) -> None:
        self.spec = spec
        self.held = held
        self._index = index
        self.corrections = SectionCorrections(spec, held, index)
        self.is_searched = False

    # Required items.

    def required_with(self, item: Item) -> list[Item]:
        """Return the items that a static section must show whole once it has this one, in order.

        Return none for other sections, whose items a context may shorten, and none for an item that
        need not be shown.
        """
        if self.spec.placement != "static" or not is_needed(self.spec, item):
            return []
        kept = []
        is_new = True
        for first in sorted(self.required_units()):
            for each in self.held.unit(first)[0]:
                if each.id == item.id:
                    kept.append(item)
                    is_new = False
                elif each.key is None or each.key != item.key:
                    kept.append(each)
        return [*kept, item] if is_new else kept

    @property
    def newest_question(self) -> Item | None:
        """Return a history's newest item of role user with more than tool results."""
        ordinal = self.held.newest_question
        return None if ordinal is None else self.held[ordinal]

    def required_units(self) -> set[int]:
        """Return the first ordinals of the units that must be shown.

        These hold an item that must be shown for its own sake, and a history's newest question and
        newest unit.
        """
        held = self.held
        units = held.units
        must = set(units.firsts(held.needed))
        if self.spec.is_history:
            if held.newest_question is not None:
                must.add(units.first(held.newest_question))
            for first in held.newest_first():
                if not units.is_orphan(first):
                    must.add(first)
                    break
        return {first for first in must if not units.is_orphan(first)}

    # The index.

    @property
    def unindexed(self) -> int:
        """Return how many changes the index lacks, 0 in a section that is never ranked."""
        return self._index.behind if self.spec.recalls or self.spec.placement == "query" else 0

    def _ranks(self, query: Query, cap: int, *, is_crowded: bool) -> bool:
        """Return whether a proposal may ask the index; `is_crowded` as in `propose`."""
        spec = self.spec
        held = self.held
        evicted = len(held.evicted)
        if not held and not evicted:
            return False
        if spec.is_history:
            is_crowded = is_crowded or held.used + LABEL_TOKENS * (len(held) + 1) > cap
            return spec.recall > 0 and (evicted > 0 or is_crowded)
        if spec.placement == "static":
            return False
        # Replaced versions come back to those facts alone that match the query.
        if query.past is not None and held.has_evicted_keys:
            return True
        is_more = len(held) + evicted > spec.retrieval_threshold
        return is_crowded or is_more or spec.min_score > 0

    def _scores(self, query: Query, cap: int, passing: set[int] | None) -> _Scores:
        """Return the scores of units for the query, and their order."""
        held = self.held
        mean = max(1, held.used // max(1, len(held)))
        among = passing
        if passing is not None and held.evicted:
            among = {*passing, *held.evicted}
        limit = _RANK_SLACK + 2 * cap // mean
        found = self._index.find(query, limit, among)
        if query.past is None and held.has_evicted_keys and len(found.ranked.matches) == limit:
            is_replaced = ShownVersions(held, None, {}).is_replaced
            # If replaced versions take that much of a ranking, current items may be missing.
            if 2 * sum(is_replaced(ordinal) for ordinal, _ in found.ranked.matches) > limit:
                every = {*held, *held.evicted} if among is None else among
                current = {ordinal for ordinal in every if not is_replaced(ordinal)}
                found = self._index.find(query, limit, current)
        return _Scores.of_units(held, found, limit)

    # Searching.

    def search(
        self,
        query: Query,
        limit: int,
        *,
        wanted: MetadataFilter | None = None,
        archived: bool = True,
    ) -> list[Hit]:
        """Return at most `limit` items that pass a filter, best first.

        Items of the query's periods without any of its words come last, or first if no item of the
        periods has one.

        Args:
            archived: Evicted items count, as far as their texts are at hand.
        """
        evicted = self.held.evicted
        self.is_searched = self.is_searched or archived
        with self._index.asking:
            wanted = None if wanted is None else self.held.narrowed(wanted)
            among = self._passing(wanted)
            if evicted and archived:
                among = None if among is None else {*among, *evicted}
            elif evicted and among is None:
                among = set(self.held)
            tried = limit
            while True:
                found = self._index.find(query, tried, among).scored(tried)
                hits = self._hits(found, wanted)
                if len(hits) >= limit or len(found) < tried:
                    return hits[:limit]
                tried *= 4  # some of them are not at hand, or may not be shown

    def _hits(self, found: Iterable[tuple[int, float]], wanted: MetadataFilter | None) -> list[Hit]:
        """Return the found items that are at hand; of several with one id, the live or best one."""
        held = self.held
        hits = []
        seen: set[str] = set()
        for ordinal, score in found:
            item = held.known(ordinal)
            is_live = ordinal in held
            if isinstance(item, EvictedItem) or item.id in seen:
                continue
            if not is_live and item.id in held.ordinals:
                continue
            seen.add(item.id)
            if is_live or wanted is None or wanted(item.metadata):
                hits.append(Hit(item, score, self.spec.name, not is_live))
        return hits

    def place(self, query: Query, item_id: str) -> tuple[int, float] | tuple[None, None]:
        """Return the rank and the score of a live item among all that match a query.

        Return None for both if it does not match.
        """
        held = self.held
        first = held.units.first(held.ordinal(item_id))
        with self._index.asking:
            limit = len(held) + len(held.evicted) + 1
            found = self._index.find(query, limit)
            scores = _Scores.of_units(held, found, limit)
        if first not in scores.of:
            return None, None
        return scores.by_worth.index(first) + 1, scores.of[first]

    def is_passed(self, item_id: str, wanted: MetadataFilter | None) -> bool:
        """Return whether a filter lets a live item through."""
        if self.spec.placement == "static":
            return True
        with self._index.lock:
            passing = self._passing(wanted)
        return passing is None or self.held.ordinal(item_id) in passing

    def _passing(self, wanted: MetadataFilter | None) -> set[int] | None:
        """Return the ordinals of the live items that pass a filter; None without a filter."""
        return None if wanted is None else self.held.passing(self.held.narrowed(wanted))

    # Proposing.

    def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
        is_crowded: bool = True,
        may_index: bool = True,
    ) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens.

        The units that must be shown come first, then the `recent` newest ones. The rest of a
        `query` section follows by worth, or newest first if there are few and all fit. The units
        of a history come newest first. `earlier` has the units that the query finds in it: the
        best-scored one that is far enough back to be cut off, then by worth.

        Args:
            cap: The most tokens that the section may take of the window.
            wanted: Propose only units with an item that passes. The newest messages of a history
                need not pass.
            is_crowded: Whether something may be left out of the window, so that the order of the
                units matters.
            may_index: Many changes are indexed here, if the index lacks them. Otherwise the
                proposal says that it is behind.
        """
        held = self.held
        is_ranked = self._ranks(query, cap, is_crowded=is_crowded)
        if is_ranked and not may_index and self._index.lag:
            return Proposal((), is_behind=True)
        with self._index.asking:
            if wanted is not None and self.spec.placement != "static":
                wanted = held.narrowed(wanted)
                if wanted.passes_nothing and not self.spec.is_history:
                    return Proposal((), unanswered=held.unanswered(wanted))
            passing = None if self.spec.placement == "static" else self._passing(wanted)
            scores = self._scores(query, cap, passing) if is_ranked else _UNRANKED
            selection = _Selection(self, query, cap, wanted, passing, scores)
            proposal = selection.propose(recalls=is_ranked)
            if proposal.is_incomplete:
                return proposal
            return replace(
                proposal,
                taken=held.taken,
                evicted=len(held.evicted),
                stock=self._stock(query if is_ranked else None),
                signals=selection.scores.signals,
            )

    def _stock(self, query: Query | None) -> Stock:
        """Return all that the section could propose.

        Args:
            query: A query that was just ranked by, so that the index is there.
        """
        held = self.held
        frequencies = None if query is None else self._index.frequencies(analyze(query.topic))
        items = len(held) + len(held.evicted)
        return Stock(items, held.used + held.evicted_used, frequencies)

    def keep_texts(self, proposal: Proposal) -> None:
        """Let go of the texts that were read for a proposal and are not in it.

        Call it once nothing is left to be read: a text that a filter refuses would be read again
        for each proposal.
        """
        with self._index.asking:
            units = (*proposal.candidates, *proposal.earlier)
            self.held.keep_texts(unit.position for unit in units if unit.recalled)


class _Selection:
    """The choice of units for one proposal. Units are named by their first ordinals.

    Args:
        cap: The most tokens that the section may take of the window.
        wanted: The filter, which also evicted items have to pass.
        passing: The ordinals of the live items that the filter lets through, None for all.
        scores: The scores of the units that match the query.

    Attributes:
        must: The units that must be shown.
        told: The texts that were proposed.
    """

    def __init__(
        self,
        proposer: Proposer,
        query: Query,
        cap: int,
        wanted: MetadataFilter | None,
        passing: set[int] | None,
        scores: _Scores,
    ) -> None:
        self.spec = proposer.spec
        self.held = proposer.held
        self.corrections = proposer.corrections
        self.query = query
        self.cap = cap
        self.wanted = wanted
        self.passing = passing
        self.scores = scores
        self.told = Told()
        self.versions = ShownVersions(self.held, query.past, scores.of)
        self.must = proposer.required_units()
        if passing is not None and self.spec.placement == "query":
            self.must &= set(self.held.units.firsts(passing))

    def propose(self, *, recalls: bool) -> Proposal:
        """Return the proposal, or the evicted items that must be read for it.

        Args:
            recalls: Earlier units of a history may be recalled.
        """
        if self.spec.is_history:
            return self._propose_history(recalls=recalls)
        return self._propose_best()

    # A section that is no history.

    def _propose_best(self) -> Proposal:
        held = self.held
        passing = self.passing
        chosen = self._most_valuable()
        unread = self._unread(chosen)
        if unread:
            return Proposal((), unread=unread)
        candidates = self._with_corrections(chosen, frozenset())
        live = 0
        for unit in candidates:
            if not unit.recalled:
                live += len(unit.items)
        unanswered = ""
        if self.wanted is not None and passing is not None and not candidates:
            unanswered = held.unanswered(self.wanted)
        return Proposal(
            candidates,
            is_all=live == len(held) <= self.spec.retrieval_threshold,
            unanswered=unanswered,
            unrelated=self._unrelated(candidates),
            offers_all=live == len(held if passing is None else passing),
        )

    def _most_valuable(self) -> dict[int, None]:
        """Return the units that a question wants.

        These are the required ones, the newest one, the best match if it was evicted, the other
        recent ones, and then the first that fit. Evicted units have a room of their own.
        """
        chosen = dict.fromkeys(self._newest_required())
        recent = list(islice(self._newest_first(), self.spec.recent))
        chosen |= dict.fromkeys(recent[:1])
        chosen |= dict.fromkeys(self._offered(self._best_evicted()))
        chosen |= dict.fromkeys(recent)
        room = int(self.spec.recall * self.cap)
        left = 2 * self.cap
        for first in chosen:
            left -= self._part(first, self.cap)
        left_to_recall = _TO_READ * room
        by_worth = chain(self.scores.by_worth, self._newest_first())
        for first in self._offered(self.versions.order(by_worth)):
            if left <= 0:
                break
            if first in chosen:
                continue
            if first not in self.held.evicted:
                left -= self._part(first, self.cap)
            elif left_to_recall <= 0:
                continue
            else:
                left_to_recall -= self._part(first, room)
            chosen[first] = None
        return chosen

    def _best_evicted(self) -> Iterable[int]:
        """Return the best match with the units that it needs, if it comes before recent units.

        It does if it was evicted: the newest unit comes before it, the other recent ones after it.
        """
        scores = self.scores.of
        if not scores or self.spec.recent <= 1:
            return ()
        best = max(scores, key=lambda first: (scores[first], first))
        return self.versions.order((best,)) if best in self.held.evicted else ()

    def _unrelated(self, candidates: Iterable[Candidate]) -> frozenset[int]:
        """Return the positions of the candidates that nothing in the query speaks for."""
        if not self.scores.are_all or not self.query.has_topic:
            return frozenset()
        related = {*self.must, *islice(self._newest_first(), self.spec.recent)}
        related.update(self.scores.by_worth)
        positions = set()
        for unit in candidates:
            if unit.position not in related and not unit.is_replaced and not unit.must:
                positions.add(unit.position)
        return frozenset(positions)

    # A history.

    def _propose_history(self, *, recalls: bool) -> Proposal:
        """Return the newest units of a history, and earlier ones beside them."""
        walked, cuts, is_all = self._walk_back(2 * self.cap)
        scores = self.scores
        is_refused = self.wanted is not None and self.wanted.passes_nothing
        is_found = bool(scores.by_worth) or not (scores.are_all and self.query.has_topic)
        earlier = self._earlier(walked) if recalls and is_found and not is_refused else {}
        unread = self._unread(earlier)
        if unread:
            return Proposal((), unread=unread)
        newest = dict.fromkeys([*self._newest_required(), *walked])
        before = self._with_corrections(earlier, cuts)
        return Proposal(
            self._candidates(newest, cuts, {}),
            tuple(unit._replace(recalled=True) for unit in before),
            is_all=is_all,
        )

    def _walk_back(self, weight: int) -> tuple[list[int], set[int], bool]:
        """Return the newest units until they weigh so much, legal cuts, and whether it is all.

        A cut is legal where no unit but those shown anyway has items on both sides.
        """
        held = self.held
        units = held.units
        walked: list[int] = []
        cuts: set[int] = set()
        reach = held.taken
        for ordinal in reversed(held):
            first = units.first(ordinal)
            if units.last(ordinal) == ordinal:
                if weight <= 0 and first not in self.must:
                    return walked, cuts, False
                sure = 0
                for each in units.members(first):
                    sure += _sure_tokens(held.undecoded(each))
                weight -= max(1, sure)
                walked.append(first)
                reach = reach if first in self.must else min(reach, first)
            if first == ordinal <= reach:
                cuts.add(first)
        return walked, cuts, True

    def _earlier(self, walked: Sequence[int]) -> dict[int, None]:
        """Return the units that may be recalled, in order of worth.

        Args:
            walked: The newest units of the history.
        """
        held = self.held
        room = int(self.spec.recall * self.cap)
        near = set()
        weight = 0
        for first in walked:
            weight += self._weight(first)
            if weight <= self.cap:
                near.add(first)
        by_worth: Iterable[int] = chain(held.newest_first(), held.newest_evicted_first())
        if self.scores.of:
            by_worth = self.scores.best_first(near)
        earlier: dict[int, None] = {}
        left: float = 2 * room
        for first in self._offered(self.versions.order(by_worth)):
            if left <= 0:
                break
            if first in self.must or held.units.is_orphan(first):
                continue
            earlier[first] = None
            if first not in near:
                part = self._part(first, room)
                left -= part * 2 / _TO_READ if first in held.evicted else part
        return earlier

    # Units in order.

    def _unread(self, firsts: Iterable[int]) -> tuple[EvictedItem, ...]:
        """Return the items of these units whose texts are in files and must be read first."""
        evicted = filter(self.held.evicted.__contains__, firsts)
        return self.held.without_text(chain.from_iterable(map(self.held.units.members, evicted)))

    def _newest_required(self) -> list[int]:
        return sorted(self.must, key=self.held.units.last, reverse=True)

    def _newest_first(self) -> Iterator[int]:
        """Yield the live units that pass the filter, newest first."""
        if self.passing is None:
            yield from self.held.newest_first()
        else:
            newest = sorted(self.passing, reverse=True)
            yield from dict.fromkeys(self.held.units.firsts(newest))

    def _offered(self, firsts: Iterable[int]) -> Iterator[int]:
        """Yield the units that may be shown: live ones, and evicted ones, that pass the filter.

        Of units evicted under one id only the first is offered, and none whose id is live again.
        """
        held = self.held
        if not held.evicted and self.passing is None:
            yield from firsts
            return
        evicted: set[str] = set()
        for first in firsts:
            if first not in held.evicted:
                members = held.units.members(first)
                if self.passing is None or not self.passing.isdisjoint(members):
                    yield first
                continue
            items = held.evicted_unit(first)
            ids = [item.id for item in items]
            if not evicted.isdisjoint(ids) or not held.ordinals.keys().isdisjoint(ids):
                continue
            if self._may_pass(items):
                evicted.update(ids)
                yield first

    def _may_pass(self, items: Iterable[Item | EvictedItem]) -> bool:
        """Return whether an evicted unit passes the filter, or may do so once it is read."""
        if self.wanted is None:
            return True
        return any(isinstance(item, EvictedItem) or self.wanted(item.metadata) for item in items)

    def _part(self, first: int, cap: int) -> int:
        """Return a unit's part of the twice `cap` tokens that are proposed.

        A unit that is larger than the cap, or says the same as one before it, is proposed for the
        record alone: it takes no room from units that fit.
        """
        weight = self._weight(first)
        item = self.held.known(first)
        if weight <= cap:
            is_static = self.spec.placement == "static"
            if is_static or isinstance(item, EvictedItem) or not self.told.knows(item):
                return weight
        return min(weight, 1 + 2 * cap // _RANK_SLACK)

    def _weight(self, first: int) -> int:
        return max(1, self.held.tokens(first))  # even the empty are so many at most

    # Candidates.

    def _with_corrections(
        self, chosen: dict[int, None], cuts: Collection[int]
    ) -> tuple[Candidate, ...]:
        """Return candidates of the chosen units and of those that correct them.

        Args:
            cuts: The units that a history may be cut before.
        """
        scores = self.scores.of
        corrected = self.corrections.find(chosen, scores, among=self.passing)
        chosen = chosen | dict.fromkeys(chain.from_iterable(corrected.values()))
        return tied(self.versions.labelled(self._candidates(chosen, cuts, scores)), corrected)

    def _candidates(
        self, firsts: Iterable[int], cuts: Collection[int], scores: Mapping[int, float]
    ) -> tuple[Candidate, ...]:
        held = self.held
        candidates = []
        for rank, first in enumerate(firsts, 1):
            positions: tuple[int, ...] = ()
            if first in held.evicted:
                known = held.evicted_unit(first)
                items = tuple(item for item in known if isinstance(item, Item))
                tokens = held.tokens(first)
            else:
                items, tokens = held.unit(first)
                if len(items) > 1:
                    positions = held.units.members(first)
            candidates.append(
                Candidate(
                    items,
                    first,
                    first in cuts,
                    first in self.must,
                    held.units.is_orphan(first),
                    rank,
                    scores.get(first),
                    tokens,
                    first in held.evicted,
                    positions=positions,
                )
            )
        return tuple(candidates)


def _sure_tokens(item: Item | StoredItem | EvictedItem) -> int:
    """Return about how many tokens of an item every format shows: some leave thinking out."""
    if not isinstance(item, Item) or isinstance(item.content, str):
        return item.tokens
    unshown = unshown_chars(item.content)
    return item.tokens - item.tokens * unshown // max(1, len(item.text) + unshown)


def _with_importance(held: ItemTable, scores: Mapping[int, float]) -> Mapping[int, float]:
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


def _by_worth(held: ItemTable, scores: Mapping[int, float]) -> list[int]:
    """Return units in order of worth: score over the square root of tokens, newest first.

    Division by the tokens themselves would prefer scraps. Without a division, one long text would
    crowd out several good ones.
    """
    import numpy as np

    if not held.units.are_tied:
        tokens = held.item_tokens(scores)
        lasts = list(scores)
    else:
        tokens = [held.tokens(first) for first in scores]
        lasts = [held.units.last(first) for first in scores]
    firsts = np.fromiter(scores, np.int64, len(scores))
    relevance = np.fromiter(scores.values(), np.float64, len(scores))
    sizes = np.maximum(1, np.array(tokens, np.float64))
    worst_first = np.lexsort(
        (np.fromiter(lasts, np.int64, len(scores)), relevance / np.sqrt(sizes))
    )
    best_first: list[int] = firsts[worst_first[::-1]].tolist()
    return best_first
