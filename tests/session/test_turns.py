"""Turns of one session come one after another, and never wait for themselves."""

import asyncio
import threading

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory
from kaosmem.session.saving.turns import KeyedQueues
from kaosmem.tokens.counters import EstimateCounter


def memory_of_turns():
    return SessionMemory.test_mode(counter=EstimateCounter())


async def take_turn(memory, number, pauses):
    async with memory.turn():
        for step, pause in enumerate(pauses):
            memory.add("messages", f"{number}.{step}")
            for _ in range(pause):
                await asyncio.sleep(0)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=6))
def test_turns_are_never_mixed(turns):
    """However often each turn waits, its messages stand together, and turns in the order in which they were asked."""
    memory = memory_of_turns()

    async def run():
        await asyncio.gather(
            *(take_turn(memory, number, pauses) for number, pauses in enumerate(turns))
        )

    asyncio.run(run())
    expected = [
        f"{number}.{step}" for number, pauses in enumerate(turns) for step in range(len(pauses))
    ]
    assert [item.text for item in memory["messages"]] == expected


async def test_a_task_that_was_started_in_a_turn_may_take_a_later_one():
    """What counts is the turn that is held when it asks."""
    memory = memory_of_turns()
    ended = asyncio.Event()

    async def later():
        await ended.wait()
        await take_turn(memory, 1, [0])

    async with memory.turn():
        task = asyncio.create_task(later())
    ended.set()
    async with asyncio.timeout(30):
        await task
    assert [item.text for item in memory["messages"]] == ["1.0"]


def turns_of_two_places(
    tmp_path,
):
    """A journal, and a turn over one of two sessions, which notes in it when it begins and ends."""
    journal = []

    async def turn(session_id, number, pauses):
        async with SessionMemory.open(
            tmp_path, session_id, counter=EstimateCounter(), in_turn=True
        ) as memory:
            journal.append(f"{session_id} {number} begins")
            memory.add("messages", f"question {len(memory['messages'])}")
            for _ in range(pauses):
                await asyncio.sleep(0)
            memory.add("messages", f"answer {len(memory['messages'])}", role="assistant")
            journal.append(f"{session_id} {number} ends")

    return journal, turn


async def test_instances_of_one_session_take_turns_across_threads_and_loops(tmp_path):
    """Each turn reads what the one before saved; turns of another session do not wait."""
    journal, turn = turns_of_two_places(tmp_path)

    def elsewhere(number):
        asyncio.run(turn("s", number, number % 3))

    threads = [threading.Thread(target=elsewhere, args=(number,)) for number in range(6, 12)]
    for thread in threads:
        thread.start()
    await asyncio.gather(
        *(turn("s", number, number % 4) for number in range(6)),
        *(turn("other", number, 1) for number in range(3)),
    )
    for thread in threads:
        await asyncio.to_thread(thread.join, 30)
    for session_id, count in (("s", 12), ("other", 3)):
        own = [line.split() for line in journal if line.startswith(f"{session_id} ")]
        assert all(begun[1] == ended[1] for begun, ended in zip(own[::2], own[1::2], strict=True))
        async with SessionMemory.open(tmp_path, session_id, read_only=True) as memory:
            said = [f"{('question', 'answer')[number % 2]} {number}" for number in range(2 * count)]
            assert [item.text for item in memory["messages"]] == said


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8), st.integers(0, 8)
)
def test_a_queue_lets_one_in_at_a_time(turns, ticks):
    """Whoever is cancelled, waiting or inside, gives way, and all others come in the order in which they asked."""
    queues = KeyedQueues("a block inside a block")
    inside = []
    done = []

    async def take(number, pauses):
        async with queues.take("key"):
            assert not inside
            inside.append(number)
            try:
                for _ in range(pauses):
                    await asyncio.sleep(0)
                done.append(number)
            finally:
                inside.clear()

    async def run():
        tasks = [
            asyncio.create_task(take(number, pauses)) for number, (pauses, _) in enumerate(turns)
        ]
        for _ in range(ticks):
            await asyncio.sleep(0)
        for task, (_, is_cancelled) in zip(tasks, turns, strict=True):
            if is_cancelled:
                task.cancel()
        async with asyncio.timeout(30):
            await asyncio.gather(*tasks, return_exceptions=True)
            await take(len(turns), 0)

    asyncio.run(run())
    assert done == sorted(done)
    assert {number for number, (_, is_cancelled) in enumerate(turns) if not is_cancelled} <= {*done}
    assert done[-1] == len(turns)
