"""Sessions for programs without `async`. They run in one event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import date, datetime
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from kaosmem.assembly.context import Context
from kaosmem.errors import ConcurrentUseError, CorruptionError
from kaosmem.formats.streams import Stream
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.admin import SessionAdmin
from kaosmem.session.archive import SessionArchive
from kaosmem.session.at import MemoryAt
from kaosmem.session.graph import Graph
from kaosmem.session.memory import SessionMemory
from kaosmem.session.opening import UnopenedSync
from kaosmem.session.proposals import Proposals
from kaosmem.session.saving.turns import TURNS_AROUND

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _LoopThread:
    """An event loop in a daemon thread, which starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Return the result of a coroutine that the loop runs. An interrupted wait cancels it.

        Raises:
            ConcurrentUseError: If the loop's own thread calls, which would wait for itself.
        """
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Callable[[], Coroutine[Any, Any, R]]) -> Future[R]:
        """Return the future of a coroutine that the loop runs. Raises as `run`."""
        loop = self._started()
        if threading.current_thread() is self._thread:
            raise ConcurrentUseError(
                "a callback of a SyncSessionMemory runs inside its event loop and cannot wait for "
                "it; call the memory after the callback, or from another thread"
            )
        return asyncio.run_coroutine_threadsafe(work(), loop)

    async def wait(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Return the result of a coroutine that the loop runs, in this loop or in any other."""
        if threading.current_thread() is self._thread:
            return await work()
        return await asyncio.wrap_future(self.start(work))

    def start_anew(self) -> None:
        """Start with the next call. A forked process has the loop, and no thread that runs it."""
        self._lock = threading.Lock()
        self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="kaosmem", daemon=True
                )
                self._thread.start()
            return self._loop


LOOP = _LoopThread()
"""The loop of all memories that programs without `async` use, and of the adapters of frameworks."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOOP.start_anew)


class _InLoop(Generic[T]):
    """An object whose methods run in the loop."""

    def __init__(self, inner: T) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._inner!r}>"


def _awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_InLoop[Any], P], R]:
    """Return a method that waits for an asynchronous one, with its documentation and types."""

    @wraps(method)
    def call(self: _InLoop[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return LOOP.run(lambda: method(self._inner, *args, **kwargs))

    return call


def _called(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[_InLoop[Any], P], R]:
    """Return a method that calls a synchronous one in the loop's thread."""

    @wraps(method)
    def call(self: _InLoop[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return _run_in_loop(method, self._inner, *args, **kwargs)

    return call


def _run_in_loop(function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call a function in the loop's thread."""

    async def run() -> R:
        return function(*args, **kwargs)

    return LOOP.run(run)


def _assembled(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Context]],
) -> Callable[Concatenate[_InLoop[Any], P], Context]:
    """Return a method that waits for a context, whose credits are counted in the loop's thread."""

    @wraps(method)
    def call(self: _InLoop[Any], /, *args: P.args, **kwargs: P.kwargs) -> Context:
        context = LOOP.run(lambda: method(self._inner, *args, **kwargs))
        counts = context._credits
        if counts is None:
            return context
        return replace(context, _credits=partial(_run_in_loop, counts))

    return call


@contextmanager
def _entered(make: Callable[[], AbstractAsyncContextManager[R]]) -> Iterator[R]:
    """Hold an asynchronous context manager while the caller's block runs.

    One task enters and leaves it. The calling thread is inside of its turns as the task is, so that
    a turn inside a turn is refused.
    """
    entered: Future[tuple[R, tuple[object, ...]]] = Future()
    left: Future[None] = Future()

    async def hold() -> None:
        async with make() as value:
            entered.set_result((value, TURNS_AROUND.get()))
            await asyncio.wrap_future(left)

    known = (*TURNS_AROUND.get(), *_turns_of_running_loop())
    context = copy_context()
    context.run(TURNS_AROUND.set, known)
    held = context.run(LOOP.start, hold)
    first: list[Future[Any]] = [held, entered]
    wait(first, return_when=FIRST_COMPLETED)
    if not entered.done():
        held.result()
    value, turns = entered.result()
    with _inside(turns[len(known) :]):
        try:
            yield value
        except BaseException as error:
            # An exit of the program would end the thread of the loop, too.
            passed = error if isinstance(error, Exception) else _ExitError()
            left.set_exception(passed)
            raised = held.exception()
            if raised is not None and raised is not passed:
                raise raised from error
            raise
        left.set_result(None)
        held.result()


@contextmanager
def _inside(turns: Sequence[object]) -> Iterator[None]:
    """Note that the calling thread, and the event loop that runs in it, are inside of turns."""
    of_loop = _turns_of_running_loop()
    of_loop += turns
    token = TURNS_AROUND.set((*TURNS_AROUND.get(), *turns))
    try:
        yield
    finally:
        for turn in turns:
            of_loop.remove(turn)
        with suppress(ValueError):  # a server may go on with a generator in another thread
            TURNS_AROUND.reset(token)


_TURNS_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, list[object]] = WeakKeyDictionary()
"""The turns that tasks of an event loop hold. A task that waits for one of them stops its holder."""


def _turns_of_running_loop() -> list[object]:
    """Return the list of the turns that tasks of the running event loop hold, if one runs."""
    try:
        return _TURNS_OF_LOOPS.setdefault(asyncio.get_running_loop(), [])
    except RuntimeError:
        return []


