"""Turns of one session, one after another: of one instance, or of all instances in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

from kaosmem.errors import ConcurrentUseError
from kaosmem.persistence.storage.disk import LeaveLine

T = TypeVar("T")

TURNS_AROUND: ContextVar[tuple[object, ...]] = ContextVar("TURNS_AROUND", default=())
"""The turns that a task is inside of. Tasks that it starts inherit them."""


class SingleLoopGuard:
    """Lets tasks of one event loop at a time in.

    A lock alone would let the tasks of a second loop wait for ever.

    Attributes:
        lock: Of the loop that is in, or was last.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inside = 0
        self._guard = threading.Lock()

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._guard:
            if self._loop is not loop:
                if self._inside:
                    raise ConcurrentUseError(
                        "the session is in use in another event loop; use one SessionMemory or "
                        "Sessions in one loop at a time, or open the session once in each; without "
                        "a loop of your own, use SyncSessionMemory.open(..., in_turn=True)"
                    )
                self._loop = loop
                self.lock = asyncio.Lock()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1


class KeyedQueues:
    """Gives blocks of one key one after another, in the order of asking.

    They may ask in any thread and event loop.

    Args:
        nested: The message of the error for a block inside a block of the same key.
    """

    def __init__(self, nested: str) -> None:
        self._nested = nested
        # A ticket that is done, and not cancelled, is inside.
        self._waiting: dict[Hashable, list[Future[None]]] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def take(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the block of a key.

        Raises ConcurrentUseError inside a block of this key that has not ended.
        """
        ticket: Future[None] = Future()
        with self._lock:
            waiting = self._waiting.setdefault(key, [])
            for each in waiting:
                if each in TURNS_AROUND.get():
                    raise ConcurrentUseError(self._nested)
            waiting.append(ticket)
            _admit_next(waiting)
        try:
            await _result(ticket)
            with _inside(ticket):
                yield
        finally:
            with self._lock:
                waiting.remove(ticket)
                _admit_next(waiting)
                if not waiting:
                    del self._waiting[key]


TURNS_OF_PLACES = KeyedQueues(
    "a turn inside a turn of the same session would wait for itself; pass the open memory on, or "
    "end the outer turn first; in async functions use SessionMemory, which can wait there"
)
"""The turns that open a session, by the place of the session: `in_turn` blocks and `Sessions`."""


class TurnQueue:
    """Gives turns in the order in which they are asked for, each once the one before has ended."""

    def __init__(self) -> None:
        self._one_loop = SingleLoopGuard()
        self._queue = KeyedQueues(
            "a turn inside a turn of the same session would wait for itself; end the outer turn "
            "first, or leave out the inner one"
        )

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a turn.

        Raises:
            ConcurrentUseError: Inside a turn that has not ended, and in a second event loop.
        """
        with self._one_loop:
            async with self._queue.take(None):
                yield


_SAVE_QUEUES = KeyedQueues("a save inside a save of the same session would wait for itself")
_LINE_S = 5.0


@asynccontextmanager
async def in_line(
    key: Hashable, line_up: Callable[[], Future[LeaveLine] | None]
) -> AsyncIterator[None]:
    """Hold the first place in a session's line of writers, in this process and then among all.

    The line makes turns fair, not safe. After 5 s, a writer goes on without a place.
    """
    async with AsyncExitStack() as stack:
        with suppress(OSError):  # TimeoutError among them
            async with asyncio.timeout(_LINE_S):
                await stack.enter_async_context(_SAVE_QUEUES.take(key))
                waiting = line_up()
                if waiting is not None:
                    stack.callback(_leave, waiting)
                    await _result(waiting)
        yield


async def _result(waiting: Future[T]) -> T:
    """Return the result of a future, without a round of the event loop if it is there."""
    if waiting.done():
        return waiting.result()
    return await asyncio.wrap_future(waiting)


def _leave(waiting: Future[LeaveLine]) -> None:
    if not waiting.cancel():
        with suppress(OSError, CancelledError):
            waiting.result()()


def _admit_next(waiting: list[Future[None]]) -> None:
    """Let the first ticket in, unless one is inside. A cancelled ticket leaves by itself."""
    for each in waiting:
        if each.done() and not each.cancelled():
            return
    for each in waiting:
        if not each.cancelled() and each.set_running_or_notify_cancel():
            each.set_result(None)
            return


@contextmanager
def _inside(turn: object) -> Iterator[None]:
    """Note in the task that it is inside a turn."""
    token = TURNS_AROUND.set((*TURNS_AROUND.get(), turn))
    try:
        yield
    finally:
        with suppress(ValueError):  # ended in another task than it began in
            TURNS_AROUND.reset(token)
