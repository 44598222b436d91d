"""Many writers and readers of one session, in processes, threads and tasks: nothing is lost, nothing is there twice."""

import asyncio
from multiprocessing.connection import wait

from kaosmem import SessionMemory
from tests.many_writers import SECTIONS, SESSION, processes, talk


async def ids_in(place, section):
    """The ids of a section's items, as somebody reads them who only reads."""
    async with SessionMemory.open(
        place, SESSION, sections=SECTIONS, counter="estimate", read_only=True
    ) as memory:
        assert memory.notices == ()
        return [item.id for item in memory[section]]


def of(name, item_ids):
    return [item_id for item_id in item_ids if item_id.startswith(f"{name}-")]


async def test_two_processes_talk_and_every_reader_reads_a_valid_session(tmp_path):
    """Of 2 x 40 turns all are there once and in order; each reader sees all acknowledged before, and a whole past."""
    place = str(tmp_path)
    names = ("ann", "ben")
    turns = 40
    reads = 0
    seen = []
    with processes(talk, *((place, name, turns) for name in names)) as heard:
        acknowledged = set()
        speaking = [*heard]
        while speaking:
            for receiver in wait(speaking):
                try:
                    acknowledged.add(receiver.recv())
                except EOFError:
                    speaking.remove(receiver)
            before, seen = seen, await ids_in(place, "messages")
            reads += 1
            assert seen[: len(before)] == before
            assert acknowledged <= {*seen}
            for name in names:
                own = of(name, seen)
                assert own == [f"{name}-{turn}" for turn in range(len(own))]
            assert len(seen) == sum(len(of(name, seen)) for name in names)
    assert len(seen) == 2 * turns
    assert reads > 10


async def test_a_writer_that_is_outrun_tries_once_more(place):
    """Writers wait in line, so that nobody commits between a writer's second look at the session and its commit."""

    async def talk_in_a_task(name):
        for turn in range(3):
            async with SessionMemory.open(
                place, SESSION, sections=SECTIONS, counter="estimate"
            ) as memory:
                memory.add("messages", "a word", id=f"{name}-{turn}", role="user")
                await memory.save()
                assert memory._session.saver._tries <= 2

    await asyncio.gather(*(talk_in_a_task(f"t{number}") for number in range(8)))
    assert len(await ids_in(place, "messages")) == 24


async def test_twenty_tasks_with_one_memory(place):
    """Tasks that share a memory may add and save at any time: when a save returns, what came before it is stored."""

    async def talk_in_a_task(memory, name):
        for turn in range(3):
            memory.add("messages", "a word", id=f"{name}-{turn}", role="user")
            await memory.save()
            assert f"{name}-{turn}" in await ids_in(place, "messages")

    names = [f"t{number}" for number in range(20)]
    async with SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate") as memory:
        await asyncio.gather(*(talk_in_a_task(memory, name) for name in names))
        held = [item.id for item in memory["messages"]]
    assert await ids_in(place, "messages") == held
    assert sorted(held) == sorted(f"{name}-{turn}" for name in names for turn in range(3))
