"""Facts in SQLite are ranked as those in memory, whatever happened before."""

import asyncio
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteLongTermMemory
from kaosmem.stores import InMemoryLongTermMemory
from kaosmem.testing.contracts.store import Clock

WORDS = "tenant landlord rent notice Kündigung 東京都 lease_id don't v4.2(b) 900 deposit the Flugzeugträger".split()
contents = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
keys = st.sampled_from([None, None, "a", "b"])


@given(
    st.lists(st.tuples(contents, keys, st.integers(0, 9)), min_size=1, max_size=30),
    contents,
    st.booleans(),
)
def test_facts_are_ranked_as_in_memory(saved, query, superseded):
    """The same facts come in the same order, with nearly the same scores, after saves, new versions and deletions."""

    async def ranked(store):
        ids = {}
        for number, (content, key, fate) in enumerate(saved):
            memory_id = await store.save("agent", content, key=key, metadata={"number": number})
            ids[memory_id] = content
            if fate == 0:
                await store.delete("agent", memory_id)
        found = await store.search("agent", query, limit=8, superseded=superseded)
        return [(str(each.metadata["number"]), each.score) for each in found]

    async def both():
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            async with SqliteDatabase(Path(folder) / "a.sqlite", durable=False) as database:
                stored = await ranked(SqliteLongTermMemory(database, clock=clock))
        in_memory = await ranked(InMemoryLongTermMemory(clock=clock))
        assert [number for number, _ in stored] == [number for number, _ in in_memory]
        assert [score for _, score in stored] == pytest.approx(
            [score for _, score in in_memory],
            rel=1e-3,  # in memory, logarithms have 16 bits
        )

    asyncio.run(both())


async def test_another_namespace_changes_no_score(tmp_path):
    """Facts of other agents and namespaces do not count in the statistics."""
    async with SqliteDatabase(tmp_path / "a.sqlite", durable=False) as database:
        store = SqliteLongTermMemory(database)
        for text in ("The rent is 900 euros.", "The notice is thirty days."):
            await store.save("a", text)
        before = await store.search("a", "rent notice")
        for number in range(20):
            await store.save("b", "rent " * number)
            await store.save("a", "notice rent", namespace="other")
        assert await store.search("a", "rent notice") == before


async def test_an_index_of_an_older_analysis_is_made_anew(tmp_path):
    """When this version splits texts into other words, the next call indexes all facts again."""
    rng = random.Random(1)
    path = tmp_path / "a.sqlite"
    async with SqliteDatabase(path, durable=False) as database:
        store = SqliteLongTermMemory(database)
        for _ in range(20):
            await store.save(
                "a", " ".join(rng.choices(WORDS, k=5)), key=rng.choice(["k", None, None])
            )
        before = await store.search("a", "rent notice deposit")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM postings WHERE fact % 2 = 0")
        connection.execute("UPDATE shelves SET analysis = 0")
    async with SqliteDatabase(path, durable=False) as database:
        assert await SqliteLongTermMemory(database).search("a", "rent notice deposit") == before


async def test_deleted_and_expired_facts_leave_no_byte(tmp_path):
    """Once the database is closed, its file holds neither their texts nor their words."""
    clock = Clock()
    async with SqliteDatabase(tmp_path / "a.sqlite") as database:
        store = SqliteLongTermMemory(database, clock=clock)
        await store.save("a", "The tenant stays.")
        await store.delete(
            "a", await store.save("a", "xylophone secret", metadata={"source": "xylophone"})
        )
        await store.save("a", "xylophone secret", ttl=60)
        await store.save("xylophone", "xylophone")
        await store.clear("xylophone")
        clock.advance(60)
        assert await store.search("a", "secret") == []
    assert b"tenant" in (tmp_path / "a.sqlite").read_bytes()
    assert b"xylophon" not in (tmp_path / "a.sqlite").read_bytes()
