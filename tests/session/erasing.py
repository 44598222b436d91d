"""Stored sessions that are told to forget a text, and a store that fails on the way."""

from __future__ import annotations

from typing import Any

from kaosmem import (
    SectionSpec,
    SessionMemory,
)
from kaosmem.persistence.storage.local import LocalStorage
from tests.places import fill_once

CANARY = "quetzalcoatl"


LONG = "a long report on much else " * 4_000


SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", budget=40, placement="history", eviction="fifo"),
    SectionSpec("documents", eviction="none"),
    SectionSpec("findings", eviction="none"),
)


def opened(place, **options):
    return SessionMemory.open(place, sections=SPECS, **options)


async def filled(place):
    """Fill a place as `fill` does."""
    await fill_once(place, fill)


async def fill(place):
    """Store a session whose files hold the canary everywhere: log, snapshots, archives, indexes, and long texts."""
    for turn in range(8):
        async with opened(place) as memory:
            if turn == 0:
                memory.add("role", f"Never mention {CANARY}.", id="rule")
                memory.add("documents", f"{CANARY} {LONG}", id="secret")
                memory.add("documents", LONG, id="report")
                memory.add("findings", f"they hide {CANARY}", id="finding", sources=["secret"])
                memory.add("findings", f"so {CANARY} matters", id="conclusion", sources=["finding"])
            memory.update("secret", f"{CANARY}, version {turn} {LONG}")
            memory.add("messages", f"{CANARY} said {turn} " + "word " * 8, id=f"m{turn}")
            memory.add("messages", f"harmless {turn} " + "word " * 8, id=f"h{turn}")
            memory.search(CANARY)


class Failing(LocalStorage):
    """Refuses steps as it is told, as a full or broken disk does."""

    refused: Any = staticmethod(lambda step: False)

    def perform(self, step):
        if self.refused(step):
            raise OSError(28, "no space left on device")
        return super().perform(step)
