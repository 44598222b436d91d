"""Histories in a SQL database."""

from __future__ import annotations

from typing import Any

from kaosmem.arguments import MAX_INTEGER, Clock
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.stores.history import HistoryProvider, Thread, decode_message, encode_message
from kaosmem.types.items import ChatMessage

_OF_THREAD = "tenant = :tenant AND agent = :agent AND session = :session"


class SqlHistoryProvider(HistoryProvider):
    """A HistoryProvider in a SQL database: a row for each message, with its position.

    Reading a part of a thread costs the same at any length.
    """

    def __init__(self, database: SqlDatabase[Any], *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._database = database

    async def list_threads(self) -> list[Thread]:
        return await self._database.rows(
            "SELECT agent, session FROM threads WHERE tenant = :tenant"
        )

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM threads WHERE tenant = :tenant")

    async def _append(
        self,
        thread: Thread,
        run: str,
        messages: list[ChatMessage],
    ) -> None:
        texts = [encode_message(each) for each in messages]

        def append(transaction: Transaction) -> None:
            # The row is locked until the end: positions are given in the order of commits.
            [(number, size)] = transaction.rows(
                "INSERT INTO threads (tenant, agent, session, size) "
                "VALUES (:tenant, :agent, :session, :added) "
                "ON CONFLICT (tenant, agent, session) DO UPDATE "
                "SET size = threads.size + excluded.size RETURNING number, size",
                added=len(texts),
                **_named(thread),
            )
            transaction.each(
                "INSERT INTO messages (thread, position, run, message) "
                "VALUES (:thread, :position, :run, :message)",
                [
                    {"thread": number, "position": position, "run": run, "message": text}
                    for position, text in enumerate(texts, size - len(texts))
                ],
            )

        await self._database.write(append)

    async def _read(
        self,
        thread: Thread,
        start: int,
        end: int | None,
    ) -> list[ChatMessage]:
        last = MAX_INTEGER if end is None else min(end, MAX_INTEGER)

        def read(transaction: Transaction) -> list[tuple[Any, ...]]:
            return transaction.rows(
                "SELECT message FROM messages JOIN threads ON threads.number = thread "
                f"WHERE threads.{_OF_THREAD} "
                "AND position >= :start AND position < :end ORDER BY position",
                start=min(start, MAX_INTEGER),
                end=last,
                **_named(thread),
            )

        return [decode_message(text) for (text,) in await self._database.read(read)]

    async def _count(self, thread: Thread) -> int:
        rows = await self._database.rows(
            f"SELECT size FROM threads WHERE {_OF_THREAD}", **_named(thread)
        )
        return rows[0][0] if rows else 0

    async def _delete(self, thread: Thread, run: str | None) -> None:
        def delete(transaction: Transaction) -> None:
            left = 0
            if run is not None:
                left = _without_run(transaction, thread, run)
            if not left:
                transaction.change(f"DELETE FROM threads WHERE {_OF_THREAD}", **_named(thread))

        await self._database.write(delete)


def _named(thread: Thread) -> dict[str, str]:
    agent, session = thread
    return {"agent": agent, "session": session}


def _without_run(
    transaction: Transaction,
    thread: Thread,
    run: str,
) -> int:
    """Delete a run, close the gaps that it leaves, and return the number of messages left."""
    # The update locks the row: no append gets a position meanwhile.
    found = transaction.rows(
        f"UPDATE threads SET size = size WHERE {_OF_THREAD} RETURNING number, size",
        **_named(thread),
    )
    if not found:
        return 0
    [(number, size)] = found
    deleted = transaction.change(
        "DELETE FROM messages WHERE thread = :thread AND run = :run AND run <> ''",
        thread=number,
        run=run,
    )
    if deleted:
        transaction.change(
            "UPDATE messages SET position = moved.position FROM ("
            "SELECT position AS old, row_number() OVER (ORDER BY position) - 1 AS position "
            "FROM messages WHERE thread = :thread) AS moved "
            "WHERE thread = :thread AND messages.position = old AND old <> moved.position",
            thread=number,
        )
        transaction.change(
            "UPDATE threads SET size = :size WHERE number = :thread",
            size=size - deleted,
            thread=number,
        )
    return int(size) - deleted
