"""State machines of stores against models of plain dicts, for the stores in memory.

The stores in memory are the models of all other stores, in the contracts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kaosmem.entities import Entity, Relationship
from kaosmem.errors import DuplicateError, InvalidArgumentError, MissingFileError, NotFoundError
from kaosmem.filters import parse_filter
from kaosmem.stores.blob import BlobStore
from kaosmem.stores.facts import LongTermMemory
from kaosmem.stores.graph import GraphStore
from kaosmem.stores.history import HistoryProvider
from kaosmem.stores.state import ShortTermMemory
from kaosmem.stores.task_list import Task, TaskList
from kaosmem.stores.tasks import TaskStore
from kaosmem.stores.vector import VectorDocument, VectorStore
from kaosmem.testing.contracts.history import BLOCKS
from kaosmem.testing.contracts.long_term import FACTS
from kaosmem.testing.contracts.store import TEXTS, StoreContract, refuses, texts, values
from kaosmem.testing.contracts.task import MOVES, STATUSES, act_on
from kaosmem.testing.contracts.vector import filters, metadata
from kaosmem.types.items import ChatMessage

S = TypeVar("S")
T = TypeVar("T")


class StoreMachine(RuleBasedStateMachine, Generic[S]):
    """A store and a model of it, side by side.

    held: the model, what is stored under each key; falsy under a key that the store does not list.
    """

    def __init__(self, contract: StoreContract[S]) -> None:
        super().__init__()
        self.contract = contract
        self.held: dict[Any, Any] = {}
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.store = self.ask(contract.opened())

    def ask(self, asked: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call."""
        # Not by the runner, which takes and gives back the handler of Ctrl-C for each call.
        return self._runner.get_loop().run_until_complete(asked)

    @precondition(lambda self: self.contract.durable)
    @rule()
    def reopen(self) -> None:
        self.store = self.ask(self.contract.reopen(self.store))

    @rule(is_wanted=st.sampled_from([False, False, True]))
    def delete_all(self, is_wanted: bool) -> None:
        if is_wanted:
            self.ask(self.store.delete_all())  # type: ignore[attr-defined]
            self.emptied()

    def emptied(self) -> None:
        """Empty the model."""
        self.held.clear()

    def keys_held(self) -> set[Any]:
        """Return the keys that the store lists."""
        return {key for key, value in self.held.items() if value}

    @invariant()
    def keys_are_listed(self) -> None:
        assert self.ask(self.contract.listed(self.store)) == sorted(self.keys_held())

    def teardown(self) -> None:
        self.ask(self.contract.close(self.store))
        self._runner.close()


_THREADS = (("a", "b:a"), ("a:b", "a"), ("A", "b:a"))
_threads = st.sampled_from(_THREADS)
_runs = st.sampled_from(["", "r", "r-1"])
_MESSAGES = st.builds(
    ChatMessage, st.sampled_from(["user", "assistant", "tool", "critic"]), texts
) | st.just(ChatMessage("assistant", BLOCKS))
_numbers = st.integers(0, 6)


