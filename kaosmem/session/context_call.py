"""One call of `assemble_context`: what is offered for it, its packing, and its record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from time import perf_counter

from kaosmem.assembly.allocation import items_of
from kaosmem.assembly.context import Context
from kaosmem.assembly.offers import ContextCall, Offers
from kaosmem.language.dates import Period
from kaosmem.language.query import Query
from kaosmem.sections.operations import Credit
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.inquiry import Inquiry
from kaosmem.session.left_out import LeftOut
from kaosmem.session.open_session import OpenSession
from kaosmem.session.roster import Roster
from kaosmem.session.windows import Window
from kaosmem.types.content import ToolResultBlock, content_text
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
    await session.compact(call.format)
    await session.read_back([each for name, each in session.sections.items() if name in specs])
    visible: Collection[str] = ()
    if window is None:
        offers = await ask(call, session.roster, specs, session)
        context, packing = offers.with_instructions(Offers.pack)
    else:
        block = window.block_of(call.tokens)
        offers = await ask(call, session.roster, specs, session, block=block)
        windows = session.saver.windows
        attached = session.roster.attached_sections
        context, packing = windows.turn(
            window, offers, sections=session.sections, attached=attached
        )
        visible = windows.visible(window.name)
    session.roster.use(packing.items)
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
    return replace(context, _credits=TurnCredit(context, session).count)


# Asking.


async def ask(
    call: ContextCall,
    roster: Roster,
    specs: Mapping[str, SectionSpec],
    session: OpenSession,
    *,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    block: int | None = None,
) -> Offers:
    """Return all that sections and sources offer for a call.

    Args:
        roster: The sections, now or as they were at another time, and the sources.
        specs: The specs of the sections and sources that may be shown, by name.
        as_of: The time at which an item must have held.
        known_at: The time at which the session must have known an item.
        block: Tokens that the sections outside the histories may take together.

    Raises:
        SourceError: If a required source fails or is late.
    """
    text = await _newest_question(roster, specs) if call.query is None else call.query
    query = Query.read(text, session.clock, session.past_cues, as_of=as_of, known_at=known_at)
    inquiry = Inquiry(roster, specs, query, call.wanted, session.clock)
    # Not the session itself: its trace keeps contexts, which would be a cycle.
    left_out = LeftOut(inquiry, session.past.stored)
    proposals, reports = await inquiry.propose(window=call.tokens, block=block)
    offered = {**specs}
    episodes = _episodes_asked_for(proposals, query)
    if episodes:
        floor = max(specs[episodes].floor, _EPISODES_SHARE)
        offered[episodes] = replace(specs[episodes], floor=floor)
    return Offers(
        call=call,
        query=text,
        specs=[*offered.values()],
        proposals=proposals,
        counter=session.counter,
        sources=reports,
        decide=left_out.decide,
        known=left_out.known_items,
    )


async def _newest_question(roster: Roster, names: Collection[str]) -> str:
    """Return the text of the newest user message in all histories of the session.

    Tool results are left out. Without a message, return that of the first source among these names
    that has one.
    """
    newest: Item | None = None
    for section in roster.sections.values():
        item = section.newest_question
        if item is not None and (newest is None or item.created_at > newest.created_at):
            newest = item
    if newest is not None:
        said = [each for each in newest.message.blocks if not isinstance(each, ToolResultBlock)]
        return content_text(tuple(said))
    found = ""
    for name, attached in roster.attached.items():
        if not found and name in names:
            found = await attached.newest_question()
    return found


def _episodes_asked_for(proposals: Mapping[str, Proposal], query: Query) -> str:
    """Return the section of the coarsest episodes that a query asks for, "" for none.

    Its first candidate lies in the period asked about. Any other question leaves the episodes what
    the words leave them.
    """
    periods = query.periods
    if not periods and query.asks_what_happened:
        periods = (Period(date.min, date.max),)
    found = []
    for name, proposal in proposals.items():
        for item in items_of(proposal.candidates[:1] if periods else ()):
            end = stated_from({"timestamp": item.metadata.get("until")})
            if item.metadata.get("kind") != "episodic" or end is None:
                continue
            days = Period(item.valid_from.date(), end.date())
            if any(days.lies_in(asked) for asked in periods):
                found.append((end - item.valid_from, name))
    return max(found)[1] if found else ""


# The record of a turn.


def _is_stored(session: OpenSession, context: Context) -> bool:
    """Return whether a file may hold the texts that a context shows."""
    window = session.saver.windows.held.get(context.window)
    if window is not None:
        return window.is_stored
    shown = {item.section for item in context.items}
    specs = [session.sections[name].spec for name in shown & session.sections.keys()]
    return all(spec.persistence != "none" for spec in specs)


class TurnCredit:
    """The credit of one turn. Each item of the turn counts once, however often it is credited.

    It refers to the sections and not to the session: a context may outlive the session.

    Args:
        context: The context of the turn.
        session: The session that assembled it.
    """

    def __init__(self, context: Context, session: OpenSession) -> None:
        self._sections = session.sections
        self._forgotten = session.saver.forgotten
        self._clock = session.clock
        before = {item.id for item in context.before or ()} if context.window else set()
        self._shown = [item for item in context.items if item.id not in before]
        self._credited: set[str] = set()

    def count(self, used: Collection[Item], confirmed: Collection[Item]) -> None:
        """Count that the reply used items, and at the first call, which ones the turn showed.

        Args:
            confirmed: The items that a person has confirmed.
        """
        at = self._clock()
        credited = [item for item in used if item.id not in self._credited]
        for name, section in self._sections.items():
            # The newest messages are shown whatever they say.
            shown = self._shown if section.spec.placement == "query" else []
            credit = Credit(
                name, at, _ids_in(name, credited), _ids_in(name, shown), _ids_in(name, confirmed)
            )
            section.credit(credit.without(self._forgotten))
        self._shown = []
        self._credited.update(item.id for item in used)


def _ids_in(section: str, items: Iterable[Item]) -> tuple[str, ...]:
    """Return the ids of the items that are of a section."""
    return tuple(item.id for item in items if item.section == section)
