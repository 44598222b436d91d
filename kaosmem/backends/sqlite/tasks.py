"""Task boards in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import BaseTaskStore, BoardKey


class SqliteTaskStore(BaseTaskStore):
    """A TaskStore in a file of SQLite. Of several processes that start one task, one succeeds.

    >>> from kaosmem.stores import Task
    >>> from kaosmem.backends import SqliteDatabase, SqliteTaskStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteTaskStore(database)
    ...     board = await store.create_task_list("deal-42", "reader", [Task("read", "Read the contract")])
    ...     print((await store.update_status("deal-42", "reader", "read", "in_progress")).render())
    - [in_progress] read: Read the contract
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def list_boards(self) -> list[BoardKey]:
        rows = await self._database.rows("SELECT conversation, agent FROM boards")
        return [(conversation, agent) for conversation, agent in rows]

    async def delete_all(self) -> None:
        await self._database.delete("tasks", "boards")

    async def _read(self, key: BoardKey) -> TaskList | None:
        return await self._database.read(lambda connection: _board(connection, key)[1])

    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        def write(connection: sqlite3.Connection) -> TaskList:
            number, before = _board(connection, key)
            board = change(before)
            if before is None:
                number = connection.execute(
                    "INSERT INTO boards (conversation, agent, max_retries) VALUES (?, ?, ?)",
                    (*key, board.max_retries),
                ).lastrowid
            _put(connection, number, before.tasks if before else (), board.tasks)
            return board

        return await self._database.write(write)

    async def _settle(self, conversation_id: str) -> int:
        def settle(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "UPDATE tasks SET status = ? WHERE status = ? "
                "AND board IN (SELECT id FROM boards WHERE conversation = ?)",
                (TaskStatus.SUCCEEDED.value, TaskStatus.IN_PROGRESS.value, conversation_id),
            ).rowcount

        return await self._database.write(settle)


def _board(connection: sqlite3.Connection, key: BoardKey) -> tuple[int | None, TaskList | None]:
    """Return the number of a board, and the board."""
    row = connection.execute(
        "SELECT id, max_retries FROM boards WHERE conversation = ? AND agent = ?", key
    ).fetchone()
    if row is None:
        return None, None
    tasks = connection.execute(
        "SELECT id, title, status, retries FROM tasks WHERE board = ? ORDER BY position", row[:1]
    )
    return row[0], TaskList(*key, tuple(Task(*each) for each in tasks), row[1])


def _put(
    connection: sqlite3.Connection,
    number: int | None,
    before: tuple[Task, ...],
    after: tuple[Task, ...],
) -> None:
    """Store the tasks of a board that differ from those before, or come after them."""
    changed = [
        (position, task)
        for position, task in enumerate(after)
        if before[position : position + 1] != (task,)
    ]
    connection.executemany(
        "REPLACE INTO tasks (board, position, id, title, status, retries) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (number, position, task.id, task.title, task.status.value, task.retry_count)
            for position, task in changed
        ],
    )
