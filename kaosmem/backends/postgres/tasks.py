"""Task boards in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import BaseTaskStore, BoardKey

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


class PgTaskStore(BaseTaskStore):
    """A TaskStore in PostgreSQL. Of several workers that start one task, one succeeds."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def list_boards(self) -> list[BoardKey]:
        rows = await self._database.rows("SELECT conversation, agent FROM boards WHERE tenant = %s")
        return [(conversation, agent) for conversation, agent in rows]

    async def delete_all(self) -> None:
        await self._database.delete("boards")

    async def _read(self, key: BoardKey) -> TaskList | None:
        return await self._database.run(lambda cursor: self._board(cursor, key)[1])

    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        def write(cursor: Cursor) -> TaskList:
            lock(
                cursor, self._database.tenant, "tasks", key[0]
            )  # the conversation, which `_settle` changes whole
            number, before = self._board(cursor, key)
            board = change(before)
            if before is None:
                cursor.execute(
                    "INSERT INTO boards (tenant, conversation, agent, max_retries) VALUES (%s, %s, "
                    "%s, %s) "
                    "RETURNING id",
                    (self._database.tenant, *key, board.max_retries),
                )
                (number,) = cursor.fetchone() or (0,)
            _put(cursor, number, before.tasks if before else (), board.tasks)
            return board

        return await self._database.run(write)

    async def _settle(self, conversation_id: str) -> int:
        def settle(cursor: Cursor) -> int:
            lock(cursor, self._database.tenant, "tasks", conversation_id)
            cursor.execute(
                "UPDATE tasks SET status = %s WHERE status = %s "
                "AND board IN (SELECT id FROM boards WHERE tenant = %s AND conversation = %s)",
                (
                    TaskStatus.SUCCEEDED.value,
                    TaskStatus.IN_PROGRESS.value,
                    self._database.tenant,
                    conversation_id,
                ),
            )
            return cursor.rowcount

        return await self._database.run(settle)

    def _board(self, cursor: Cursor, key: BoardKey) -> tuple[int, TaskList | None]:
        """Return the number of a board, and the board."""
        cursor.execute(
            "SELECT id, max_retries FROM boards WHERE tenant = %s AND conversation = %s AND agent "
            "= %s",
            (self._database.tenant, *key),
        )
        row = cursor.fetchone()
        if row is None:
            return 0, None
        cursor.execute(
            "SELECT id, title, status, retries FROM tasks WHERE board = %s ORDER BY position",
            row[:1],
        )
        tasks = tuple(
            Task(task_id, title.decode(), status, retries)
            for task_id, title, status, retries in cursor
        )
        return row[0], TaskList(*key, tasks, row[1])


def _put(cursor: Cursor, number: int, before: tuple[Task, ...], after: tuple[Task, ...]) -> None:
    """Store the tasks of a board that differ from those before, or come after them."""
    changed = [
        (position, task)
        for position, task in enumerate(after)
        if before[position : position + 1] != (task,)
    ]
    cursor.executemany(
        "INSERT INTO tasks (board, position, id, title, status, retries) VALUES (%s, %s, %s, %s, "
        "%s, %s) "
        "ON CONFLICT (board, position) DO UPDATE SET status = excluded.status, retries = "
        "excluded.retries",
        [
            (number, position, task.id, task.title.encode(), task.status.value, task.retry_count)
            for position, task in changed
        ],
    )