class _ExitError(Exception):
    """The caller's block was left by an exit of the program."""


def _opened(
    method: Callable[P, AbstractAsyncContextManager[SessionMemory]],
) -> Callable[P, AbstractContextManager[SyncSessionMemory]]:
    """Return a function whose result is opened by `with`."""

    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[SyncSessionMemory]:
        with _entered(lambda: method(*args, **kwargs)) as memory:
            yield SyncSessionMemory(memory)

    return wraps(method)(lambda *args, **kwargs: UnopenedSync(opened(*args, **kwargs)))


class SyncMemoryAt(_InLoop[MemoryAt]):
    """A `MemoryAt` for programs without `async`."""

    assemble_context = _awaited(MemoryAt.assemble_context)
    search = _awaited(MemoryAt.search)


class SyncArchive(_InLoop[SessionArchive]):
    """A `SessionArchive` for programs without `async`."""

    __len__ = _called(SessionArchive.__len__)
    expand = _awaited(SessionArchive.expand)
    items = _awaited(SessionArchive.items)


class SyncAdmin(_InLoop[SessionAdmin]):
    """A `SessionAdmin` for programs without `async`. `inner` has its properties."""

    refresh = _awaited(SessionAdmin.refresh)
    prepare = _awaited(SessionAdmin.prepare)
    verify = _awaited(SessionAdmin.verify)
    retain = _awaited(SessionAdmin.retain)
    record_outcome = _called(SessionAdmin.record_outcome)

    @property
    def inner(self) -> SessionAdmin:
        """The administration itself, for its properties."""
        return self._inner


class SyncSessionMemory(_InLoop[SessionMemory]):
    """A SessionMemory for programs without `async`, and for notebooks.

    The methods, their arguments and their results are those of `SessionMemory`; none is awaited.
    One thread and one event loop serve all such memories of a process. So a memory may be used in
    any thread, also where an event loop runs already. Callbacks run in the thread of the loop.
    Sections, windows and the graph are read in the calling thread: read them while no other thread
    uses the same memory.

    >>> from kaosmem import SyncSessionMemory
    >>> with SyncSessionMemory.test_mode() as memory:
    ...     item = memory.add("findings", "Ann owns the deal.")
    ...     context = memory.assemble_context("Who owns the deal?", budget=100)
    >>> print(context.text)
    ## findings
    [*] Ann owns the deal.
    <BLANKLINE>
    """

    open = staticmethod(_opened(SessionMemory.open))
    test_mode = staticmethod(_opened(SessionMemory.test_mode))

    save = _awaited(SessionMemory.save)
    add = _called(SessionMemory.add)
    add_many = _called(SessionMemory.add_many)
    add_message = _called(SessionMemory.add_message)
    sync_messages = _awaited(SessionMemory.sync_messages)
    update = _called(SessionMemory.update)
    remove = _called(SessionMemory.remove)
    forget = _awaited(SessionMemory.forget)
    ingest = _awaited(SessionMemory.ingest)
    attach = _awaited(SessionMemory.attach)
    assemble_context = _assembled(SessionMemory.assemble_context)
    search = _called(SessionMemory.search)
    get = _called(SessionMemory.get)
    fetch = _awaited(SessionMemory.fetch)
    versions = _awaited(SessionMemory.versions)
    why = _called(SessionMemory.why)
    what_if = _awaited(SessionMemory.what_if)
    form = _awaited(SessionMemory.form)
    tools = _called(SessionMemory.tools)
    call_tool = _awaited(SessionMemory.call_tool)
    __getitem__ = _called(SessionMemory.__getitem__)
    __iter__ = _called(SessionMemory.__iter__)
    __contains__ = _called(SessionMemory.__contains__)

    def turn(self) -> AbstractContextManager[None]:
        """Hold a turn, as `SessionMemory.turn` does."""
        return _entered(self._inner.turn)

    def collecting(
        self, format: str, *, section: str = "messages"
    ) -> AbstractContextManager[Stream]:
        """Store a streamed reply as one message, as `SessionMemory.collecting` does."""
        return _entered(lambda: self._inner.collecting(format, section=section))

    def at(
        self,
        *,
        as_of: datetime | date | str | None = None,
        known_at: datetime | date | str | None = None,
    ) -> SyncMemoryAt:
        """Return the memory at another time, as `SessionMemory.at` does."""
        return SyncMemoryAt(self._inner.at(as_of=as_of, known_at=known_at))

    @property
    def sections(self) -> tuple[SectionSpec, ...]:
        """The specs of all sections, in order of declaration."""
        return self._inner.sections

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on damage, on sections without a spec, on another counter, and the like."""
        return self._inner.notices

    @property
    def damage(self) -> tuple[CorruptionError, ...]:
        """The damage of the stored session, as far as it was read."""
        return self._inner.damage

    @property
    def proposals(self) -> Proposals:
        """The proposals of formations that wait for a person, and the counts of refused ones."""
        return self._inner.proposals

    @property
    def graph(self) -> Graph:
        """The entities and relationships of the session."""
        return self._inner.graph

    @property
    def windows(self) -> dict[str, int]:
        """The windows of the session by name."""
        return self._inner.windows

    @property
    def archive(self) -> SyncArchive:
        """The archives of all sections."""
        return SyncArchive(self._inner.archive)

    @property
    def admin(self) -> SyncAdmin:
        """The administration of the session."""
        return SyncAdmin(self._inner.admin)
