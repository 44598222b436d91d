"""Stores of task boards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeAlias

from kaosmem.errors import DuplicateError, NotFoundError
from kaosmem.names import check_id, shown
from kaosmem.stores.task_list import DEFAULT_MAX_RETRIES, Task, TaskList, TaskStatus, check_status

BoardKey: TypeAlias = tuple[str, str]
"""A conversation id and an agent id."""


class TaskStore(ABC):
    """A board of tasks for each agent in each conversation. Every change is one step.

    planned > in_progress; in_progress > succeeded, blocked or failed; blocked > in_progress: by
    `update_status`. failed > in_progress, or abandoned once retries are used up: by
    `increment_retry`. failed or abandoned > in_progress: by `force_retry`. No other change, but for
    `settle_conversation`. Changes raise NotFoundError where the board or the task is missing.

    Ids are any text of 1 to 256 characters without control characters. Different ids never collide.
    All methods raise InvalidNameError for another id.

    A store is a subclass with the abstract methods, which get whole boards.
    """

    async def create_task_list(
        self,
        conversation_id: str,
        agent_id: str,
        tasks: Iterable[Task] = (),
        *,
        max_retries: int = DEFAULT_MAX_RETRIES,
    ) -> TaskList:
        """Make a board of planned tasks.

        Raises DuplicateError if there is one, or for two tasks with one id. Raises
        InvalidArgumentError for a task that is not planned, and for max_retries.

        Args:
            max_retries: How often a failed task may be retried before it is abandoned.
        """
        made = TaskList(conversation_id, agent_id, max_retries=max_retries).added(tasks)

        def create(board: TaskList | None) -> TaskList:
            if board is None:
                return made
            raise DuplicateError(
                f"agent {shown(agent_id)} has a board in conversation {shown(conversation_id)}; "
                "add_tasks adds to it"
            )

        return await self._change((conversation_id, agent_id), create)

    async def get_task_list(self, conversation_id: str, agent_id: str) -> TaskList | None:
        """Return a board, None where there is none."""
        return await self._read(_board_key(conversation_id, agent_id))

    async def update_status(
        self,
        conversation_id: str,
        agent_id: str,
        task_id: str,
        status: TaskStatus | str,
    ) -> TaskList:
        """Move a task on and return the board.

        Raises InvalidArgumentError where the chart does not lead there.
        """
        to = check_status(status)
        return await self._replace(
            conversation_id, agent_id, task_id, lambda task, _: task.moved(to)
        )

    async def add_tasks(
        self,
        conversation_id: str,
        agent_id: str,
        tasks: Iterable[Task],
    ) -> TaskList:
        """Add planned tasks at the end, and return the board.

        If the call raises, no task is added. Raises as `create_task_list`.
        """
        new = tuple(tasks)
        return await self._change(
            _board_key(conversation_id, agent_id),
            lambda board: _there(board, conversation_id, agent_id).added(new),
        )

    async def increment_retry(
        self,
        conversation_id: str,
        agent_id: str,
        task_id: str,
    ) -> TaskList:
        """Retry a failed task, or abandon it where its retries are used up, and return the board.

        Raises InvalidArgumentError for a task that has not failed.
        """
        return await self._replace(conversation_id, agent_id, task_id, Task.retried)

    async def force_retry(
        self,
        conversation_id: str,
        agent_id: str,
        task_id: str,
    ) -> TaskList:
        """Retry a failed or abandoned task, its retries counted anew, and return the board.

        Raises InvalidArgumentError for any other.
        """
        return await self._replace(
            conversation_id, agent_id, task_id, lambda task, _: task.forced()
        )

    async def settle_conversation(self, conversation_id: str) -> int:
        """Mark the tasks in progress of a conversation's boards as succeeded.

        Return the number of these tasks.
        """
        return await self._settle(check_id(conversation_id, "conversation id"))

    @abstractmethod
    async def list_boards(self) -> list[BoardKey]:
        """Return the conversation id and the agent id of each board, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    async def _replace(
        self,
        conversation_id: str,
        agent_id: str,
        task_id: str,
        change: Callable[[Task, int], Task],
    ) -> TaskList:
        def replaced(board: TaskList | None) -> TaskList:
            there = _there(board, conversation_id, agent_id)
            return there.replaced(task_id, lambda task: change(task, there.max_retries))

        return await self._change(_board_key(conversation_id, agent_id), replaced)

    @abstractmethod
    async def _read(self, key: BoardKey) -> TaskList | None:
        """Return a board, or None."""

    @abstractmethod
    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        """Replace a board by the result of `change`, in one step, and return it.

        If `change` raises, the board stays as it is.
        """

    @abstractmethod
    async def _settle(self, conversation_id: str) -> int:
        """Settle all boards of a conversation, in one step.

        Return the number of tasks that this ends.
        """


class InMemoryTaskStore(TaskStore):
    """A TaskStore in this process.

    >>> from kaosmem.stores import Task
    >>> store = InMemoryTaskStore()
    >>> board = await store.create_task_list("deal-42", "reader", [Task("read", "Read the contract")])
    >>> print((await store.update_status("deal-42", "reader", "read", "in_progress")).render())
    - [in_progress] read: Read the contract
    """

    def __init__(self) -> None:
        self._conversations: dict[str, dict[str, TaskList]] = {}

    async def list_boards(self) -> list[BoardKey]:
        keys: list[BoardKey] = []
        for conversation, boards in self._conversations.items():
            keys += [(conversation, agent) for agent in boards]
        return sorted(keys)

    async def delete_all(self) -> None:
        self._conversations.clear()

    async def _read(self, key: BoardKey) -> TaskList | None:
        return self._conversations.get(key[0], {}).get(key[1])

    async def _change(
        self, key: BoardKey, change: Callable[[TaskList | None], TaskList]
    ) -> TaskList:
        board = change(await self._read(key))
        self._conversations.setdefault(key[0], {})[key[1]] = board
        return board

    async def _settle(self, conversation_id: str) -> int:
        boards = self._conversations.get(conversation_id, {})
        lingering = 0
        for agent_id, board in boards.items():
            lingering += board.in_progress
            boards[agent_id] = board.settled()
        return lingering


def _there(
    board: TaskList | None,
    conversation_id: str,
    agent_id: str,
) -> TaskList:
    """Return a board. Raises NotFoundError for None."""
    if board is not None:
        return board
    raise NotFoundError(
        f"agent {shown(agent_id)} has no board in conversation {shown(conversation_id)}; "
        "create_task_list makes one"
    )


def _board_key(conversation_id: str, agent_id: str) -> BoardKey:
    return check_id(conversation_id, "conversation id"), check_id(agent_id, "agent id")
