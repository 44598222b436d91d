"""The choice of units for one proposal: those that must be shown, the newest, then the best."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from math import sqrt

from kaosmem.filters import MetadataFilter
from kaosmem.language.duplicates import DuplicateFinder, part_of_room
from kaosmem.language.query import Query
from kaosmem.sections.archive import EvictedItem
from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.proposal import Candidate, Proposal, excerpt_tokens, is_found
from kaosmem.sections.ranking import DatedIndex, Scores, with_importance
from kaosmem.sections.versions import ShownVersions, find_corrections, in_order_of_time
from kaosmem.types.content import ToolUseBlock, unshown_chars
from kaosmem.types.items import Item, StoredItem
from kaosmem.units import Link

_EVICTED_SLACK = 1.25
"""Tokens of evicted units that are proposed for each token that recalled units may take.

Units at hand have 2. The texts of evicted ones must be read from files.
"""

_COMPARED_CALLS = 32
"""Among so many of the best units, those of the same calls are compared."""


@dataclass
class UnitSelection:
    """The choice of units for one proposal. Units are named by their first ordinals.

    Attributes:
        must: The units that must be shown.
        cap: The most tokens that the section may take of the window.
        wanted: The filter, which also evicted items have to pass.
        passing: The ordinals of the live items that the filter lets through, None for all.
        scores: The scores of the units that match the query.
        room: The tokens that recalled units may take.
    """

    held: ItemTable
    index: DatedIndex | None
    must: set[int]
    query: Query
    cap: int
    wanted: MetadataFilter | None
    passing: set[int] | None
    scores: Scores

    def __post_init__(self) -> None:
        self.spec = self.held.spec
        self.shown_before = DuplicateFinder()  # the texts that were proposed
        self.recalled: set[str] = set()  # the ids of the evicted items that were proposed
        self.versions = ShownVersions(self.held, self.query, self.scores.of)
        if self.passing is not None and self.spec.placement == "query":
            self.must &= set(self.held.units.firsts(self.passing))
        self.room = int(self.spec.recall * self.cap)
        self.newest_required = sorted(self.must, key=self.held.units.last, reverse=True)

    def propose_best(self) -> Proposal:
        """Return the proposal of a section that is no history."""
        held = self.held
        passing = self.passing
        chosen = self._most_valuable()
        candidates = self._with_corrections(chosen, frozenset())
        live = 0
        for unit in candidates:
            if not unit.recalled:
                live += len(unit.items)
        unanswered = ""
        if self.wanted is not None and not candidates:
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
        chosen = dict.fromkeys(self.newest_required)
        recent = list(islice(self._newest_first(), self.spec.recent))
        chosen |= dict.fromkeys(recent[:1])
        chosen |= dict.fromkeys(filter(self._may_show, self._best_evicted()))
        chosen |= dict.fromkeys(recent)
        left = 2 * self.cap
        for first in chosen:
            left -= self._part(first, self.cap)
        left_to_recall = _EVICTED_SLACK * self.room
        by_worth = chain(self.scores.by_worth, self._newest_first())
        for first in self.versions.order(by_worth):
            if left <= 0:
                break
            is_evicted = first in self.held.evicted
            if is_evicted and left_to_recall <= 0:
                continue
            if first in chosen or not self._may_show(first):
                continue
            if is_evicted:
                left_to_recall -= self._part(first, self.room)
            else:
                left -= self._part(first, self.cap)
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
        if best in self.held.evicted:
            return self.versions.order((best,))
        return ()

    def _unrelated(self, candidates: Iterable[Candidate]) -> frozenset[int]:
        """Return the positions of the candidates that nothing in the query speaks for."""
        if not self.scores.are_all or not self.query.has_topic:
            return frozenset()
        related = {*self.must, *islice(self._newest_first(), self.spec.recent)}
        related.update(self.scores.by_worth)
        positions = set()
        for unit in candidates:
            # A replaced version is related if the current one is, which it needs.
            shown_for = unit.needs if unit.is_replaced else ()
            if not unit.must and related.isdisjoint((unit.position, *shown_for)):
                positions.add(unit.position)
        return frozenset(positions)

    # A history.

    def propose_history(self, *, recalls: bool) -> Proposal:
        """Return the newest units of a history, and earlier ones beside them.

        Args:
            recalls: Earlier units may be recalled.
        """
        walked, cuts, is_all = self._walk_back(2 * self.cap)
        scores = self.scores
        is_found = bool(scores.by_worth) or not (scores.are_all and self.query.has_topic)
        earlier = self._earlier(walked) if recalls and is_found else {}
        newest = dict.fromkeys([*self.newest_required, *walked])
        before = self._with_corrections(earlier, cuts)
        return Proposal(
            self._candidates(newest, cuts, {}, {}),
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
        near = set()
        weight = 0
        tail = 0  # tokens of the newest units that fit beside the share for recall
        for first in walked:
            weight += max(1, held.tokens(first))
            if weight <= self.cap:
                near.add(first)
            if weight <= self.cap - self.room:
                tail = weight
        if self.scores.of:
            by_worth: Iterable[int] = self._last_call_first(
                self._excerpts_by_worth().best_first(near)
            )
        else:
            evicted = sorted(held.evicted, reverse=True)
            by_worth = chain(held.newest_first(), dict.fromkeys(held.units.firsts(evicted)))
        earlier: dict[int, None] = {}
        # Where the next message is too long for the tail, earlier ones take its room.
        left: float = 2 * (self.cap - tail)
        for first in self.versions.order(by_worth):
            if left <= 0:
                break
            if first in self.must or not self._may_show(first):
                continue
            earlier[first] = None
            if first not in near:
                part = min(self._part(first, self.room), excerpt_tokens(self.room))
                left -= part * 2 / _EVICTED_SLACK if first in held.evicted else part
        return earlier

    def _last_call_first(self, firsts: Iterable[int]) -> Iterator[int]:
        """Yield units in order, but the last of the same calls first where these match alike.

        A file that was read again has changed since, or says the same.
        """
        order = iter(firsts)
        best = [*islice(order, _COMPARED_CALLS)]
        made: dict[tuple[tuple[str, str], ...], list[int]] = {}
        alike: dict[int, list[int]] = {}
        for first in best:
            is_alone = self.held.units.is_alone(first)
            calls = () if is_alone else _calls(self.held.unit(first))
            same = made.setdefault(calls, []) if calls else []
            if not same or not is_found(self.scores.of.get(same[0]), self.scores.of.get(first)):
                same.append(first)
                alike[first] = same
        for same in made.values():
            same.sort()
        for first in best:
            yield alike[first].pop() if first in alike else first
        yield from order

    def _excerpts_by_worth(self) -> Scores:
        """Return the scores with long units in order of the worth of their excerpts."""
        scores = with_importance(self.held, self.scores.of)
        by_worth = self.scores.by_worth
        if by_worth[0] not in scores:  # the newest units of a period come first
            return self.scores
        limit = excerpt_tokens(self.room)

        def worth(first: int) -> float:
            return scores.get(first, 0.0) / sqrt(min(max(1, self.held.tokens(first)), limit))

        return replace(self.scores, by_worth=sorted(by_worth, key=worth, reverse=True))

    # Units in order.

    def _newest_first(self) -> Iterator[int]:
        """Yield the live units that pass the filter, newest first."""
        if self.passing is None:
            yield from self.held.newest_first()
        else:
            newest = sorted(self.passing, reverse=True)
            yield from dict.fromkeys(self.held.units.firsts(newest))

    def _may_show(self, first: int) -> bool:
        """Return whether a unit passes the filter, and if it was evicted, can be read.

        Of units evicted under one id only the newest match may be shown, and none whose id is live
        again.
        No results without a call are recalled in a history.
        """
        held = self.held
        members = held.units.members(first)
        if first not in held.evicted:
            if self.spec.is_history and held.units.is_orphan(first):
                return False
            return self.passing is None or not self.passing.isdisjoint(members)
        ids = {held.evicted[at].id for at in members}
        if not self.recalled.isdisjoint(ids) or not held.ordinals.keys().isdisjoint(ids):
            return False
        if any(self._newest_match.get(each, first) > first for each in ids):
            return False
        items = held.unit(first)
        if self.wanted is not None and not any(self.wanted(item.metadata) for item in items):
            return False
        if self.spec.is_history and all(Link.of(item).is_results for item in items):
            return False
        self.recalled |= ids
        return bool(items)

    @cached_property
    def _newest_match(self) -> dict[str, int]:
        """The newest of the matching units that were evicted, by the ids of their items."""
        held = self.held
        newest = {}
        for first in sorted(held.evicted.keys() & self.scores.of):
            for at in held.units.members(first):
                newest[held.evicted[at].id] = first
        return newest

    def _part(self, first: int, cap: int) -> int:
        """Return a unit's part of the twice `cap` tokens that are proposed."""
        return part_of_room(self.held.tokens(first), self.held.read(first), cap, self.shown_before)

    # Candidates.

    def _with_corrections(
        self, chosen: dict[int, None], cuts: Collection[int]
    ) -> tuple[Candidate, ...]:
        """Return candidates of the chosen units, which need their corrections, and of these.

        Args:
            cuts: The units that a history may be cut before.
        """
        scores = self.scores.of
        corrected = find_corrections(self.held, self.index, chosen, scores, among=self.passing)
        chosen = chosen | dict.fromkeys(chain.from_iterable(corrected.values()))
        units = self.versions.labelled(self._candidates(chosen, cuts, scores, corrected))
        if corrected:
            return in_order_of_time(units, corrected)
        return units

    def _candidates(
        self,
        firsts: Iterable[int],
        cuts: Collection[int],
        scores: Mapping[int, float],
        needs: Mapping[int, tuple[int, ...]],
    ) -> tuple[Candidate, ...]:
        held = self.held
        candidates = []
        for rank, first in enumerate(firsts, 1):
            items = held.unit(first)
            candidates.append(
                Candidate(
                    items,
                    first,
                    first in cuts,
                    first in self.must,
                    held.units.is_orphan(first),
                    rank,
                    scores.get(first),
                    held.tokens(first),
                    first in held.evicted,
                    needs.get(first, ()),
                    positions=held.units.members(first) if len(items) > 1 else (),
                )
            )
        return tuple(candidates)


def _calls(items: Iterable[Item]) -> tuple[tuple[str, str], ...]:
    """Return the names and arguments of the calls that items make, in order."""
    calls = []
    for item in items:
        if not isinstance(item.content, str):
            calls += [
                (block.name, block.arguments)
                for block in item.content
                if isinstance(block, ToolUseBlock)
            ]
    return tuple(calls)


def _sure_tokens(item: Item | StoredItem | EvictedItem) -> int:
    """Return about how many tokens of an item every format shows: some leave thinking out."""
    if not isinstance(item, Item) or isinstance(item.content, str):
        return item.tokens
    unshown = unshown_chars(item.content)
    return item.tokens - item.tokens * unshown // max(1, len(item.text) + unshown)
