"""A task board as a source, open tasks first."""

from __future__ import annotations

from kaosmem.arguments import check_instance
from kaosmem.display import visible
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, proposed
from kaosmem.stores import Task, TaskStore
from kaosmem.stores.task_list import TaskList
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

TASKS = SectionSpec("tasks", 4_000, 75, eviction="none")


class TaskSource(StoreSource):
    """A board, one task a line with its status: open tasks first, otherwise in the board's order.

    A task has the metadata `status` and `retry_count`. The source cannot forget: a TaskStore
    deletes nothing. Raises InvalidNameError for an id, InvalidArgumentError for the store and the
    spec.
    """

    def __init__(
        self,
        store: TaskStore,
        conversation_id: str,
        agent_id: str,
        *,
        spec: SectionSpec = TASKS,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, TaskStore, "store")
        self._conversation_id = check_id(conversation_id, "conversation id")
        self._agent_id = check_id(agent_id, "agent id")

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
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
        if task_id is None:
            return None
        board = await self._board()
        if board is None:
            return None
        for task in board.tasks:
            if task.id == task_id:
                return self._line(task, board)
        return None

    async def _board(self) -> TaskList | None:
        return await self._store.get_task_list(self._conversation_id, self._agent_id)

    def _line(self, task: Task, board: TaskList) -> Item:
        retries = f" (retry {task.retry_count} of {board.max_retries})" if task.retry_count else ""
        text = f"{visible(task.id)}: {visible(' '.join(task.title.split()))}{retries}"
        metadata = {"status": task.status.value, "retry_count": task.retry_count}
        return self._item(task.id, text, role=task.status.value, metadata=metadata)
