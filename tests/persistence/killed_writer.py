"""A process that works on a session until it is killed: it says what it is about to save, and then that it is saved.

python -m tests.persistence.killed_writer FOLDER SEED TURNS
"""

import asyncio
import hashlib
import json
import os
import random
import sys
from pathlib import Path
from zlib import crc32

from kaosmem import SectionSpec, SessionMemory
from kaosmem.persistence import log

SESSION = "s"
SECTIONS = (
    SectionSpec("messages", 150, placement="history", recall=0.0),
    SectionSpec("documents"),
)


def mark(item_id):
    """Return what stands in the text of an item and nowhere else."""
    return hashlib.sha256(f"text of {item_id}".encode()).hexdigest()[:20]


def text_of(item_id):
    """Return the text of an item; every tenth is long enough for a file of its own."""
    is_long = crc32(item_id.encode()) % 10 == 0
    return " ".join([mark(item_id)] * (3_500 if is_long else 3))


def opened(folder, **options):
    return SessionMemory.open(folder, SESSION, sections=SECTIONS, counter="estimate", **options)


def say(**said):
    os.write(1, json.dumps(said).encode() + b"\n")


async def work(folder, seed, turns):
    """Take turns, each saved and then acknowledged; some forget an item."""
    rng = random.Random(seed)
    log.MIN_LOG_BYTES = 4 * 1024
    async with opened(folder) as memory:
        for turn in range(turns):
            documents = sorted(item.id for item in memory["documents"])
            if documents and rng.random() < 0.3:
                chosen = rng.choice(documents)
                say(adds=[], forgets=[chosen])
                await memory.forget(chosen)
            else:
                names = [f"{seed}.{turn}.{number}" for number in range(rng.randint(1, 4))]
                for name in names:
                    section = (
                        "documents" if len(text_of(name)) > 1_000 else rng.choice(SECTIONS).name
                    )
                    memory.add(section, text_of(name), id=name)
                say(adds=names, forgets=[])
                await memory.save()
            say(saved=turn)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