class HistoryMachine(StoreMachine[HistoryProvider]):
    """Threads as lists of runs and messages."""

    held: dict[tuple[str, str], list[tuple[str, ChatMessage]]]

    @rule(thread=_threads, run=_runs, message=_MESSAGES)
    def append(self, thread: tuple[str, str], run: str, message: ChatMessage) -> None:
        self.ask(self.store.append(thread[0], message, session_id=thread[1], run_id=run))
        self.held.setdefault(thread, []).append((run, message))

    @rule(thread=_threads, run=_runs, messages=st.lists(_MESSAGES, max_size=5))
    def append_many(self, thread: tuple[str, str], run: str, messages: list[ChatMessage]) -> None:
        self.ask(self.store.append_many(thread[0], messages, session_id=thread[1], run_id=run))
        self.held.setdefault(thread, []).extend((run, message) for message in messages)

    @rule(thread=_threads)
    def clear(self, thread: tuple[str, str]) -> None:
        self.ask(self.store.clear(thread[0], session_id=thread[1]))
        self.held.pop(thread, None)

    @rule(thread=_threads, run=_runs.filter(bool))
    def clear_run(self, thread: tuple[str, str], run: str) -> None:
        self.ask(self.store.clear_run(thread[0], session_id=thread[1], run_id=run))
        self.held[thread] = [each for each in self.held.get(thread, []) if each[0] != run]

    @rule(thread=_threads, limit=st.none() | _numbers, offset=_numbers)
    def read(self, thread: tuple[str, str], limit: int | None, offset: int) -> None:
        left = [message for _, message in self.held.get(thread, [])][offset:]
        read = self.ask(
            self.store.get_messages(thread[0], session_id=thread[1], limit=limit, offset=offset)
        )
        assert read == (left if limit is None else left[:limit])

    @invariant()
    def threads_are_what_was_written(self) -> None:
        for agent, session in _THREADS:
            expected = [message for _, message in self.held.get((agent, session), [])]
            assert self.ask(self.store.get_messages(agent, session_id=session)) == expected
            assert self.ask(self.store.count_messages(agent, session_id=session)) == len(expected)


_SESSIONS = ("a", "a-b", "A")
_sessions = st.sampled_from(_SESSIONS)
_states = st.dictionaries(
    st.sampled_from(["plan", "Plan", "plan.step", "", "é"]), values, max_size=3
)


class ShortTermMachine(StoreMachine[ShortTermMemory]):
    """States as dicts."""

    held: dict[str, dict[str, Any]]

    @rule(session=_sessions, state=_states)
    def set_state(self, session: str, state: dict[str, Any]) -> None:
        self.ask(self.store.set_state(session, state))
        self.held[session] = state

    @rule(session=_sessions, patch=_states)
    def update_state(self, session: str, patch: dict[str, Any]) -> None:
        self.held[session] = {**self.held.get(session, {}), **patch}
        assert self.ask(self.store.update_state(session, patch)) == self.held[session]

    @rule(session=_sessions)
    def clear(self, session: str) -> None:
        self.ask(self.store.clear(session))
        self.held.pop(session, None)

    @invariant()
    def states_are_what_was_written(self) -> None:
        for session in _SESSIONS:
            assert self.ask(self.store.get_state(session)) == self.held.get(session, {})


_TIMES = {
    "2024-05-07": datetime(2024, 5, 7, tzinfo=UTC),
    "2025-01-01T09:30:00": datetime(2025, 1, 1, 9, 30, tzinfo=UTC),
    "2125-06-30T23:30:00-02:00": datetime(2125, 7, 1, 1, 30, tzinfo=UTC),
}
_shelves = st.sampled_from([("a", "b:a"), ("a:b", "a"), ("A", "b:a"), ("a", "b:A")])
_contents = st.sampled_from(FACTS) | st.sampled_from(FACTS) | texts
_lives = st.sampled_from([None, None, 1, 2])
_fact_keys = st.sampled_from([None, "address", "address", "Address"])
_fact_fields = st.fixed_dictionaries(
    {}, optional={"timestamp": st.sampled_from([*_TIMES]), "source": texts, "n": st.integers(0, 9)}
)


@dataclass
class _Fact:
    """A version of a fact, as plain values.

    gone: the time from which it is not read; -1 once it is deleted.
    """

    shelf: tuple[str, str]
    key: str
    content: str
    since: datetime
    metadata: dict[str, Any]
    gone: float
    until: datetime | None = None


