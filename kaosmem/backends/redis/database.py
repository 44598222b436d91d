"""A server of Redis or Valkey: connections, keys, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from kaosmem.arguments import check_count, check_ttl
from kaosmem.backends.base import SharedDatabase, Workers
from kaosmem.errors import DurabilityError, InvalidNameError, KaosmemError, MissingExtraError
from kaosmem.names import check_name

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

_PAUSE_S, _MAX_PAUSE_S = 0.01, 0.5
"""The first and the longest pause before a call whose connection broke is tried again."""
_SCANNED = 1_000
"""Keys that the server looks at in one step of a scan."""


class RedisDatabase(SharedDatabase["_Workers"]):
    """A server of Redis or Valkey for the stores in `kaosmem.backends.redis`.

    Any number of processes may use it.

    Whether an acknowledged change survives a crash of the server is the server's setting:
    `appendonly yes` with `appendfsync always` makes it so. A call that is cancelled changes
    everything or nothing. Raises MissingExtraError without the extra `redis`, InvalidNameError and
    InvalidArgumentError; every call raises DurabilityError if the server fails or does not answer
    in time.

    Example, not run here because it needs a server::

        async with RedisDatabase("redis://localhost:6379") as database:
            history = RedisHistoryProvider(database.for_tenant("acme"))
            await history.append("analyst", ChatMessage("user", "Who owns the deal?"),
            session_id="room-7")

    Args:
        url: `redis://host:6379/0`, `rediss://` or `unix://`.
        tenant: All keys belong to it. `for_tenant` gives another one over the same connections.
        max_connections: Connections of this process. More calls than that wait for their turn.
        timeout_s: Seconds that a command, or the wait for a connection, may take. A call whose
            connection breaks, as when the server starts again, is tried again for so long.
        cluster: Whether the server is a cluster. All keys of one thread or state are in one slot.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        max_connections: int = 16,
        timeout_s: float = 30.0,
        cluster: bool = False,
    ) -> None:
        super().__init__()
        try:
            import redis
        except ImportError as error:
            raise MissingExtraError(
                "Redis needs the extra 'redis': pip install 'kaosmem[redis]'"
            ) from error
        try:
            parse: Any = redis.connection.parse_url
            parse(url)
        except (ValueError, AttributeError, TypeError):  # whose message may show a password
            raise InvalidNameError("the url is none of Redis; give redis://host:6379/0") from None
        self._url = url
        self._cluster = cluster
        self._tenant = check_name(tenant, "tenant")
        self._max_connections = check_count(max_connections, "max_connections", least=1)
        self._timeout_s = check_ttl(timeout_s, "timeout_s")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(tenant={self._tenant!r})"

    def for_tenant(self, tenant: str) -> RedisDatabase:
        """Return this database for the keys of a tenant. Give it to stores.

        It uses the connections of this database, which serve all tenants, and closing it closes
        none of them. Raises InvalidNameError.

        Example, not run here because it needs a server::

            states = RedisSessionStore(database.for_tenant("acme"))
        """
        shared = self._sharing()
        shared._tenant = check_name(tenant, "tenant")
        return shared

    @property
    def timeout_s(self) -> float:
        """Return the seconds for which a call is tried."""
        return self._timeout_s

    def key(self, kind: str, *ids: str) -> str:
        """Return the key of something.

        Different ids have different keys; keys of the same ids are in one slot.
        """
        quoted = [quote(each, safe="") for each in (self._tenant, kind, *ids)]
        return f"kaosmem:{{{'/'.join(quoted)}}}"

    async def ids(self, kind: str, suffix: str = "") -> list[Any]:
        """Return the ids of the tenant's keys of a kind: a tuple for each key, sorted.

        The server goes through all its keys.
        """

        def ids(client: Any) -> list[tuple[str, ...]]:
            found = set()
            for key in client.scan_iter(match=self._pattern(kind) + suffix, count=_SCANNED):
                name = key.decode()
                quoted = name[name.index("{") + 1 : name.index("}")].split("/")[2:]
                found.add(tuple(map(unquote, quoted)))
            return sorted(found)

        return await self.run(ids)

    async def delete(self, kind: str) -> None:
        """Delete the tenant's keys of a kind. The server goes through all its keys."""

        def delete(client: Any) -> None:
            for key in client.scan_iter(match=self._pattern(kind) + "*", count=_SCANNED):
                client.delete(key)

        await self.run(delete)

    def _pattern(self, kind: str) -> str:
        # No id has a character that a pattern gives a meaning to: `key` has quoted them.
        return f"kaosmem:{{{quote(self._tenant, safe='')}/{kind}/*}}"

    async def run(self, work: Callable[[redis.Redis], T]) -> T:
        """Return what `work` returns.

        If the connection breaks, `work` is called again. It must see to it that its change is made
        once.
        """
        until = time.monotonic() + self._timeout_s
        return await self._submit(
            lambda workers: workers.threads.submit(self._run, workers, work, until),
            timeout_s=self._timeout_s,
        )

    def _start(self) -> _Workers:
        return _Workers(self._connect, self._max_connections)

    async def _check(self) -> object:
        return await self.run(lambda client: client.ping())

    def _connect(self) -> Any:
        import redis

        limits = {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._timeout_s}
        if self._cluster:
            return redis.RedisCluster.from_url(
                self._url, max_connections=self._max_connections, **limits
            )
        pool = redis.BlockingConnectionPool.from_url(
            self._url, max_connections=self._max_connections, timeout=self._timeout_s, **limits
        )
        return redis.Redis(connection_pool=pool)

    def _run(
        self,
        workers: _Workers,
        work: Callable[[redis.Redis], T],
        until: float,
    ) -> T:
        import redis

        pause_s = _PAUSE_S
        with self._as_typed_errors():
            while True:
                try:
                    return work(workers.client)
                except redis.ConnectionError:
                    if time.monotonic() + pause_s > until:
                        raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    @contextmanager
    def _as_typed_errors(self) -> Iterator[None]:
        """Raise the errors of redis-py as DurabilityError. Their messages may show keys."""
        import redis

        try:
            yield
        except KaosmemError:
            raise
        except redis.TimeoutError as error:
            raise DurabilityError(
                f"Redis took longer than {self._timeout_s:g} s; read what is stored, then try "
                "again or raise timeout_s"
            ) from error
        except redis.ConnectionError as error:
            raise DurabilityError(
                f"Redis can't be reached for {self._timeout_s:g} s; check that the server runs, "
                "read what is stored, "
                "then try again"
            ) from error
        except redis.RedisError as error:
            raise DurabilityError(
                f"Redis refused the call: {type(error).__name__}; nothing has changed"
            ) from error


def milliseconds(ttl_s: float | None) -> int | None:
    """Return a time to live in milliseconds, at least one. Raises InvalidArgumentError."""
    if ttl_s is None:
        return None
    return max(1, round(check_ttl(ttl_s, "ttl_s") * 1_000))


class _Workers(Workers):
    """The threads of one process and their client."""

    def __init__(self, connect: Callable[[], redis.Redis], threads: int) -> None:
        super().__init__("kaosmem-redis", threads)
        self._connect = connect
        self._lock = threading.Lock()
        self._client: redis.Redis | None = None

    @property
    def client(self) -> redis.Redis:
        """Return the client. It is made in a thread: that of a cluster asks for its nodes."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()  # which keeps the connections of its pools open
            if hasattr(self._client, "disconnect_connection_pools"):  # of a cluster
                self._client.disconnect_connection_pools()
            else:
                self._client.connection_pool.disconnect()
