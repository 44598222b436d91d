"""Tasks on a board, and the chart of their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kaosmem.arguments import check_count, check_text
from kaosmem.display import visible
from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError
from kaosmem.names import check_id, name_hint, shown, shown_name

DEFAULT_MAX_RETRIES = 3


class TaskStatus(StrEnum):
    """The state of a task."""

    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    ABANDONED = "abandoned"

    @property
    def is_open(self) -> bool:
        """Return whether there is still something to do."""
        return self not in (TaskStatus.SUCCEEDED, TaskStatus.ABANDONED)


# By `update_status`. A failed task is retried, and an abandoned one only by force: both count.
CHART: dict[TaskStatus, tuple[TaskStatus, ...]] = {
    TaskStatus.PLANNED: (TaskStatus.IN_PROGRESS,),
    TaskStatus.IN_PROGRESS: (TaskStatus.SUCCEEDED, TaskStatus.BLOCKED, TaskStatus.FAILED),
    TaskStatus.BLOCKED: (TaskStatus.IN_PROGRESS,),
    TaskStatus.FAILED: (),
    TaskStatus.SUCCEEDED: (),
    TaskStatus.ABANDONED: (),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do.

    Raises InvalidNameError for the id, InvalidArgumentError for the rest.

    Attributes:
        id: Any text of 1 to 256 characters without control characters.
        retry_count: Number of retries since the task was planned or last retried by force.
    """

    id: str
    title: str = field(repr=False)
    status: TaskStatus = TaskStatus.PLANNED
    retry_count: int = 0

    def __post_init__(self) -> None:
        check_id(self.id, "task id")
        check_text(self.title, "title of a task")
        object.__setattr__(self, "status", check_status(self.status))
        check_count(self.retry_count, "retry_count")

    def moved(self, status: TaskStatus) -> Task:
        """Return the task in another status.

        Raises InvalidArgumentError where the chart does not lead there.
        """
        if status in CHART[self.status]:
            return replace(self, status=status)
        leads = ", ".join(CHART[self.status]) or "nowhere"
        hint = {
            TaskStatus.FAILED: "; use increment_retry or force_retry",
            TaskStatus.ABANDONED: "; use force_retry",
        }
        raise InvalidArgumentError(
            f"task {shown(self.id)} is {self.status} and can't become {status}: that status leads "
            f"to {leads}" + hint.get(self.status, "")
        )

    def retried(self, max_retries: int) -> Task:
        """Return the failed task in progress again, abandoned where `max_retries` are used up.

        Raises InvalidArgumentError for a task that has not failed.
        """
        self._expect(TaskStatus.FAILED)
        if self.retry_count < max_retries:
            return replace(self, status=TaskStatus.IN_PROGRESS, retry_count=self.retry_count + 1)
        return replace(self, status=TaskStatus.ABANDONED)

    def forced(self) -> Task:
        """Return the failed or abandoned task in progress, as if never retried.

        Raises InvalidArgumentError.
        """
        self._expect(TaskStatus.FAILED, TaskStatus.ABANDONED)
        return replace(self, status=TaskStatus.IN_PROGRESS, retry_count=0)

    def settled(self) -> Task:
        """Return the task, succeeded where it was in progress."""
        if self.status == TaskStatus.IN_PROGRESS:
            return replace(self, status=TaskStatus.SUCCEEDED)
        return self

    def _expect(self, *statuses: TaskStatus) -> None:
        if self.status not in statuses:
            raise InvalidArgumentError(
                f"task {shown(self.id)} is {self.status} and can't be retried; "
                f"only a task that is {' or '.join(statuses)} can"
            )


@dataclass(frozen=True, slots=True)
class TaskList:
    """A board: the tasks of an agent in a conversation, in the order in which they were added.

    Raises as Task, and DuplicateError for two tasks with one id.

    Attributes:
        max_retries: Number of retries of a failed task before it is abandoned.

    >>> board = TaskList("deal-42", "reader", (Task("read", "Read the contract"), Task("sum", "Sum it up")))
    >>> print(board.replaced("read", lambda task: task.moved(TaskStatus.IN_PROGRESS)).render())
    - [in_progress] read: Read the contract
    - [planned] sum: Sum it up
    """

    conversation_id: str
    agent_id: str
    tasks: tuple[Task, ...] = ()
    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        check_id(self.conversation_id, "conversation id")
        check_id(self.agent_id, "agent id")
        check_count(self.max_retries, "max_retries")
        object.__setattr__(self, "tasks", _checked(self.tasks))

    def task(self, task_id: str) -> Task:
        """Return a task. Raises NotFoundError."""
        check_id(task_id, "task id")
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise NotFoundError(f"no task {shown(task_id)} on this board; add_tasks adds it")

    def replaced(self, task_id: str, change: Callable[[Task], Task]) -> TaskList:
        """Return the board with a task changed. Raises NotFoundError, and as `change`."""
        tasks = list(self.tasks)
        place = tasks.index(self.task(task_id))
        tasks[place] = change(tasks[place])
        return replace(self, tasks=tuple(tasks))

    def added(self, tasks: Iterable[Task]) -> TaskList:
        """Return the board with new, planned tasks at its end.

        Raises DuplicateError for an id that is taken, InvalidArgumentError for a task that is not
        planned.
        """
        new = _checked(tasks)
        for task in new:
            if task.status != TaskStatus.PLANNED or task.retry_count:
                raise InvalidArgumentError(
                    f"task {shown(task.id)} is new and {task.status}; a new one is planned"
                )
        return replace(self, tasks=(*self.tasks, *new))

    @property
    def in_progress(self) -> int:
        """Return the number of tasks in progress."""
        return sum(task.status == TaskStatus.IN_PROGRESS for task in self.tasks)

    def settled(self) -> TaskList:
        """Return the board with each task in progress succeeded."""
        return replace(self, tasks=tuple(task.settled() for task in self.tasks))

    def render(self) -> str:
        """Return the board as text, a task a line.

        The open ones come first, otherwise in the order of the board.
        """
        open_first = sorted(self.tasks, key=lambda task: not task.status.is_open)
        return "\n".join(map(self._line, open_first))

    def _line(self, task: Task) -> str:
        state = str(task.status)
        if task.retry_count:
            state += f", retry {task.retry_count} of {self.max_retries}"
        title = " ".join(task.title.split())
        return f"- [{state}] {visible(task.id)}: {visible(title)}"


def check_status(given: object) -> TaskStatus:
    """Return a status. Raises InvalidArgumentError for a name of none."""
    try:
        return TaskStatus(given)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidArgumentError(
            f"no status {shown_name(given)}; {name_hint(given, TaskStatus)}"
        ) from None


def _checked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    listed = tuple(tasks)
    ids = set[str]()
    for task in listed:
        if not isinstance(task, Task):
            raise InvalidArgumentError(
                f"a board takes a Task, not a {type(task).__name__}; make one"
            )
        if task.id in ids:
            raise DuplicateError(
                f"two tasks have the id {shown(task.id)}; give the new one another"
            )
        ids.add(task.id)
    return listed
