"""The units that a section proposes for a window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice

from kaosmem.filters import MetadataFilter
from kaosmem.language.analysis import analyze
from kaosmem.language.duplicates import Told
from kaosmem.language.query import Query
from kaosmem.sections.holdings import Holdings, is_needed
from kaosmem.sections.importance import by_importance
from kaosmem.sections.lazy_index import Found, LazyIndex
from kaosmem.sections.past import EvictedItem
from kaosmem.sections.proposal import Candidate, Hit, Proposal, Stock
from kaosmem.sections.spec import SectionSpec
from kaosmem.sections.versions import KnownVersions, SectionCorrections, ShownVersions, tied
from kaosmem.types.content import unshown_chars
from kaosmem.types.items import Item, StoredItem

_RANK_SLACK = 256
"""How many more items are ranked than fit on average, since worth prefers the shorter ones."""

LABEL_TOKENS = 32
"""The most that a layout adds to an item, in general."""

_LOOKED_AT_FOR_ANSWERS = 256
"""Number of the newest items of a history that are looked at for an answer to users."""

_TO_READ = 1.25
"""So many tokens of evicted units are proposed for each token that recalled units may take.

Their texts must be read. Of units at hand it is 2.
"""


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of units for a query.

    of: by first ordinal. by_worth: the units in order of worth. are_all: whether no other unit has
        a score.
    signals: the parts of a unit's score; of several items, those of the best.
    """

    of: Mapping[int, float]
    by_worth: Sequence[int]
    signals: Callable[[int], Mapping[str, float]]
    are_all: bool = False

    @classmethod
    def of_units(cls, held: Holdings, found: Found, limit: int) -> _Scores:
        """Return the scores of units, each the sum over its items.

        Units of the query's periods without any of its words have no score. Their place is that of
        `found.newest`.
        """
        ranked = found.ranked.matches
        signals = found.ranked.signals
        scores: dict[int, float] = {}
        best_of: dict[int, int] = {}
        if held.all_alone:
            scores = dict(ranked)
        else:
            for first, (ordinal, score) in zip(
                held.firsts(ordinal for ordinal, _ in ranked), ranked, strict=True
            ):
                scores[first] = round(scores[first] + score, 9) if first in scores else score
                best_of.setdefault(first, ordinal)
        worth = _by_worth(held, scores)
        newest = held.firsts(found.newest)
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
    is_searched: whether a search has asked for evicted items, of which it finds those whose texts
        are at hand.
    """

    def __init__(self, spec: SectionSpec, held: Holdings, index: LazyIndex) -> None:
        self._spec = spec
        self._held = held
        self._index = index
        self._corrections = SectionCorrections(spec, held, index)
        self._scored: tuple[object, _Scores] = None, _UNRANKED  # of the last ranking
        self._known_versions: KnownVersions = {}
        self.is_searched = False

    def required_with(self, item: Item) -> list[Item]:
        """Return the items that a static section must show whole once it has this one, in order.

        None in other sections, whose items a context may shorten, and none for an item that need
        not be shown.
        """
        if self._spec.placement != "static" or not is_needed(self._spec, item):
            return []
        required = [
            each for first in sorted(self.required_units()) for each in self._held.unit(first)[0]
        ]
        kept = [
            each
            for each in required
            if each.id == item.id or each.key is None or each.key != item.key
        ]
        if not any(each.id == item.id for each in kept):
            return [*kept, item]
        return [item if each.id == item.id else each for each in kept]

    @property
    def newest_question(self) -> Item | None:
        """Return a history's newest item of role user with more than tool results."""
        ordinal = self._held.newest_question
        return None if ordinal is None else self._held[ordinal]

    def required_units(self) -> set[int]:
        """Return the first ordinals of the units that must be shown.

        These hold an item that must be shown for its own sake, and a history's newest question and
        newest unit.
        """
        held = self._held
        units = self._held.units
        must = {units.first(ordinal) for ordinal in held.needed}
        if self._spec.placement == "history":
            if held.newest_question is not None:
                must.add(units.first(held.newest_question))
            must |= {
                *islice((first for first in held.newest_first() if not units.is_orphan(first)), 1)
            }
        return {first for first in must if not units.is_orphan(first)}

    @property
    def unindexed(self) -> int:
        """Return how many changes the index lacks, 0 in a section that is never ranked."""
        return self._index.behind if self._spec.recalls or self._spec.placement == "query" else 0

    def lag(self, query: Query, *, cap: int, is_crowded: bool = True) -> int:
        """Return how many changes the index lacks, 0 if such a proposal does not rank."""
        return self._index.behind if self._ranks(query, cap, is_crowded=is_crowded) else 0

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
        archived: whether evicted items count, as far as their texts are at hand.
        """
        past = self._held.past
        self.is_searched = self.is_searched or archived
        with self._index.asking:
            wanted = None if wanted is None else self._held.narrowed(wanted)
            among = self._passing(wanted)
            if past and archived:
                among = None if among is None else {*among, *past}
            elif past and among is None:
                among = set(self._held)
            tried = limit
            while True:
                found = self._index.find(query, tried, among).scored(tried)
                hits = self._hits(found, wanted)
                if len(hits) >= limit or len(found) < tried:
                    return hits[:limit]
                tried *= 4  # some of them are not at hand, or may not be shown

    def _hits(self, found: Iterable[tuple[int, float]], wanted: MetadataFilter | None) -> list[Hit]:
        """Return the found items that are at hand; of several with one id, the live or best one."""
        held = self._held
        hits = list[Hit]()
        seen = set[str]()
        for ordinal, score in found:
            item = held.known(ordinal)
            is_live = ordinal in held
            if (
                isinstance(item, EvictedItem)
                or item.id in seen
                or (not is_live and item.id in held.ordinals)
            ):
                continue
            seen.add(item.id)
            if is_live or wanted is None or wanted(item.metadata):
                hits.append(Hit(item, score, self._spec.name, not is_live))
        return hits

    def place(self, query: Query, item_id: str) -> tuple[int, float] | tuple[None, None]:
        """Return the rank and the score of a live item among all that match a query.

        None: it does not match.
        """
        held = self._held
        first = held.units.first(held.ordinal(item_id))
        with self._index.asking:
            limit = len(held) + len(held.past) + 1
            found = self._index.find(query, limit)
            scores = self._by_importance(_Scores.of_units(held, found, limit))
        if first not in scores.of:
            return None, None
        return scores.by_worth.index(first) + 1, scores.of[first]

    def _ranks(self, query: Query, cap: int, *, is_crowded: bool) -> bool:
        """Return whether a proposal may ask the index; `is_crowded` as in `propose`."""
        held = self._held
        past = self._held.past
        if not (held or past):
            return False
        # Replaced versions come back to those facts alone that match the query.
        if query.past is not None and past.has_keys and self._spec.placement == "query":
            return True
        if self._spec.placement == "history":
            is_crowded = is_crowded or held.used + LABEL_TOKENS * (len(held) + 1) > cap
            return self._spec.recall > 0 and (len(past) > 0 or is_crowded)
        is_more = (
            is_crowded
            or len(held) + len(past) > self._spec.retrieval_threshold
            or self._spec.min_score > 0
        )
        return self._spec.placement == "query" and is_more

    def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
        is_crowded: bool = True,
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
        """
        is_history = self._spec.placement == "history"
        with self._index.asking:
            if wanted is not None and self._spec.placement != "static":
                wanted = self._held.narrowed(wanted)
                if wanted.passes_nothing and not is_history:
                    return Proposal((), unanswered=self._held.unanswered(wanted))
            is_ranked = self._ranks(query, cap, is_crowded=is_crowded)
            if is_history:
                return self._propose_history(query, cap, wanted, is_ranked)
            return self._propose(query, cap, wanted, is_ranked)

    def keep_texts(self, proposal: Proposal) -> None:
        """Let go of the texts that were read for a proposal and are not in it.

        Call it once nothing is left to be read: a text that a filter refuses would be read again
        for each proposal.
        """
        with self._index.asking:
            units = (*proposal.candidates, *proposal.earlier)
            self._held.past.keep_texts(unit.position for unit in units if unit.recalled)

    def _propose(
        self, query: Query, cap: int, wanted: MetadataFilter | None, is_ranked: bool
    ) -> Proposal:
        must = self.required_units()
        passing = None if self._spec.placement == "static" else self._passing(wanted)
        if passing is not None and must:
            must &= set(self._held.firsts(passing))
        scores = self._scores(query, cap, passing) if is_ranked else _UNRANKED
        versions = ShownVersions(self._held, self._known_versions, query.past, scores.of)
        ordered = versions.order(chain(scores.by_worth, self._newest_first(passing)))
        recallable = _recallable(self._held, ordered, wanted=wanted)
        best = _recallable(self._held, self._best_evicted(scores, versions), wanted=wanted)
        first_wanted = self._most_valuable(must, best, recallable, cap, passing)
        if unread := self._held.past.unread(first_wanted):
            return Proposal((), unread=unread)
        candidates = self._with_corrections(
            first_wanted, must, frozenset(), scores, versions, passing
        )
        live = sum(len(unit.items) for unit in candidates if not unit.recalled)
        unrelated: frozenset[int] = frozenset()
        if scores.are_all and query.has_topic:
            recent = islice(self._newest_first(passing), self._spec.recent)
            unrelated = _unrelated(candidates, {*must, *recent, *scores.by_worth})
        unanswered = ""
        if wanted is not None and passing is not None and not candidates:
            unanswered = self._held.unanswered(wanted)
        return Proposal(
            candidates,
            (),
            taken=self._held.taken,
            evicted=len(self._held.past),
            stock=self._stock(query if is_ranked else None),
            is_all=live == len(self._held) <= self._spec.retrieval_threshold,
            signals=scores.signals,
            unanswered=unanswered,
            unrelated=unrelated,
            offers_all=live == len(self._held if passing is None else passing),
        )

    def _best_evicted(self, scores: _Scores, versions: ShownVersions) -> Iterable[int]:
        """Return the best match with the units that it needs, if it comes before recent units.

        It does if it was evicted: the newest unit comes before it, the other recent ones after it.
        """
        if not scores.of or self._spec.recent <= 1:
            return ()
        best = max(scores.of, key=lambda first: (scores.of[first], first))
        return versions.order((best,)) if best in self._held.past else ()

    def _with_corrections(
        self,
        chosen: dict[int, None],
        must: set[int],
        cuts: Collection[int],
        scores: _Scores,
        versions: ShownVersions,
        passing: set[int] | None,
    ) -> tuple[Candidate, ...]:
        """Return candidates of the chosen units and of those that correct them.

        Args:
            chosen: First ordinals in order of want.
            must: The required units.
            cuts: The units that a history may be cut before.
            passing: The live items that the filter lets through, None for all.
        """
        corrected = self._corrections.find(chosen, scores.of, among=passing)
        chosen = chosen | dict.fromkeys(chain.from_iterable(corrected.values()))
        candidates = self._candidates(chosen, must=must, cuts=cuts, scores=scores.of)
        return tied(versions.labelled(candidates), corrected)

    def _most_valuable(
        self,
        must: set[int],
        best: Iterable[int],
        firsts: Iterable[int],
        cap: int,
        passing: set[int] | None,
    ) -> dict[int, None]:
        """Return the units that a question wants.

        These are the required ones, the newest one, the best match if it was evicted, the other
        recent ones, and then the first that fit. Evicted units have a room of their own.

        Args:
            must: The required units.
            best: The best match with the units that it needs, if it comes before recent units.
            firsts: The first ordinals of all units, in order of worth.
            passing: The live items that the filter lets through.
        """
        chosen = dict.fromkeys(sorted(must, key=self._held.units.last, reverse=True))
        recent = list(islice(self._newest_first(passing), self._spec.recent))
        chosen |= dict.fromkeys(recent[:1])
        for first in best:
            if first in self._held.past or _passes(passing, self._held.units.members(first)):
                chosen[first] = None
        chosen |= dict.fromkeys(recent)
        told = Told()
        room = int(self._spec.recall * cap)
        left = 2 * cap - sum(self._share(first, cap, told) for first in chosen)
        left_to_recall = _TO_READ * room
        for first in firsts:
            if left <= 0:
                break
            is_evicted = first in self._held.past
            # Evicted units were looked at where they are recalled.
            if first in chosen or not (
                is_evicted or _passes(passing, self._held.units.members(first))
            ):
                continue
            if is_evicted:
                if left_to_recall <= 0:
                    continue
                left_to_recall -= self._share(first, room, told)
            else:
                left -= self._share(first, cap, told)
            chosen[first] = None
        return chosen

    def is_passed(self, item_id: str, wanted: MetadataFilter | None) -> bool:
        """Return whether a filter lets a live item through."""
        if self._spec.placement == "static":
            return True
        with self._index.lock:
            passing = self._passing(wanted)
        return passing is None or self._held.ordinal(item_id) in passing

    def _passing(self, wanted: MetadataFilter | None) -> set[int] | None:
        """Return the ordinals of the live items that pass a filter; None without a filter."""
        return None if wanted is None else self._held.passing(self._held.narrowed(wanted))

    def _newest_first(self, passing: set[int] | None) -> Iterator[int]:
        if passing is None:
            yield from self._held.newest_first()
        else:
            yield from dict.fromkeys(self._held.firsts(sorted(passing, reverse=True)))

    def _propose_history(
        self, query: Query, cap: int, wanted: MetadataFilter | None, is_ranked: bool
    ) -> Proposal:
        must = self.required_units()
        walked, cuts, is_all = self._walk_back(must, 2 * cap)
        newest = dict.fromkeys([*sorted(must, key=self._held.units.last, reverse=True), *walked])
        passing = self._passing(wanted)
        scores = self._scores(query, cap, passing) if is_ranked else _UNRANKED
        versions = ShownVersions(self._held, self._known_versions, query.past, scores.of)
        is_refused = wanted is not None and wanted.passes_nothing
        is_found = bool(scores.by_worth) or not (scores.are_all and query.has_topic)
        recalls = is_ranked and is_found and not is_refused
        earlier = self._earlier(walked, must, cap, scores, versions, wanted) if recalls else {}
        if unread := self._held.past.unread(earlier):
            return Proposal((), unread=unread)
        before = self._with_corrections(earlier, must, cuts, scores, versions, passing)
        return Proposal(
            self._candidates(newest, must=must, cuts=cuts, scores={}),
            tuple(unit if unit.recalled else unit._replace(recalled=True) for unit in before),
            taken=self._held.taken,
            evicted=len(self._held.past),
            stock=self._stock(query if is_ranked else None),
            is_all=is_all,
            signals=scores.signals,
            is_answered=self._is_answered(),
        )

    def _is_answered(self) -> bool:
        """Return whether somebody other than a user has spoken among the newest items."""
        newest = islice(reversed(self._held), _LOOKED_AT_FOR_ANSWERS)
        return any(self._held[ordinal].shown_role != "user" for ordinal in newest)

    def _earlier(
        self,
        walked: Sequence[int],
        must: set[int],
        cap: int,
        scores: _Scores,
        versions: ShownVersions,
        wanted: MetadataFilter | None,
    ) -> dict[int, None]:
        """Return the units of a history that may be recalled, in order of worth.

        walked: its newest units.
        """
        passing = self._passing(wanted)
        held = self._held
        past = self._held.past
        room = int(self._spec.recall * cap)
        told = Told()
        weights = accumulate(map(self._weight, walked))
        near = {first for first, weight in zip(walked, weights, strict=True) if weight <= cap}
        newest_first = chain(held.newest_first(), past.newest_first())
        by_worth = versions.order(scores.best_first(near) if scores.of else newest_first)
        earlier: dict[int, None] = {}
        left: float = 2 * room
        for first in _recallable(held, by_worth, wanted=wanted):
            if left <= 0:
                break
            is_evicted = first in past
            if not is_evicted and not _passes(passing, held.units.members(first)):
                continue
            if first not in must and not held.is_orphan(first):
                earlier[first] = None
                share = 0 if first in near else self._share(first, room, told)
                left -= share * 2 / _TO_READ if is_evicted else share
        return earlier

    def _stock(self, query: Query | None) -> Stock:
        """Return all that the section could propose.

        query: one that was just ranked by, so that the index is there.
        """
        held = self._held
        past = self._held.past
        frequencies = None if query is None else self._index.frequencies(analyze(query.topic))
        return Stock(len(held) + len(past), held.used + past.used, frequencies)

    def _walk_back(self, must: set[int], weight: int) -> tuple[list[int], set[int], bool]:
        """Return the newest units until they weigh so much, legal cuts, and whether it is all.

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
                weight -= max(
                    1,
                    sum(_sure_tokens(self._held.undecoded(each)) for each in units.members(first)),
                )
                walked.append(first)
                reach = reach if first in must else min(reach, first)
            if first == ordinal <= reach:
                cuts.add(first)
        return walked, cuts, True

    def _scores(self, query: Query, cap: int, passing: set[int] | None = None) -> _Scores:
        """Return the scores of units for the query, and their order."""
        mean = max(1, self._held.used // max(1, len(self._held)))
        among = passing if passing is None or not self._held.past else {*passing, *self._held.past}
        limit = _RANK_SLACK + 2 * cap // mean
        found = self._index.find(query, limit, among)
        if query.past is None and self._held.past.has_keys and len(found.ranked.matches) == limit:
            is_replaced = ShownVersions(self._held, self._known_versions, None, {}).is_replaced
            # If replaced versions take that much of a ranking, current items may be missing.
            if 2 * sum(is_replaced(ordinal) for ordinal, _ in found.ranked.matches) > limit:
                every = {*self._held, *self._held.past} if among is None else among
                current = {ordinal for ordinal in every if not is_replaced(ordinal)}
                found = self._index.find(query, limit, current)
        if found.ranked is not self._scored[0]:  # as after the reading of the proposed texts
            self._scored = found.ranked, _Scores.of_units(self._held, found, limit)
        return self._by_importance(self._scored[1])

    def _by_importance(self, scores: _Scores) -> _Scores:
        """Return scores with the used ones first among units that match about as well."""
        if not self._held.usage.credited:
            return scores
        by_worth = by_importance(
            self._held,
            scores.by_worth,
            scores.of,
            lambda group: self._corrections.find(group, scores.of),
        )
        return replace(scores, by_worth=by_worth)

    def _share(self, first: int, cap: int, told: Told) -> int:
        """Return a unit's part of the twice `cap` tokens that are proposed.

        One that is larger than the cap, or that the query's block will not show for saying what one
        before it says, is proposed for the record alone: it takes no room from units that fit.
        """
        weight = self._weight(first)
        item = self._held.known(first)
        if weight <= cap and (
            self._spec.placement == "static"
            or isinstance(item, EvictedItem)
            or not told.knows(item)
        ):
            return weight
        return min(weight, 1 + 2 * cap // _RANK_SLACK)

    def _weight(self, first: int) -> int:
        return max(1, self._held.tokens(first))  # even the empty are so many at most

    def _candidates(
        self,
        firsts: Iterable[int],
        *,
        must: set[int],
        cuts: Collection[int],
        scores: Mapping[int, float],
    ) -> tuple[Candidate, ...]:
        candidates = []
        for rank, first in enumerate(firsts, 1):
            is_cut = first in cuts
            is_must = first in must
            candidates.append(self._candidate(first, rank, is_cut, is_must, scores.get(first)))
        return tuple(candidates)

    def _candidate(
        self, first: int, rank: int, is_cut: bool, is_must: bool, score: float | None
    ) -> Candidate:
        held = self._held
        past = held.past
        positions: tuple[int, ...] = ()
        is_evicted = first in past
        if is_evicted:
            items = tuple(item for item in past.known_unit(first) if isinstance(item, Item))
            tokens = past.tokens(first)
        else:
            items, tokens = held.unit(first)
            if len(items) > 1:
                positions = held.units.members(first)
        is_orphan = held.is_orphan(first)
        return Candidate(
            items,
            first,
            is_cut,
            is_must,
            is_orphan,
            rank,
            score,
            tokens,
            is_evicted,
            positions=positions,
        )


def _unrelated(candidates: Iterable[Candidate], related: Collection[int]) -> frozenset[int]:
    """Return the positions of the candidates that nothing in a query speaks for."""
    positions = set()
    for unit in candidates:
        if unit.position not in related and not unit.is_replaced and not unit.must:
            positions.add(unit.position)
    return frozenset(positions)


def _sure_tokens(item: Item | StoredItem | EvictedItem) -> int:
    """Return about how many tokens of an item every format shows: some leave thinking out."""
    if not isinstance(item, Item) or isinstance(item.content, str):
        return item.tokens
    unshown = unshown_chars(item.content)
    return item.tokens - item.tokens * unshown // max(1, len(item.text) + unshown)


def _by_worth(held: Holdings, scores: Mapping[int, float]) -> list[int]:
    """Return units in order of worth: score over the square root of tokens, newest first.

    Division by the tokens themselves would prefer scraps. Without a division, one long text would
    crowd out several good ones.
    """
    import numpy as np

    if held.all_alone:
        tokens = held.item_tokens(scores)
        lasts = list(scores)
    else:
        tokens = [held.tokens(first) for first in scores]
        lasts = [held.last(first) for first in scores]
    firsts = np.fromiter(scores, np.int64, len(scores))
    relevance = np.fromiter(scores.values(), np.float64, len(scores))
    sizes = np.maximum(1, np.array(tokens, np.float64))
    worst_first = np.lexsort(
        (np.fromiter(lasts, np.int64, len(scores)), relevance / np.sqrt(sizes))
    )
    best_first: list[int] = firsts[worst_first[::-1]].tolist()
    return best_first


def _passes(passing: set[int] | None, members: Iterable[int]) -> bool:
    """Return whether an item of a unit passes the filter, if there is one."""
    return passing is None or not passing.isdisjoint(members)


def _recallable(
    held: Holdings, firsts: Iterable[int], *, wanted: MetadataFilter | None = None
) -> Iterator[int]:
    """Yield the units that may be shown.

    Of units evicted under one id only the first is, and none whose id is live again.

    wanted: the filter that evicted items have to pass.
    """
    past = held.past
    evicted = set[str]()
    if not past:
        yield from firsts
        return
    for first in firsts:
        if items := past.known_unit(first):
            ids = [item.id for item in items]
            if not evicted.isdisjoint(ids) or any(map(held.ordinals.__contains__, ids)):
                continue
            # An item that is not read yet may pass: it is read since it is proposed.
            if wanted is not None and not any(
                isinstance(item, EvictedItem) or wanted(item.metadata) for item in items
            ):
                continue
            evicted.update(ids)
        yield first
