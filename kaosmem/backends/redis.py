"""Histories and states in Redis or Valkey."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from kaosmem.arguments import check_count, check_ttl
from kaosmem.backends.rows import message_of, message_text, value_of
from kaosmem.backends.service import Service
from kaosmem.errors import DurabilityError, InvalidNameError, KaosmemError, MissingExtraError
from kaosmem.names import check_name
from kaosmem.stores.history import BaseHistoryProvider, Thread
from kaosmem.stores.memory import BaseShortTermMemory
from kaosmem.types import MAX_INTEGER, ChatMessage, JSONValue, json_text

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

_REMEMBERED_MS = 60_000  # a repeated append is known as one for so long

# Lua can pass about 8,000 values at once.
_PUSH = """
local function push(key, values, first)
    for at = first, #values, 1000 do
        redis.call('RPUSH', key, unpack(values, at, math.min(at + 999, #values)))
    end
end
"""
_APPEND = f"""{_PUSH}
if redis.call('SET', KEYS[2], 1, 'NX', 'PX', {_REMEMBERED_MS}) then
    push(KEYS[1], ARGV, 2)
    if ARGV[1] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
end
"""
_CLEAR_RUN = f"""{_PUSH}
local all, kept = redis.call('LRANGE', KEYS[1], 0, -1), {{}}
for _, each in ipairs(all) do
    if string.sub(each, 1, #ARGV[1]) ~= ARGV[1] then kept[#kept + 1] = each end
end
if #kept < #all then
    local left = redis.call('PTTL', KEYS[1])
    redis.call('DEL', KEYS[1])
    push(KEYS[1], kept, 1)
    if left > 0 and #kept > 0 then redis.call('PEXPIRE', KEYS[1], left) end
end
"""


class RedisDatabase(Service["_Workers"]):
    """A server of Redis or Valkey for the stores in `kaosmem.backends.redis`. Any number of processes may use it.

    url: `redis://host:6379/0`, `rediss://` or `unix://`. tenant: all keys belong to it.
    max_connections: connections of this process. More calls than that wait for their turn.
    timeout_s: seconds that a command, or the wait for a connection, may take.
    cluster: whether the server is a cluster. All keys of one thread or state are in one slot.
    Whether an acknowledged change survives a crash of the server is the server's setting: `appendonly yes` with
    `appendfsync always` makes it so. A call that is cancelled changes everything or nothing.
    Raises MissingExtraError without the extra `redis`, InvalidNameError and InvalidArgumentError; every call raises
    DurabilityError if the server fails or does not answer in time.

    Example, not run here because it needs a server::

        async with RedisDatabase("redis://localhost:6379", tenant="acme") as database:
            history = RedisHistoryProvider(database)
            await history.append("analyst", ChatMessage("user", "Who owns the deal?"), session_id="room-7")
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
            raise MissingExtraError("Redis needs the extra 'redis': pip install 'kaosmem[redis]'") from error
        try:
            parse: Any = redis.connection.parse_url
            parse(url)
        except (ValueError, AttributeError, TypeError):  # whose message may show a password
            raise InvalidNameError("the url is none of Redis; give redis://host:6379/0") from None
        self._url, self._cluster = url, cluster
        self._tenant = check_name(tenant, "tenant")
        self._max_connections = check_count(max_connections, "max_connections", least=1)
        self._timeout_s = check_ttl(timeout_s, "timeout_s")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(tenant={self._tenant!r})"

    def key(self, kind: str, *ids: str) -> str:
        """Return the key of something. Different ids have different keys; keys of the same ids are in one slot."""
        return f"kaosmem:{{{'/'.join(quote(each, safe='') for each in (self._tenant, kind, *ids))}}}"

    async def run(self, work: Callable[[redis.Redis], T]) -> T:
        """Return what `work` returns."""
        return await self._submit(lambda workers: workers.threads.submit(self._run, workers.client, work))

    def _start(self) -> _Workers:
        return _Workers(self._connect(), self._max_connections)

    async def _check(self) -> object:
        return await self.run(lambda client: client.ping())

    def _connect(self) -> Any:
        import redis

        limits = {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._timeout_s}
        if self._cluster:
            return redis.RedisCluster.from_url(self._url, max_connections=self._max_connections, **limits)
        pool = redis.BlockingConnectionPool.from_url(
            self._url, max_connections=self._max_connections, timeout=self._timeout_s, **limits
        )
        return redis.Redis(connection_pool=pool)

    def _run(self, client: redis.Redis, work: Callable[[redis.Redis], T]) -> T:
        with self._as_typed_errors():
            return work(client)

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
                f"Redis took longer than {self._timeout_s:g} s; read what is stored, then try again or raise timeout_s"
            ) from error
        except redis.ConnectionError as error:
            raise DurabilityError("Redis can't be reached; check that the server runs, and try again") from error
        except redis.RedisError as error:
            raise DurabilityError(f"Redis refused the call: {type(error).__name__}; nothing has changed") from error


class _Workers:
    """The threads of one process and their client. More calls than threads wait in a queue."""

    def __init__(self, client: redis.Redis, threads: int) -> None:
        self.pid, self.client = os.getpid(), client
        self.threads = ThreadPoolExecutor(threads, "kaosmem-redis")

    def close(self) -> None:
        self.threads.shutdown()
        self.client.close()
        if pool := getattr(self.client, "connection_pool", None):
            pool.disconnect()

    def __del__(self) -> None:
        if self.pid == os.getpid():
            self.threads.shutdown(wait=False)


class RedisHistoryProvider(BaseHistoryProvider):
    """A HistoryProvider in Redis: a list for each thread.

    ttl_s: seconds after its last message that a thread stays, None for ever.
    An append whose answer is lost may be sent twice by the driver, and is done once.
    """

    def __init__(self, database: RedisDatabase, *, ttl_s: float | None = None) -> None:
        self._database = database
        self._ttl_ms = "" if ttl_s is None else str(max(1, round(check_ttl(ttl_s, "ttl_s") * 1_000)))

    async def _append(self, thread: Thread, run: str, messages: list[ChatMessage]) -> None:
        key = self._database.key("thread", *thread)
        keys = [key, f"{key}:{secrets.token_hex(16)}"]
        await self._database.run(
            lambda client: client.eval(
                _APPEND, 2, *keys, self._ttl_ms, *(f"{run}\n{message_text(each)}" for each in messages)
            )
        )

    async def _read(self, thread: Thread, start: int, end: int | None) -> list[ChatMessage]:
        key = self._database.key("thread", *thread)
        last = -1 if end is None else min(end, MAX_INTEGER) - 1
        if end is not None and end <= start:
            return []

        def read(client: Any) -> list[ChatMessage]:
            rows: list[bytes] = client.lrange(key, min(start, MAX_INTEGER), last)
            return [message_of(row.decode().partition("\n")[2]) for row in rows]

        return await self._database.run(read)

    async def _count(self, thread: Thread) -> int:
        key = self._database.key("thread", *thread)
        return await self._database.run(lambda client: int(client.llen(key)))

    async def _delete(self, thread: Thread, run: str | None) -> None:
        key = self._database.key("thread", *thread)
        if run is None:
            await self._database.run(lambda client: client.delete(key))
        else:
            await self._database.run(lambda client: client.eval(_CLEAR_RUN, 1, key, f"{run}\n"))


class RedisSessionStore(BaseShortTermMemory):
    """A ShortTermMemory in Redis: a hash for each session, so that the server merges patches in one step.

    ttl_s: seconds after its last change that a state stays, None for ever.
    """

    def __init__(self, database: RedisDatabase, *, ttl_s: float | None = None) -> None:
        self._database = database
        self._ttl_ms = None if ttl_s is None else max(1, round(check_ttl(ttl_s, "ttl_s") * 1_000))

    async def _read(self, session_id: str) -> dict[str, JSONValue]:
        return await self._change(session_id, {}, replace=False)

    async def _change(self, session_id: str, patch: dict[str, JSONValue], *, replace: bool) -> dict[str, JSONValue]:
        key = self._database.key("state", session_id)
        fields = {name: json_text(value) for name, value in patch.items()}

        def change(client: Any) -> dict[str, JSONValue]:
            with client.pipeline(transaction=True) as steps:
                if replace:
                    steps.delete(key)
                if fields:
                    steps.hset(key, mapping=fields)
                    if self._ttl_ms is not None:
                        steps.pexpire(key, self._ttl_ms)
                steps.hgetall(key)
                state: dict[bytes, bytes] = steps.execute()[-1]
            return {name.decode(): value_of(text.decode()) for name, text in state.items()}

        return await self._database.run(change)
