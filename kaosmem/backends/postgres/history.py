"""Histories in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaosmem.arguments import Clock
from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.stores.history import BaseHistoryProvider, Thread, decode_message, encode_message
from kaosmem.types import MAX_INTEGER, ChatMessage

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


class PostgresHistoryProvider(BaseHistoryProvider):
    """A HistoryProvider in PostgreSQL. Reading a part of a thread costs the same at any length.

    Messages that several workers append at once are stored one batch after another, without gaps.
    clock: gives the times of messages, with a zone.
    """

    def __init__(self, database: PostgresDatabase, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._database = database

    async def list_threads(self) -> list[Thread]:
        rows = await self._database.rows("SELECT agent, session FROM threads WHERE tenant = %s")
        return [(agent, session) for agent, session in rows]

    async def delete_all(self) -> None:
        await self._database.delete("threads")

    async def _append(self, thread: Thread, run: str, messages: list[ChatMessage]) -> None:
        texts = [encode_message(each) for each in messages]

        def append(cursor: Cursor) -> None:
            # The row is locked until the end: positions are given in the order of commits.
            cursor.execute(
                "INSERT INTO threads (tenant, agent, session, size) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (tenant, agent, session) DO UPDATE SET size = threads.size + "
                "excluded.size "
                "RETURNING id, size",
                (self._database.tenant, *thread, len(texts)),
            )
            thread_id, size = cursor.fetchone() or (0, 0)
            cursor.execute(  # COPY is not allowed on tables with row-level security
                "INSERT INTO messages (thread, position, run, message) "
                "SELECT %s, %s + number - 1, %s, message "
                "FROM unnest(%s::text[]) WITH ORDINALITY AS new (message, number)",
                (thread_id, size - len(texts), run, texts),
            )

        await self._database.run(append)

    async def _read(self, thread: Thread, start: int, end: int | None) -> list[ChatMessage]:
        def read(cursor: Cursor) -> list[str]:
            cursor.execute(
                "SELECT message FROM messages JOIN threads ON threads.id = thread "
                "WHERE threads.tenant = %s AND agent = %s AND session = %s AND position >= %s AND "
                "position < %s "
                "ORDER BY position",
                (
                    self._database.tenant,
                    *thread,
                    min(start, MAX_INTEGER),
                    MAX_INTEGER if end is None else min(end, MAX_INTEGER),
                ),
            )
            return [text for (text,) in cursor]

        return [decode_message(text) for text in await self._database.run(read)]

    async def _count(self, thread: Thread) -> int:
        return await self._database.run(
            lambda cursor: _locked(cursor, self._database.tenant, thread, "")[1]
        )

    async def _delete(self, thread: Thread, run: str | None) -> None:
        def delete(cursor: Cursor) -> None:
            thread_id, size = _locked(cursor, self._database.tenant, thread, "FOR UPDATE")
            if run is not None:
                size = _without_run(cursor, thread_id, run)
            if run is None or not size:
                cursor.execute("DELETE FROM threads WHERE id = %s", (thread_id,))

        await self._database.run(delete)


def _locked(cursor: Cursor, tenant: str, thread: Thread, lock: str) -> tuple[int, int]:
    """Return the number and size of a thread, 0 and 0 for an unknown one.

    lock: `FOR UPDATE`, or nothing.
    """
    cursor.execute(
        f"SELECT id, size FROM threads WHERE tenant = %s AND agent = %s AND session = %s {lock}",
        (tenant, *thread),
    )
    row = cursor.fetchone()
    return (row[0], row[1]) if row else (0, 0)


def _without_run(cursor: Cursor, thread_id: int, run: str) -> int:
    """Delete a run, close the gaps that it leaves, and return the number of messages that are left."""
    cursor.execute(
        "DELETE FROM messages WHERE thread = %s AND run = %s AND run <> ''", (thread_id, run)
    )
    if cursor.rowcount:
        cursor.execute(
            "UPDATE messages SET position = moved.position FROM ("
            " SELECT position AS old, row_number() OVER (ORDER BY position) - 1 AS position"
            " FROM messages WHERE thread = %s"
            ") AS moved WHERE thread = %s AND messages.position = old AND old <> moved.position",
            (thread_id, thread_id),
        )
    cursor.execute(
        "UPDATE threads SET size = (SELECT count(*) FROM messages WHERE thread = %s) WHERE id = %s "
        "RETURNING size",
        (thread_id, thread_id),
    )
    row = cursor.fetchone()
    return int(row[0]) if row else 0
