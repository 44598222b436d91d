"""The contract of every TaskStore."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from itertools import product
from typing import Any, ClassVar

from hypothesis import strategies as st

from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import InMemoryTaskStore, TaskStore
from kaosmem.testing.contracts.store import (
    IDS,
    KEYS,
    LARGE,
    TEXTS,
    WRONG_COUNT,
    WRONG_ID,
    Step,
    StoreContract,
    Wrong,
    refuses,
    steps,
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
_ALLOWED = {
    "planned": ("in_progress",),
    "in_progress": ("failed", "failed", "blocked", "succeeded"),
    "succeeded": (),
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
_CONVERSATIONS = ("a", "a:b")
_AGENTS = ("b:a", "a")
_TASKS = ("t", "T")
_conversations = st.sampled_from(_CONVERSATIONS)
_agents = st.sampled_from(_AGENTS)
_tasks = st.sampled_from(_TASKS)
_WRONG_TASKS: tuple[Any, ...] = (
    *(Task("v", "v", TaskStatus.SUCCEEDED), Task("v", "v", retry_count=1)),
    *("title", {"id": "v"}, None),
)


def _new(task_id: str) -> Task:
    return Task(task_id, task_id)


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
    model = InMemoryTaskStore
    reads = tuple(Step("get_task_list", key) for key in product(_CONVERSATIONS, _AGENTS))
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

    def operations(self) -> Iterator[st.SearchStrategy[Step]]:
        board = (_conversations, _agents)
        new = _tasks.map(_new)
        yield steps(
            "create_task_list",
            *board,
            st.lists(new, unique=True),
            max_retries=st.integers(0, 2),
        )
        yield steps("add_tasks", *board, st.lists(new, max_size=1))
        yield steps("increment_retry", *board, _tasks)
        yield steps("force_retry", *board, _tasks)
        yield steps("update_status", *board, _tasks, st.sampled_from(STATUSES))
        yield steps("settle_conversation", _conversations)
        # Random changes hardly ever get anywhere: a number chooses among the allowed ones.
        act = st.sampled_from([*STATUSES, "increment", "force"])
        choice = st.integers(0, 5) | st.integers(0, 7) | act
        choices = st.lists(choice, min_size=5, max_size=9)
        for _ in range(3):
            yield steps("work", *board, _tasks, choices)

    async def outcome(self, store: TaskStore, step: Step, ids: list[str]) -> object:
        """Do a step, which may be to work on a task."""
        if step.method != "work":
            return await super().outcome(store, step, ids)
        conversation, agent, task_id, choices = step.arguments
        refused = []
        board = await store.get_task_list(conversation, agent)
        for choice in choices:
            if board is None or task_id not in [each.id for each in board.tasks]:
                break
            allowed = _ALLOWED[board.task(task_id).status] or STATUSES
            act = choice if isinstance(choice, str) else allowed[choice % len(allowed)]
            try:
                board = await act_on(store, (conversation, agent), task_id, act)
            except InvalidArgumentError:
                refused.append(act)
        return board, refused

    async def put(self, store: TaskStore, key: _Board) -> None:
        await store.create_task_list(*key, [Task("t", f"of {key}")])

    async def has(self, store: TaskStore, key: _Board) -> bool:
        board = await store.get_task_list(*key)
        return board is not None and board.tasks == (Task("t", f"of {key}"),)

    async def listed(self, store: TaskStore) -> list[_Board]:
        return await store.list_boards()

    async def arguments(self, store: TaskStore, key: _Board, method: str) -> Mapping[str, Any]:
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

    def refused(
        self, store: TaskStore, key: _Board
    ) -> Iterator[tuple[type[Exception], Coroutine[Any, Any, object]]]:
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

    async def test_retries_are_counted_and_used_up(self, store: TaskStore) -> None:
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

    async def test_settling_ends_what_is_in_progress(self, store: TaskStore) -> None:
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

    async def test_tasks_of_neighbours_are_kept_apart(self, store: TaskStore) -> None:
        """Ids that resemble each other, or would if they were joined, are different boards and tasks."""
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

    async def test_titles_come_back_unchanged(self, store: TaskStore) -> None:
        """In any script, and very long."""
        tasks = [Task(f"t{number}", text) for number, text in enumerate((*TEXTS, LARGE))]
        made = await store.create_task_list("c", "a", tasks)
        assert [task.title for task in made.tasks] == [*TEXTS, LARGE]
        assert await store.get_task_list("c", "a") == made

    async def test_no_change_is_lost_among_many(self, store: TaskStore) -> None:
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
