"""Each contract catches stores that are wrong in a way that stores are: none of its tests passes whatever is done."""

import asyncio
import inspect
from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kaosmem.entities import SubGraph
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
    Relationship,
)
from tests.stores.compared import (
    ComparedBlob,
    ComparedGraph,
    ComparedHistory,
    ComparedLongTerm,
    ComparedShortTerm,
    ComparedTask,
    ComparedVector,
)

MACHINE = "anything_in_any_order_does_what_the_model_does"


class LimitFromTheEnd(InMemoryHistoryProvider):
    async def get_messages(self, agent_id, session_id, limit=None, offset=0):
        messages = await super().get_messages(agent_id, session_id=session_id, offset=offset)
        return messages if limit is None else messages[-limit:] if limit else []


class ClearRunClearsThread(InMemoryHistoryProvider):
    async def clear_run(self, agent_id, session_id, run_id):
        await super().clear_run(agent_id, session_id=session_id, run_id=run_id)
        await self.clear(agent_id, session_id=session_id)


class ClearRunByPrefix(InMemoryHistoryProvider):
    async def clear_run(self, agent_id, session_id, run_id):
        await super().clear_run(agent_id, session_id=session_id, run_id=run_id)
        thread = self._threads.get((agent_id, session_id), [])
        thread[:] = [each for each in thread if not each[0].startswith(run_id)]


class JoinedKeys(InMemoryHistoryProvider):
    """Keys as Redis keys are often made; the rest as it is."""

    def _key(self, agent_id, session_id):
        return f"{agent_id}:{session_id}"

    async def append_many(self, agent_id, messages, session_id, run_id=""):
        await super().get_messages(agent_id, session_id=session_id)
        await super().append_many(
            self._key(agent_id, session_id), messages, session_id="s", run_id=run_id
        )

    async def get_messages(self, agent_id, session_id, limit=None, offset=0):
        await super().get_messages(agent_id, session_id=session_id)
        key = self._key(agent_id, session_id)
        return await super().get_messages(key, session_id="s", limit=limit, offset=offset)


class AppendsOneByOne(InMemoryHistoryProvider):
    async def append_many(self, agent_id, messages, session_id, run_id=""):
        for message in messages:
            await super().append_many(agent_id, [message], session_id=session_id, run_id=run_id)
            await asyncio.sleep(0)


class ReadsThenWrites(InMemoryShortTermMemory):
    async def update_state(self, session_id, patch):
        state = await self.get_state(session_id) | dict(patch)
        await asyncio.sleep(0)
        await self.set_state(session_id, state)
        return state


class MergesDeep(InMemoryShortTermMemory):
    async def update_state(self, session_id, patch):
        state = await self.get_state(session_id)
        for name, value in patch.items():
            both = isinstance(value, dict) and isinstance(state.get(name), dict)
            patch = {**patch, name: state[name] | value} if both else patch
        return await super().update_state(session_id, patch)


class HandsOutItsState(InMemoryShortTermMemory):
    async def get_state(self, session_id):
        await super().get_state(session_id)
        return self._states.get(session_id, {})


class KeepsForever(InMemoryLongTermMemory):
    async def save(self, agent_id, content, namespace="default", ttl=None, **named):
        memory_id = await super().save(agent_id, content, namespace=namespace, ttl=ttl, **named)
        self._expiries.discard(((agent_id, namespace), memory_id))
        return memory_id


class GetsFromAnyNamespace(InMemoryLongTermMemory):
    async def get(self, agent_id, memory_id, namespace="default"):
        await super().get(agent_id, memory_id, namespace=namespace)
        for facts in self._facts.values():
            if memory_id in facts.rows:
                return facts.rows[memory_id].fact()
        return None


class SavesATextOnce(InMemoryLongTermMemory):
    async def save(self, agent_id, content, namespace="default", ttl=None, **named):
        for memory in await self.search(agent_id, content, namespace=namespace):
            if memory.content == content:
                return memory.id
        return await super().save(agent_id, content, namespace=namespace, ttl=ttl, **named)


class ReadsTheLiveThenWrites(InMemoryLongTermMemory):
    async def save(
        self, agent_id, content, namespace="default", ttl=None, *, key=None, metadata=None
    ):
        before = [] if key is None else await self.versions(agent_id, key, namespace=namespace)
        await asyncio.sleep(0)
        saved = await super().save(
            agent_id, content, namespace=namespace, ttl=ttl, key=key, metadata=metadata
        )
        facts = self._facts[agent_id, namespace]
        known = {saved, *(each.item.id for each in before)}
        facts._live |= {
            each.number for each in facts.rows.values() if each.key == key and each.id not in known
        }
        return saved


