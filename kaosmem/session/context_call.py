"""A call of `assemble_context`: its checked arguments, and what is offered for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias

from kaosmem.arguments import check_text
from kaosmem.assembly import assemble, check_budget
from kaosmem.filters import Filter, MetadataFilter, parse_filter
from kaosmem.formats import Format, get_format
from kaosmem.language.query import Query
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.inquiry import Inquiry
from kaosmem.session.open_session import OpenSession
from kaosmem.session.roster import Roster
from kaosmem.session.windows import Pack

Overflow: TypeAlias = Literal["raise", "cut"]


@dataclass(frozen=True, slots=True)
class Offers:
    """The content that is offered for a call, and the function that packs it.

    Args:
        specs: The specs of the sections and sources that may be shown, by name.
        proposals: The proposal of each.
        pack: Packs proposals into a context by the arguments of the call.
    """

    specs: Mapping[str, SectionSpec]
    proposals: Mapping[str, Proposal]
    pack: Pack


@dataclass(frozen=True, kw_only=True)
class ContextCall:
    """The checked arguments of a call, as `SessionMemory.assemble_context` describes them.

    Args:
        tokens: The budget without the reserve.
        filter: The parsed filter, or None.
    """

    query: str | None
    budget: int
    reserve: int
    tokens: int
    format: Format
    sections: Iterable[str] | None
    filter: MetadataFilter | None
    overflow: Overflow
    min_confidence: float

    @classmethod
    def of(
        cls,
        query: str | None,
        *,
        budget: int,
        format: str | Format,
        reserve: int,
        sections: Iterable[str] | None,
        filter: Filter | None,
        overflow: Overflow,
        min_confidence: float,
    ) -> ContextCall:
        """Check the arguments of a call. Raises InvalidArgumentError."""
        return cls(
            query=None if query is None else check_text(query, "query"),
            budget=budget,
            reserve=reserve,
            tokens=check_budget(budget, reserve),
            format=get_format(format),
            sections=sections,
            filter=None if filter is None else parse_filter(filter),
            overflow=overflow,
            min_confidence=min_confidence,
        )

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
            specs: The specs of the sections and sources that may be shown.
            as_of: The time at which an item must have held.
            known_at: The time at which the session must have known an item.
            block: Tokens that the sections outside the histories may take together.

        Raises:
            SourceError: If a required source fails or is late.
        """
        text = await roster.question(specs) if self.query is None else self.query
        query = Query.read(text, session.clock, session.past_cues, as_of=as_of, known_at=known_at)
        inquiry = Inquiry(roster, specs, query, self.filter, session.clock)
        proposals, reports = await inquiry.propose(window=self.tokens, block=block)
        pack = partial(
            assemble,
            list(specs.values()),
            budget=self.budget,
            reserve=self.reserve,
            format=self.format,
            counter=session.counter,
            query=text,
            overflow=self.overflow,
            min_confidence=self.min_confidence,
            sources=reports,
            decide=inquiry.decide,
        )
        return Offers(specs, proposals, pack)