class LongTermMachine(StoreMachine[LongTermMemory]):
    """Facts as plain values in the order in which they were saved, and the time when each is gone."""

    held: dict[str, _Fact]

    def __init__(self, contract: StoreContract[LongTermMemory]) -> None:
        super().__init__(contract)
        self.now = 0.0

    @rule(shelf=_shelves, content=_contents, lives=_lives, key=_fact_keys, metadata=_fact_fields)
    def save(
        self,
        shelf: tuple[str, str],
        content: str,
        lives: int | None,
        key: str | None,
        metadata: dict[str, Any],
    ) -> None:
        ttl = None if lives is None else lives * self.contract.ttl_s
        saving = self.store.save(
            shelf[0], content, namespace=shelf[1], ttl=ttl, key=key, metadata=metadata
        )
        self._saved(self.ask(saving), shelf, content, lives, key, metadata)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), content=_contents, lives=_lives, metadata=_fact_fields)
    def update(self, which: int, content: str, lives: int | None, metadata: dict[str, Any]) -> None:
        ttl = None if lives is None else lives * self.contract.ttl_s
        memory_id = self._one(which)
        fact = self.held[memory_id]
        agent, namespace = fact.shelf
        updating = self.store.update(
            agent, memory_id, content, namespace=namespace, ttl=ttl, metadata=metadata
        )
        if fact.gone > self.now:
            self._saved(self.ask(updating), fact.shelf, content, lives, fact.key, metadata)
        else:
            self.ask(refuses(NotFoundError, updating))

    @precondition(lambda self: any(fact.gone < float("inf") for fact in self.held.values()))
    @rule()
    def wait(self) -> None:
        self.now += 1
        self.ask(self.contract.wait(self.contract.ttl_s))

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), shelf=_shelves)
    def look_elsewhere(self, which: int, shelf: tuple[str, str]) -> None:
        memory_id = self._one(which)
        if self.held[memory_id].shelf != shelf:
            assert self.ask(self.store.get(shelf[0], memory_id, namespace=shelf[1])) is None

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), shelf=_shelves, own=st.sampled_from([True, True, False]))
    def delete(self, which: int, shelf: tuple[str, str], own: bool) -> None:
        memory_id = self._one(which)
        shelf = self.held[memory_id].shelf if own else shelf
        self.ask(self.store.delete(shelf[0], memory_id, namespace=shelf[1]))
        if self.held[memory_id].shelf == shelf:
            self.held[memory_id].gone = -1.0

    @precondition(lambda self: sum(fact.gone > self.now for fact in self.held.values()) > 3)
    @rule(shelf=_shelves)
    def clear(self, shelf: tuple[str, str]) -> None:
        self.ask(self.store.clear(shelf[0], namespace=shelf[1]))
        for fact in self.held.values():
            if fact.shelf == shelf:
                fact.gone = -1.0

    @precondition(lambda self: self.held)
    @rule(
        which=st.integers(0, 99),
        limit=st.integers(0, 4),
        superseded=st.sampled_from([False, False, True]),
    )
    def search(self, which: int, limit: int, superseded: bool) -> None:
        fact = self.held[self._one(which)]
        shelf = fact.shelf
        asked = fact.content if fact.content in FACTS else FACTS[0]
        searching = self.store.search(
            shelf[0], asked, namespace=shelf[1], limit=limit, superseded=superseded
        )
        found = self.ask(searching)
        known = {
            each: fact.content
            for each, fact in self._held(shelf).items()
            if superseded or fact.until is None
        }
        assert all(known[memory.id] == memory.content for memory in found)
        assert [memory.score for memory in found] == sorted(
            (memory.score for memory in found), reverse=True
        )
        assert len({memory.id for memory in found}) == len(found) <= limit
        exact = sum(text == asked for text in known.values())
        assert [memory.content for memory in found[:exact]] == [asked] * min(exact, limit)

    def emptied(self) -> None:
        for fact in self.held.values():
            fact.gone = -1.0

    def keys_held(self) -> set[tuple[str, str]]:
        return {fact.shelf for fact in self.held.values() if fact.gone > self.now}

    @invariant()
    def facts_are_what_was_saved(self) -> None:
        for memory_id, fact in self.held.items():
            memory = self.ask(self.store.get(fact.shelf[0], memory_id, namespace=fact.shelf[1]))
            assert (memory and memory.content) == (fact.content if fact.gone > self.now else None)

    @invariant()
    def versions_are_what_was_saved_in_order(self) -> None:
        for shelf, key in {(fact.shelf, fact.key) for fact in self.held.values()}:
            listed = self.ask(self.store.versions(shelf[0], key, namespace=shelf[1]))
            held = {each: fact for each, fact in self._held(shelf).items() if fact.key == key}
            held = dict(sorted(held.items(), key=lambda each: each[1].since))
            assert [(version.item.id, version.item.key) for version in listed] == [
                (each, key) for each in held
            ]
            assert [version.valid_from for version in listed] == [
                fact.since for fact in held.values()
            ]
            assert [version.valid_until for version in listed] == [
                fact.until for fact in held.values()
            ]
            for version, fact in zip(listed, held.values(), strict=True):
                assert {**version.item.metadata, **fact.metadata} == version.item.metadata

    def _one(self, which: int) -> str:
        return [*self.held][which % len(self.held)]

    def _held(self, shelf: tuple[str, str]) -> dict[str, _Fact]:
        return {
            each: fact
            for each, fact in self.held.items()
            if fact.shelf == shelf and fact.gone > self.now
        }

    def _saved(
        self,
        memory_id: str,
        shelf: tuple[str, str],
        content: str,
        lives: int | None,
        key: str | None,
        metadata: dict[str, Any],
    ) -> None:
        assert memory_id not in self.held
        key = key or memory_id
        listed = self.ask(self.store.versions(shelf[0], key, namespace=shelf[1]))
        [version] = [each for each in listed if each.item.id == memory_id]
        since = version.valid_from
        fact_of = [each for each in self.held.values() if (each.shelf, each.key) == (shelf, key)]
        begun = [each.since for each in fact_of if each.gone > self.now]
        stated = metadata.get("timestamp")
        assert since == (max([version.known_from, *begun]) if stated is None else _TIMES[stated])
        for fact in fact_of:
            if fact.since <= since:
                fact.until = since if fact.until is None else min(fact.until, since)
        until = min(
            (each.since for each in fact_of if each.since > since and each.gone > self.now),
            default=None,
        )
        gone = self.now + (lives or float("inf"))
        self.held[memory_id] = _Fact(shelf, key, content, since, metadata, gone, until)


