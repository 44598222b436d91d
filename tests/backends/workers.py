"""What processes do with the stores of one folder: side by side, or until they are killed.

python -m tests.backends.workers FOLDER NAME [LAST_LINE]
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from kaosmem import ChatMessage, InvalidArgumentError, NotFoundError
from kaosmem.backends import open_stores
from kaosmem.errors import DuplicateError
from kaosmem.stores import Relationship, Task, VectorDocument

BATCH, TASKS = 3, 30
_LAST_LINE = int(sys.argv[3]) if len(sys.argv) == 4 and sys.argv[3].isdigit() else -1
_lines = count()


def work(tell, folder, name, turns):
    """Open the stores, change each kind in every turn, and tell which tasks this process was given."""
    tell(asyncio.run(_work(folder, name, turns)))


async def _work(folder, name, turns):
    async with open_stores(folder) as stores:
        for turn in range(turns):
            batch = [ChatMessage("user", f"{name}.{turn}.{part}") for part in range(BATCH)]
            await stores.history.append_many("agent", batch, session_id="shared", run_id=name)
            await stores.state.update_state("shared", {f"{name}.{turn}": turn})
            await stores.vectors.upsert(
                [
                    VectorDocument(name, f"{name}.{turn}", (1, turn)),
                    VectorDocument(name, "same", (1, 0)),
                ]
            )
            assert (await stores.vectors.search((1, turn), limit=1))[0].score > 0
        return await _take_tasks(stores)


async def _take_tasks(stores):
    """Make the board if no other process has, and start as many planned tasks as this process can get."""
    taken = []
    with suppress(DuplicateError):
        await stores.tasks.create_task_list(
            "c", "shared", [Task(f"t{n}", "title") for n in range(TASKS)]
        )
    while board := await stores.tasks.get_task_list("c", "shared"):
        planned = [task.id for task in board.tasks if task.status == "planned"]
        if not planned:
            break
        try:
            await stores.tasks.update_status("c", "shared", planned[0], "in_progress")
            taken.append(planned[0])
        except InvalidArgumentError:  # another process was faster
            continue
    return taken


def say(*said):
    """Say something, and be killed at once if it was the last line."""
    os.write(1, json.dumps(said).encode() + b"\n")
    if next(_lines) == _LAST_LINE:
        os.kill(os.getpid(), signal.SIGKILL)


async def work_for_ever(folder, name):
    """Change every kind of store, side by side, and say each change once it is acknowledged."""
    async with open_stores(folder) as stores:
        # The first search imports NumPy, which takes longer than all that is said before a kill.
        await stores.vectors.search((1, 0), limit=1)
        say("opened", name)
        kinds = (_append, _update, _move, _index, _upload, _learn, _link)
        await asyncio.gather(*(change(stores, name) for change in kinds))


async def _append(stores, name):
    for turn in count():
        texts = [f"{name}.{turn}.{part}" for part in range(BATCH)]
        await stores.history.append_many(
            "agent", [ChatMessage("user", each) for each in texts], session_id="shared"
        )
        say("append", texts)


async def _update(stores, name):
    for turn in count():
        await stores.state.update_state("shared", {name: turn, f"{name} again": turn})
        say("state", name, turn)


async def _move(stores, name):
    for turn in count():
        try:
            await stores.tasks.add_tasks("c", "shared", [Task(f"{name}.{turn}", "title")])
        except NotFoundError:
            await stores.tasks.create_task_list("c", "shared", [Task(f"{name}.{turn}", "title")])
        await stores.tasks.update_status("c", "shared", f"{name}.{turn}", "in_progress")
        say("task", f"{name}.{turn}")


async def _index(stores, name):
    for turn in count():
        ids = [f"{name}.{turn}.{part}" for part in range(BATCH)]
        await stores.vectors.add([VectorDocument(each, each, (1, turn)) for each in ids])
        await stores.vectors.delete(ids[-1:])
        say("vectors", ids[:-1])


async def _upload(stores, name):
    for turn in count():
        data = f"{name}.{turn} " * 1_000
        await stores.files.upload("shared", data.encode(), content_type="text/plain")
        say("files", data)


async def _learn(stores, name):
    for turn in count():
        await stores.facts.save("agent", f"fact {name} {turn}", key="key")
        say("fact", f"fact {name} {turn}")


async def _link(stores, name):
    for turn in count():
        links = [Relationship("hub", f"{name}.{turn}.{part}", "leads to") for part in range(BATCH)]
        await stores.graph.add_relationships(links)
        say("links", [each.target for each in links])


if __name__ == "__main__":
    asyncio.run(work_for_ever(str(Path(sys.argv[1])), sys.argv[2]))
