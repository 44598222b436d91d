"""Who is at work: scopes of agents in tasks that run side by side."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import NotFoundError
from kaosmem.errors import InvalidNameError
from kaosmem.stores.task_list import agent_scope, at_work, current_board_key

NOBODY = (None, None)


def test_a_scope_says_who_is_at_work():
    """The thread comes from the scope around; afterwards it is as before."""
    assert at_work.get() == NOBODY
    with agent_scope("lead", thread_id="deal-42"):
        assert at_work.get() == ("deal-42", "lead")
        with agent_scope("reader"):
            assert at_work.get() == ("deal-42", "reader")
            with agent_scope("helper", thread_id="other"):
                assert at_work.get() == ("other", "helper")
        assert at_work.get() == ("deal-42", "lead")
    assert at_work.get() == NOBODY


def test_a_board_is_the_one_of_who_is_at_work():
    """Without an agent, or a thread, there is none."""
    with pytest.raises(NotFoundError, match="enter agent_scope"):
        current_board_key()
    with agent_scope("a"), pytest.raises(LookupError):
        current_board_key()
    with agent_scope("a", thread_id="t"):
        assert current_board_key() == ("t", "a")


@pytest.mark.parametrize(
    "given", [{"agent_id": ""}, {"agent_id": "a", "thread_id": ""}, {"agent_id": None}]
)
def test_a_scope_that_names_nobody_is_refused(given):
    """And leaves everything as it was."""
    with pytest.raises(InvalidNameError), agent_scope(**given):
        pass
    assert at_work.get() == NOBODY


def test_an_exception_ends_the_scope():
    with pytest.raises(RuntimeError), agent_scope("a", thread_id="t"):
        raise RuntimeError
    assert at_work.get() == NOBODY


async def test_siblings_do_not_see_each_other():
    """Of agents that wait inside each other's scopes each sees itself alone, whatever order they leave in."""
    inside = asyncio.Barrier(3)
    seen = {}

    async def agent(name: str, turns: int) -> None:
        assert at_work.get() == ("t", "lead")
        with agent_scope(name):
            await inside.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            seen[name] = at_work.get()
        assert at_work.get() == ("t", "lead")

    with agent_scope("lead", thread_id="t"):
        await asyncio.gather(agent("a", 5), agent("b", 1), agent("c", 3))
        assert at_work.get() == ("t", "lead")
    assert seen == {name: ("t", name) for name in "abc"}
    assert at_work.get() == NOBODY


async def test_a_task_keeps_the_scope_that_it_was_started_in():
    """It ends for who entered it, and goes on for who was started in it; who starts later sees nothing of it."""
    go = asyncio.Event()

    async def told() -> tuple[str | None, ...]:
        await go.wait()
        return at_work.get()

    before = asyncio.create_task(told())
    with agent_scope("a", thread_id="t"):
        within = asyncio.create_task(told())
    after = asyncio.create_task(told())
    go.set()
    assert await asyncio.gather(before, within, after) == [NOBODY, ("t", "a"), NOBODY]


async def test_what_a_task_enters_and_never_leaves_stays_with_it():
    """A cancelled or crashed agent takes its scope with it."""

    async def cancelled() -> None:
        with agent_scope("a", thread_id="t"):
            await asyncio.sleep(60)

    task = asyncio.create_task(cancelled())
    await asyncio.sleep(0)
    assert at_work.get() == NOBODY
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert at_work.get() == NOBODY


async def test_threads_see_what_they_are_given():
    """`asyncio.to_thread` takes the scope along, a bare thread begins without one."""
    seen = []
    with agent_scope("a", thread_id="t"):
        assert await asyncio.to_thread(at_work.get) == ("t", "a")
        thread = threading.Thread(target=lambda: seen.append(at_work.get()))
        thread.start()
        thread.join()
    assert seen == [NOBODY]


tree = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12)


@given(tree)
def test_any_tree_of_agents_ends_as_it_began(agents):
    """Every agent sees itself, in whatever order the tasks of all run."""

    async def work(path: str, below: list[list[object]]) -> None:
        with agent_scope(path, thread_id="t"):
            await asyncio.gather(*(work(f"{path}.{n}", each) for n, each in enumerate(below)))
            assert at_work.get() == ("t", path)

    copy_context().run(asyncio.run, work("a", agents))
    assert at_work.get() == NOBODY
