"""States of sessions in SQLite."""

from __future__ import annotations

import sqlite3

from kaosmem.backends.base import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.stores.memory import BaseShortTermMemory
from kaosmem.types import JSONValue, json_text


class SqliteShortTermMemory(BaseShortTermMemory):
    """A ShortTermMemory in a file of SQLite, a row for each name: a patch costs its own size, not that of the state.

    >>> from kaosmem.backends import SqliteDatabase, SqliteShortTermMemory
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     states = SqliteShortTermMemory(database)
    ...     await states.set_state("room-7", {"step": 1, "plan": "ask"})
    ...     await states.update_state("room-7", {"step": 2})
    {'step': 2, 'plan': 'ask'}
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def list_states(self) -> list[str]:
        return [
            session
            for (session,) in await self._database.rows("SELECT DISTINCT session FROM states")
        ]

    async def delete_all(self) -> None:
        await self._database.delete("states")

    async def _read(self, session_id: str) -> dict[str, JSONValue]:
        return await self._database.read(lambda connection: _state(connection, session_id))

    async def _change(
        self, session_id: str, patch: dict[str, JSONValue], *, replace: bool
    ) -> dict[str, JSONValue]:
        def change(connection: sqlite3.Connection) -> dict[str, JSONValue]:
            if replace:
                connection.execute("DELETE FROM states WHERE session = ?", (session_id,))
            connection.executemany(
                "INSERT INTO states (session, name, value) VALUES (?, ?, ?) "
                "ON CONFLICT (session, name) DO UPDATE SET value = excluded.value",
                [(session_id, name, json_text(value)) for name, value in patch.items()],
            )
            return _state(connection, session_id)

        return await self._database.write(change)


def _state(connection: sqlite3.Connection, session_id: str) -> dict[str, JSONValue]:
    rows = connection.execute(
        "SELECT name, value FROM states WHERE session = ? ORDER BY id", (session_id,)
    )
    return {name: value_of(text) for name, text in rows}
