"""A task board: each agent sees its own tasks, open ones first."""

from __future__ import annotations

from pathlib import Path

from kaosmem import SessionMemory
from kaosmem.backends import open_stores
from kaosmem.sources import TaskSource
from kaosmem.stores import Task, TaskStatus, TaskStore


async def work(board: TaskStore, agent: str, outcomes: list[str]) -> str:
    """Start the first open task, end it, and return what the model is shown then; a model would decide both."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Go on with your tasks.")
    # Without its tasks there is no turn.
    await memory.attach(TaskSource(board, "deal-42", agent), required=True)
    for outcome in outcomes:
        tasks = await board.get_task_list("deal-42", agent)
        assert tasks is not None
        task = next(task for task in tasks.tasks if task.status == TaskStatus.PLANNED)
        await board.update_status("deal-42", agent, task.id, TaskStatus.IN_PROGRESS)
        await board.update_status("deal-42", agent, task.id, outcome)
    return (await memory.assemble_context(budget=400)).text


async def test_each_agent_sees_its_board_with_what_is_open_first(tmp_path: Path) -> None:
    async with open_stores(tmp_path) as stores:  # in a file; boards in memory are for tests
        await work_on_boards(stores.tasks)


async def work_on_boards(board: TaskStore) -> None:
    for agent, titles in {
        "reader": ["read the lease", "read the annex"],
        "writer": ["draft a summary"],
    }.items():
        await board.create_task_list(
            "deal-42", agent, [Task(title.split()[-1], title) for title in titles]
        )
    seen = await work(board, "reader", ["succeeded"])
    assert "## tasks\n[planned] annex: read the annex\n[succeeded] lease: read the lease\n" in seen
    assert "summary" not in seen

    seen = await work(board, "writer", ["failed"])
    assert "[failed] summary: draft a summary" in seen
    await board.increment_retry("deal-42", "writer", "summary")
    assert "[in_progress] summary: draft a summary (retry 1 of 3)" in await work(
        board, "writer", []
    )