class OrdersVersionsBySaving(InMemoryLongTermMemory):
    async def versions(self, agent_id, key, namespace="default"):
        listed = await super().versions(agent_id, key, namespace=namespace)
        facts = self._facts.get((agent_id, namespace))
        return sorted(listed, key=lambda each: facts.rows[each.item.id].number)


class UpdateKeepsMetadata(InMemoryLongTermMemory):
    async def update(
        self, agent_id, memory_id, content, namespace="default", ttl=None, *, metadata=None
    ):
        before = await self.get(agent_id, memory_id, namespace=namespace)
        kept = (
            {**(before.metadata if before else {}), **(metadata or {})}
            if isinstance(metadata, dict)
            else metadata
        )
        return await super().update(
            agent_id, memory_id, content, namespace=namespace, ttl=ttl, metadata=kept
        )


class ForgetsOnDisconnect(InMemoryFileStore):
    async def disconnect(self):
        self._blobs.clear()


class IgnoresCase(InMemoryFileStore):
    async def upload(self, key, data, *, content_type, ttl=None):
        await super().upload(
            key.lower() if isinstance(key, str) else key, data, content_type=content_type, ttl=ttl
        )

    def _blob(self, key):
        return super()._blob(key.lower() if isinstance(key, str) else key)


class AddReplaces(InMemoryVectorStore):
    async def add(self, documents, *, collection="default"):
        await self.upsert(documents, collection=collection)


class FiltersAfterTheLimit(InMemoryVectorStore):
    async def search(self, query_embedding, *, collection="default", limit=5, filter=None):
        found = await super().search(query_embedding, collection=collection, limit=limit)
        passing = await super().search(
            query_embedding, collection=collection, limit=limit, filter=filter
        )
        return [each for each in found if each.id in {passes.id for passes in passing}]


class KeepsEmptyCollections(InMemoryVectorStore):
    async def delete(self, ids, *, collection="default"):
        held = self._collections.get(collection)
        await super().delete(ids, collection=collection)
        if held:
            self._collections[collection] = held


class FollowsArrows(InMemoryGraphStore):
    async def get_neighbors(self, entity_id, depth=1, relationship_types=None):
        found = await super().get_neighbors(
            entity_id, depth=depth, relationship_types=relationship_types
        )
        ahead = tuple(each for each in found.relationships if depth > 1 or each.source == entity_id)
        return SubGraph(found.entities, ahead)


class LeavesEdges(InMemoryGraphStore):
    async def delete_entity(self, entity_id):
        await super().delete_entity(f"{entity_id}" * 2 if isinstance(entity_id, str) else entity_id)


class TellsRelationshipsByTheirEnds(InMemoryGraphStore):
    async def add_relationships(self, relationships):
        await super().add_relationships(
            [replace(Relationship.of(each), id="") for each in relationships]
        )


class HandsOutItsProperties(InMemoryGraphStore):
    async def get_neighbors(self, entity_id, depth=1, relationship_types=None):
        found = await super().get_neighbors(
            entity_id, depth=depth, relationship_types=relationship_types
        )
        own = tuple(self._entities[each.id] for each in found.entities)
        return SubGraph(own, tuple(self._relationships[each.id] for each in found.relationships))


class RefusesNoRetry(InMemoryTaskStore):
    async def increment_retry(self, conversation_id, agent_id, task_id):
        def forever(task, most):
            return task.retried(task.retry_count + 1)

        return await self._replace(conversation_id, agent_id, task_id, forever)


class ChecksThenWrites(InMemoryTaskStore):
    async def update_status(self, conversation_id, agent_id, task_id, status):
        board = await self.get_task_list(conversation_id, agent_id)
        changed = (await super().update_status(conversation_id, agent_id, task_id, status)).task(
            task_id
        )
        self._conversations[conversation_id][agent_id] = board
        await asyncio.sleep(0)
        self._conversations[conversation_id][agent_id] = board.replaced(task_id, lambda _: changed)
        return self._conversations[conversation_id][agent_id]


