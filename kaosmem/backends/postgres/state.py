"""States of sessions in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.backends.rows import value_of
from kaosmem.names import check_id
from kaosmem.stores.memory import check_state
from kaosmem.types import JSONValue, json_text

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


class PostgresShortTermMemory:
    """A ShortTermMemory in PostgreSQL, a row for each name: a patch costs its own size, not that of the state.

    Patches of one session that several workers make at once come one after another; none is lost.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        check_id(session_id, "session id")
        return await self._database.run(lambda cursor: self._state(cursor, session_id))

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        check_id(session_id, "session id")
        checked = check_state(state)

        def replace(cursor: Cursor) -> None:
            lock(cursor, self._database.tenant, "state", session_id)
            cursor.execute("DELETE FROM states WHERE tenant = %s AND session = %s", (self._database.tenant, session_id))
            self._merge(cursor, session_id, checked)

        await self._database.run(replace)

    async def update_state(self, session_id: str, patch: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
        check_id(session_id, "session id")
        checked = check_state(patch)

        def merge(cursor: Cursor) -> dict[str, JSONValue]:
            lock(cursor, self._database.tenant, "state", session_id)
            self._merge(cursor, session_id, checked)
            return self._state(cursor, session_id)

        return await self._database.run(merge)

    async def clear(self, session_id: str) -> None:
        await self.set_state(session_id, {})

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
                (self._database.tenant, session_id, name.encode(), json_text(value)) for name, value in patch.items()
            ],
        )
