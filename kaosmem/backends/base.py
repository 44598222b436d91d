"""The common part of all backends: worker threads and connections, and values as JSON text."""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any, Generic, Self, TypeVar

from kaosmem.arguments import STRICT_JSON
from kaosmem.errors import CorruptionError, DurabilityError, NotOpenedError
from kaosmem.types import ContentBlock
from kaosmem.types.content import stored_blocks

T = TypeVar("T")
W = TypeVar("W", bound="Workers")


class Workers:
    """The worker threads of one process, and their connections.

    More calls than threads wait in a queue.

    Args:
        name: The beginning of the threads' names.
    """

    def __init__(self, name: str, threads: int) -> None:
        self.pid = os.getpid()
        self.threads = ThreadPoolExecutor(threads, name)

    def close(self) -> None:
        """Wait for calls under way, and close all connections."""
        self.threads.shutdown()
        self.disconnect()

    def disconnect(self) -> None:
        """Close all connections."""

    def __del__(self) -> None:
        if self.pid == os.getpid():
            self.threads.shutdown(wait=False)
            self.disconnect()


class SharedDatabase(ABC, Generic[W]):
    """A database that stores share. Its calls run in threads, so that any event loop may make them.

    `async with` opens it, and closes it at the end. Without it the first call opens it. A forked
    process opens connections of its own. A call that is cancelled changes everything or nothing.
    """

    _owner: Self | None = None
    """The service whose workers this one uses. None: its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: W | None = None
        self._pid = os.getpid()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            await self._check()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _sharing(self) -> Self:
        """Return a copy that uses the workers of this service, and closes none of them."""
        shared = copy(self)
        shared._owner = self if self._owner is None else self._owner
        return shared

    async def close(self) -> None:
        """Wait for calls under way, and close all connections. Later calls raise NotOpenedError."""
        if self._owner is not None:
            return
        with self._lock:
            self._is_closed = True
            workers = self._workers
            self._workers = None
        if workers is not None and self._pid == os.getpid():
            await asyncio.to_thread(workers.close)

    async def _submit(
        self, submit: Callable[[W], Future[T]], *, timeout_s: float | None = None
    ) -> T:
        """Return the result of what `submit` gives to the workers.

        Raises NotOpenedError, and DurabilityError if all workers are busy for so long.

        Args:
            timeout_s: Seconds that the call may wait for a worker, None without end. Work that has
                begun goes on.
        """
        if self._owner is not None:
            return await self._owner._submit(submit, timeout_s=timeout_s)
        with self._lock:
            if self._is_closed:
                raise NotOpenedError(f"{self!r} is closed; make a new one")
            # A forked process has none of the threads of its parent.
            if self._workers is None or self._pid != os.getpid():
                self._workers = self._start()
                self._pid = os.getpid()
            asked = submit(self._workers)
        answer = asyncio.wrap_future(asked)
        try:
            await asyncio.wait([answer], timeout=timeout_s)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if asked.cancel():  # no worker has begun
            raise DurabilityError(
                f"{self!r} had no connection free within {timeout_s:g} s; nothing has changed, try "
                "again with fewer calls at once, or raise max_connections or timeout_s"
            )
        return await answer

    @abstractmethod
    def _start(self) -> W:
        """Return new workers."""

    @abstractmethod
    async def _check(self) -> object:
        """Open a connection. Raises the errors of the backend."""


def blocks_of(text: str) -> tuple[ContentBlock, ...]:
    """Return the content blocks of a JSON text. Raises CorruptionError."""
    try:
        return stored_blocks(value_of(text))
    except (TypeError, ValueError) as error:
        raise _damaged(error) from error


def value_of(text: str) -> Any:
    """Return the value of a JSON text. Raises CorruptionError."""
    try:
        return STRICT_JSON.decode(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> CorruptionError:
    """Return the error for a stored value that cannot be read."""
    return CorruptionError(
        f"a stored value is damaged ({type(error).__name__}); restore the store from a copy"
    )
