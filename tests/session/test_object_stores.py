"""Two at one session, and stores of objects that answer late or change while they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.stored import ids_at, memory_at, session


class Vacuumed(IsolatedMemoryFileSystem):
    """Takes away what is no longer needed between a reader's listing and its reads, once armed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.doomed: list[str] = []
        self.grow: list[Callable[[], None]] = []

    def cat_file(self, path: str, **options: Any) -> bytes:
        if self.grow:
            self.grow.pop()()
        return super().cat_file(path, **options)


async def test_a_reader_during_a_vacuum_sees_all() -> None:
    """Files that are replaced and deleted while they are read make a reader look again, not see less."""
    store = Vacuumed()
    await session(store, *(f"i{number}" for number in range(5)))
    before = dict(store.store)
    for number in range(5, 12):
        async with memory_at(store) as memory:
            memory.add("documents", "word " * 12_000, id=f"d{number}")
            memory.add("documents", "word " * 12_000, id=f"e{number}")
    after = dict(store.store)
    whole = await ids_at(store)
    assert any("/snap/" in path for path in after)
    end = max(path for path in after if "/log/" in path)
    kept = {path: file for path, file in after.items() if "/log/" not in path or path == end}

    def vacuum() -> None:
        store.store.clear()
        store.store.update(kept)

    store.store.clear()
    store.store.update(
        {path: file for path, file in after.items() if "/snap/" not in path} | before
    )
    store.grow.append(vacuum)
    async with memory_at(store) as reader:
        assert [item.id for name in ("messages", "documents") for item in reader[name]] == whole
