"""The contract of every TaskStore."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from itertools import product
from typing import Any, ClassVar

from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import TaskStore
from kaosmem.testing.contracts.store import (
    IDS,
    KEYS,
    WRONG_COUNT,
    WRONG_ID,
    StoreContract,
    Wrong,
    refuses,
    wrong,
)

# Written out again, so that this states the rules and does not repeat the package's code.
STATUSES = ("planned", "in_progress", "succeeded", "blocked", "failed", "abandoned")
MOVES = {
    ("planned", "in_progress"): "in_progress",
    ("in_progress", "succeeded"): "succeeded",
    ("in_progress", "blocked"): "blocked",
    ("in_progress", "failed"): "failed",
    ("blocked", "in_progress"): "in_progress",
    ("failed", "increment"): "abandoned",
    ("failed", "force"): "in_progress",
    ("abandoned", "force"): "in_progress",
}
# How a new task gets there; `retry` is increment_retry, with no retries allowed.
_WAYS = {
    "planned": (),
    "in_progress": ("in_progress",),
    "succeeded": ("in_progress", "succeeded"),
    "blocked": ("in_progress", "blocked"),
    "failed": ("in_progress", "failed"),
    "abandoned": ("in_progress", "failed", "retry"),
}

_Board = tuple[str, str]
_WRONG_TASKS: tuple[Any, ...] = (
    *(Task("v", "v", TaskStatus.SUCCEEDED), Task("v", "v", retry_count=1)),
    *("title", {"id": "v"}, None),
)


def act_on(
    store: TaskStore,
    key: _Board,
    task_id: str,
    act: str,
) -> Coroutine[Any, Any, TaskList]:
    """Return the awaitable that moves a task to a status, or retries it."""
    if act == "increment":
        return store.increment_retry(*key, task_id)
    return (
        store.force_retry(*key, task_id)
        if act == "force"
        else store.update_status(*key, task_id, act)
    )


class TaskContract(StoreContract[TaskStore]):
    """Every TaskStore passes this: subclass it and provide `make`."""

    kind = TaskStore
    ways = 0  # a board stays
    wrong: ClassVar[Mapping[str, Wrong]] = {
        **dict.fromkeys(("conversation_id", "agent_id", "task_id"), WRONG_ID),
        "max_retries": WRONG_COUNT,
        "status": wrong("done", "", "PLANNED", None, 1),
        "tasks": (
            *wrong(*([Task("u", "new"), each] for each in _WRONG_TASKS)),
            *wrong([Task("u", "new"), Task("u", "new")], error=DuplicateError),
        ),
    }

    async def write(
        self,
        store,
        key,
        text,
    ):
        await store.create_task_list(*key, [Task("t", text)])

    async def read(self, store, key):
        board = await store.get_task_list(*key)
        if board is None:
            return None
        assert board.tasks == (Task("t", board.task("t").title),)
        return board.task("t").title

    async def listed(self, store):
        return await store.list_boards()

    async def arguments(
        self,
        store,
        key,
        method,
    ):
        conversation, agent = key
        if method == "create_task_list":
            agent = "another"
        return {
            "conversation_id": conversation,
            "agent_id": agent,
            "task_id": "t",
            "status": "in_progress",
            "tasks": [],
        }

    def refused(self, store, key):
        other = (key[0], "another")
        yield DuplicateError, store.create_task_list(*key, [Task("u", "other")])
        yield DuplicateError, store.add_tasks(*key, [Task("u", "new"), Task("t", "again")])
        for act, (board, task) in product(
            ("in_progress", "increment", "force"), ((other, "t"), (key, "T"), (key, "t "))
        ):
            yield NotFoundError, act_on(store, board, task, act)
        yield NotFoundError, store.add_tasks(*other, [Task("t", "title")])
        yield KeyError, store.update_status(*other, "t", "in_progress")

    async def made(
        self,
        store: TaskStore,
        status: str,
        agent: str = "a",
        *,
        max_retries: int = 0,
    ) -> None:
        """Make a board whose one task `t` has a status."""
        await store.create_task_list("c", agent, [Task("t", "title")], max_retries=max_retries)
        for act in _WAYS[status]:
            await act_on(store, ("c", agent), "t", "increment" if act == "retry" else act)

    async def task(self, store: TaskStore, agent: str = "a") -> tuple[str, int]:
        """Return the status of a board's task, and how often it was retried."""
        board = await store.get_task_list("c", agent)
        assert board is not None
        return board.task("t").status, board.task("t").retry_count

    async def test_a_board_is_read_as_it_was_made(self, store):
        """A created board has its tasks in order, planned, and equals the returned one."""
        tasks = [Task("b", "second"), Task("a", "first")]
        made = await store.create_task_list("c", "a", tasks, max_retries=5)
        assert made == TaskList("c", "a", tuple(tasks), 5)
        assert await store.get_task_list("c", "a") == made
        added = await store.add_tasks("c", "a", [Task("c", "third")])
        assert [task.id for task in added.tasks] == ["b", "a", "c"]
        assert await store.get_task_list("c", "a") == added
        assert (await store.create_task_list("c", "b")).max_retries == 3

    async def test_every_move_of_the_chart_and_no_other(self, store):
        """A change that the chart does not have is refused, and leaves the task as it was.

        A failed task is retried, an abandoned one by force alone. No retries are allowed here.
        """
        acts = (*STATUSES, "increment", "force")
        for number, (begin, act) in enumerate(product(STATUSES, acts)):
            agent = f"agent {number}"
            await self.made(store, begin, agent)
            assert await self.task(store, agent) == (begin, 0)
            moved = act_on(store, ("c", agent), "t", act)
            end = MOVES.get((begin, act))
            if end is None:
                await refuses(InvalidArgumentError, moved)
            else:
                assert (await moved).task("t").status == end
            assert await self.task(store, agent) == (end or begin, 0)

    async def test_retries_are_counted_and_used_up(self, store):
        """As often as the board allows; then the task is abandoned, and by force it starts anew."""
        await self.made(store, "failed", max_retries=2)
        for act, status, retries in (
            ("increment", "in_progress", 1),
            ("failed", "failed", 1),
            ("increment", "in_progress", 2),
            ("failed", "failed", 2),
            ("increment", "abandoned", 2),
            ("force", "in_progress", 0),
            ("failed", "failed", 0),
            ("increment", "in_progress", 1),
            ("failed", "failed", 1),
            ("force", "in_progress", 0),
        ):
            await act_on(store, ("c", "a"), "t", act)
            assert await self.task(store) == (status, retries)

    async def test_settling_ends_what_is_in_progress(self, store):
        """Only on the boards of the conversation; a second time there is nothing to settle."""
        for agent, status in product(["x", "y"], STATUSES):
            await self.made(store, status, f"{agent} {status}")
        await store.create_task_list("c:2", "a", [Task("t", "title")])
        elsewhere = await store.update_status("c:2", "a", "t", "in_progress")
        for settled in (2, 0):
            assert await store.settle_conversation("c") == settled
        for agent, status in product(["x", "y"], STATUSES):
            left = "succeeded" if status == "in_progress" else status
            assert await self.task(store, f"{agent} {status}") == (left, 0)
        assert await store.get_task_list("c:2", "a") == elsewhere
        assert await store.settle_conversation("nowhere") == 0

    async def test_tasks_of_neighbours_are_kept_apart(self, store):
        """Ids that are alike, or would be alike if they were joined, are different tasks."""
        boards = {}
        for key in KEYS:
            tasks = [Task(each, f"{each} of {key}") for each in IDS]
            await store.create_task_list(*key, tasks)
            boards[key] = TaskList(*key, tuple(tasks))
        for number, key in enumerate(KEYS):
            started = IDS[number % len(IDS)]
            await store.update_status(*key, started, "in_progress")
            boards[key] = boards[key].replaced(
                started, lambda task: task.moved(TaskStatus.IN_PROGRESS)
            )
        for key, board in boards.items():
            assert await store.get_task_list(*key) == board
        conversations = {conversation for conversation, _ in KEYS}
        settled = [await store.settle_conversation(each) for each in conversations]
        assert sum(settled) == len(KEYS)

    async def test_no_change_is_lost_among_many(self, store):
        """A hundred concurrent changes of one board are all seen.

        Of callers that start one task, one succeeds.
        """
        names = [f"t{number}" for number in range(51)]
        await store.create_task_list("c", "a", [Task(each, "title") for each in names])
        changes = [store.update_status("c", "a", each, "in_progress") for each in names[1:]]
        changes += [store.add_tasks("c", "a", [Task(f"u{n}", "title")]) for n in range(50)]
        await asyncio.gather(*changes)
        starts = [store.update_status("c", "a", "t0", "in_progress") for _ in range(100)]
        ended = await asyncio.gather(*starts, return_exceptions=True)
        assert sum(isinstance(each, InvalidArgumentError) for each in ended) == 99
        board = await store.get_task_list("c", "a")
        assert board is not None
        assert len(board.tasks) == 101
        assert board.in_progress == 51