HISTORY, SHORT, LONG, BLOB, VECTOR, GRAPH, TASKS = (
    ComparedHistory,
    ComparedShortTerm,
    ComparedLongTerm,
    ComparedBlob,
    ComparedVector,
    ComparedGraph,
    ComparedTask,
)
FAULTS = [
    (HISTORY, LimitFromTheEnd, "limit_and_offset_count_from_the_front"),
    (HISTORY, ClearRunClearsThread, "clearing_one_run_keeps_the_thread"),
    (HISTORY, ClearRunByPrefix, "clearing_one_run_keeps_the_thread"),
    (HISTORY, JoinedKeys, "neighbours_are_kept_apart"),
    (HISTORY, AppendsOneByOne, "no_message_is_lost_among_many_writers"),
    (SHORT, ReadsThenWrites, "a_hundred_patches_at_once_are_all_there"),
    (SHORT, MergesDeep, "a_patch_replaces_values_whole"),
    (LONG, KeepsForever, "a_memory_is_gone_when_its_time_has_come"),
    (LONG, ReadsTheLiveThenWrites, "one_of_many_writers_of_a_key_is_live"),
    (LONG, OrdersVersionsBySaving, "versions_follow_their_own_times"),
    (LONG, UpdateKeepsMetadata, "versions_follow_their_own_times"),
    (BLOB, ForgetsOnDisconnect, "connecting_is_as_often_as_one_likes"),
    (BLOB, IgnoresCase, "neighbours_are_kept_apart"),
    (VECTOR, AddReplaces, "add_inserts_what_is_absent_and_upsert_replaces"),
    (VECTOR, FiltersAfterTheLimit, "a_search_returns_at_most_the_limit"),
    (VECTOR, KeepsEmptyCollections, "neighbours_are_kept_apart"),
    (GRAPH, TellsRelationshipsByTheirEnds, "relationships_have_ids"),
    (GRAPH, FollowsArrows, "neighbours_come_breadth_first"),
    (GRAPH, LeavesEdges, "deleting_an_entity_detaches_it"),
    (TASKS, RefusesNoRetry, "retries_are_counted_and_used_up"),
    (TASKS, ChecksThenWrites, "no_change_is_lost_among_many"),
]


def subject(contract, store):
    async def make(self):
        return (
            store(clock=self.clock) if "clock" in inspect.signature(store).parameters else store()
        )

    return type("Subject", (contract,), {"make": make, "durable": False})()


def fails(tested, name):
    """Whether a test of a contract fails."""

    async def run():
        await getattr(tested, f"test_{name}")(await tested.opened())

    try:
        asyncio.run(run())
    except (Exception, pytest.fail.Exception):
        return True
    return False


@pytest.mark.parametrize(
    ("contract", "store", "name"), FAULTS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_fault_is_caught_by_the_test_of_what_it_breaks(contract, store, name):
    assert fails(subject(contract, store), name)


@pytest.mark.parametrize(
    ("contract", "store"),
    [
        (HISTORY, LimitFromTheEnd),
        (SHORT, MergesDeep),
        (SHORT, HandsOutItsState),
        (LONG, GetsFromAnyNamespace),
        (LONG, KeepsForever),
        (LONG, SavesATextOnce),
        (BLOB, IgnoresCase),
        (VECTOR, AddReplaces),
        (GRAPH, HandsOutItsProperties),
        (GRAPH, LeavesEdges),
        (TASKS, RefusesNoRetry),
    ],
    ids=lambda value: value.__name__,
)
def test_a_fault_is_caught_by_the_machine_too(contract, store):
    tested = subject(contract, store)
    once = settings(
        max_examples=3_000, stateful_step_count=30, phases=[Phase.generate], database=None
    )
    with pytest.raises((Exception, pytest.fail.Exception)):
        run_state_machine_as_test(tested.machine(), settings=once)


RIGHT = [
    (HISTORY, InMemoryHistoryProvider),
    (SHORT, InMemoryShortTermMemory),
    (LONG, InMemoryLongTermMemory),
    (BLOB, InMemoryFileStore),
    (VECTOR, InMemoryVectorStore),
    (GRAPH, InMemoryGraphStore),
    (TASKS, InMemoryTaskStore),
]


def names_of(contract):
    return (name.removeprefix("test_") for name in dir(contract) if name.startswith("test_"))


@pytest.mark.parametrize(("contract", "store"), RIGHT, ids=lambda value: value.__name__)
def test_what_is_right_fails_nothing_here(contract, store):
    """So that what fails above fails for its fault."""
    tested = subject(contract, store)
    assert [name for name in names_of(contract) if name != MACHINE and fails(tested, name)] == []


@pytest.mark.parametrize(("contract", "store"), RIGHT, ids=lambda value: value.__name__)
def test_a_store_that_is_empty_after_reopening_is_caught(contract, store):
    """A store that keeps all in memory fails where it is said to be durable."""

    async def emptied(tested, store):
        return await tested.make()

    tested = subject(contract, store)
    type(tested).reopen = emptied
    assert fails(tested, "all_is_listed_and_deleted_together")