_BLOB_KEYS = ("a", "a/b", "A")
_blob_keys = st.sampled_from(_BLOB_KEYS)


_PLAIN = "text/plain"


class BlobMachine(StoreMachine[BlobStore]):
    """Blobs as a dict of bytes and the time when they are gone."""

    held: dict[str, tuple[bytes, float]]

    def __init__(self, contract: StoreContract[BlobStore]) -> None:
        super().__init__(contract)
        self.now = 0.0

    @rule(key=_blob_keys, data=st.binary(max_size=9), lives=st.sampled_from([None, None, 1, 2]))
    def upload(self, key: str, data: bytes, lives: int | None) -> None:
        ttl = None if lives is None else lives * self.contract.ttl_s
        self.ask(self.store.upload(key, data, content_type=_PLAIN, ttl=ttl))
        self.held[key] = data, self.now + (lives or float("inf"))

    @rule()
    def wait(self) -> None:
        if any(gone < float("inf") for _, gone in self.held.values()):
            self.now += 1
            self.ask(self.contract.wait(self.contract.ttl_s))

    @rule(key=_blob_keys)
    def delete(self, key: str) -> None:
        self.ask(self.store.delete(key))
        self.held.pop(key, None)

    @rule()
    def reconnect(self) -> None:
        self.ask(self.store.disconnect())
        self.ask(self.store.connect())

    def keys_held(self) -> set[str]:
        return {key for key, (_, gone) in self.held.items() if gone > self.now}

    @invariant()
    def what_is_there_can_be_read_and_nothing_else(self) -> None:
        for key in _BLOB_KEYS:
            data, gone = self.held.get(key, (b"", -1.0))
            if gone > self.now:
                assert self.ask(self.store.download(key)) == data
                assert self.ask(self.store.presign_url(key))
                assert self.ask(self.store.describe(key)) == (_PLAIN, len(data))
            else:
                self.ask(refuses(MissingFileError, self.store.download(key)))
                self.ask(refuses(MissingFileError, self.store.presign_url(key)))
                self.ask(refuses(MissingFileError, self.store.describe(key)))


