"""The sessions of a server by their ids: opened when asked for, and closed when idle."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from kaosmem.arguments import check_count, is_number
from kaosmem.errors import ConflictError, InvalidArgumentError, ReadOnlyError
from kaosmem.names import check_name, name_hint, shown, shown_number
from kaosmem.persistence.storage.places import Location, same_place
from kaosmem.session.memory import SessionMemory
from kaosmem.session.saving.turns import TURNS_OF_PLACES, SingleLoopGuard

_OF_A_TURN = ("read_only", "in_turn")
"""Arguments of `SessionMemory.open` that no caller chooses: a turn writes, and waits for others."""


@dataclass
class _Open:
    """A session that is open, or about to be."""

    waiting: int = 0
    idle_since: float = 0.0
    block: AbstractAsyncContextManager[SessionMemory] | None = None
    memory: SessionMemory | None = None


class Sessions:
    """The sessions of a server, middleware or plugin, which outlives each of them.

    `turn` gives the memory of a session to one turn at a time. The session is saved at the end of
    each turn. It stays open for the next one, until more than `max_open` are open or it was idle
    for `idle_s`. All turns that run at once are in one event loop. A later loop, as of another
    `asyncio.run`, opens its sessions anew.

    Args:
        location: A path, a URL that fsspec understands, or a filesystem.
        namespace: A name that keeps the sessions of one tenant apart, where a turn names none.
        max_open: Number of sessions that stay open, at least 1. More are open only while more turns
            run at once.
        idle_s: Seconds after which an idle session is closed, when a turn ends or by `close_idle`.
        clock: Returns seconds.
        arguments: Further arguments of `SessionMemory.open`, but for `read_only` and `in_turn`: a
            turn waits for others, and saves. To read a session, open it by itself.

    Raises:
        InvalidNameError: If the namespace is not valid, or no session can be kept in the location.
        InvalidArgumentError: If another argument is not valid, or not known.
        KaosmemError: If a package for the location is missing, or its server can't be reached.

    >>> from kaosmem import Sessions
    >>> async with Sessions("./.kaosmem") as sessions:
    ...     for question in ("Who owns the deal?", "Since when?"):
    ...         async with sessions.turn("deal-42") as memory:
    ...             item = memory.add("messages", question)
    ...     async with sessions.turn("deal-42") as memory:
    ...         print(len(memory["messages"]))
    2
    """

    def __init__(
        self,
        location: Location = "./.kaosmem",
        *,
        namespace: str = "default",
        max_open: int = 100,
        idle_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        **arguments: Any,
    ) -> None:
        check_names(arguments)
        SessionMemory.open(
            location, namespace=namespace, **arguments
        )  # checks them, and reads none
        if not isinstance(idle_s, int | float) or not idle_s >= 0:
            raise InvalidArgumentError(f"idle_s is {shown_number(idle_s)}; give seconds from 0 on")
        if not callable(clock) or not is_number(clock()):
            raise InvalidArgumentError("clock gives no seconds; give one such as time.monotonic")
        self._location = location
        self._namespace = namespace
        self._max_open = check_count(max_open, "max_open", least=1)
        self._idle_s = idle_s
        self._clock = clock
        self._arguments = arguments
        self._sessions: OrderedDict[tuple[str, str], _Open] = (
            OrderedDict()
        )  # the one used last is the last
        self._one_loop = SingleLoopGuard()
        self._is_closed = False

    def __len__(self) -> int:
        return sum(each.memory is not None for each in self._sessions.values())

    async def __aenter__(self) -> Sessions:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def turn(
        self, session_id: str, *, namespace: str | None = None
    ) -> AsyncIterator[SessionMemory]:
        """Hold a turn of a session, and give its memory.

        A namespace takes the place of that of these sessions, so that they serve all tenants.

        Turns of one session follow each other in the order of their calls, and so do blocks of
        `SessionMemory.open(..., in_turn=True)` in this process. What other processes saved is there
        at the beginning. An exception discards the changes of the turn. What the turn attaches is
        attached for this turn.

        Raises:
            ConcurrentUseError: Inside a turn of the same session that has not ended, also in a task
                that was started there, and while a turn runs in another event loop.
            InvalidNameError: If the id or the namespace is not valid.
            ReadOnlyError: If the sessions were closed, also while the turn waited.
            KaosmemError: As `SessionMemory.open` and `SessionMemory.save`.
        """
        self._check_open()
        check_name(session_id, "session id")
        tenant = self._namespace if namespace is None else check_name(namespace, "namespace")
        key = tenant, session_id
        session = self._sessions.setdefault(key, _Open())
        self._sessions.move_to_end(key)
        session.waiting += 1
        try:
            with self._one_loop:
                async with TURNS_OF_PLACES.take(self._place(key)):
                    self._check_open()
                    memory = await self._opened(key, session)
                    try:
                        yield memory
                        await memory.save()
                    except BaseException as error:
                        await self._close(session, error)
                        raise
                    finally:
                        # The next turn attaches its own: it may be in a memory opened anew.
                        memory._session.registry.detach_all()
        finally:
            session.waiting -= 1
            session.idle_since = self._clock()
            await self.close_idle()

    async def close_idle(self) -> None:
        """Close the sessions that were idle for too long, and the oldest of too many."""
        due = self._clock() - self._idle_s
        for key, session in list(self._sessions.items()):
            if session.waiting or self._sessions.get(key) is not session:
                continue
            is_due = session.idle_since <= due or len(self) > self._max_open
            if is_due or session.memory is None:
                # A turn that begins while this one closes opens the session anew.
                del self._sessions[key]
                await self._close(session)

    async def close(self) -> None:
        """Wait for the turns that run, and close all sessions. Later turns raise ReadOnlyError."""
        self._is_closed = True
        for key, session in list(self._sessions.items()):
            async with TURNS_OF_PLACES.take(self._place(key)):
                await self._close(session)
        self._sessions.clear()

    def _place(self, key: tuple[str, str]) -> tuple[object, str, str]:
        return same_place(self._location), *key

    def _check_open(self) -> None:
        if self._is_closed:
            raise ReadOnlyError("these sessions were closed; make new ones")

    async def _opened(self, key: tuple[str, str], session: _Open) -> SessionMemory:
        memory = session.memory
        if memory is not None and memory._session.is_closed:  # as when its event loop ended
            await self._close(session)
        elif memory is not None:
            try:
                await memory.admin.refresh()
                return memory
            except ConflictError as error:  # deleted or made anew since the last turn
                await self._close(session, error)
        namespace, session_id = key
        block = SessionMemory.open(
            self._location, session_id, namespace=namespace, **self._arguments
        )
        session.memory = await block.__aenter__()
        session.block = block
        return session.memory

    async def _close(self, session: _Open, error: BaseException | None = None) -> None:
        """Close a session. An error discards its changes."""
        block = session.block
        session.block = None
        session.memory = None
        if block is not None:
            raised = (type(error), error, error.__traceback__) if error else (None, None, None)
            await block.__aexit__(*raised)


def check_names(given: Iterable[str], *takers: Callable[..., object]) -> None:
    """Raise InvalidArgumentError for an argument that `Sessions` and other takers do not know.

    Args:
        takers: Classes that hand further arguments on to `Sessions`.
    """
    known: dict[str, Parameter] = {}
    for taker in (*takers, Sessions, SessionMemory.open):
        known |= signature(taker).parameters
    names = [name for name, each in known.items() if each.kind is Parameter.KEYWORD_ONLY]
    names = [name for name in names if name not in _OF_A_TURN]
    for name in given:
        if name in _OF_A_TURN:
            raise InvalidArgumentError(
                f"no argument {shown(name)}: a turn waits for others, and saves; to choose, open the "
                "session by SessionMemory.open"
            )
        if name not in names:
            raise InvalidArgumentError(f"no argument {shown(name)}; {name_hint(name, names)}")
