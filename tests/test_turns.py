"""Turns of one session come one after another, and never wait for themselves."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ConcurrentUseError, SessionMemory
from kaosmem.tokens import EstimateCounter


def memory_of_turns() -> SessionMemory:
    return SessionMemory.test_mode(counter=EstimateCounter())


async def take_turn(memory: SessionMemory, number: int, pauses: list[int]) -> None:
    async with memory.turn():
        for step, pause in enumerate(pauses):
            memory.add("messages", f"{number}.{step}")
            for _ in range(pause):
                await asyncio.sleep(0)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=6))
def test_turns_are_never_mixed(turns: list[list[int]]) -> None:
    """However often each turn waits, its messages stand together, and turns in the order in which they were asked."""
    memory = memory_of_turns()

    async def run() -> None:
        await asyncio.gather(*(take_turn(memory, number, pauses) for number, pauses in enumerate(turns)))

    asyncio.run(run())
    expected = [f"{number}.{step}" for number, pauses in enumerate(turns) for step in range(len(pauses))]
    assert [item.text for item in memory["messages"]] == expected


async def test_a_turn_that_fails_or_is_cancelled_gives_way() -> None:
    """The next turn goes on after an exception, and after a waiting turn is cancelled."""
    memory = memory_of_turns()

    async def fail() -> None:
        async with memory.turn():
            await asyncio.sleep(0)
            raise ValueError("the model failed")

    failing, waiting, last = (
        asyncio.create_task(fail()),
        asyncio.create_task(take_turn(memory, 1, [1])),
        asyncio.create_task(take_turn(memory, 2, [1])),
    )
    await asyncio.sleep(0)
    waiting.cancel()
    done = await asyncio.gather(failing, waiting, last, return_exceptions=True)
    assert [type(each) for each in done] == [ValueError, asyncio.CancelledError, type(None)]
    assert [item.text for item in memory["messages"]] == ["2.0"]


async def test_a_turn_inside_a_turn_is_refused() -> None:
    """It would wait for itself, also in a task that the turn waits for; other sessions' turns may be inside."""
    memory, other = memory_of_turns(), memory_of_turns()
    async with asyncio.timeout(30), memory.turn():
        with pytest.raises(ConcurrentUseError, match="inside a turn"):
            async with memory.turn():
                pytest.fail("it waited for itself")
        async with other.turn():
            with pytest.raises(ConcurrentUseError, match="inside a turn"):
                await asyncio.gather(take_turn(memory, 0, [0]))
        later = asyncio.create_task(asyncio.sleep(0))
    await later
    async with memory.turn():
        assert not memory["messages"]


async def test_a_task_that_was_started_in_a_turn_may_take_a_later_one() -> None:
    """What counts is the turn that is held when it asks."""
    memory = memory_of_turns()
    ended = asyncio.Event()

    async def later() -> None:
        await ended.wait()
        await take_turn(memory, 1, [0])

    async with memory.turn():
        task = asyncio.create_task(later())
    ended.set()
    async with asyncio.timeout(30):
        await task
    assert [item.text for item in memory["messages"]] == ["1.0"]


async def test_a_second_event_loop_is_refused(tmp_path: object) -> None:
    """A turn in another loop, while one holds or awaits a turn, is an error instead of a wait without end."""
    raised: list[BaseException] = []
    async with SessionMemory.open(tmp_path, counter=EstimateCounter()) as memory:  # type: ignore[arg-type]

        def elsewhere() -> None:
            try:
                asyncio.run(take_turn(memory, 1, [0]))
            except ConcurrentUseError as error:
                raised.append(error)

        async with memory.turn():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join, 30)
        assert "another event loop" in str(raised[0])
        assert not memory["messages"]
