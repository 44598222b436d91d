"""Connections of one process to PostgreSQL: its threads, its pool, and the end of each wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from kaosmem.backends.base import Workers

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool

T = TypeVar("T")


class PooledWorkers(Workers):
    """The threads of one process and their pool of connections."""

    def __init__(self, pool: psycopg_pool.ConnectionPool[Any], threads: int) -> None:
        super().__init__("kaosmem-postgres", threads)
        self.pool = pool
        self._lock = threading.Lock()
        self._prepared = set[str]()

    def prepare(
        self,
        part: str,
        migrate: Callable[[], None],
        timeout_s: float,
    ) -> None:
        """Open the pool, and migrate a part of the schema, once.

        Raises PoolTimeout if others take too long.
        """
        from psycopg_pool import PoolTimeout

        if part in self._prepared:
            return
        if not self._lock.acquire(timeout=timeout_s):
            raise PoolTimeout
        try:
            if not self._prepared:
                self.pool.open()
            if part not in self._prepared:
                migrate()
                self._prepared.add(part)
        finally:
            self._lock.release()

    def disconnect(self) -> None:
        self.pool.close(0)


def connection_class_with_timeout(limit_s: float) -> type[psycopg.Connection[Any]]:
    """Return a class of connections that close when the server sends nothing for too long.

    The call gets TimeoutError.

    The limits of statements are the server's. They end no call whose server, or whose network,
    stands still.
    """
    import psycopg

    class Impatient(psycopg.Connection[Any]):
        def wait(
            self,
            gen: Any,
            *args: Any,
            **options: Any,
        ) -> Any:
            try:
                return super().wait(_limited(gen, monotonic() + limit_s), *args, **options)
            except TimeoutError:
                self.close()
                raise

    return Impatient


def _limited(steps: Generator[Any, Any, T], end: float) -> Generator[Any, Any, T]:
    """Pass on the waits of an operation.

    Raise TimeoutError if one is still without an answer at the end.
    """
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and monotonic() > end:
                raise TimeoutError
            wanted = steps.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
