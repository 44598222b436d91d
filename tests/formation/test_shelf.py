"""Formed facts on a shelf of a long-term memory: each once, and gone when their source is forgotten."""

import asyncio

import pytest

from kaosmem import InvalidArgumentError, SessionMemory
from kaosmem.backends import open_stores
from kaosmem.errors import SourceError
from kaosmem.formation import FactShelf, FormsFrom
from kaosmem.stores import InMemoryLongTermMemory
from tests.formation.formers import LineFormer, check_shelf


class CrashingStore(InMemoryLongTermMemory):
    """Fails after a number of calls, before or after the work of the call."""

    left = 1_000
    crashes_after = False

    async def save(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0 and not self.crashes_after:
            raise OSError
        saved = await super().save(*args, **kwargs)
        if self.left == 0:
            raise OSError
        return saved


async def facts(store, namespace="one"):
    found = await store.search("agent", "home pet car live value", namespace, limit=50)
    return sorted(fact.content for fact in found)


async def test_facts_are_versions_with_their_speaker_and_sources():
    store = InMemoryLongTermMemory()
    plan = FormsFrom(LineFormer(), shelf=FactShelf(store, "agent", "one"))
    memory = SessionMemory.test_mode()
    for day, home in (("2023-05-08", "Oslo"), ("2024-06-01", "Bergen")):
        memory.add("messages", f"home: {home}", role="Ann", metadata={"timestamp": day})
        await memory.form(plan)
    assert await facts(store) == ["home: Bergen"]
    assert await facts(store, "two") == []
    versions = await store.versions("agent", "home", "one")
    assert [version.item.content for version in versions] == ["home: Oslo", "home: Bergen"]
    assert versions[0].item.metadata["speaker"] == "Ann"
    memory.add("messages", "home has ended!", role="Ann", metadata={"timestamp": "2024-07-01"})
    await memory.form(plan)
    assert await facts(store) == []


@pytest.mark.parametrize("crashes_after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_crash_saves_no_fact_twice(crashes_after, at):
    """A formation that fails while it saves facts is finished by the next one."""
    store = CrashingStore()
    store.left = at
    store.crashes_after = crashes_after
    plan = FormsFrom(LineFormer(), shelf=FactShelf(store, "agent", "one"))
    memory = SessionMemory.test_mode()
    texts = ["car: value 1", "home: value 2", "pet: value 3"]
    memory.add_many("messages", texts)
    with pytest.raises(OSError):
        await memory.form(plan)
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        await again.form(plan)
        await again.form(plan)
    assert await facts(store) == texts
    for key in ("car", "home", "pet"):
        assert len(await store.versions("agent", key, "one")) == 1


async def test_two_workers_leave_one_fact():
    store = InMemoryLongTermMemory()
    shelf = FactShelf(store, "agent", "one")
    memory = SessionMemory.test_mode()
    item = memory.add("findings", "home: value", key="home")
    await asyncio.gather(shelf.put(item), shelf.put(item))
    assert await facts(store) == ["home: value"]


async def test_a_database_keeps_facts_and_loses_what_is_forgotten(tmp_path):
    """The tests of PostgreSQL and Redis check the same."""
    async with open_stores(str(tmp_path)) as stores:
        await check_shelf(stores.facts)


async def test_forgetting_reaches_the_shelf_in_another_process(tmp_path):
    """The receipt names the facts, and verifying it asks the shelf."""
    async with open_stores(str(tmp_path)) as stores:
        shelf = FactShelf(stores.facts, "agent", "one")
        plan = FormsFrom(LineFormer(), shelf=shelf)
        memory = SessionMemory.test_mode()
        said = memory.add("messages", "home: value 1")
        memory.add("messages", "pet: value 2")
        await memory.form(plan)
        async with SessionMemory.open(memory.admin.fs, "test") as again:
            with pytest.raises(SourceError, match="one/agent"):
                await again.forget(said.id)
            assert len(await stores.facts.versions("agent", "home", "one")) == 1
            # Nothing is erased yet, so that a repeated call reaches the fact.
            assert again.get(said.id).text == "home: value 1"
            await again.form(plan)
            receipt = await again.forget(said.id)
            assert [*receipt.sources] == ["one/agent"]
        assert await stores.facts.versions("agent", "home", "one") == []
    # With the shelf known, the erasure reaches it.
    store = InMemoryLongTermMemory()
    plan = FormsFrom(LineFormer(), shelf=FactShelf(store, "agent", "one"))
    memory = SessionMemory.test_mode()
    said = memory.add("messages", "home: value 1")
    memory.add("messages", "pet: value 2")
    await memory.form(plan)
    receipt = await memory.forget(said.id)
    assert [*receipt.sources] == ["one/agent"]
    assert await facts(store) == ["pet: value 2"]
    assert await memory.admin.verify(receipt) == ()
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        (reason,) = await again.admin.verify(receipt)
        assert "FactShelf" in reason


def test_a_shelf_needs_a_store():
    with pytest.raises(InvalidArgumentError):
        FactShelf("facts", "agent")
