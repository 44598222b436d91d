"""States of sessions in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from kaosmem.backends.rows import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.names import check_id
from kaosmem.stores.memory import check_state
from kaosmem.types import JSONValue, json_text


class SqliteShortTermMemory:
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

    async def get_state(self, session_id: str) -> dict[str, JSONValue]:
        check_id(session_id, "session id")
        return await self._database.read(lambda connection: _state(connection, session_id))

    async def set_state(self, session_id: str, state: Mapping[str, JSONValue]) -> None:
        check_id(session_id, "session id")
        checked = check_state(state)

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM states WHERE session = ?", (session_id,))
            _merge(connection, session_id, checked)

        await self._database.write(replace)

    async def update_state(self, session_id: str, patch: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
        check_id(session_id, "session id")
        checked = check_state(patch)

        def merge(connection: sqlite3.Connection) -> dict[str, JSONValue]:
            _merge(connection, session_id, checked)
            return _state(connection, session_id)

        return await self._database.write(merge)

    async def clear(self, session_id: str) -> None:
        await self.set_state(session_id, {})


def _state(connection: sqlite3.Connection, session_id: str) -> dict[str, JSONValue]:
    rows = connection.execute("SELECT name, value FROM states WHERE session = ? ORDER BY id", (session_id,))
    return {name: value_of(text) for name, text in rows}


def _merge(connection: sqlite3.Connection, session_id: str, patch: Mapping[str, JSONValue]) -> None:
    connection.executemany(
        "INSERT INTO states (session, name, value) VALUES (?, ?, ?) "
        "ON CONFLICT (session, name) DO UPDATE SET value = excluded.value",
        [(session_id, name, json_text(value)) for name, value in patch.items()],
    )
