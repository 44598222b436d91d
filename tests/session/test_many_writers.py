"""Many writers and readers of one session, in processes, threads and tasks: nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_writers import measured
from kaosmem import ConflictError, SectionSpec, SessionMemory
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing import paths_holding
from tests.many_writers import SECTIONS, SESSION, commit_often, open_first, processes, said, talk


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return str(tmp_path) if request.param == "local" else IsolatedMemoryFileSystem()


async def ids_in(place: Any, section: str) -> list[str]:
    """The ids of a section's items, as somebody reads them who only reads."""
    async with SessionMemory.open(
        place, SESSION, sections=SECTIONS, counter="estimate", read_only=True
    ) as memory:
        assert memory.notices == ()
        return [item.id for item in memory[section]]


def of(name: str, item_ids: list[str]) -> list[str]:
    return [item_id for item_id in item_ids if item_id.startswith(f"{name}-")]


async def test_two_processes_talk_and_every_reader_reads_a_valid_session(tmp_path):
    """Of 2 x 40 turns all are there once and in order; each reader sees all acknowledged before, and a whole past."""
    place = str(tmp_path)
    names = ("ann", "ben")
    turns = 40
    reads = 0
    seen: list[str] = []
    with processes(talk, *((place, name, turns) for name in names)) as heard:
        acknowledged: set[str] = set()
        speaking: list[Connection] = [*heard]
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


def commits_of(place: str, writers: int, commits: int) -> int:
    """Let processes commit all at once, check what is there, and return how often one had to try again."""
    names = [f"w{number}" for number in range(writers)]
    with processes(commit_often, *((place, name, commits) for name in names)) as heard:
        refused = sum(each for (each,) in said(heard))
    _, recovered = SessionLog.open(place, SESSION)
    stored = [data["id"] for _, data in recovered.items]
    stored += [record.data["id"] for record in recovered.records if record.op == "add"]
    assert len(stored) == writers * commits
    for name in names:
        assert of(name, stored) == [f"{name}-{number}" for number in range(commits)]
    return refused


def test_of_four_hundred_commits_none_is_lost(tmp_path):
    """Four processes commit 100 times each without a pause: all of it is there once, and each one's in its order."""
    assert commits_of(str(tmp_path), 4, 100) > 0


async def test_forty_first_opens_at_once(tmp_path):
    """Four processes with ten tasks each open a session that none of them may find there, and add to it."""
    place = str(tmp_path)
    with processes(open_first, *((place, f"p{number}", 10) for number in range(4))) as heard:
        assert sum(map(len, said(heard))) == 40
    stored = await ids_in(place, "documents")
    assert sorted(stored) == sorted(
        f"p{number}-{task}" for number in range(4) for task in range(10)
    )


async def test_a_writer_that_is_outrun_tries_once_more(place):
    """Writers wait in line, so that nobody commits between a writer's second look at the session and its commit."""

    async def talk_in_a_task(name: str) -> None:
        for turn in range(3):
            async with SessionMemory.open(
                place, SESSION, sections=SECTIONS, counter="estimate"
            ) as memory:
                memory.add("messages", "a word", id=f"{name}-{turn}", role="user")
                await memory.save()
                assert memory._session.saver._tries <= 2

    await asyncio.gather(*(talk_in_a_task(f"t{number}") for number in range(8)))
    assert len(await ids_in(place, "messages")) == 24


def test_no_turn_of_four_processes_that_reopen_for_every_turn_is_lost(tmp_path):
    """Each turn ends, and what it saved is there."""
    assert measured(str(tmp_path), 4, 4).longest_ms < 60_000


async def test_twenty_tasks_with_one_memory(place):
    """Tasks that share a memory may add and save at any time: when a save returns, what came before it is stored."""

    async def talk_in_a_task(memory: SessionMemory, name: str) -> None:
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


async def test_what_is_derived_from_what_another_forgets_is_refused(place):
    """Who derives an item from one that another writer forgets meanwhile can't save it: the forgotten stays so."""
    async with SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate") as memory:
        memory.add("documents", "the number is 4711", id="secret")
        await memory.save()
        with pytest.raises(ConflictError, match="forgotten"):
            async with SessionMemory.open(
                place, SESSION, sections=SECTIONS, counter="estimate"
            ) as other:
                other.add("documents", "so it is 4711", id="derived", sources=["secret"])
                other.add("messages", "beside it", id="beside")
                await memory.forget("secret")
                await other.save()
    assert await ids_in(place, "documents") == []
    assert await ids_in(place, "messages") == []


async def test_no_file_has_what_a_refused_commit_had_and_a_later_one_forgot(place):
    """A long text that was stored beside a commit which came second is forgotten with its item."""
    text = "the number is 4711; " * 5_000
    async with SessionMemory.open(place, SESSION, sections=SECTIONS, counter="estimate") as memory:
        await memory.save()
        async with SessionMemory.open(
            place, SESSION, sections=SECTIONS, counter="estimate"
        ) as other:
            memory.add("messages", "the first", role="user")
            await memory.save()
            other.add("documents", text, id="secret")
            await other.save()
            await other.forget("secret")
    assert paths_holding(place, "4711") == []


@pytest.mark.parametrize("eviction", ["lru", "lfu"])
async def test_uses_alone_are_no_conflict(place, eviction):
    """What is merely shown in two places is marked as used by both, and each may rewrite it."""
    specs = (*SECTIONS, SectionSpec("notes", eviction=eviction))

    def opened() -> Any:
        return SessionMemory.open(place, SESSION, sections=specs, counter="estimate")

    async with opened() as memory:
        memory.add("notes", "a note", id="note")
    async with opened() as one, opened() as other:
        for _ in range(3):
            one.get("note")
            other.get("note")
            await one.save()
            await other.save()
        one.get("note")
        await one.save()
        other.update("note", "a better note")
    async with opened() as memory:
        assert [item.text for item in memory["notes"]] == ["a better note"]
