"""Task boards in a SQL database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import BaseTaskStore, BoardKey


class SqlTaskStore(BaseTaskStore):
    """A TaskStore in a SQL database. Of several workers that start one task, one succeeds."""

    def __init__(self, database: SqlDatabase[Any]) -> None:
        self._database = database

    async def list_boards(self) -> list[BoardKey]:
        rows = await self._database.rows(
            "SELECT conversation, agent FROM boards WHERE tenant = :tenant"
        )
        return [(conversation, agent) for conversation, agent in rows]

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM boards WHERE tenant = :tenant")

    async def _read(self, key: BoardKey) -> TaskList | None:
        return await self._database.read(lambda transaction: _board(transaction, key)[1])

    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        def write(transaction: Transaction) -> TaskList:
            # `_settle` changes all boards of the conversation.
            transaction.lock("tasks", key[0])
            number, before = _board(transaction, key)
            board = change(before)
            if before is None:
                number = _new_board(transaction, board)
            _put(transaction, number, before.tasks if before else (), board.tasks)
            return board

        return await self._database.write(write)

    async def _settle(self, conversation_id: str) -> int:
        def settle(transaction: Transaction) -> int:
            transaction.lock("tasks", conversation_id)
            return transaction.change(
                "UPDATE tasks SET status = :succeeded WHERE status = :in_progress AND board IN "
                "(SELECT number FROM boards WHERE tenant = :tenant AND conversation = :conversation)",
                succeeded=TaskStatus.SUCCEEDED.value,
                in_progress=TaskStatus.IN_PROGRESS.value,
                conversation=conversation_id,
            )

        return await self._database.write(settle)


def _board(transaction: Transaction, key: BoardKey) -> tuple[int, TaskList | None]:
    """Return the number of a board, and the board; 0 and None for an unknown one."""
    conversation, agent = key
    found = transaction.rows(
        "SELECT number, max_retries FROM boards "
        "WHERE tenant = :tenant AND conversation = :conversation AND agent = :agent",
        conversation=conversation,
        agent=agent,
    )
    if not found:
        return 0, None
    [(number, max_retries)] = found
    rows = transaction.rows(
        "SELECT id, title, status, retries FROM tasks WHERE board = :board ORDER BY position",
        board=number,
    )
    tasks = [
        Task(task_id, title.decode(), status, retries) for task_id, title, status, retries in rows
    ]
    return number, TaskList(conversation, agent, tuple(tasks), max_retries)


def _new_board(transaction: Transaction, board: TaskList) -> int:
    """Store a board without its tasks, and return its number."""
    [(number,)] = transaction.rows(
        "INSERT INTO boards (tenant, conversation, agent, max_retries) "
        "VALUES (:tenant, :conversation, :agent, :max_retries) RETURNING number",
        conversation=board.conversation_id,
        agent=board.agent_id,
        max_retries=board.max_retries,
    )
    return int(number)


def _put(
    transaction: Transaction, number: int, before: tuple[Task, ...], after: tuple[Task, ...]
) -> None:
    """Store the tasks of a board that differ from those before, or come after them."""
    changed = []
    for position, task in enumerate(after):
        if before[position : position + 1] != (task,):
            changed.append(
                {
                    "board": number,
                    "position": position,
                    "id": task.id,
                    "title": task.title.encode(),
                    "status": task.status.value,
                    "retries": task.retry_count,
                }
            )
    transaction.each(
        "INSERT INTO tasks (board, position, id, title, status, retries) "
        "VALUES (:board, :position, :id, :title, :status, :retries) "
        "ON CONFLICT (board, position) DO UPDATE "
        "SET status = excluded.status, retries = excluded.retries",
        changed,
    )
