"""The sessions of a place: opening, listing and deleting them.

Read-only sessions are shared within a process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, wraps
from types import TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from kaosmem import persistence
from kaosmem.arguments import Clock, check_clock, check_instance, check_ttl
from kaosmem.errors import CorruptionError, NotOpenedError
from kaosmem.persistence import (
    Location,
    Recovered,
    SessionLog,
    StoredSession,
    fingerprint,
    same_place,
)
from kaosmem.retrieval import Ranker
from kaosmem.sections import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session.saving.hydration import Hydrated, hydrate, keep_indexes
from kaosmem.session.saving.salvaging import salvage_sections, stored_specs
from kaosmem.tokens import TokenCounter, get_counter

P = ParamSpec("P")
T = TypeVar("T")

_HOW_TO_OPEN = "a session is opened by `async with SessionMemory.open(...) as memory:`, inside an async function"

MAX_SHARED = 8
"""How many sessions opened read-only a process keeps; the one asked for least recently goes first."""


@dataclass(frozen=True)
class Opening:
    """Which session is opened, and how it is read; all as given to `SessionMemory.open`."""

    location: Location = field(repr=False)
    session_id: str
    namespace: str
    sections: Sequence[SectionSpec] | None
    given_counter: TokenCounter | Callable[[str], int] | str | None
    ranker: Ranker | None

    def __post_init__(self) -> None:
        if self.ranker is not None:
            check_instance(self.ranker, Ranker, "ranker")

    @cached_property
    def counter(self) -> TokenCounter:
        """The counter that the session is counted with."""
        return get_counter(self.given_counter)

    def read(
        self, *, read_only: bool = False, single_writer: bool = False
    ) -> tuple[SessionLog, Hydrated]:
        """Return the session's log and its state.

        Raises CorruptionError, UnsupportedVersionError.
        """
        log, recovered = SessionLog.open(
            self.location,
            self.session_id,
            namespace=self.namespace,
            read_only=read_only,
            single_writer=single_writer,
        )
        try:
            hydrated = self.hydrate(recovered)
        except CorruptionError as error:
            if not read_only:
                raise
            recovered.damage.append(error)
            return log, salvage_sections(
                recovered, self._specs(recovered), self.counter, self.ranker
            )
        if not recovered.is_partial:
            keep_indexes(log, hydrated.sections)
        return log, hydrated

    def hydrate(self, recovered: Recovered) -> Hydrated:
        """Return the state of a log, as sections.

        Raises CorruptionError, UnsupportedVersionError.
        """
        read = salvage_sections if recovered.is_partial else hydrate
        return read(recovered, self._specs(recovered), self.counter, self.ranker)

    def _specs(self, recovered: Recovered) -> Sequence[SectionSpec]:
        """Return the given specs, or those that the session was stored with."""
        if self.sections is not None:
            return self.sections
        return stored_specs(recovered) or DEFAULT_SECTIONS

    @property
    def place(self) -> Hashable:
        """Return a key that is equal for all openings of one session."""
        return same_place(self.location), self.namespace, self.session_id

    @property
    def key(self) -> Hashable:
        """Return a key that is equal for openings with the same arguments.

        Objects are compared by identity.
        """
        specs = tuple(
            (replace(spec, ranker=None, compaction=None), id(spec.ranker), id(spec.compaction))
            for spec in self.sections or ()
        )
        given = self.given_counter
        is_as_stored = self.sections is None
        return (
            self.place,
            is_as_stored,
            specs,
            given if isinstance(given, str) else id(given),
            id(self.ranker),
        )


class Unopened(AbstractAsyncContextManager[T]):
    """A session that `async with` opens, once. Any other use raises NotOpenedError."""

    def __init__(self, inner: AbstractAsyncContextManager[T]) -> None:
        self._inner = inner

    async def __aenter__(self) -> T:
        return await self._inner.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    def __await__(self) -> NoReturn:
        raise NotOpenedError(_HOW_TO_OPEN)

    def __enter__(self) -> NoReturn:
        raise NotOpenedError(_HOW_TO_OPEN)

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> NoReturn:
        raise NotOpenedError(_HOW_TO_OPEN)


def unopened(function: Callable[P, AsyncIterator[T]]) -> Callable[P, Unopened[T]]:
    """Return a function whose result is opened by `async with`, as `asynccontextmanager` does."""
    opened = asynccontextmanager(function)
    return wraps(function)(lambda *args, **kwargs: Unopened(opened(*args, **kwargs)))


@dataclass
class _Shared:
    lock: threading.Lock
    opening: Opening  # keeps alive what the key names by identity
    stored: Hashable = None
    held: tuple[SessionLog, Hydrated] | None = None


class SharedSessions:
    """Read-only sessions that a process shares.

    A session is read again only if its stored state has changed.

    Several threads may ask: while one reads a session, the others wait for it.
    """

    def __init__(self, max_sessions: int = MAX_SHARED) -> None:
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[Hashable, _Shared] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, opening: Opening) -> tuple[SessionLog, Hydrated]:
        """Return the session's log and its sections, which refuse changes."""
        shared = self._entry(opening)
        with shared.lock:
            stored = fingerprint(opening.location, opening.session_id, opening.namespace)
            if shared.held is None or shared.stored != stored:
                shared.held = opening.read(read_only=True)
                for section in shared.held[1].sections.values():
                    section.freeze()
                shared.stored = stored
            return shared.held

    def drop(self, opening: Opening) -> None:
        """Release the shared state of a session.

        Blocks that have it open keep it until they close.
        """
        place = opening.place
        with self._lock:
            for key in [
                key for key, shared in self._sessions.items() if shared.opening.place == place
            ]:
                del self._sessions[key]

    def _entry(self, opening: Opening) -> _Shared:
        with self._lock:
            key = opening.key
            shared = self._sessions.setdefault(key, _Shared(threading.Lock(), opening))
            self._sessions.move_to_end(key)
            while len(self._sessions) > self._max_sessions:
                self._sessions.popitem(last=False)
            return shared


