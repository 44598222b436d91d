"""One call of `assemble_context`: all sections and sources are asked, and the turn is recorded."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from operator import attrgetter
from time import perf_counter

from kaosmem.arguments import Clock
from kaosmem.assembly.allocation import cap_of, items_of
from kaosmem.assembly.context import Context, SourceReport
from kaosmem.assembly.offers import ContextCall, Offers
from kaosmem.filters import MetadataFilter
from kaosmem.formation.aging import with_verification
from kaosmem.language.dates import Period
from kaosmem.language.query import Query
from kaosmem.sections import Candidate
from kaosmem.sections.operations import Credit
from kaosmem.sections.proposal import Proposal, with_items
from kaosmem.sections.proposer import LABEL_TOKENS
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.open_session import OpenSession
from kaosmem.session.source_registry import SourceRegistry, qualified
from kaosmem.session.unoffered_items import UnofferedItems
from kaosmem.session.windows import Window
from kaosmem.types.items import Item, stated_from

_EPISODES_SHARE = 0.5
"""The share of a window that episodes may take if a question asks about their period."""


async def assemble(
    session: OpenSession,
    call: ContextCall,
    specs: Mapping[str, SectionSpec],
    window: Window | None,
) -> Context:
    """Return the context of a call. Uses are marked, and the turn is kept.

    Args:
        specs: The specs of the sections and sources that may be shown, by name.

    Raises:
        WindowTooSmallError: If the required items do not fit.
        SourceError: If a required source fails or is late.
    """
    started = perf_counter()
    session.expire()
    if session.compactions:
        await session.compact(call.format)
    await session.read_back(specs)
    visible: Collection[str] = ()
    if window is None:
        offers = await ask(call, session.registry, specs, session)
        context, packing = offers.with_instructions(Offers.pack)
    else:
        block = window.block_of(call.tokens)
        offers = await ask(call, session.registry, specs, session, block=block)
        windows = session.saver.windows
        attached = session.registry.attached_sections
        context, packing = windows.turn(
            window, offers, sections=session.sections, attached=attached
        )
        visible = windows.visible(window.name)
    shown = _ids_by_section(packing.items)
    for name, section in session.sections.items():
        section.use(shown[name])
    last = session.trace.last(context.window)
    context = replace(context, before=None if last is None else last.items)
    session.trace.note(
        context,
        session.clock,
        perf_counter() - started,
        visible=visible,
        is_stored=_is_stored(session, context),
    )
    # Not in the trace: what it keeps may not refer to the session, or a cycle would keep both.
    return replace(context, _credits=turn_credit(context, session))


# Asking.


async def ask(
    call: ContextCall,
    registry: SourceRegistry,
    specs: Mapping[str, SectionSpec],
    session: OpenSession,
    *,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    block: int | None = None,
) -> Offers:
    """Return all that sections and sources offer for a call.

    Args:
        registry: The sections, now or as they were at another time, and the sources.
        specs: The specs of the sections and sources that may be shown, by name.
        as_of: The time at which an item must have held.
        known_at: The time at which the session must have known an item.
        block: Tokens that the sections outside the histories may take together.

    Raises:
        SourceError: If a required source fails or is late.
    """
    text, earlier = await registry.question(call.query, specs)
    now = None
    if session.present is not None:
        now = known_at or session.present()
    query = Query.read(
        text,
        session.clock,
        as_of=as_of,
        known_at=known_at,
        now=now,
        earlier=earlier,
    )
    inquiry = Inquiry(registry, specs, query, call.wanted, session.clock)
    proposals, reports = await inquiry.propose(window=call.tokens, block=block)
    # Not the session itself: its trace keeps contexts, which would be a cycle.
    stored = session.version_history.stored
    unoffered = UnofferedItems(registry, specs, query, call.wanted, session.clock, stored)
    offered = {**specs}
    for name, spec in specs.items():
        if spec.is_history and name in proposals:
            proposals[name] = proposals[name].with_days(spec.labels)
    episodes = _episodes_asked_for(proposals, query)
    if episodes:
        floor = max(specs[episodes].floor, _EPISODES_SHARE)
        offered[episodes] = replace(specs[episodes], floor=floor)
    return Offers(
        call=call,
        room=call.tokens,
        query=text,
        specs=[*offered.values()],
        proposals=proposals,
        counter=session.counter,
        sources=reports,
        decide=unoffered.decide,
        known=unoffered.known_items,
    )


def _episodes_asked_for(proposals: Mapping[str, Proposal], query: Query) -> str:
    """Return the section of the coarsest episodes that a query asks for, "" for none.

    Its first candidate lies in the period asked about. Any other question leaves the episodes what
    the words leave them.
    """
    periods = query.periods
    if not periods and query.asks_what_happened:
        periods = (Period(date.min, date.max),)
    if not periods:
        return ""
    found = []
    for name, proposal in proposals.items():
        for item in items_of(proposal.candidates[:1]):
            end = stated_from({"timestamp": item.metadata.get("until")})
            if item.metadata.get("kind") != "episodic" or end is None:
                continue
            days = Period(item.valid_from.date(), end.date())
            if any(days.lies_in(asked) for asked in periods):
                found.append((end - item.valid_from, name))
    if found:
        return max(found)[1]
    return ""


@dataclass(frozen=True)
class Inquiry:
    """An inquiry to the sections and sources of a registry: one query, one filter.

    Args:
        registry: The sections, now or as they were at another time, and the sources.
        specs: The specs of the sections and sources that may be shown, by name.
        query: The query, with the times that it asks for.
        wanted: The filter, or None.
        clock: Says which items are expired. Their units are left out.
    """

    registry: SourceRegistry
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
        sections = {}
        for name, spec in self.specs.items():
            caps[name] = cap_of(spec, block if spec.placement == "query" else window)
            if name in self.registry.sections:
                sections[name] = self.registry.sections[name]
        answers = await self._answers(caps)
        is_crowded = bool(answers) or _may_be_crowded(sections.values(), block)
        await self._index(sections, caps, is_crowded=is_crowded)
        # From here on, all sections answer at one moment.
        known = _KnownItems(sections.values())
        proposals = {}
        for name, section in sections.items():
            offered = section.proposer.propose(
                self.query, cap=caps[name], wanted=self.wanted, is_crowded=is_crowded
            )
            offered = known.without_reused(self._with_old_facts(offered, section), section)
            proposals[name] = _unexpired(offered, self.clock)
        reports = {}
        for name, answer in answers.items():
            if isinstance(answer, BaseException):
                raise answer
            proposal, reports[name] = answer
            if proposal is not None:
                passed = _unexpired(self._passed(proposal, self.specs[name]), self.clock)
                proposals[name] = self._taken_in(name, passed, known)
        return proposals, reports

    async def _answers(
        self, caps: Mapping[str, int]
    ) -> dict[str, tuple[Proposal | None, SourceReport] | BaseException]:
        """Ask all sources at once, and return their answers and errors by name."""
        asked = {}
        for name, attached in self.registry.attached.items():
            if name in caps:
                asked[name] = attached.propose(self.query, cap=caps[name], wanted=self.wanted)
        # None is left running, and the error is the same whichever source was first.
        answers = await asyncio.gather(*asked.values(), return_exceptions=True)
        return dict(zip(asked, answers, strict=True))

    async def _index(
        self,
        sections: Mapping[str, Section],
        caps: Mapping[str, int],
        *,
        is_crowded: bool,
    ) -> None:
        """Let the sections index all changes that their rankings lack, beside the event loop."""
        while True:
            lacking = []
            for name, section in sections.items():
                if section.proposer.lacks_changes(caps[name], is_crowded=is_crowded):
                    lacking.append(section.index_for(caps[name], is_crowded=is_crowded))
            if not lacking:
                return
            await asyncio.gather(*lacking)

    def _with_old_facts(self, proposal: Proposal, section: Section) -> Proposal:
        """Return a proposal whose old facts say when they were last verified."""
        ledger = section.held.ledger
        if not section.spec.last_verified or not ledger.marks:
            return proposal
        now = self.query.as_of or self.query.known_at or self.clock()

        def dated(unit: Candidate) -> Candidate:
            items = [
                with_verification(item, ledger.verified_at.get(item.id), now) for item in unit.items
            ]
            return unit._replace(items=tuple(items))

        return proposal.changed(partial(map, dated))

    def _passed(self, proposal: Proposal, spec: SectionSpec) -> Proposal:
        """Return a source's proposal without units that are too new or do not pass the filter.

        The newest messages of a history need not pass the filter.
        """
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

        def new_units(units: Iterable[Candidate]) -> list[Candidate]:
            found = []
            for unit in units:
                others = [known.get(item.id) for item in unit.items]
                if any(others):
                    pairs = zip(unit.items, others, strict=True)
                    if all(other is None or item.content == other.content for item, other in pairs):
                        continue
                    items = [replace(item, id=qualified(name, item.id)) for item in unit.items]
                    unit = unit._replace(items=tuple(items))
                found.append(with_items(unit, map(self.registry.counted, unit.items)))
            return found

        new = proposal.changed(new_units)
        known.enter(items_of(new.units))
        return new


class _KnownItems:
    """Items that a context may already hold, by id: live items of sections, and entered ones."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = [section for section in sections if section.held]
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
            for item in evicted:
                if self.get(item.id) is not None:
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
        tokens += 2 * section.held.used + LABEL_TOKENS * len(section.held)
    return tokens > window


