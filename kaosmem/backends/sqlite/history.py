"""Histories in SQLite."""

from __future__ import annotations

import sqlite3

from kaosmem.arguments import Clock
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.stores.history import BaseHistoryProvider, Thread, decode_message, encode_message
from kaosmem.types import MAX_INTEGER, ChatMessage


class SqliteHistoryProvider(BaseHistoryProvider):
    """A HistoryProvider in a file of SQLite.

    Reading a part of a thread costs the same at any length.

    clock: gives the times of messages, with a zone.

    >>> from kaosmem.backends import SqliteDatabase, SqliteHistoryProvider
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     history = SqliteHistoryProvider(database)
    ...     await history.append("analyst", ChatMessage("user", "Who owns the deal?"), session_id="room-7")
    >>> async with SqliteDatabase("agent.sqlite") as database:  # in another process, for example
    ...     await SqliteHistoryProvider(database).count_messages("analyst", session_id="room-7")
    1
    """

    def __init__(self, database: SqliteDatabase, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._database = database

    async def list_threads(self) -> list[Thread]:
        return [
            (agent, session)
            for agent, session in await self._database.rows("SELECT agent, session FROM threads")
        ]

    async def delete_all(self) -> None:
        await self._database.delete("messages", "threads")

    async def _append(self, thread: Thread, run: str, messages: list[ChatMessage]) -> None:
        def append(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR IGNORE INTO threads (agent, session, size) VALUES (?, ?, 0)", thread
            )
            thread_id, size = _thread(connection, thread)
            connection.executemany(
                "INSERT INTO messages (thread, position, run, message) VALUES (?, ?, ?, ?)",
                [
                    (thread_id, position, run, encode_message(each))
                    for position, each in enumerate(messages, size)
                ],
            )
            connection.execute(
                "UPDATE threads SET size = ? WHERE id = ?", (size + len(messages), thread_id)
            )

        await self._database.write(append)

    async def _read(self, thread: Thread, start: int, end: int | None) -> list[ChatMessage]:
        def read(connection: sqlite3.Connection) -> list[ChatMessage]:
            rows = connection.execute(
                "SELECT message FROM messages WHERE thread = ? AND position >= ? AND position < ? "
                "ORDER BY position",
                (
                    _thread(connection, thread)[0],
                    min(start, MAX_INTEGER),
                    min(end or 0, MAX_INTEGER) if end is not None else MAX_INTEGER,
                ),
            )
            return [decode_message(text) for (text,) in rows]

        return await self._database.read(read)

    async def _count(self, thread: Thread) -> int:
        return await self._database.read(lambda connection: _thread(connection, thread)[1])

    async def _delete(self, thread: Thread, run: str | None) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            thread_id, size = _thread(connection, thread)
            if run is not None:
                size = _without_run(connection, thread_id, run)
            if run is None or not size:
                connection.execute("DELETE FROM messages WHERE thread = ?", (thread_id,))
                connection.execute("DELETE FROM threads WHERE id = ?", (thread_id,))

        await self._database.write(delete)


def _thread(connection: sqlite3.Connection, thread: Thread) -> tuple[int, int]:
    """Return the number and size of a thread; 0 and 0 for an unknown one."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT id, size FROM threads WHERE agent = ? AND session = ?", thread
    ).fetchone()
    return row or (0, 0)


def _without_run(connection: sqlite3.Connection, thread_id: int, run: str) -> int:
    """Delete a run, close the gaps that it leaves, and return the number of messages that are left."""
    of_run = "FROM messages WHERE thread = ? AND run = ? AND run <> ''"
    (first,) = connection.execute(f"SELECT min(position) {of_run}", (thread_id, run)).fetchone()
    if first is not None:
        connection.execute(f"DELETE {of_run}", (thread_id, run))
        later = connection.execute(
            "SELECT id FROM messages WHERE thread = ? AND position > ? ORDER BY position",
            (thread_id, first),
        ).fetchall()
        # In ascending order, so that each new position is free.
        connection.executemany(
            "UPDATE messages SET position = ? WHERE id = ?",
            [(position, message_id) for position, (message_id,) in enumerate(later, first)],
        )
        connection.execute(
            "UPDATE threads SET size = ? WHERE id = ?", (first + len(later), thread_id)
        )
    (size,) = connection.execute(
        "SELECT size FROM threads WHERE id = ?", (thread_id,)
    ).fetchone() or (0,)
    return int(size)