_PRECISION = 1e-5
_vectors = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
_IDS = ("a", "a:b", "A", "日本")
_ids = st.sampled_from(_IDS)
_documents = st.lists(
    st.builds(VectorDocument, st.sampled_from(TEXTS), _ids, _vectors, metadata),
    min_size=1,
    max_size=4,
)
_COLLECTIONS = ("c", "C")
_collections = st.sampled_from(_COLLECTIONS)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True)) / (
        math.hypot(*one) * math.hypot(*other)
    )


class VectorMachine(StoreMachine[VectorStore]):
    """Collections as dicts of documents, compared one by one."""

    def __init__(self, contract: StoreContract[VectorStore]) -> None:
        super().__init__(contract)
        self.held: dict[str, dict[str, VectorDocument]] = {name: {} for name in _COLLECTIONS}

    @rule(collection=_collections, documents=_documents)
    def add(self, collection: str, documents: list[VectorDocument]) -> None:
        self.ask(self.store.add(documents, collection=collection))
        for each in documents:
            self.held[collection].setdefault(each.id, each)

    @rule(collection=_collections, documents=_documents)
    def upsert(self, collection: str, documents: list[VectorDocument]) -> None:
        self.ask(self.store.upsert(documents, collection=collection))
        self.held[collection].update((each.id, each) for each in documents)

    @rule(collection=_collections, doomed=st.lists(_ids, max_size=2))
    def delete(self, collection: str, doomed: list[str]) -> None:
        self.ask(self.store.delete(doomed, collection=collection))
        for each in doomed:
            self.held[collection].pop(each, None)

    @rule(collection=_collections)
    def delete_collection(self, collection: str) -> None:
        self.ask(self.store.delete_collection(collection))
        self.held[collection].clear()

    def emptied(self) -> None:
        for documents in self.held.values():
            documents.clear()

    @invariant()
    def documents_are_what_was_written(self) -> None:
        for collection in _COLLECTIONS:
            held = self.held[collection]
            found = self.ask(self.store.get(_IDS, collection=collection))
            assert [each.id for each in found] == [each for each in _IDS if each in held]
            for each in found:
                assert (each.content, each.metadata) == (
                    held[each.id].content,
                    held[each.id].metadata,
                )
                assert each.embedding == pytest.approx(held[each.id].embedding, abs=_PRECISION)

    @rule(
        collection=_collections,
        query=_vectors,
        limit=st.integers(0, 5),
        narrowed=st.none() | filters,
    )
    def search(
        self, collection: str, query: list[float], limit: int, narrowed: dict[str, Any] | None
    ) -> None:
        found = self.ask(
            self.store.search(query, collection=collection, limit=limit, filter=narrowed)
        )
        passes = parse_filter(narrowed or {})
        cosines = {
            each.id: cosine(query, each.embedding or ())
            for each in self.held[collection].values()
            if passes(each.metadata)
        }
        best = sorted(cosines, key=lambda each: (-round(cosines[each], 5), each))[:limit]
        assert [each.id for each in found] == best
        assert [each.score for each in found] == pytest.approx(
            [cosines[each] for each in best], abs=_PRECISION
        )


_ends = st.sampled_from(["a", "b", "c", "d", "e", "A"])
_types = st.sampled_from(["owns", "Owns", "owns:all"])
_properties = st.dictionaries(st.sampled_from(["since", "Since", ""]), values, max_size=2)
_relationships = st.builds(
    Relationship, _ends, _ends, _types, texts, _properties, st.sampled_from(["", "", "r", "R"])
)
_entities = st.builds(Entity, _ends, texts, texts, texts, st.lists(texts, max_size=2), _properties)


