"""The contract of every TaskStore."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import product
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from kaosmem.errors import DuplicateError, InvalidArgumentError, InvalidNameError, NotFoundError
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import TaskStore
from kaosmem.testing.contracts.store import (
    IDS,
    KEYS,
    LARGE,
    NO_IDS,
    TEXTS,
    StoreContract,
    StoreMachine,
    refuses,
)

# Written out again, so that this states the rules and does not repeat the package's code.
STATUSES = ("planned", "in_progress", "succeeded", "blocked", "failed", "abandoned")
MOVES = {
    ("planned", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "blocked"),
    ("in_progress", "failed"),
    ("blocked", "in_progress"),
}
_ALLOWED = {
    "planned": ("in_progress",),
    "in_progress": ("failed", "failed", "blocked", "succeeded"),
    "succeeded": ("planned",),  # not allowed, like all else
    "blocked": ("in_progress",),
    "failed": ("increment", "force"),
    "abandoned": ("force",),
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
_BOARDS: tuple[_Board, ...] = (("a", "b:a"), ("a:b", "a"))
_boards = st.sampled_from(_BOARDS)
_tasks = st.sampled_from(["t", "T"])
_acts = st.sampled_from([*STATUSES, "increment", "force"])
# A number chooses among the allowed changes: random ones hardly ever get anywhere.
_steps = st.sampled_from([0, 1, 2, 3, 4, 5] * 3) | _acts


class TaskMachine(StoreMachine[TaskStore]):
    """Boards as dicts of tasks, each a list of its status and how often it was retried."""

    held: dict[_Board, tuple[int, dict[str, list[Any]]]]

    @rule(key=_boards, tasks=st.lists(_tasks, unique=True), max_retries=st.integers(0, 2))
    def create(self, key: _Board, tasks: list[str], max_retries: int) -> None:
        asked = self.store.create_task_list(
            *key, [Task(each, each) for each in tasks], max_retries=max_retries
        )
        if key in self.held:
            self.ask(refuses(DuplicateError, asked))
        else:
            self.held[key] = max_retries, {each: ["planned", 0] for each in tasks}
            self.check(key, self.ask(asked))

    @rule(key=_boards, task=_tasks)
    def add(self, key: _Board, task: str) -> None:
        asked = self.store.add_tasks(*key, [Task(task, task)])
        if key not in self.held:
            self.ask(refuses(NotFoundError, asked))
        elif task in self.held[key][1]:
            self.ask(refuses(DuplicateError, asked))
        else:
            self.held[key][1][task] = ["planned", 0]
            self.check(key, self.ask(asked))

    @rule(key=_boards, task=_tasks, act=_acts)
    def act(self, key: _Board, task: str, act: str) -> None:
        asked = act_on(self.store, key, task, act)
        most, tasks = self.held.get(key, (0, {}))
        if task not in tasks:
            self.ask(refuses(NotFoundError, asked))
            return
        status, retries = tasks[task]
        if (status, act) in MOVES:
            tasks[task] = [act, retries]
        elif (status, act) == ("failed", "increment"):
            tasks[task] = ["in_progress", retries + 1] if retries < most else ["abandoned", retries]
        elif act == "force" and status in ("failed", "abandoned"):
            tasks[task] = ["in_progress", 0]
        else:
            self.ask(refuses(InvalidArgumentError, asked))
            return
        self.check(key, self.ask(asked))

    @precondition(lambda self: any(tasks for _, tasks in self.held.values()))
    @rule(
        which=st.integers(0, 3),
        acts=st.lists(_steps, min_size=5, max_size=9),
        settles=st.booleans(),
    )
    def work_on_one_that_is_there(self, which: int, acts: list[int | str], settles: bool) -> None:
        there = [(key, task) for key, (_, tasks) in self.held.items() for task in tasks]
        key, task = there[which % len(there)]
        for act in acts:
            allowed = _ALLOWED[self.held[key][1][task][0]]
            self.act(key, task, act if isinstance(act, str) else allowed[act % len(allowed)])
        if settles:  # while the task may be in any state
            self.settle(key[0])

    @rule(conversation=st.sampled_from(["a", "a:b", "b"]))
    def settle(self, conversation: str) -> None:
        boards = [tasks for (each, _), (_, tasks) in self.held.items() if each == conversation]
        lingering = [
            task for tasks in boards for task in tasks.values() if task[0] == "in_progress"
        ]
        assert self.ask(self.store.settle_conversation(conversation)) == len(lingering)
        for task in lingering:
            task[0] = "succeeded"

    @invariant()
    def boards_are_what_became_of_them(self) -> None:
        for key in _BOARDS:
            board = self.ask(self.store.get_task_list(*key))
            if key in self.held:
                self.check(key, board)
            else:
                assert board is None

    def check(self, key: _Board, board: TaskList | None) -> None:
        most, tasks = self.held[key]
        assert board is not None
        assert (board.conversation_id, board.agent_id, board.max_retries) == (*key, most)
        assert {each.id: [each.status, each.retry_count] for each in board.tasks} == tasks
        assert [each.id for each in board.tasks] == [*tasks]


def act_on(store: TaskStore, key: _Board, task_id: str, act: str) -> Coroutine[Any, Any, TaskList]:
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

    protocol = TaskStore
    machine = TaskMachine
    ways = 0  # a board stays

    async def put(self, store: TaskStore, key: _Board) -> None:
        await store.create_task_list(*key, [Task("t", f"of {key}")])

    async def has(self, store: TaskStore, key: _Board) -> bool:
        board = await store.get_task_list(*key)
        return board is not None and board.tasks == (Task("t", f"of {key}"),)

    async def listed(self, store: TaskStore) -> list[_Board]:
        return await store.list_boards()

    def calls_with(self, store: TaskStore, bad: Any) -> Iterator[Coroutine[Any, Any, object]]:
        for key in ((bad, "a"), ("c", bad)):
            yield store.create_task_list(*key)
            yield store.get_task_list(*key)
            yield store.add_tasks(key[0], key[1], [])
            for act in ("in_progress", "increment", "force"):
                yield act_on(store, key, "t", act)
        yield store.settle_conversation(bad)

    async def made(
        self, store: TaskStore, status: str, agent: str = "a", *, max_retries: int = 0
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

    async def test_a_board_is_read_as_it_was_made(self, store: TaskStore) -> None:
        """A created board has its tasks in order, planned, and equals the returned one."""
        tasks = [Task("b", "second"), Task("a", "first")]
        made = await store.create_task_list("c", "a", tasks, max_retries=5)
        assert made == TaskList("c", "a", tuple(tasks), 5)
        assert await store.get_task_list("c", "a") == made
        added = await store.add_tasks("c", "a", [Task("c", "third")])
        assert [task.id for task in added.tasks] == ["b", "a", "c"]
        assert await store.get_task_list("c", "a") == added
        assert (await store.create_task_list("c", "b")).max_retries == 3

    async def test_every_move_of_the_chart_and_no_other(self, store: TaskStore) -> None:
        """Of all pairs of statuses five are moves; the rest is refused, and leaves the task as it was."""
        for number, (begin, end) in enumerate(product(STATUSES, STATUSES)):
            agent = f"agent {number}"
            await self.made(store, begin, agent)
            assert await self.task(store, agent) == (begin, 0)
            moved = store.update_status("c", agent, "t", end)
            if (begin, end) in MOVES:
                assert (await moved).task("t").status == end
            else:
                await refuses(InvalidArgumentError, moved)
            assert await self.task(store, agent) == (end if (begin, end) in MOVES else begin, 0)

    async def test_only_what_failed_is_retried(self, store: TaskStore) -> None:
        """Abandoned tasks restart by force alone.

        Other changes are refused, and leave the task as it was.
        """
        for number, (status, act) in enumerate(product(STATUSES, ["increment", "force"])):
            agent = f"agent {number}"
            await self.made(store, status, agent, max_retries=0)
            retried = act_on(store, ("c", agent), "t", act)
            if status == "failed" or (status, act) == ("abandoned", "force"):
                await retried
                assert await self.task(store, agent) == (
                    "abandoned" if act == "increment" else "in_progress",
                    0,
                )
            else:
                await refuses(InvalidArgumentError, retried)
                assert await self.task(store, agent) == (status, 0)

    async def test_retries_are_counted_and_used_up(self, store: TaskStore) -> None:
        """As often as the board allows; then the task is abandoned, and by force it starts anew."""
        await self.made(store, "failed", max_retries=2)
        for retries in (1, 2):
            await store.increment_retry("c", "a", "t")
            assert await self.task(store) == ("in_progress", retries)
            await store.update_status("c", "a", "t", "failed")
        await store.increment_retry("c", "a", "t")
        assert await self.task(store) == ("abandoned", 2)
        await store.force_retry("c", "a", "t")
        assert await self.task(store) == ("in_progress", 0)
        await store.update_status("c", "a", "t", "failed")
        await store.increment_retry("c", "a", "t")
        assert await self.task(store) == ("in_progress", 1)
        await store.update_status("c", "a", "t", "failed")
        await store.force_retry("c", "a", "t")
        assert await self.task(store) == ("in_progress", 0)

    async def test_settling_ends_what_is_in_progress(self, store: TaskStore) -> None:
        """Only on the boards of the conversation; a second time there is nothing to settle."""
        for agent, status in product(["x", "y"], STATUSES):
            await self.made(store, status, f"{agent} {status}")
        await store.create_task_list("c:2", "a", [Task("t", "title")])
        await store.update_status("c:2", "a", "t", "in_progress")
        assert await store.settle_conversation("c") == 2
        for agent, status in product(["x", "y"], STATUSES):
            settled = "succeeded" if status == "in_progress" else status
            assert (await self.task(store, f"{agent} {status}"))[0] == settled
        elsewhere = await store.get_task_list("c:2", "a")
        assert elsewhere is not None
        assert elsewhere.task("t").status == "in_progress"
        assert await store.settle_conversation("c") == 0
        assert await store.settle_conversation("nowhere") == 0

    async def test_a_board_is_made_once(self, store: TaskStore) -> None:
        """A second one is refused, and leaves the first as it is."""
        await self.made(store, "in_progress")
        await refuses(DuplicateError, store.create_task_list("c", "a", [Task("u", "other")]))
        assert await self.task(store) == ("in_progress", 0)

    async def test_all_tasks_are_added_or_none(self, store: TaskStore) -> None:
        """One whose id is taken, that is not planned, or no task at all, is refused with those beside it."""
        await self.made(store, "planned")
        new = Task("u", "new")
        bad: Any
        for bad in (Task("t", "again"), new):
            await refuses(DuplicateError, store.add_tasks("c", "a", [new, bad]))
        for bad in (Task("v", "v", "succeeded"), Task("v", "v", retry_count=1)):  # type: ignore[arg-type]
            await refuses(InvalidArgumentError, store.add_tasks("c", "a", [new, bad]))
            await refuses(InvalidArgumentError, store.create_task_list("c", "b", [new, bad]))
        for bad in ("title", {"id": "v"}, None):
            await refuses(InvalidArgumentError, store.add_tasks("c", "a", [new, bad]))
        await refuses(DuplicateError, store.create_task_list("c", "b", [new, new]))
        board = await store.get_task_list("c", "a")
        assert board is not None
        assert [task.id for task in board.tasks] == ["t"]
        assert await store.get_task_list("c", "b") is None

    async def test_what_is_not_there_cannot_be_changed(self, store: TaskStore) -> None:
        """An unknown board, or a task that it does not have; reading one is None."""
        await self.made(store, "planned")
        assert await store.get_task_list("c", "b") is None
        for agent, task in (("b", "t"), ("a", "T"), ("a", "t ")):
            for act in ("in_progress", "increment", "force"):
                await refuses(NotFoundError, act_on(store, ("c", agent), task, act))
        await refuses(NotFoundError, store.add_tasks("c", "b", [Task("t", "title")]))
        await refuses(KeyError, store.update_status("c", "b", "t", "in_progress"))

    async def test_what_was_acknowledged_is_there_after_reopening(self, store: TaskStore) -> None:
        """A reopened store has the boards with each task's status, retries and result."""
        await self.made(store, "failed", max_retries=2)
        await store.increment_retry("c", "a", "t")
        await store.add_tasks("c", "a", [Task("u", "new")])
        store = await self.reopened(store)
        board = await store.get_task_list("c", "a")
        expected = Task("t", "title", TaskStatus.IN_PROGRESS, 1), Task("u", "new")
        assert board == TaskList("c", "a", expected, 2)
        assert await store.settle_conversation("c") == 1
        assert await self.task(await self.reopened(store)) == ("succeeded", 1)

    async def test_tasks_of_neighbours_are_kept_apart(self, store: TaskStore) -> None:
        """Ids that resemble each other, or would if they were joined, are different boards and tasks."""
        for key in KEYS:
            await store.create_task_list(*key, [Task(each, f"{each} of {key}") for each in IDS])
        for number, key in enumerate(KEYS):
            each = IDS[number % len(IDS)]
            await store.update_status(*key, each, "in_progress")
            board = await store.get_task_list(*key)
            assert board is not None
            assert [task.title for task in board.tasks] == [f"{other} of {key}" for other in IDS]
            assert [task.id for task in board.tasks if task.status == "in_progress"] == [each]
        settled = sum(
            [
                await store.settle_conversation(each)
                for each in {conversation for conversation, _ in KEYS}
            ]
        )
        assert settled == len(KEYS)

    async def test_bad_arguments_are_refused(self, store: TaskStore) -> None:
        """A status that there is not, and a number of retries that is none."""
        await self.made(store, "planned")
        bad: Any
        for bad in NO_IDS:
            for act in ("in_progress", "increment", "force"):
                await refuses(InvalidNameError, act_on(store, ("c", "a"), bad, act))
        for bad in ("done", "", "PLANNED", None, 1):
            await refuses(InvalidArgumentError, store.update_status("c", "a", "t", bad))
        for bad in (-1, 1.5, "1", True, None):
            await refuses(InvalidArgumentError, store.create_task_list("c", "b", max_retries=bad))
        assert await store.get_task_list("c", "b") is None

    async def test_titles_come_back_unchanged(self, store: TaskStore) -> None:
        """In any script, and very long."""
        tasks = [Task(f"t{number}", text) for number, text in enumerate((*TEXTS, LARGE))]
        await store.create_task_list("c", "a", tasks)
        board = await store.get_task_list("c", "a")
        assert board is not None
        assert [task.title for task in board.tasks] == [task.title for task in tasks]

    async def test_no_change_is_lost_among_many(self, store: TaskStore) -> None:
        """A hundred concurrent changes of one board are all seen.

        Of callers that start one task, one succeeds.
        """
        await store.create_task_list(
            "c", "a", [Task("t", "title"), *(Task(f"t{n}", "title") for n in range(50))]
        )
        changes = [store.update_status("c", "a", f"t{n}", "in_progress") for n in range(50)]
        changes += [store.add_tasks("c", "a", [Task(f"u{n}", "title")]) for n in range(50)]
        await asyncio.gather(*changes)
        starts = [store.update_status("c", "a", "t", "in_progress") for _ in range(100)]
        ended = await asyncio.gather(*starts, return_exceptions=True)
        assert sum(isinstance(each, InvalidArgumentError) for each in ended) == 99
        board = await store.get_task_list("c", "a")
        assert board is not None
        assert sum(task.status == "in_progress" for task in board.tasks) == 51
        assert len(board.tasks) == 101
