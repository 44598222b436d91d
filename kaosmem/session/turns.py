"""Turns of one session, one after another, in one event loop at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

from kaosmem.errors import ConcurrentUseError

_around: ContextVar[tuple[object, ...]] = ContextVar("_around", default=())
"""The turns that a task is inside of. Tasks that it starts inherit them."""


class OneLoop:
    """Lets tasks of one event loop at a time in. A lock alone would let the tasks of a second loop wait for ever.

    lock: of the loop that is in, or was last.
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
                        "the session is in use in another event loop; use one instance in one loop at a time, or open "
                        "the session once in each"
                    )
                self._loop, self.lock = loop, asyncio.Lock()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1


class Turns:
    """Gives turns in the order in which they are asked for, each once the one before has ended."""

    def __init__(self) -> None:
        self._one_loop = OneLoop()
        self._current: object = None

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a turn. Raises ConcurrentUseError inside a turn that has not ended, and in a second event loop."""
        if self._current is not None and self._current in _around.get():
            raise ConcurrentUseError(
                "a turn inside a turn of the same session would wait for itself; end the outer turn first, or leave "
                "out the inner one"
            )
        with self._one_loop:
            async with self._one_loop.lock:
                self._current = turn = object()
                token = _around.set((*_around.get(), turn))
                try:
                    yield
                finally:
                    self._current = None
                    with suppress(ValueError):  # ended in another task than it began in
                        _around.reset(token)
