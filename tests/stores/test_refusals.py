"""Stores refuse a wrong value in any place of any call. The base classes do so, once for all stores."""

import inspect
import math

import pytest

from kaosmem import ChatMessage
from kaosmem.entities import Entity, Relationship
from kaosmem.errors import DuplicateError, InvalidArgumentError, InvalidNameError
from kaosmem.stores import (
    InMemoryFileStore,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    InMemoryTaskStore,
    InMemoryVectorStore,
    Task,
    TaskStatus,
    VectorDocument,
)
from kaosmem.testing import (
    BlobContract,
    GraphContract,
    HistoryContract,
    LongTermContract,
    ShortTermContract,
    TaskContract,
    VectorContract,
)
from kaosmem.testing.contracts.history import said
from kaosmem.testing.contracts.store import refuses
from kaosmem.types.content import DocumentBlock

NO_IDS = ("", "a\n", "a\x00b", "n" * 257, "\ud800", None, 5, b"a", ["a"])


def wrong(*values, error=InvalidArgumentError):
    """Return values that a parameter refuses, each after its error."""
    return [(error, each) for each in values]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


ID = wrong(*NO_IDS, error=InvalidNameError)
# One text would be read letter by letter.
SEVERAL_IDS = [*wrong(*(["a", each] for each in NO_IDS), error=InvalidNameError), *wrong("ab")]
COUNT = wrong(-1, 1.5, "1", True, None)
SECONDS = wrong(0, -1, math.nan, math.inf, "60", True, None)
TEXT = wrong("\ud800", b"text", None, ["text"])
MESSAGES = (
    *("text", {"role": "user", "content": "text"}),
    *(ChatMessage("user", "\ud800"), ChatMessage("\ud800", "text")),
)
STATE = [
    *wrong(*({"a": each} for each in ({1}, float("nan"), 2**64, "\ud800", nested(100)))),
    *wrong({1: "a"}, [1], None),
]
TIMES = ("yesterday", "2024-13", "2024-13-01", 5, "0001-01-01T00:00+14:00")
UNEMBEDDED = [VectorDocument("a", "a", (1, 0)), VectorDocument("b", "b")]
LINK = {"source": "a", "target": "c", "type": "owns"}
PROPERTIES = ({"a": float("nan")}, {1: "a"}, {"a": {1}}, "text")
ENTITIES = (
    *("b", {"name": "b"}, {"id": "b", "size": 1}, Relationship("a", "b", "owns")),
    *({"id": "c", "properties": each} for each in PROPERTIES),
)
RELATIONSHIPS = (
    *("b", {"source": "a"}, Entity("b")),
    *({**LINK, "properties": each} for each in PROPERTIES),
)
TASKS = (
    *(Task("v", "v", TaskStatus.SUCCEEDED), Task("v", "v", retry_count=1)),
    *("title", {"id": "v"}, None),
)

