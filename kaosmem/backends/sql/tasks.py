"""Task boards in a SQL database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.stores.task_list import Task, TaskList
from kaosmem.stores.tasks import BoardKey, TaskStore

_OF_BOARD = "tenant = :tenant AND conversation = :conversation AND agent = :agent"


class SqlTaskStore(TaskStore):
    """A TaskStore in a SQL database: a row for each board, with its tasks as JSON text.

    Of several workers that start one task, one succeeds.
    """

    def __init__(self, database: SqlDatabase[Any]) -> None:
        self._database = database

    async def list_boards(self) -> list[BoardKey]:
        return await self._database.rows(
            "SELECT conversation, agent FROM boards WHERE tenant = :tenant"
        )

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM boards WHERE tenant = :tenant")

    async def _read(self, key: BoardKey) -> TaskList | None:
        return await self._database.read(lambda transaction: _board(transaction, key))

    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        def write(transaction: Transaction) -> TaskList:
            # `_settle` changes all boards of the conversation.
            transaction.lock("tasks", key[0])
            board = change(_board(transaction, key))
            _put(transaction, board)
            return board

        return await self._database.write(write)

    async def _settle(self, conversation_id: str) -> int:
        def settle(transaction: Transaction) -> int:
            transaction.lock("tasks", conversation_id)
            agents = transaction.rows(
                "SELECT agent FROM boards WHERE tenant = :tenant AND conversation = :conversation",
                conversation=conversation_id,
            )
            settled = 0
            for (agent,) in agents:
                board = _board(transaction, (conversation_id, agent))
                if board is not None and board.in_progress:
                    settled += board.in_progress
                    _put(transaction, board.settled())
            return settled

        return await self._database.write(settle)


def _board(transaction: Transaction, key: BoardKey) -> TaskList | None:
    conversation, agent = key
    found = transaction.rows(
        f"SELECT tasks, max_retries FROM boards WHERE {_OF_BOARD}",
        conversation=conversation,
        agent=agent,
    )
    if not found:
        return None
    [(stored, max_retries)] = found
    tasks = tuple(Task(*each) for each in value_of(stored))
    return TaskList(conversation, agent, tasks, max_retries)


def _put(transaction: Transaction, board: TaskList) -> None:
    """Store a board, in the place of an earlier one."""
    transaction.change(
        "INSERT INTO boards (tenant, conversation, agent, max_retries, tasks) "
        "VALUES (:tenant, :conversation, :agent, :max_retries, :tasks) "
        "ON CONFLICT (tenant, conversation, agent) DO UPDATE SET tasks = excluded.tasks",
        conversation=board.conversation_id,
        agent=board.agent_id,
        max_retries=board.max_retries,
        tasks=json_text([astuple(each) for each in board.tasks]),
    )
