"""A task board as a source, open tasks first."""

from __future__ import annotations

from kaosmem.arguments import check_instance
from kaosmem.display import visible
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, proposed
from kaosmem.stores import Task, TaskStore
from kaosmem.stores.task_list import TaskList, current_board_key
from kaosmem.stores.tasks import GlobalTaskStore
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

TASKS = SectionSpec("tasks", 4_000, 75, eviction="none")


class TaskSource(StoreSource):
    """A board, one task a line with its status: open tasks first, otherwise in the board's order.

    A task has the metadata `status` and `retry_count`. The source cannot forget: a TaskStore
    deletes nothing. Raises InvalidNameError for an id, InvalidArgumentError for one id without the
    other, the store and the spec.

    Args:
        store: The default is the store that all agents of the process share.
        conversation_id, agent_id: The board; both None for the current agent's board (see
            `agent_scope`).
    """

    def __init__(
        self,
        store: TaskStore | None = None,
        conversation_id: str | None = None,
        agent_id: str | None = None,
        *,
        spec: SectionSpec = TASKS,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = None if store is None else check_instance(store, TaskStore, "store")
        self._key = None
        if conversation_id is not None and agent_id is not None:
            self._key = check_id(conversation_id, "conversation id"), check_id(agent_id, "agent id")
        elif conversation_id is not None or agent_id is not None:
            raise InvalidArgumentError(
                "a board is a conversation's and an agent's; give both ids, or none for whoever is "
                "at work"
            )

    async def propose(
        self, query: Query, *, cap: int, wanted: MetadataFilter | None = None
    ) -> Proposal:
        """Return the tasks, whatever the query."""
        board = await self._board()
        if board is None:
            return Proposal(())
        tasks = sorted(board.tasks, key=lambda task: not task.status.is_open)
        return proposed([(self._line(task, board), None) for task in tasks], cap=cap, wanted=wanted)

    async def get(self, item_id: str) -> Item | None:
        """Return a task, or None."""
        task_id = self._local(item_id)
        if task_id is None or (board := await self._board()) is None:
            return None
        return next((self._line(task, board) for task in board.tasks if task.id == task_id), None)

    async def _board(self) -> TaskList | None:
        store = GlobalTaskStore.get() if self._store is None else self._store
        conversation_id, agent_id = self._key or current_board_key()
        return await store.get_task_list(conversation_id, agent_id)

    def _line(self, task: Task, board: TaskList) -> Item:
        retries = f" (retry {task.retry_count} of {board.max_retries})" if task.retry_count else ""
        text = f"{visible(task.id)}: {visible(' '.join(task.title.split()))}{retries}"
        metadata = {"status": task.status.value, "retry_count": task.retry_count}
        return self._item(task.id, text, role=task.status.value, metadata=metadata)
