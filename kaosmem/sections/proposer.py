"""The units that a section proposes for a window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import filterfalse

from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.sections.item_table import ItemTable, is_needed
from kaosmem.sections.lazy_index import LazyIndex
from kaosmem.sections.named_lines import with_named_lines
from kaosmem.sections.proposal import CandidatePool, Hit, Proposal
from kaosmem.sections.ranking import RANK_SLACK, UNRANKED, DatedIndex, Scores
from kaosmem.sections.selection import UnitSelection
from kaosmem.sections.versions import ShownVersions
from kaosmem.types.items import Item

LABEL_TOKENS = 32
"""The most that a layout adds to an item, in general."""


class Proposer:
    """Orders the units of one section for a proposal, and changes nothing.

    Its public methods wait while another thread asks or changes the index.

    Attributes:
        spec, held: The section's own.
        is_searched: A search has asked for evicted items.
    """

    def __init__(self, held: ItemTable, index: LazyIndex) -> None:
        self.spec = held.spec
        self.held = held
        self._index = index
        self.is_searched = False

    # Required items.

    def required_with(self, item: Item, now: datetime | None = None) -> list[Item]:
        """Return the items that a static section must show whole once it has this one.

        Return none for other sections, whose items a context may shorten, and none for an item that
        need not be shown.

        Args:
            now: The present, by which a version is yet to begin. None: all have begun.
        """
        if self.spec.placement != "static" or not is_needed(self.spec, item):
            return []
        kept: dict[str, Item] = {}
        for first in self.required_units():
            kept |= {each.id: each for each in self.held.unit(first)}
        for at in self.held.keyed.superseded_by(item, now):
            kept.pop(self.held[at].id, None)
        kept[item.id] = item
        return [*kept.values()]

    def required_units(self) -> set[int]:
        """Return the first ordinals of the units that must be shown.

        These hold an item that must be shown for its own sake, and a history's newest question and
        newest unit.
        """
        held = self.held
        units = held.units
        must = set(units.firsts(held.needed))
        if self.spec.is_history:
            question = held.newest_question
            if question is not None:
                must.add(units.first(question))
            for first in held.newest_first():
                if not units.is_orphan(first):
                    must.add(first)
                    break
        return {*filterfalse(units.is_orphan, must)}

    # The index.

    @property
    def unindexed(self) -> int:
        """Return how many changes the index lacks, 0 in a section that is never ranked."""
        if self.spec.recalls or self.spec.placement == "query":
            return self._index.missing_changes
        return 0

    def _ranks(self, cap: int, *, is_crowded: bool) -> bool:
        """Return whether a proposal may ask the index; `is_crowded` as in `propose`."""
        spec = self.spec
        held = self.held
        evicted = len(held.evicted)
        if spec.is_history:
            is_crowded = is_crowded or held.used + LABEL_TOKENS * (len(held) + 1) > cap
            return spec.recall > 0 and (evicted > 0 or is_crowded)
        if spec.placement == "static":
            return False
        # Evicted items and replaced versions come back to a query that they match.
        if evicted:
            return True
        is_more = len(held) > spec.retrieval_threshold
        return is_crowded or is_more or spec.min_score > 0

    def lacks_changes(self, cap: int, *, is_crowded: bool) -> bool:
        """Return whether `propose` would first index so much that it is done beside the event loop.

        `Section.index_for` does so.
        """
        return self._ranks(cap, is_crowded=is_crowded) and self._index.lag > 0

    def _scores(
        self,
        index: DatedIndex,
        query: Query,
        cap: int,
        passing: set[int] | None,
    ) -> Scores:
        """Return the scores of units for the query, and their order."""
        held = self.held
        mean = max(1, held.used // max(1, len(held)))
        among = passing
        if passing is not None and held.evicted:
            among = {*passing, *held.evicted}
        limit = RANK_SLACK + 2 * cap // mean
        found = index.find(query, limit, among)
        if query.past is None and held.keyed.evicted and len(found.ranked.matches) == limit:
            is_replaced = ShownVersions(held, query, {}).is_replaced
            # If replaced versions take that much of a ranking, current items may be missing.
            if 2 * sum(is_replaced(ordinal) for ordinal, _ in found.ranked.matches) > limit:
                every = {*held, *held.evicted} if among is None else among
                current = {ordinal for ordinal in every if not is_replaced(ordinal)}
                found = index.find(query, limit, current)
        scores = Scores.of_units(held, found, limit)
        if not query.named_lines:
            return scores
        return with_named_lines(scores, held, query.named_lines, passing)

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
            archived: Evicted items count.
        """
        held = self.held
        self.is_searched = self.is_searched or archived
        if not held and not (archived and held.evicted):
            return []  # An index is not made for nothing.
        with self._index.asking:
            among = None
            if wanted is not None:
                wanted = held.narrowed(wanted)
                among = held.passing(wanted)
            if held.evicted and archived:
                among = None if among is None else {*among, *held.evicted}
            elif held.evicted and among is None:
                among = set(held)
            tried = limit
            while True:
                found = self._index.synced().find(query, tried, among).scored(tried)
                hits = self._hits(found, wanted)
                if len(hits) >= limit or len(found) < tried:
                    return hits[:limit]
                tried *= 4  # some of them may not be shown

    def _hits(self, found: Iterable[tuple[int, float]], wanted: MetadataFilter | None) -> list[Hit]:
        """Return the found items; of several with one id, the live or the newest one."""
        held = self.held
        scored = dict(found)
        newest = {held.undecoded(ordinal).id: ordinal for ordinal in sorted(scored)}
        hits = []
        for ordinal, score in scored.items():
            item = held.read(ordinal)
            is_live = ordinal in held
            if item is None or newest[item.id] != ordinal:
                continue
            if not is_live and item.id in held.ordinals:
                continue
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
            found = self._index.synced().find(query, limit, None)
            scores = Scores.of_units(held, found, limit)
        if first not in scores.of:
            return None, None
        return scores.by_worth.index(first) + 1, scores.of[first]

    def is_passed(self, item_id: str, wanted: MetadataFilter | None) -> bool:
        """Return whether a filter lets a live item through."""
        held = self.held
        if wanted is None or self.spec.placement == "static":
            return True
        with self._index.lock:
            return held.ordinal(item_id) in held.passing(held.narrowed(wanted))

    # Proposing.

    def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
        is_crowded: bool = True,
    ) -> Proposal:
        """Return units in order of want until they hold twice `cap` tokens.

        Changes that the index lacks are indexed first (see `lacks_changes`).

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
        held = self.held
        if not held and not held.evicted:
            return Proposal(
                (), taken=held.taken, pool=CandidatePool(0, 0), is_all=True, offers_all=True
            )
        is_ranked = self._ranks(cap, is_crowded=is_crowded)
        with self._index.asking:
            passing = None
            if self.spec.placement == "static":
                wanted = None
            elif wanted is not None:
                wanted = held.narrowed(wanted)
                passing = held.passing(wanted)
            index = self._index.synced() if is_ranked else None
            scores = UNRANKED if index is None else self._scores(index, query, cap, passing)
            selection = UnitSelection(
                held, index, self.required_units(), query, cap, wanted, passing, scores
            )
            if self.spec.is_history:
                proposal = selection.propose_history(recalls=is_ranked)
            else:
                proposal = selection.propose_best()
            evicted = len(held.evicted)
            tokens = held.used + held.evicted_used
            frequencies = None if index is None else index.frequencies(query.topic)
            return replace(
                proposal,
                taken=held.taken,
                evicted=evicted,
                pool=CandidatePool(len(held) + evicted, tokens, frequencies),
                signals=scores.signals,
            )
