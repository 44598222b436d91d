"""A process that works on a session until it is killed: it says what it is about to save, and then that it is saved.

python -m tests.persistence.killed_writer FOLDER SEED TURNS
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from zlib import crc32

from kaosmem import SectionSpec, SessionMemory
from kaosmem.compaction import SummarizationCompaction
from kaosmem.persistence import log
from kaosmem.testing import ScriptedLLM

SESSION = "s"
SECTIONS = (
    SectionSpec("role", 200_000, placement="static", eviction="none", persistence="snapshot"),
    SectionSpec("messages", 150, placement="history", recall=0.0),
    SectionSpec("findings", 100, eviction="lru"),
    SectionSpec("documents"),
    SectionSpec(
        "talk",
        300,
        placement="history",
        recall=0.0,
        compaction=SummarizationCompaction(
            ScriptedLLM(lambda _: "They spoke."), 100, 20, max_summary_tokens=90
        ),
    ),
)
_SNAPSHOT_BYTES = 4 * 1024
_LONG = 72 * 1024


@dataclass(frozen=True)
class Plan:
    """What one save is to make durable.

    texts: by id, of the items that are added or given another content. forgotten: ids of items that
        are erased.
    """

    texts: dict[str, str] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)


def mark(text_id: str) -> str:
    """Return what stands in a text and nowhere else."""
    return hashlib.sha256(f"text of {text_id}".encode()).hexdigest()[:20]


def text_of(text_id: str) -> str:
    """Return a text of its own for each id, every tenth of them long enough for a file of its own."""
    is_long = crc32(text_id.encode()) % 10 == 0
    return " ".join([mark(text_id)] * (_LONG // 21 if is_long else 3))


def change(memory: SessionMemory, rng: random.Random, name: str) -> Plan:
    """Make some changes, and return what is to be there after them."""
    texts = {}
    for number in range(rng.randint(1, 4)):
        item_id = f"{name}-{number}"
        text = texts[item_id] = text_of(item_id)
        sections = ["messages", "messages", "findings", "documents", "talk", "talk"]
        section = "documents" if len(text) > 1000 else rng.choice(sections)
        memory.add(section, text, id=item_id, role="user" if section == "talk" else None)
    if rng.random() < 0.3:
        for item in list(memory["role"]):
            memory.remove(item.id)
        memory.add("role", text_of(f"{name}-role"), id=f"{name}-role")
        texts[f"{name}-role"] = text_of(f"{name}-role")
    documents = sorted(item.id for item in memory["documents"])
    if documents and rng.random() < 0.4:
        memory.remove(rng.choice(documents))
    messages = sorted(item.id for item in memory["messages"] if item.id not in texts)
    if messages and rng.random() < 0.4:
        item_id = rng.choice(messages)
        texts[item_id] = " ".join([mark(f"{name}-again")] * 3)
        memory.update(item_id, texts[item_id])
    return Plan(texts)


def say(**said: object) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


async def work(folder: Path, seed: int, turns: int) -> None:
    """Take turns, each saved and then acknowledged; every fifth forgets an item."""
    rng = random.Random(seed)
    log.MIN_LOG_BYTES = _SNAPSHOT_BYTES
    async with SessionMemory.open(folder, SESSION, sections=SECTIONS, counter="estimate") as memory:
        say(opened=len(memory["messages"]))
        for turn in range(turns):
            live = sorted(
                item.id for spec in SECTIONS for item in memory[spec.name] if not item.sources
            )
            if live and rng.random() < 0.2:
                item_id = rng.choice(live)
                say(plan=asdict(Plan(forgotten=[item_id])))
                await memory.forget(item_id)
            else:
                plan = change(memory, rng, f"{seed}.{turn}")
                await memory.assemble_context(budget=5_000, sections=["talk"])
                say(plan=asdict(plan))
                await memory.save()
            say(saved=turn)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