async def list_sessions(url_or_fs: Location, namespace: str = "default") -> list[str]:
    """Return the ids of the sessions of a namespace, sorted.

    Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await list_sessions("./.kaosmem")
    ['deal-42']
    """
    return await asyncio.to_thread(persistence.list_sessions, url_or_fs, namespace)


async def stored_sessions(url_or_fs: Location, namespace: str = "default") -> list[StoredSession]:
    """Return the sessions of a namespace with their sizes and last saves, the last saved first.

    No session is opened. Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> for session in await stored_sessions("./.kaosmem"):
    ...     print(session.session_id, session.size_bytes > 0, session.saved is not None)
    deal-42 True True
    """
    return await asyncio.to_thread(persistence.stored_sessions, url_or_fs, namespace)


async def list_namespaces(url_or_fs: Location) -> list[str]:
    """Return the namespaces that hold a session, sorted.

    Raises InvalidNameError and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./tenants", "deal-42", namespace="acme") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await list_namespaces("./tenants")
    ['acme']
    """
    return await asyncio.to_thread(persistence.list_namespaces, url_or_fs)


async def delete_session(url_or_fs: Location, session_id: str, namespace: str = "default") -> None:
    """Delete a session and all that it kept. Raises InvalidNameError before any I/O.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_session("./.kaosmem", "deal-42")
    >>> await list_sessions("./.kaosmem")
    []
    """
    await asyncio.to_thread(persistence.delete_session, url_or_fs, session_id, namespace)


async def delete_namespace(url_or_fs: Location, namespace: str) -> list[str]:
    """Delete all sessions of a namespace, and return their ids.

    Raises InvalidNameError before any I/O.

    Sessions that a writer makes meanwhile are deleted too, as far as they are seen: stop the
    tenant's writers before.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./tenants", "deal-42", namespace="acme") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_namespace("./tenants", "acme")
    ['deal-42']
    >>> await list_namespaces("./tenants")
    []
    """
    return await asyncio.to_thread(persistence.delete_namespace, url_or_fs, namespace)


async def delete_idle_sessions(
    url_or_fs: Location, namespace: str = "default", *, idle_s: float, clock: Clock | None = None
) -> list[str]:
    """Delete the sessions of a namespace whose last save is longer ago than this, and return their ids.

    This is the time to live of sessions: call it now and then. A session counts as used when it is saved with a change.
    A session whose filesystem tells no times stays.
    idle_s: seconds since the last save.
    clock: returns aware times. The default is the computer's clock, which should agree with the filesystem's.
    Raises InvalidNameError and InvalidArgumentError before any I/O, and DurabilityError.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    >>> await delete_idle_sessions("./.kaosmem", idle_s=30 * 86_400)
    []
    """
    now = datetime.now(UTC) if clock is None else check_clock(clock)()
    before = now - timedelta(seconds=check_ttl(idle_s, "idle_s"))
    return await asyncio.to_thread(
        persistence.delete_idle_sessions, url_or_fs, namespace, before=before
    )
