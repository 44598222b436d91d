"""What the stores have in common, and what is easy to get wrong that no contract can say of all stores."""

import pickle
from datetime import UTC, datetime

import pytest

from kaosmem import KaosmemError
from kaosmem.errors import CorruptionError
from kaosmem.filters import parse_filter
from kaosmem.retrieval import RankBM25Ranker
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    Task,
)
from kaosmem.stores.history import decode_message
from kaosmem.testing.contracts.store import Clock
from kaosmem.testing.contracts.vector import FILTERS, METADATA


@pytest.mark.parametrize(("given", "passing"), FILTERS, ids=str)
def test_a_filter_means_in_a_session_what_it_means_in_a_store(given, passing):
    """The cases of the vector store's contract, asked of what sections are narrowed by."""
    passes = parse_filter(given)
    assert [name for name, metadata in METADATA.items() if passes(metadata)] == passing.split()


async def test_a_file_store_tells_its_urls_and_media_types():
    store = InMemoryFileStore()
    await store.upload("reports/a b#1.csv", b"a,b", content_type="text/csv")
    await store.upload("key", b"", content_type="text/plain")
    assert await store.presign_url("key") == "memory://key"
    assert await store.presign_url("reports/a b#1.csv") == "memory://reports/a%20b%231.csv"
    assert (await store.describe("reports/a b#1.csv")).content_type == "text/csv"
    with pytest.raises(FileNotFoundError, match="nothing is stored under 'none'"):
        await store.describe("none")


async def test_memories_tell_when_they_were_saved_and_equal_ones_come_newest_first():
    clock = Clock()
    memory = InMemoryLongTermMemory(clock=clock)
    first = await memory.save("a", "The tenant prefers quiet neighbours.")
    clock.advance(60)
    second = await memory.save("a", "The tenant prefers quiet neighbours.")
    found = await memory.search("a", "Which neighbours does the tenant prefer?")
    assert [each.id for each in found] == [second, first]
    assert [datetime.fromisoformat(each.metadata["timestamp"]) for each in found] == [
        datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
    ]
    assert (await memory.get("a", first)).score == 0


async def test_memories_are_ranked_by_a_ranker_of_ones_own():
    memory = InMemoryLongTermMemory(ranker=RankBM25Ranker())
    for text in ("steel from Essen", "quiet neighbours", "thirty days"):
        await memory.save("a", text)
    assert [each.content for each in await memory.search("a", "steel")] == ["steel from Essen"]


async def test_what_expired_takes_no_room():
    """It is dropped by the next who comes, whatever that one asks for."""
    clock = Clock()
    memory = InMemoryLongTermMemory(clock=clock)
    files = InMemoryFileStore(clock=clock)
    for number in range(50):
        await memory.save(f"agent {number}", "steel", ttl=10)
        await files.upload(f"file {number}", b"steel", content_type="text/plain", ttl=10)
    clock.advance(10)
    await memory.save("another", "steel")
    await files.upload("another", b"steel", content_type="text/plain")
    assert len(memory._facts) == 1
    assert len(files._blobs) == 1


SECRET = "terminate the lease"


async def refused():
    """Errors that stores raise for what holds a secret in its content."""
    history = InMemoryHistoryProvider()
    state = InMemoryShortTermMemory()
    memory = InMemoryLongTermMemory()
    files = InMemoryFileStore()
    tasks = InMemoryTaskStore()
    graph = InMemoryGraphStore()
    await tasks.create_task_list("c", "a", [Task("t", SECRET)])
    asked = [
        history.append("a", SECRET, session_id="s"),
        history.append("a", {"role": "user", "content": SECRET}, session_id="s"),
        state.set_state("s", {"a": {SECRET}}),
        state.set_state("s", SECRET),
        memory.save("a", SECRET + "\ud800"),
        memory.save("a", SECRET, ttl=-1),
        files.upload("k", SECRET, content_type="text/plain"),
        files.upload("k", SECRET.encode(), content_type="text/plain", ttl=0),
        tasks.add_tasks("c", "a", [Task("t", SECRET)]),
        tasks.add_tasks("c", "a", [SECRET]),
        tasks.update_status("c", "a", "t", [SECRET]),
        graph.add_entities([{"id": "a", "name": [SECRET]}]),
    ]
    errors = []
    for each in asked:
        with pytest.raises(KaosmemError) as caught:
            await each
        errors.append(caught.value)
    return errors


async def test_errors_hold_no_content_and_can_be_pickled():
    """They say what is wrong with what was given, not what it says."""
    for error in await refused():
        assert SECRET not in f"{error} {error!r}"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert isinstance(error, ValueError)


def test_a_stored_message_with_a_key_twice_is_damaged():
    """Of two contents under one key nobody knows which one was meant."""
    with pytest.raises(CorruptionError, match="a stored message is damaged"):
        decode_message('{"role":"user","content":"pay Ann","content":"pay Bob"}')