def _unexpired(proposal: Proposal, clock: Clock) -> Proposal:
    """Return a proposal without units that hold an item whose time to live is over."""
    if not any(map(attrgetter("expires_at"), items_of(proposal.units))):
        return proposal
    now = clock()
    return proposal.filtered(lambda unit: not any(item.is_expired(now) for item in unit.items))


# The record of a turn.


def _is_stored(session: OpenSession, context: Context) -> bool:
    """Return whether a file may hold the texts that a context shows."""
    window = session.saver.windows.held.get(context.window)
    if window is not None:
        return window.is_stored
    for item in context.items:
        section = session.sections.get(item.section)
        if section is not None and section.spec.persistence == "none":
            return False
    return True


def turn_credit(
    context: Context, session: OpenSession
) -> Callable[[Collection[Item], Collection[Item]], None]:
    """Return the credit of one turn: a function that counts the items that the reply used.

    Each item of the turn counts once, however often it is credited. The function refers to the
    sections and not to the session: a context may outlive the session.

    Args:
        context: The context of the turn.
        session: The session that assembled it.
    """
    sections = session.sections
    forgotten = session.saver.forgotten
    clock = session.clock
    before = {item.id for item in context.before or ()} if context.window else set()
    shown = [item for item in context.items if item.id not in before]
    known: set[str] = set()  # the ids of the credited items

    def count(used: Collection[Item], confirmed: Collection[Item]) -> None:
        """Count used and confirmed items, and at the first call, which ones the turn showed."""
        at = clock()
        credited = _ids_by_section(item for item in used if item.id not in known)
        told = _ids_by_section(shown)
        verified = _ids_by_section(confirmed)
        for name, section in sections.items():
            # The newest messages are shown whatever they say.
            of_turn = told[name] if section.spec.placement == "query" else []
            credit = Credit(name, at, credited[name], of_turn, verified[name])
            section.credit(credit.without(forgotten))
        shown.clear()
        known.update(item.id for item in used)

    return count


def _ids_by_section(items: Iterable[Item]) -> Mapping[str, list[str]]:
    """Return the ids of items by the names of their sections, none for any other section."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        found[item.section].append(item.id)
    return found
