"""The Source protocol, and sections of other sessions as sources."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol, runtime_checkable

from kaosmem.filters import MetadataFilter
from kaosmem.retrieval import Query
from kaosmem.sections.past import read_evicted
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import Item


@runtime_checkable
class Source(Protocol):
    """Offers candidates for a window."""

    @property
    def spec(self) -> SectionSpec:
        """Return the spec: how the source is budgeted and shown."""
        ...

    async def propose(self, query: Query, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return units worth about twice `cap` tokens, the most wanted first.

        wanted: propose only items that pass this filter, if the source has such metadata.
        """
        ...

    async def get(self, item_id: str) -> Item | None:
        """Return an item in full, or None."""
        ...


@runtime_checkable
class ForgettingSource(Source, Protocol):
    """A source that can forget."""

    async def forget(self, item_ids: Collection[str]) -> None:
        """Erase items, by the ids that `get` knows, with everything that the source derived from them."""
        ...


@runtime_checkable
class NamedSource(Source, Protocol):
    """A source whose ids begin with its name and a slash, so that ids of two sources never collide."""

    def named(self, name: str) -> Source:
        """Return the source under another name. Both share the same items."""
        ...


class AttachedSection:
    """A section of another session. It is read and never changed; no use is marked."""

    def __init__(self, section: Section) -> None:
        self.section = section

    def __repr__(self) -> str:
        return f"AttachedSection({self.section!r})"

    @property
    def spec(self) -> SectionSpec:
        """Return the section's own spec."""
        return self.section.spec

    async def propose(self, query: Query, *, cap: int, wanted: MetadataFilter | None = None) -> Proposal:
        """Return the section's proposal, having indexed it beside the event loop."""
        while True:
            while self.section.proposer.lag(cap=cap):
                await asyncio.to_thread(self.section.index.catch_up)
            proposal = await self._propose(query, cap, wanted)
            if not proposal.unread:
                return proposal
            self.section.ledger.take_in(await asyncio.to_thread(read_evicted, proposal.unread))

    async def _propose(self, query: Query, cap: int, wanted: MetadataFilter | None) -> Proposal:
        if self.section.is_frozen:
            return await asyncio.to_thread(self.section.proposer.propose, query, cap=cap, wanted=wanted)
        return self.section.proposer.propose(query, cap=cap, wanted=wanted)

    async def get(self, item_id: str) -> Item | None:
        """Return a live item, or an archived version in memory under that id."""
        return self.section.peek(item_id) if item_id in self.section else self.section.archive.get(item_id)


def renamed(spec: SectionSpec, name: str) -> SectionSpec:
    """Return a spec under another name, shown under the title that it had."""
    header = spec.name if spec.header is None else spec.header
    return spec if spec.name == name else replace(spec, name=name, header=header)
