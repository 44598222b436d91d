"""Histories in Redis or Valkey."""

from __future__ import annotations

import secrets
from typing import Any

from kaosmem.arguments import MAX_INTEGER, Clock
from kaosmem.backends.redis.database import RedisDatabase, milliseconds
from kaosmem.stores.history import HistoryProvider, Thread, decode_message, encode_message
from kaosmem.types.items import ChatMessage

# Lua can pass about 8,000 values at once.
_PUSH = """
local function push(key, values, first)
    for at = first, #values, 1000 do
        redis.call('RPUSH', key, unpack(values, at, math.min(at + 999, #values)))
    end
end
"""
_APPEND = f"""{_PUSH}
if redis.call('SET', KEYS[2], 1, 'NX', 'PX', ARGV[2]) then
    push(KEYS[1], ARGV, 3)
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


class RedisHistoryProvider(HistoryProvider):
    """A HistoryProvider in Redis: a list for each thread.

    An append whose answer is lost is sent again, and done once.

    Args:
        ttl_s: Seconds after its last message that a thread stays, None for ever.
        clock: Gives the times of messages, with a zone.
    """

    def __init__(
        self,
        database: RedisDatabase,
        *,
        ttl_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(clock=clock)
        self._database = database
        self._ttl_ms = milliseconds(ttl_s)

    async def list_threads(self) -> list[Thread]:
        return await self._database.ids("thread")

    async def delete_all(self) -> None:
        await self._database.delete("thread")

    async def _append(
        self,
        thread: Thread,
        run: str,
        messages: list[ChatMessage],
    ) -> None:
        key = self._database.key("thread", *thread)
        # The second key is there while the call may be tried again.
        keys = [key, f"{key}:{secrets.token_hex(16)}"]
        remembered_ms = round(3_000 * self._database.timeout_s)
        await self._database.run(
            lambda client: client.eval(
                _APPEND,
                2,
                *keys,
                self._ttl_ms or "",
                remembered_ms,
                *(f"{run}\n{encode_message(each)}" for each in messages),
            )
        )

    async def _read(
        self,
        thread: Thread,
        start: int,
        end: int | None,
    ) -> list[ChatMessage]:
        key = self._database.key("thread", *thread)
        last = -1 if end is None else min(end, MAX_INTEGER) - 1
        if end is not None and end <= start:
            return []

        def read(client: Any) -> list[ChatMessage]:
            rows: list[bytes] = client.lrange(key, min(start, MAX_INTEGER), last)
            return [decode_message(row.decode().partition("\n")[2]) for row in rows]

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
