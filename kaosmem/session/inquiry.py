"""An inquiry to sections and sources: what they propose for one query."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kaosmem.arguments import Clock
from kaosmem.assembly.allocation import cap_of, items_of
from kaosmem.assembly.context import SourceReport
from kaosmem.filters import MetadataFilter
from kaosmem.formation.aging import with_verification
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.proposer import LABEL_TOKENS
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.roster import Roster, qualified
from kaosmem.types.items import Item


@dataclass(frozen=True)
class Inquiry:
    """An inquiry to the sections and sources of a roster: one query, one filter.

    Args:
        roster: The sections, now or as they were at another time, and the sources.
        specs: The specs of the sections and sources that may be shown, by name.
        query: The query, with the times that it asks for.
        wanted: The filter, or None.
        clock: Says which items are expired. Their units are left out.
    """

    roster: Roster
    specs: Mapping[str, SectionSpec]
    query: Query
    wanted: MetadataFilter | None
    clock: Clock

    async def propose(
        self, *, window: int, block: int | None = None
    ) -> tuple[dict[str, Proposal], dict[str, SourceReport]]:
        """Return the proposals of these sections and sources, and the reports of the sources.

        All sources are awaited together. Drop a candidate of a source whose id a section has live
        or an earlier source proposes, if the contents are equal. If they differ, prefix its id with
        the name of its source.

        Args:
            window: Tokens of the request.
            block: Tokens that the sections outside the histories may take together. The default is
                the window.

        Raises:
            SourceError: If a required source fails or is late.
        """
        block = window if block is None else min(window, block)
        caps = {}
        for name, spec in self.specs.items():
            caps[name] = cap_of(spec, block if spec.placement == "query" else window)
        answers = await self._answers(caps)
        own = await self._own_proposals(caps, block, has_sources=bool(answers))
        known = _KnownItems(self.roster.sections[name] for name in own)
        proposals = {}
        for name, proposal in own.items():
            is_new = known.without_reused(proposal, self.roster.sections[name])
            proposals[name] = _unexpired(is_new, self.clock)
        reports = {}
        for name, answer in answers.items():
            if isinstance(answer, BaseException):
                raise answer
            offered, reports[name] = answer
            if offered is not None:
                passed = _unexpired(self._passed(offered, self.specs[name]), self.clock)
                proposals[name] = self._taken_in(name, passed, known)
        return proposals, reports

    async def _answers(
        self, caps: Mapping[str, int]
    ) -> dict[str, tuple[Proposal | None, SourceReport] | BaseException]:
        """Ask all sources at once, and return their answers and errors by name."""
        asked = {name: each for name, each in self.roster.attached.items() if name in self.specs}
        proposing = []
        for name, attached in asked.items():
            proposing.append(attached.propose(self.query, cap=caps[name], wanted=self.wanted))
        # None is left running, and the error is the same whichever source was first.
        answers = await asyncio.gather(*proposing, return_exceptions=True)
        return dict(zip(asked, answers, strict=True))

    async def _own_proposals(
        self,
        caps: Mapping[str, int],
        block: int,
        *,
        has_sources: bool,
    ) -> dict[str, Proposal]:
        """Return the proposals of the sections, all made at one moment."""
        sections = {name: each for name, each in self.roster.sections.items() if name in self.specs}
        is_crowded = has_sources or _may_be_crowded(sections.values(), block)
        lacking = [*sections]
        while lacking:
            lacking = []
            for name, section in sections.items():
                if section.proposer.lacks_changes(self.query, caps[name], is_crowded=is_crowded):
                    lacking.append(name)
            await asyncio.gather(*(sections[name].index_all() for name in lacking))
        own = {}
        for name, section in sections.items():
            own[name] = section.proposer.propose(
                self.query, cap=caps[name], wanted=self.wanted, is_crowded=is_crowded
            )
        for name, section in sections.items():
            if section.spec.last_verified and section.ledger.marks:
                own[name] = self._with_old_facts(own[name], section)
        return own

    def _with_old_facts(self, proposal: Proposal, section: Section) -> Proposal:
        """Return a proposal whose old facts say when they were last verified."""
        verified_at = section.ledger.verified_at
        now = self.query.as_of or self.query.known_at or self.clock()

        def dated(unit: Candidate) -> Candidate:
            items = [with_verification(item, verified_at.get(item.id), now) for item in unit.items]
            return unit._replace(items=tuple(items))

        return proposal.changed(partial(map, dated))

    def _passed(self, proposal: Proposal, spec: SectionSpec) -> Proposal:
        """Return a source's proposal without units that are too new or do not pass the filter.

        The newest messages of a history need not pass the filter.
        """
        if self.query.as_of is not None or self.query.known_at is not None:
            proposal = proposal.filtered(lambda unit: all(map(self.query.admits, unit.items)))
        wanted = self.wanted
        if wanted is None or spec.placement == "static":
            return proposal
        passed = proposal.filtered(lambda unit: any(wanted(item.metadata) for item in unit.items))
        if spec.is_history:
            return replace(passed, candidates=proposal.candidates)
        return passed

    def _taken_in(
        self,
        name: str,
        proposal: Proposal,
        known: _KnownItems,
    ) -> Proposal:
        """Return a source's proposal without known items, counted by the session's counter."""
        new = proposal.changed(lambda units: self._new_units(name, units, known))
        known.enter(items_of(new.units))
        return new

    def _new_units(
        self,
        name: str,
        units: Iterable[Candidate],
        known: _KnownItems,
    ) -> list[Candidate]:
        found = []
        for unit in units:
            others = [(item, known.get(item.id)) for item in unit.items]
            clashes = [(item, other) for item, other in others if other is not None]
            if not clashes:
                found.append(self._counted(unit))
            elif any(item.content != other.content for item, other in clashes):
                items = [replace(item, id=qualified(name, item.id)) for item in unit.items]
                found.append(self._counted(unit._replace(items=tuple(items))))
        return found

    def _counted(self, unit: Candidate) -> Candidate:
        items = tuple(map(self.roster.counted, unit.items))
        if items == unit.items:
            return unit
        return unit._replace(items=items, tokens=sum(item.tokens for item in items))


class _KnownItems:
    """Items that a context may already hold, by id: live items of sections, and entered ones."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = [section for section in sections if len(section)]
        self._entered: dict[str, Item] = {}

    def get(self, item_id: str) -> Item | None:
        for section in self._sections:
            if item_id in section:
                return section.peek(item_id)
        return self._entered.get(item_id)

    def enter(self, items: Iterable[Item]) -> None:
        for item in items:
            self._entered[item.id] = item

    def without_reused(self, proposal: Proposal, section: Section) -> Proposal:
        """Return a section's proposal without evicted items whose id another item has by now.

        The other evicted items of the proposal become known.
        """
        if not proposal.evicted:
            return proposal

        def is_new(unit: Candidate) -> bool:
            if not unit.recalled:
                return True
            evicted = [item for item in unit.items if item.id not in section]
            if any(self.get(item.id) is not None for item in evicted):
                return False
            self.enter(evicted)
            return True

        return proposal.filtered(is_new)


def _may_be_crowded(sections: Iterable[Section], window: int) -> bool:
    """Return whether sections may not fit a window as a whole.

    A layout adds labels and headers to their tokens.
    """
    tokens = 0
    for section in sections:
        tokens += 2 * section.used + LABEL_TOKENS * len(section)
    return tokens > window


def _unexpired(proposal: Proposal, clock: Clock) -> Proposal:
    """Return a proposal without units that hold an item whose time to live is over."""
    if not any(item.expires_at for item in items_of(proposal.units)):
        return proposal
    now = clock()
    return proposal.filtered(lambda unit: not any(item.is_expired(now) for item in unit.items))
