"""A session at an earlier time, asked as the session is asked now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

from kaosmem.arguments import check_time
from kaosmem.assembly.context import Context
from kaosmem.assembly.offers import ContextCall, Overflow
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import Filter
from kaosmem.formats import Format
from kaosmem.sections.proposal import Hit
from kaosmem.session.context_call import ask
from kaosmem.session.open_session import OpenSession
from kaosmem.session.source_registry import SourceRegistry
from kaosmem.types.items import time_of


class MemoryAt:
    """A session at another time. `SessionMemory.at` returns it.

    The view follows the session: an item that is forgotten is gone from the view too. Each call
    reads the whole archive. The view changes nothing, and it marks no uses.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> for day, name in (("2023-05-08", "Ann"), ("2024-06-01", "Bob")):
    ...     item = memory.add(
    ...         "findings", f"{name} owns the deal.", key="owner", metadata={"timestamp": day}
    ...     )
    >>> then = memory.at(as_of="2023-12-01")
    >>> [hit.item.text for hit in await then.search("Who owns the deal?")]
    ['Ann owns the deal.']
    """

    def __init__(
        self,
        session: OpenSession,
        as_of: datetime | date | str | None,
        known_at: datetime | date | str | None,
    ) -> None:
        if as_of is None and known_at is None:
            raise InvalidArgumentError("at() needs a time; give as_of, known_at, or both")
        self._session = session
        self.as_of = _moment(as_of, "as_of")
        self.known_at = _moment(known_at, "known_at")

    async def assemble_context(
        self,
        query: str | None = None,
        *,
        budget: int,
        format: str | Format = "text",
        reserve: int = 0,
        sections: Iterable[str] | None = None,
        filter: Filter | None = None,
        overflow: Overflow = "raise",
        min_confidence: float = 0.0,
    ) -> Context:
        """Pack the content of that time. The arguments are those of the session's own method.

        Sources leave newer items out.

        Raises:
            InvalidArgumentError: If an argument is not valid.
            NotFoundError: If a section is unknown.
            CorruptionError: If the archive is damaged.
            WindowTooSmallError: If the required items do not fit.
            SourceError: If a required source fails.
        """
        session = self._session
        call = ContextCall(
            query,
            budget=budget,
            format=format,
            reserve=reserve,
            filter=filter,
            overflow=overflow,
            min_confidence=min_confidence,
        )
        specs = session.registry.shown(sections)
        registry = await self._registry()
        offers = await ask(call, registry, specs, session, as_of=self.as_of, known_at=self.known_at)
        context, _ = offers.pack()
        return context

    async def search(
        self,
        query: str,
        section: str | None = None,
        limit: int = 10,
        *,
        filter: Filter | None = None,
        archived: bool = True,
    ) -> list[Hit]:
        """Return the items of that time that match a query best, best first.

        The arguments are those of the session's own method. With `known_at` alone, archived items
        are the versions that were replaced by that time.

        Raises:
            InvalidArgumentError: If an argument is not valid.
            NotFoundError: If the section is unknown.
            CorruptionError: If the archive is damaged.
        """
        session = self._session
        registry = await self._registry()
        return registry.search(
            query,
            section,
            limit,
            filter=filter,
            archived=archived,
            clock=session.clock,
            as_of=self.as_of,
            known_at=self.known_at,
        )

    async def _registry(self) -> SourceRegistry:
        """Return the sections as they were at that time, with the sources."""
        self._session.expire()
        sections = await self._session.version_history.sections_at(
            as_of=self.as_of, known_at=self.known_at
        )
        return self._session.registry.with_sections(sections)


def _moment(given: datetime | date | str | None, name: str) -> datetime | None:
    """Return a time, of a text as of a `timestamp`: a year or a month is its first moment."""
    if given is None:
        return None
    stated = time_of(given) if isinstance(given, str) else None
    return check_time(stated or given, name)
