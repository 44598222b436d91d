"""The contract of every TaskStore."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError
from kaosmem.stores.task_list import Task, TaskList
from kaosmem.stores.tasks import TaskStore
from kaosmem.testing.contracts.store import (
    StoreContract,
    refuses,
)


def act_on(
    store: TaskStore,
    key: tuple[str, str],
    task_id: str,
    act: str,
) -> Coroutine[Any, Any, TaskList]:
    """Return the awaitable that moves a task to a status, or retries it."""
    if act == "increment":
        return store.increment_retry(*key, task_id)
    if act == "force":
        return store.force_retry(*key, task_id)
    return store.update_status(*key, task_id, act)


class TaskContract(StoreContract[TaskStore]):
    """Every TaskStore passes this: subclass it and provide `make`."""

    ways = 0  # a board stays

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

    async def test_retries_are_counted_and_used_up(self, store):
        """As often as the board allows; then the task is abandoned, and by force it starts anew."""
        await store.create_task_list("c", "a", [Task("t", "title")], max_retries=2)
        for act, status, retries in (
            ("in_progress", "in_progress", 0),
            ("failed", "failed", 0),
            ("increment", "in_progress", 1),
            ("failed", "failed", 1),
            ("increment", "in_progress", 2),
            ("failed", "failed", 2),
            ("increment", "abandoned", 2),
            ("force", "in_progress", 0),
            ("failed", "failed", 0),
            ("force", "in_progress", 0),
        ):
            await act_on(store, ("c", "a"), "t", act)
            board = await store.get_task_list("c", "a")
            [task] = board.tasks
            assert (task.status, task.retry_count) == (status, retries)

    async def test_a_refused_change_leaves_the_board(self, store):
        """A board is made once. An unknown board or task is an error."""
        key = ("c", "a")
        other = ("c", "other")
        await self.write(store, key, "text")
        for error, change in (
            (DuplicateError, store.create_task_list(*key, [Task("u", "other")])),
            (DuplicateError, store.add_tasks(*key, [Task("u", "new"), Task("t", "again")])),
            (NotFoundError, store.add_tasks(*other, [Task("u", "new")])),
            (NotFoundError, store.update_status(*key, "T", "in_progress")),
            (NotFoundError, store.increment_retry(*other, "t")),
        ):
            await refuses(error, change)
        assert await self.read(store, key) == "text"
        assert await self.listed(store) == [key]

    async def test_settling_ends_what_is_in_progress(self, store):
        """Only on the boards of the conversation; a second time there is nothing to settle."""
        tasks = [Task(each, "title") for each in ("planned", "in_progress", "failed")]
        boards = [("c", "x"), ("c", "y"), ("c:2", "x")]
        for key in boards:
            await store.create_task_list(*key, tasks)
            await store.update_status(*key, "in_progress", "in_progress")
            await store.update_status(*key, "failed", "in_progress")
            await store.update_status(*key, "failed", "failed")
        for settled in (2, 0):
            assert await store.settle_conversation("c") == settled
        for key in boards:
            ended = "in_progress" if key[0] == "c:2" else "succeeded"
            board = await store.get_task_list(*key)
            assert [task.status for task in board.tasks] == ["planned", ended, "failed"]
        assert await store.settle_conversation("nowhere") == 0

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
