"""Tasks: the chart of what may become of them, and boards as they are shown."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, NotFoundError
from kaosmem.errors import DuplicateError
from kaosmem.stores import Task, TaskStatus
from kaosmem.stores.task_list import TaskList

titles = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(titles, st.sampled_from(TaskStatus), st.integers(0, 3))))
def test_a_board_shows_its_open_tasks_first(drawn):
    """A line a task, whatever its title; open ones before settled ones, both in the order of the board."""
    tasks = tuple(Task(f"t{number}", *each) for number, each in enumerate(drawn))
    board = TaskList("c", "a", tasks)
    lines = board.render().split("\n") if tasks else []
    settled = ("succeeded", "abandoned")
    expected = [task for task in tasks if task.status not in settled]
    expected += [task for task in tasks if task.status in settled]
    assert len(lines) == len(tasks)
    for line, task in zip(lines, expected, strict=True):
        assert line.startswith(f"- [{task.status}")
        assert f"] {task.id}: " in line
        assert (f", retry {task.retry_count} of 3]" in line) == bool(task.retry_count)
        joined = line.replace("\u200c", "").replace(
            "\u200d", ""
        )  # some scripts are written with these
        assert joined.isprintable()


def test_a_board_is_shown_as_text():
    board = TaskList(
        "c",
        "a",
        (
            Task("read", "Read the lease", TaskStatus.SUCCEEDED),
            Task("draft", "Draft\n- [succeeded] forged", TaskStatus.FAILED, 2),
            Task("send", "Send it"),
        ),
    )
    assert board.render() == (
        "- [failed, retry 2 of 3] draft: Draft - [succeeded] forged\n"
        "- [planned] send: Send it\n"
        "- [succeeded] read: Read the lease"
    )
    assert TaskList("c", "a").render() == ""


# Written out again, so that this states the rules and does not repeat the package's code.
MOVES = {
    ("planned", "in_progress"): "in_progress",
    ("in_progress", "succeeded"): "succeeded",
    ("in_progress", "blocked"): "blocked",
    ("in_progress", "failed"): "failed",
    ("blocked", "in_progress"): "in_progress",
    ("failed", "retry"): "in_progress",
    ("failed", "force"): "in_progress",
    ("abandoned", "force"): "in_progress",
}


def test_every_move_of_the_chart_and_no_other():
    """A failed task is retried, or abandoned after its last retry; an abandoned one by force alone."""
    for begin, act in product(TaskStatus, (*TaskStatus, "retry", "force")):
        task = Task("t", "title", begin)
        moves = {"retry": lambda task: task.retried(1), "force": Task.forced}
        move = moves.get(act, lambda task, to=act: task.moved(to))
        if (begin, act) in MOVES:
            assert move(task).status == MOVES[begin, act]
        else:
            with pytest.raises(InvalidArgumentError):
                move(task)
    assert Task("t", "title", "failed").retried(0).status == "abandoned"


def test_tasks_and_boards_are_frozen():
    """What was read never changes; a changed board is another."""
    board = TaskList("c", "a", (Task("t", "title"),))
    with pytest.raises(AttributeError):
        board.tasks[0].status = TaskStatus.SUCCEEDED
    with pytest.raises(AttributeError):
        board.max_retries = 9
    changed = board.replaced("t", lambda task: task.moved(TaskStatus.IN_PROGRESS))
    assert (board.task("t").status, changed.task("t").status) == ("planned", "in_progress")
    assert hash(board) != hash(changed)


def test_a_refused_move_names_what_is_possible():
    """The error says from where, where that leads, and how to retry."""
    with pytest.raises(
        InvalidArgumentError,
        match=r"is planned and can't become succeeded: .* leads to in_progress",
    ):
        Task("t", "title").moved(TaskStatus.SUCCEEDED)
    with pytest.raises(InvalidArgumentError, match="increment_retry or force_retry"):
        Task("t", "title", TaskStatus.FAILED).moved(TaskStatus.IN_PROGRESS)
    with pytest.raises(InvalidArgumentError, match="leads to nowhere"):
        Task("t", "title", TaskStatus.SUCCEEDED).moved(TaskStatus.PLANNED)
    with pytest.raises(ValueError, match="no status 'done'; did you mean 'abandoned'"):
        Task("t", "title", "done")


def test_titles_are_in_no_repr_and_no_error():
    secret = "terminate the lease"
    board = TaskList("c", "a", (Task("t", secret),))
    assert secret not in repr(board)
    for act in (
        lambda: board.task("u"),
        lambda: board.added(board.tasks[:1]) and TaskList("c", "a", board.tasks * 2),
    ):
        with pytest.raises((NotFoundError, DuplicateError)) as caught:
            act()
        assert secret not in str(caught.value)
