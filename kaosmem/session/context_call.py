"""A call of `assemble_context`: its checked arguments, and all that is offered for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from kaosmem.arguments import check_share, check_text
from kaosmem.assembly import Offers, Overflow, check_budget
from kaosmem.assembly.allocation import items_of
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import Filter, parse_filter
from kaosmem.formats import Format, get_format
from kaosmem.language.dates import Period
from kaosmem.language.query import Query
from kaosmem.names import shown_name
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.inquiry import Inquiry
from kaosmem.session.left_out import LeftOut
from kaosmem.session.open_session import OpenSession
from kaosmem.session.roster import Roster
from kaosmem.types.items import stated_from

_EPISODES_SHARE = 0.5
"""The share of a window that episodes may take if a question asks about their period."""


class ContextCall:
    """The checked arguments of a call, as `SessionMemory.assemble_context` describes them.

    Attributes:
        tokens: The budget without the reserve.
        wanted: The parsed filter, or None.

    Raises:
        InvalidArgumentError: If an argument is not valid.
    """

    def __init__(
        self,
        query: str | None,
        *,
        budget: int,
        format: str | Format = "text",
        reserve: int = 0,
        filter: Filter | None = None,
        overflow: Overflow = "raise",
        min_confidence: float = 0.0,
    ) -> None:
        self.query = None if query is None else check_text(query, "query")
        self.tokens = check_budget(budget, reserve)
        self.reserve = reserve
        self.format = get_format(format)
        self.wanted = None if filter is None else parse_filter(filter)
        if overflow not in ("raise", "cut"):
            raise InvalidArgumentError(f"overflow is {shown_name(overflow)}; use 'raise' or 'cut'")
        self.overflow = overflow
        self.min_confidence = check_share(min_confidence, "min_confidence")

    async def ask(
        self,
        roster: Roster,
        specs: Mapping[str, SectionSpec],
        session: OpenSession,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        block: int | None = None,
    ) -> Offers:
        """Ask sections and sources for the content that they offer for this call.

        Args:
            roster: The sections, now or as they were at another time, and the sources.
            specs: The specs of the sections and sources that may be shown, by name.
            as_of: The time at which an item must have held.
            known_at: The time at which the session must have known an item.
            block: Tokens that the sections outside the histories may take together.

        Raises:
            SourceError: If a required source fails or is late.
        """
        text = await roster.question(specs) if self.query is None else self.query
        query = Query.read(text, session.clock, session.past_cues, as_of=as_of, known_at=known_at)
        inquiry = Inquiry(roster, specs, query, self.wanted, session.clock)
        # Not the session itself: its trace keeps contexts, which would be a cycle.
        left_out = LeftOut(inquiry, session.past.stored)
        proposals, reports = await inquiry.propose(window=self.tokens, block=block)
        return Offers(
            specs=_with_room_for_episodes(specs.values(), proposals, query),
            proposals=proposals,
            budget=self.tokens + self.reserve,
            reserve=self.reserve,
            format=self.format,
            counter=session.counter,
            query=text,
            overflow=self.overflow,
            min_confidence=self.min_confidence,
            wanted=self.wanted,
            sources=reports,
            decide=left_out.decide,
            known=left_out.known_items,
        )


def _with_room_for_episodes(
    specs: Iterable[SectionSpec],
    proposals: Mapping[str, Proposal],
    query: Query,
) -> list[SectionSpec]:
    """Return specs that reserve a part of the window for episodes of the period asked about.

    The coarsest level gets it whose first candidate lies in the period. Any other question leaves
    the episodes what the words leave them.
    """
    if not query.periods and not query.asks_what_happened:
        return [*specs]
    spans: dict[str, timedelta] = {}
    for name, proposal in proposals.items():
        for item in items_of(proposal.candidates[:1]):
            end = stated_from({"timestamp": item.metadata.get("until")})
            if item.metadata.get("kind") != "episodic" or end is None:
                continue
            days = Period(item.valid_from.date(), end.date())
            if not query.periods or any(days.lies_in(asked) for asked in query.periods):
                spans[name] = end - item.valid_from
    coarsest = max(spans, key=lambda name: spans[name], default="")
    changed = []
    for spec in specs:
        if spec.name == coarsest:
            spec = replace(spec, floor=max(spec.floor, _EPISODES_SHARE))
        changed.append(spec)
    return changed