class GraphMachine(StoreMachine[GraphStore]):
    """A graph as dicts, searched by looking at every relationship in every step.

    held: the entities.
    """

    held: dict[str, Entity]

    def __init__(self, contract: StoreContract[GraphStore]) -> None:
        super().__init__(contract)
        self.relationships: dict[str, Relationship] = {}

    @rule(entities=st.lists(_entities, max_size=3))
    def add_entities(self, entities: list[Entity]) -> None:
        self.ask(self.store.add_entities(entities))
        self.held |= {each.id: each for each in entities}

    @rule(relationships=st.lists(_relationships, max_size=3))
    def add_relationships(self, relationships: list[Relationship]) -> None:
        self.ask(self.store.add_relationships(relationships))
        for each in {
            each.id: each for each in relationships
        }.values():  # of several with one id the last counts
            self.relationships[each.id] = each
            self.held = {
                each.source: Entity(each.source),
                each.target: Entity(each.target),
            } | self.held

    @rule(entity=_ends)
    def delete_entity(self, entity: str) -> None:
        self.ask(self.store.delete_entity(entity))
        self.held.pop(entity, None)
        left = (
            each for each in self.relationships.values() if entity not in (each.source, each.target)
        )
        self.relationships = {each.id: each for each in left}

    @rule(relationship=_relationships, by_id=st.booleans())
    def delete_relationship(self, relationship: Relationship, by_id: bool) -> None:
        self.ask(self.store.delete_relationship(relationship.id if by_id else relationship))
        self.relationships.pop(relationship.id, None)

    def emptied(self) -> None:
        super().emptied()
        self.relationships.clear()

    @rule(ids=st.lists(_ends, max_size=4))
    def get_entities(self, ids: list[str]) -> None:
        known = sorted(self.held.keys() & ids)
        assert self.ask(self.store.get_entities(ids)) == [self.held[each] for each in known]

    @rule(entity=_ends, depth=st.integers(1, 4), types=st.none() | st.lists(_types, max_size=2))
    def walk(self, entity: str, depth: int, types: list[str] | None) -> None:
        found = self.ask(self.store.get_neighbors(entity, depth=depth, relationship_types=types))
        hops = {entity: 0} if entity in self.held else {}
        walked = [
            each for each in self.relationships.values() if types is None or each.type in types
        ]
        for hop in range(1, depth + 1):
            reached = {each.target for each in walked if each.source in hops}
            reached |= {each.source for each in walked if each.target in hops}
            hops = dict.fromkeys(reached, hop) | hops
        assert found.entities == tuple(
            self.held[each] for each in sorted(hops, key=lambda each: (hops[each], each))
        )
        expected = [
            (min(hops.get(end, depth) for end in (each.source, each.target)), _place(each), each)
            for each in walked
        ]
        near = sorted(((hop, place) for hop, place, _ in expected if hop < depth))
        assert [_place(each) for each in found.relationships] == [place for _, place in near]
        assert all(self.relationships[each.id] == each for each in found.relationships)


def _place(relationship: Relationship) -> tuple[str, str, str, str]:
    return relationship.source, relationship.target, relationship.type, relationship.id


_ALLOWED = {
    "planned": ("in_progress",),
    "in_progress": ("failed", "failed", "blocked", "succeeded"),
    "succeeded": ("planned",),  # not allowed, like all else
    "blocked": ("in_progress",),
    "failed": ("increment", "force"),
    "abandoned": ("force",),
}
_Board = tuple[str, str]
_BOARDS: tuple[_Board, ...] = (("a", "b:a"), ("a:b", "a"))
_boards = st.sampled_from(_BOARDS)
_tasks = st.sampled_from(["t", "T"])
_acts = st.sampled_from([*STATUSES, "increment", "force"])
# A number chooses among the allowed changes: random ones hardly ever get anywhere.
_steps = st.sampled_from([0, 1, 2, 3, 4, 5] * 3) | _acts


