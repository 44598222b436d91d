"""A source attached to a session: its name, its time limit, and whether it is required."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from kaosmem.arguments import check_ttl
from kaosmem.assembly.context import SourceReport, SourceStatus
from kaosmem.errors import SourceError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import shown
from kaosmem.sections import ForgettingSource
from kaosmem.sections.proposal import Proposal, Source
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.telemetry import observed
from kaosmem.types.items import Item

T = TypeVar("T")


@runtime_checkable
class AskedSource(Source, Protocol):
    """A history that knows its newest user message."""

    async def newest_question(self) -> str:
        """Return the text of the newest user message, "" if there is none."""
        ...


@dataclass(frozen=True)
class Attachment:
    """A source under a name.

    The session decides how long to wait and whether to go on without the source. A source may be
    required by one agent and optional for another, and a section of another session has no place to
    say so.
    An error or a late answer becomes a SourceError. Raises InvalidArgumentError for timeout_s.

    Attributes:
        timeout_s: Seconds to wait for an answer, or None for no limit.
        required: Without the source there is no context.
    """

    source: Source
    name: str
    timeout_s: float | None = None
    required: bool = False

    def __post_init__(self) -> None:
        if self.timeout_s is not None:
            check_ttl(self.timeout_s, "timeout_s")

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None,
    ) -> tuple[Proposal | None, SourceReport]:
        """Return the source's proposal and its report. Raise only if the source is required."""
        try:
            proposal = await self._answer(
                self.source.propose(query, cap=cap, wanted=wanted), self.timeout_s
            )
        except SourceError as error:
            if self.required:
                raise
            status = SourceStatus.LATE if error.late else SourceStatus.FAILED
            return None, SourceReport(
                status, error="" if error.late else type(error.__cause__).__name__
            )
        status = SourceStatus.DEGRADED if proposal.error else SourceStatus.OK
        return proposal, SourceReport(status, len(proposal.units), proposal.error)

    async def newest_question(self) -> str:
        """Return the text of a history's newest user message, "" without a message or an answer."""
        if not isinstance(self.source, AskedSource):
            return ""
        try:
            return await self._answer(self.source.newest_question(), self.timeout_s)
        except SourceError:
            return ""  # the proposal of the source says why

    async def get(self, item_id: str) -> Item | None:
        """Return an item of the source, or None."""
        return await self._answer(self.source.get(item_id), self.timeout_s)

    async def forget(self, item_ids: Collection[str]) -> list[str] | None:
        """Erase items from the source, and return the ids that it held; None if it can't.

        It may take any time.
        """
        held = [item_id for item_id in item_ids if await self.get(item_id) is not None]
        if not held:
            return []
        if not isinstance(self.source, ForgettingSource):
            return None
        await self._answer(self.source.forget(held), None)
        return held

    async def _answer(self, asked: Awaitable[T], timeout_s: float | None) -> T:
        with observed("ask_source", source=self.name):
            try:
                async with asyncio.timeout(timeout_s) as deadline:
                    return await asked
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                    raise  # whoever asks has been cancelled, not something that the source waited for
                why = f"failed with {type(error).__name__}, the cause of this error; mend it"
                if deadline.expired():
                    why = f"gave no answer within {self.timeout_s} s; raise its timeout_s"
                raise SourceError(
                    f"source {shown(self.name)} {why}, or attach it without required, to be shown the "
                    "rest",
                    sources=(self.name,),
                    late=deadline.expired(),
                ) from error


class AttachedSection:
    """A section of another session. It is read and never changed; no use is marked."""

    def __init__(self, section: Section) -> None:
        self.section = section

    @property
    def spec(self) -> SectionSpec:
        """Return the section's own spec."""
        return self.section.spec

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the section's proposal, having indexed it beside the event loop."""
        await self.section.index_for(cap)
        propose = partial(self.section.proposer.propose, query, cap=cap, wanted=wanted)
        if self.section.frozen:
            return await asyncio.to_thread(propose)
        return propose()

    async def get(self, item_id: str) -> Item | None:
        """Return a live item, or an archived version in memory under that id."""
        if item_id in self.section:
            return self.section.peek(item_id)
        return self.section.archive.get(item_id)
