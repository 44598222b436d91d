"""What each of several processes does with one session, and how a test runs them."""

import asyncio
import multiprocessing
import sys
from contextlib import contextmanager

from kaosmem import SectionSpec, SessionMemory
from kaosmem.persistence import log as log_module

SESSION = "shared"
SECTIONS = (SectionSpec("messages", placement="history"), SectionSpec("documents"))

# Processes of their own, as other workers are, forked from one that has imported all there is to
# import.
_workers = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
_workers.set_forkserver_preload([__name__])


@contextmanager
def processes(work, *arguments):
    """Run a process for each tuple of arguments, all from one moment on; yield what each says as it goes on."""
    start = _workers.Barrier(len(arguments))
    running = []
    heard = []
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


def said(heard):
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


def _work(work, start, sender, arguments):
    start.wait()
    work(sender.send, *arguments)
    sender.close()


def talk(tell, place, name, turns):
    """Add a message a turn to a session that stays open, and save it; snapshots are frequent."""
    log_module.MIN_LOG_BYTES = 8 * 1024

    async def turn_by_turn():
        async with SessionMemory.open(
            place, SESSION, sections=SECTIONS, counter="estimate"
        ) as memory:
            for turn in range(turns):
                memory.add("messages", f"turn {turn} of {name}", id=f"{name}-{turn}", role="user")
                await memory.save()
                tell(f"{name}-{turn}")

    asyncio.run(turn_by_turn())
