"""Two at one session, and stores of objects that answer late or change while they are read."""

from __future__ import annotations

import pytest

from kaosmem import ConflictError
from tests.stored import memory_at, session


async def test_a_worker_from_before_two_snapshots_finds_out(place):
    """What it adds follows all that happened; what it rewrites of what was rewritten since is a conflict."""
    await session(place, "a")
    async with memory_at(place) as stale, memory_at(place) as stale_too:
        for number in range(2):
            async with memory_at(place) as other:
                other.update("a", f"version {number}")
                for copy in range(5):
                    other.add("documents", "word " * 12_000, id=f"d{number}{copy}")
        stale.add("messages", "text", id="b")
        await stale.save()
        stale_too.update("a", "an old one")
        with pytest.raises(ConflictError):
            await stale_too.save()
    async with memory_at(place, read_only=True) as now:
        assert [(item.id, item.text) for item in now["messages"]] == [
            ("a", "version 1"),
            ("b", "text"),
        ]
        assert len(now["documents"]) == 10
