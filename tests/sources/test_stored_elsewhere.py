"""Sources over stores that another process has filled."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from kaosmem import ImageBlock, NotFoundError, SessionMemory
from kaosmem.backends import open_stores
from kaosmem.errors import DurabilityError
from kaosmem.sources import BlobHandle, BlobSource, GraphSource
from kaosmem.stores import Entity, InMemoryFileStore, InMemoryGraphStore

FILL = """
import asyncio, sys
from kaosmem.backends import open_stores
from kaosmem.stores import Entity, Relationship

async def fill():
    async with open_stores(sys.argv[1]) as stores:
        await stores.graph.add_entities([Entity("e1", "Ada Lovelace", aliases=("the countess",)), Entity("e2", "Oslo")])
        await stores.graph.add_relationships([Relationship("e1", "e2", "lives in")])
        await stores.files.upload("report.txt", b"The rent is 900 euros.", content_type="text/plain")
        await stores.files.upload("chart.png", b"1234", content_type="image/png")

asyncio.run(fill())
"""


async def texts(memory, query):
    context = await memory.assemble_context(query, budget=500)
    assert all(report.status == "ok" for report in context.sources.values())
    return [item.text for item in context.items]


async def test_a_store_that_another_process_has_filled_is_shown(tmp_path):
    """The source learns the names of entities and the keys of artefacts from the store."""
    subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], check=True)
    async with open_stores(tmp_path) as stores:
        memory = SessionMemory.test_mode()
        await memory.attach(GraphSource(stores.graph))
        assert "Ada Lovelace -[lives in]-> Oslo" in await texts(
            memory, "Where does the countess live?"
        )
        await memory.attach(BlobSource(stores.files))
        shown = await texts(memory, "rent")
        assert {"report.txt (text/plain, 22 bytes)", "chart.png (image/png, 4 bytes)"} <= {*shown}
        assert (await memory.fetch("files/report.txt")).text == "The rent is 900 euros."
        again = SessionMemory.test_mode()
        await again.attach(BlobSource(stores.files))
        (image,) = (await again.fetch("files/chart.png")).content  # before any context
        assert isinstance(image, ImageBlock)
        with pytest.raises(NotFoundError):
            await again.fetch("files/unknown")


async def test_changes_of_another_process_are_seen(tmp_path):
    """New and deleted entities at once, new and deleted artefacts after the time of a refresh."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    async with open_stores(tmp_path) as mine, open_stores(tmp_path) as theirs:
        memory = SessionMemory.test_mode()
        await memory.attach(GraphSource(mine.graph))
        files = BlobSource(mine.files, refresh_s=60, clock=lambda: now)
        await memory.attach(files)
        assert await texts(memory, "Ada") == []
        await theirs.graph.add_entities([Entity("e1", "Ada")])
        await theirs.files.upload("a.txt", b"1", content_type="text/plain")
        await files.upload("b.txt", b"mine", content_type="text/plain")
        assert await texts(memory, "Ada") == ["Ada", "b.txt (text/plain, 4 bytes): mine"]
        now += timedelta(seconds=60)
        assert len(await texts(memory, "Ada")) == 3
        await theirs.graph.delete_entity("e1")
        await theirs.files.delete("b.txt")
        now += timedelta(seconds=60)
        assert await texts(memory, "Ada") == ["a.txt (text/plain, 1 bytes)"]


class CountingGraph(InMemoryGraphStore):
    """Notes how many entities each call reads."""

    def __init__(self):
        super().__init__()
        self.reads = []

    async def _read_entities(self, ids):
        self.reads.append(len(ids))
        return await super()._read_entities(ids)


async def test_only_new_entities_are_read():
    """Once each, however many contexts there are.

    Entities that are given are the only ones that a query names.
    """
    store = CountingGraph()
    await store.add_entities([Entity(f"e{number}", f"Company {number}") for number in range(3_000)])
    memory = SessionMemory.test_mode()
    await memory.attach(GraphSource(store))
    for _ in range(2):
        assert "Company 7" in await texts(memory, "Who owns Company 7?")
    assert store.reads == [3_000]
    await store.add_entities([Entity("new", "Newcomer")])
    assert await texts(memory, "the Newcomer") == ["Newcomer"]
    assert store.reads == [3_000, 1]
    chosen = SessionMemory.test_mode()
    await chosen.attach(GraphSource(store, [Entity("e7", "Company 7")]))
    assert await texts(chosen, "Company 7 and Company 8") == ["Company 7"]
    assert store.reads == [3_000, 1]


async def test_handles_that_are_given_are_the_only_ones():
    """The store is not listed, and other artefacts are not fetched."""
    store = InMemoryFileStore()
    for key in ("a.txt", "b.txt"):
        await store.upload(key, b"text", content_type="text/plain")
    memory = SessionMemory.test_mode()
    await memory.attach(
        BlobSource(store, [BlobHandle.of("a.txt", b"text", content_type="text/plain")])
    )
    assert await texts(memory, "") == ["a.txt (text/plain, 4 bytes): text"]
    with pytest.raises(NotFoundError):
        await memory.fetch("files/b.txt")


class Down(InMemoryFileStore, InMemoryGraphStore):
    """A store that cannot be listed."""

    def __init__(self):
        InMemoryFileStore.__init__(self)
        InMemoryGraphStore.__init__(self)

    async def list_keys(self):
        raise DurabilityError("the blob store does not answer")

    async def list_entities(self):
        raise DurabilityError("the graph store does not answer")


async def test_a_listing_that_fails_is_told():
    """Handles that are known are shown all the same."""
    store = Down()
    memory = SessionMemory.test_mode()
    files = BlobSource(store)
    await memory.attach(files)
    await memory.attach(GraphSource(store))
    await files.upload("a.txt", b"text", content_type="text/plain")
    context = await memory.assemble_context("Ada", budget=500)
    assert [item.text for item in context.items] == ["a.txt (text/plain, 4 bytes): text"]
    assert str(context.sources["files"]) == "degraded with DurabilityError, 1 proposed"
    assert str(context.sources["relations"]).startswith("failed with DurabilityError")
