"""What each of several processes does with one session, and how a test runs them."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from kaosmem import ConflictError, SectionSpec, SessionMemory
from kaosmem.persistence import log as log_module
from kaosmem.persistence.files.records import FORMAT_VERSION, Change
from kaosmem.persistence.log import SessionLog

SESSION = "shared"
SECTIONS = (SectionSpec("messages", placement="history"), SectionSpec("documents"))

# Processes of their own, as other workers are, forked from one that has imported all there is to
# import.
_workers: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
_workers.set_forkserver_preload([__name__])


class Work(Protocol):
    """What a process does once all have started; it says on `tell` what it has saved."""

    def __call__(self, tell: Callable[[Any], None], *arguments: Any) -> None: ...


@contextmanager
def processes(work: Work, *arguments: tuple[Any, ...]) -> Iterator[list[Connection]]:
    """Run a process for each tuple of arguments, all from one moment on; yield what each says as it goes on."""
    start = _workers.Barrier(len(arguments))
    running: list[BaseProcess] = []
    heard: list[Connection] = []
    try:
        for each in arguments:
            receiver, sender = _workers.Pipe(duplex=False)
            running.append(_workers.Process(target=_work, args=(work, start, sender, each)))
            running[-1].start()
            sender.close()
            heard.append(receiver)
        yield heard
        for process in running:
            process.join()
        assert [process.exitcode for process in running] == [0] * len(running)
    finally:
        for process in running:
            process.kill()
            process.join()
            process.close()
        for receiver in heard:
            receiver.close()


def said(heard: list[Connection]) -> list[list[Any]]:
    """Return all that each process says until it ends."""
    everything = []
    for receiver in heard:
        everything.append([])
        try:
            while True:
                everything[-1].append(receiver.recv())
        except EOFError:
            continue
    return everything


def _work(work: Work, start: Any, sender: Connection, arguments: tuple[Any, ...]) -> None:
    start.wait()
    work(sender.send, *arguments)
    sender.close()


def talk(tell: Callable[[Any], None], place: str, name: str, turns: int) -> None:
    """Add a message a turn to a session that stays open, and save it; snapshots are frequent."""
    log_module.MIN_LOG_BYTES = 8 * 1024

    async def turn_by_turn() -> None:
        async with SessionMemory.open(
            place, SESSION, sections=SECTIONS, counter="estimate"
        ) as memory:
            for turn in range(turns):
                memory.add("messages", f"turn {turn} of {name}", id=f"{name}-{turn}", role="user")
                await memory.save()
                tell(f"{name}-{turn}")

    asyncio.run(turn_by_turn())


def open_first(tell: Callable[[Any], None], place: str, name: str, tasks: int) -> None:
    """Open a session that may not be there yet in many tasks, each of which adds an item."""

    async def add(number: int) -> None:
        async with SessionMemory.open(
            place, SESSION, sections=SECTIONS, counter="estimate"
        ) as memory:
            memory.add("documents", "a first word", id=f"{name}-{number}")
        tell(f"{name}-{number}")

    async def all_at_once() -> None:
        await asyncio.gather(*map(add, range(tasks)))

    asyncio.run(all_at_once())


def commit_often(tell: Callable[[Any], None], place: str, name: str, commits: int) -> None:
    """Commit to the log itself, each time after what others have committed; at times store a snapshot."""
    log, recovered = SessionLog.open(place, SESSION)
    items = [*recovered.items, *_items(recovered.records)]
    refused = 0
    for number in range(commits):
        while True:
            change = Change("messages", "add", {"id": f"{name}-{number}"})
            opening = [] if log.seq else [Change("", "open", {"version": FORMAT_VERSION})]
            try:
                log.commit([*opening, change])
            except ConflictError:
                refused += 1
                log_changes = log.catch_up()
                seen = log_changes.recovered
                items = [*(seen.items if log_changes.is_whole else items), *_items(seen.records)]
                log.adopt(log_changes)
            else:
                break
        items += _items([change])
        if number % 50 == 49:
            log.snapshot({}, items, at=log.end)
    log.close()
    tell(refused)


def _items(changes: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(change.section, dict(change.data)) for change in changes if change.op == "add"]