class TaskMachine(StoreMachine[TaskStore]):
    """Boards as dicts of tasks, each a list of its status and how often it was retried."""

    held: dict[_Board, tuple[int, dict[str, list[Any]]]]

    @rule(key=_boards, tasks=st.lists(_tasks, unique=True), max_retries=st.integers(0, 2))
    def create(self, key: _Board, tasks: list[str], max_retries: int) -> None:
        asked = self.store.create_task_list(
            *key, [Task(each, each) for each in tasks], max_retries=max_retries
        )
        if key in self.held:
            self.ask(refuses(DuplicateError, asked))
        else:
            self.held[key] = max_retries, {each: ["planned", 0] for each in tasks}
            self.check(key, self.ask(asked))

    @rule(key=_boards, task=_tasks)
    def add(self, key: _Board, task: str) -> None:
        asked = self.store.add_tasks(*key, [Task(task, task)])
        if key not in self.held:
            self.ask(refuses(NotFoundError, asked))
        elif task in self.held[key][1]:
            self.ask(refuses(DuplicateError, asked))
        else:
            self.held[key][1][task] = ["planned", 0]
            self.check(key, self.ask(asked))

    @rule(key=_boards, task=_tasks, act=_acts)
    def act(self, key: _Board, task: str, act: str) -> None:
        asked = act_on(self.store, key, task, act)
        most, tasks = self.held.get(key, (0, {}))
        if task not in tasks:
            self.ask(refuses(NotFoundError, asked))
            return
        status, retries = tasks[task]
        if (status, act) in MOVES:
            tasks[task] = [act, retries]
        elif (status, act) == ("failed", "increment"):
            tasks[task] = ["in_progress", retries + 1] if retries < most else ["abandoned", retries]
        elif act == "force" and status in ("failed", "abandoned"):
            tasks[task] = ["in_progress", 0]
        else:
            self.ask(refuses(InvalidArgumentError, asked))
            return
        self.check(key, self.ask(asked))

    @precondition(lambda self: any(tasks for _, tasks in self.held.values()))
    @rule(
        which=st.integers(0, 3),
        acts=st.lists(_steps, min_size=5, max_size=9),
        settles=st.booleans(),
    )
    def work_on_one_that_is_there(self, which: int, acts: list[int | str], settles: bool) -> None:
        there = [(key, task) for key, (_, tasks) in self.held.items() for task in tasks]
        key, task = there[which % len(there)]
        for act in acts:
            allowed = _ALLOWED[self.held[key][1][task][0]]
            self.act(key, task, act if isinstance(act, str) else allowed[act % len(allowed)])
        if settles:  # while the task may be in any state
            self.settle(key[0])

    @rule(conversation=st.sampled_from(["a", "a:b", "b"]))
    def settle(self, conversation: str) -> None:
        boards = [tasks for (each, _), (_, tasks) in self.held.items() if each == conversation]
        lingering = [
            task for tasks in boards for task in tasks.values() if task[0] == "in_progress"
        ]
        assert self.ask(self.store.settle_conversation(conversation)) == len(lingering)
        for task in lingering:
            task[0] = "succeeded"

    @invariant()
    def boards_are_what_became_of_them(self) -> None:
        for key in _BOARDS:
            board = self.ask(self.store.get_task_list(*key))
            if key in self.held:
                self.check(key, board)
            else:
                assert board is None

    def check(self, key: _Board, board: TaskList | None) -> None:
        most, tasks = self.held[key]
        assert board is not None
        assert (board.conversation_id, board.agent_id, board.max_retries) == (*key, most)
        assert {each.id: [each.status, each.retry_count] for each in board.tasks} == tasks
        assert [each.id for each in board.tasks] == [*tasks]
