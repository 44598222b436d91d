"""Two at one session, and stores of objects that answer late or change while they are read."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaosmem import ConflictError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from tests.persistence.worlds import Bucket
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


async def test_a_reader_during_a_vacuum_sees_all():
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


class InterferedBucket(Bucket):
    """A store in which `before` and `after` may interfere with the next file of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Callable[[str], None]] = []
        self.after: list[Callable[[str], None]] = []
        self.tries = 0

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self.tries += "/log/" in path
        if "/log/" in path and self.before:
            self.before.pop()(path)
        super().pipe_file(path, value, mode)
        if "/log/" in path and self.after:
            self.after.pop()(path)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        assert mode == "rb", f"{path} was opened to be written to bit by bit"
        return self.inner.open(path, mode)


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


async def test_a_put_that_is_to_be_tried_again_is():
    """A refusal for a moment, with nothing stored, is not taken for another's commit."""
    bucket = InterferedBucket()
    await session(bucket, "a")

    def refuse(path: str) -> None:
        raise OSError(errno.EIO, "ConditionalRequestConflict")

    async with memory_at(bucket) as memory:
        memory.add("messages", "text", id="b")
        before = bucket.tries
        bucket.before.append(refuse)
        await memory.save()
        assert bucket.tries == before + 2
    assert await ids_at(bucket) == ["a", "b"]


async def test_nothing_is_appended_but_on_a_local_disk():
    """On a store of objects no file is opened to be written: whole objects alone are put."""
    bucket = InterferedBucket()
    for number in range(20):
        await session(bucket, f"i{number}")
    assert await ids_at(bucket) == [f"i{number}" for number in range(20)]
    for source in Path(__file__).parents[2].joinpath("kaosmem", "persistence").rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        assert not any(mode in text for mode in ('"ab"', "'ab'", '"a+b"', '"ab+"')), source
