"""Opening a session. Read-only sessions are shared within a process."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from kaosmem.arguments import check_instance
from kaosmem.errors import NotOpenedError
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.places import Location, fingerprint, same_place
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.saving.hydration import Hydrated, hydrate, keep_indexes, stored_specs
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter, TokenCounter

T = TypeVar("T")

MAX_SHARED = 8
"""A process keeps so many sessions that were opened read-only, those asked for most recently."""


@dataclass(frozen=True)
class Opening:
    """Which session is opened, and how it is read; all as given to `SessionMemory.open`.

    Attributes:
        place: Is equal for all openings of one session.
        counter: The counter that the session is counted with.
    """

    location: Location = field(repr=False, compare=False)
    session_id: str
    namespace: str
    sections: Sequence[SectionSpec] | None
    given_counter: AnyCounter
    ranker: Ranker | None
    place: Hashable = field(init=False, repr=False)
    counter: TokenCounter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        place = same_place(self.location), self.namespace, self.session_id
        object.__setattr__(self, "place", place)
        if self.ranker is not None:
            check_instance(self.ranker, Ranker, "ranker")
        object.__setattr__(self, "counter", get_counter(self.given_counter))

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
        hydrated = self.hydrate(recovered, read_only=read_only)
        if not hydrated.is_partial:
            keep_indexes(log, hydrated.sections, self.counter.name)
        return log, hydrated

    def hydrate(self, recovered: Recovered, *, read_only: bool = False) -> Hydrated:
        """Return the state of a log, as sections.

        Args:
            read_only: As in `kaosmem.session.saving.hydration.hydrate`.

        Raises CorruptionError, UnsupportedVersionError.
        """
        specs = self.sections
        if specs is None:  # as the session was stored
            specs = stored_specs(recovered) or DEFAULT_SECTIONS
        return hydrate(recovered, specs, self.counter, self.ranker, read_only=read_only)


def _refuse(*_: object) -> NoReturn:
    raise NotOpenedError(
        "a session is opened by `async with SessionMemory.open(...) as memory:` inside an async "
        "function, or by `with SyncSessionMemory.open(...) as memory:`"
    )


class Unopened(AbstractAsyncContextManager[T]):
    """A session that `async with` opens, once. Any other use raises NotOpenedError."""

    def __init__(self, inner: AbstractAsyncContextManager[T]) -> None:
        self._inner = inner

    async def __aenter__(self) -> T:
        return await self._inner.__aenter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._inner.__aexit__(*raised)

    __getattr__ = __await__ = __enter__ = __exit__ = _refuse


class UnopenedSync(AbstractContextManager[T]):
    """A session that `with` opens, once. Any other use raises NotOpenedError."""

    def __init__(self, inner: AbstractContextManager[T]) -> None:
        self._inner = inner

    def __enter__(self) -> T:
        return self._inner.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        return self._inner.__exit__(*raised)

    __getattr__ = _refuse


@dataclass
class _Shared:
    lock: threading.Lock
    opening: Opening
    stored: Hashable = None
    held: tuple[SessionLog, Hydrated] | None = None


def _are_equal(one: Opening, other: Opening) -> bool:
    try:
        return one == other
    except ValueError:  # rankers that hold arrays have no equality
        return False


class SharedSessions:
    """Read-only sessions that a process shares.

    A session is read again only if its stored state has changed.

    Several threads may ask: while one reads a session, the others wait for it.
    """

    def __init__(self) -> None:
        self._sessions: list[_Shared] = []  # the one asked for most recently is the last
        self._lock = threading.Lock()

    def read(self, opening: Opening) -> tuple[SessionLog, Hydrated]:
        """Return the session's log and its sections, which refuse changes."""
        with self._lock:
            known = [each for each in self._sessions if _are_equal(each.opening, opening)]
            shared = known[0] if known else _Shared(threading.Lock(), opening)
            others = [each for each in self._sessions if each is not shared]
            self._sessions = [*others, shared][-MAX_SHARED:]
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
        with self._lock:
            left = [each for each in self._sessions if each.opening.place != opening.place]
            self._sessions = left


SHARED_SESSIONS = SharedSessions()
"""The read-only sessions of this process."""