# Each contract with a store, the valid arguments by parameter, and the values that are refused.
CASES = [
    (
        BlobContract,
        InMemoryFileStore,
        {"key": "a", "data": b"", "content_type": "text/plain"},
        {
            "key": ID,
            "data": wrong("text", None, 5, [1]),
            "content_type": TEXT,
            **dict.fromkeys(("ttl", "expires_s"), SECONDS),
        },
    ),
    (
        GraphContract,
        InMemoryGraphStore,
        {"entity_id": "a"},
        {
            "entity_id": ID,
            "ids": SEVERAL_IDS,
            "depth": [*COUNT, *wrong(0)],
            "relationship_types": [
                *wrong("owns"),
                *wrong(*([each] for each in NO_IDS[:5]), error=InvalidNameError),
            ],
            "entities": [
                *wrong(*([Entity("c"), each] for each in ENTITIES)),
                *wrong([Entity("c"), {"id": ""}], error=InvalidNameError),
            ],
            "relationships": wrong(
                *([Relationship("a", "b", "owns"), each] for each in RELATIONSHIPS)
            ),
            "relationship": [
                *wrong({"source": "a"}, None, 5),
                *wrong(*NO_IDS[:5], error=InvalidNameError),
            ],
        },
    ),
    (
        HistoryContract,
        InMemoryHistoryProvider,
        {
            "agent_id": "a",
            "session_id": "b",
            "run_id": "r",
            "message": said("1")[0],
            "messages": said("1"),
        },
        {
            # Of the ids of runs, "" is the default of `append`. `clear_run` refuses it: it would
            # delete every message that has no run.
            **dict.fromkeys(("agent_id", "session_id", "run_id"), ID),
            **dict.fromkeys(("limit", "offset"), COUNT),
            "message": wrong(*MESSAGES),
            "messages": wrong(*([*said("1"), each] for each in MESSAGES)),
        },
    ),
    (
        LongTermContract,
        InMemoryLongTermMemory,
        {
            "agent_id": "a",
            "namespace": "b",
            "memory_id": "id",
            "key": "k",
            "content": "text",
            "query": "text",
        },
        {
            **dict.fromkeys(("agent_id", "namespace", "memory_id", "key"), ID),
            **dict.fromkeys(("content", "query"), TEXT),
            "limit": COUNT,
            "ttl": SECONDS,
            "metadata": wrong(
                *({"a": float("nan")}, {"a": {1}}, {1: "a"}, "text"),
                *({"timestamp": each} for each in TIMES),
            ),
        },
    ),
    (
        ShortTermContract,
        InMemoryShortTermMemory,
        {"session_id": "a", "state": {}, "patch": {}},
        {"session_id": ID, "state": STATE, "patch": STATE},
    ),
    (
        TaskContract,
        InMemoryTaskStore,
        {
            "conversation_id": "a",
            "agent_id": "b",
            "task_id": "t",
            "status": "in_progress",
            "tasks": [],
        },
        {
            **dict.fromkeys(("conversation_id", "agent_id", "task_id"), ID),
            "max_retries": COUNT,
            "status": wrong("done", "", "PLANNED", None, 1),
            "tasks": [
                *wrong(*([Task("u", "new"), each] for each in TASKS)),
                *wrong([Task("u", "new"), Task("u", "new")], error=DuplicateError),
            ],
        },
    ),
    (
        VectorContract,
        InMemoryVectorStore,
        {"collection": "a", "query_embedding": (1, 0), "documents": [], "ids": []},
        {
            "collection": ID,
            "ids": SEVERAL_IDS,
            "limit": COUNT,
            "filter": wrong({"year": {"$near": 1}}, {"$nor": []}, {"year": {"$gt": None}}, "year"),
            # A query has a direction.
            "query_embedding": wrong(
                *((0, 0), (math.nan, 1), (math.inf, 1), (1e39, 0), (), "12", None, ("a", "b"))
            ),
            "documents": wrong(UNEMBEDDED, [DocumentBlock("text", "title")]),
        },
    ),
]


@pytest.mark.parametrize(
    ("contract", "kind", "valid", "refused"),
    CASES,
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_wrong_value_is_a_typed_error_and_changes_nothing(contract, kind, valid, refused):
    store = kind()
    reader = contract()
    key = reader.keys[0]
    await reader.write(store, key, "text")
    tried = set()
    for name, method in inspect.getmembers(store, inspect.iscoroutinefunction):
        parameters = inspect.signature(method).parameters.values()
        given = {each.name: valid[each.name] for each in parameters if each.name in valid}
        for each in parameters:
            for error, bad in refused.get(each.name, ()):
                if not name.startswith("_") and bad != each.default:
                    tried.add(each.name)
                    await refuses(error, method(**given | {each.name: bad}), f"{name}: {bad!r:.80}")
    assert tried == refused.keys()
    assert await reader.read(store, key) == "text"
    assert await reader.listed(store) == [key]
