"""States of sessions in Redis or Valkey."""

from __future__ import annotations

from typing import Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.redis.database import RedisDatabase, milliseconds
from kaosmem.stores.state import ShortTermMemory
from kaosmem.types import JSONDict


class RedisSessionStore(ShortTermMemory):
    """A ShortTermMemory in Redis: a hash for each session. The server merges patches in one step.

    Args:
        ttl_s: Seconds after its last change that a state stays, None for ever.
    """

    def __init__(self, database: RedisDatabase, *, ttl_s: float | None = None) -> None:
        self._database = database
        self._ttl_ms = milliseconds(ttl_s)

    async def list_states(self) -> list[str]:
        return [session for (session,) in await self._database.ids("state")]

    async def delete_all(self) -> None:
        await self._database.delete("state")

    async def _read(self, session_id: str) -> JSONDict:
        return await self._change(session_id, {}, replace=False)

    async def _change(
        self,
        session_id: str,
        patch: JSONDict,
        *,
        replace: bool,
    ) -> JSONDict:
        key = self._database.key("state", session_id)
        fields = {name: json_text(value) for name, value in patch.items()}

        def change(client: Any) -> JSONDict:
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
