"""States of sessions in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaosmem.backends.base import value_of
from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.stores.memory import BaseShortTermMemory
from kaosmem.types import JSONValue, json_text

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


class PostgresShortTermMemory(BaseShortTermMemory):
    """A ShortTermMemory in PostgreSQL, a row for each name: a patch costs its own size, not that of the state.

    Patches of one session that several workers make at once come one after another; none is lost.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def list_states(self) -> list[str]:
        rows = await self._database.rows("SELECT DISTINCT session FROM states WHERE tenant = %s")
        return [session for (session,) in rows]

    async def delete_all(self) -> None:
        await self._database.delete("states")

    async def _read(self, session_id: str) -> dict[str, JSONValue]:
        return await self._database.run(lambda cursor: self._state(cursor, session_id))

    async def _change(
        self, session_id: str, patch: dict[str, JSONValue], *, replace: bool
    ) -> dict[str, JSONValue]:
        def change(cursor: Cursor) -> dict[str, JSONValue]:
            lock(cursor, self._database.tenant, "state", session_id)
            if replace:
                owned = (self._database.tenant, session_id)
                cursor.execute("DELETE FROM states WHERE tenant = %s AND session = %s", owned)
            self._merge(cursor, session_id, patch)
            return self._state(cursor, session_id)

        return await self._database.run(change)

    def _state(self, cursor: Cursor, session_id: str) -> dict[str, JSONValue]:
        cursor.execute(
            "SELECT name, value FROM states WHERE tenant = %s AND session = %s ORDER BY id",
            (self._database.tenant, session_id),
        )
        return {name.decode(): value_of(text) for name, text in cursor}

    def _merge(self, cursor: Cursor, session_id: str, patch: Mapping[str, JSONValue]) -> None:
        cursor.executemany(
            "INSERT INTO states (tenant, session, name, value) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (tenant, session, name) DO UPDATE SET value = excluded.value",
            [  # PostgreSQL has no NUL in texts; JSON escapes it, and a name is kept as bytes
                (self._database.tenant, session_id, name.encode(), json_text(value))
                for name, value in patch.items()
            ],
        )
