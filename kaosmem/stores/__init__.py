"""Stores outside a session: a Protocol and an implementation in memory for each kind."""

from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.stores.blob import BlobStore, InMemoryFileStore
from kaosmem.stores.facts import (
    BaseLongTermMemory,
    InMemoryLongTermMemory,
    LongTermMemory,
    StoredFact,
)
from kaosmem.stores.graph import BaseGraphStore, GraphStore, InMemoryGraphStore
from kaosmem.stores.history import (
    BaseHistoryProvider,
    HistoryProvider,
    InMemoryHistoryProvider,
    decode_message,
    encode_message,
)
from kaosmem.stores.state import BaseShortTermMemory, InMemoryShortTermMemory, ShortTermMemory
from kaosmem.stores.task_list import (
    Task,
    TaskList,
    TaskStatus,
    agent_scope,
    current_board_key,
)
from kaosmem.stores.tasks import BaseTaskStore, GlobalTaskStore, InMemoryTaskStore, TaskStore
from kaosmem.stores.vector import (
    BaseVectorStore,
    InMemoryVectorStore,
    SearchResult,
    VectorDocument,
    VectorStore,
)

__all__ = [
    "BaseGraphStore",
    "BaseHistoryProvider",
    "BaseLongTermMemory",
    "BaseShortTermMemory",
    "BaseTaskStore",
    "BaseVectorStore",
    "BlobStore",
    "Entity",
    "GlobalTaskStore",
    "GraphStore",
    "HistoryProvider",
    "InMemoryFileStore",
    "InMemoryGraphStore",
    "InMemoryHistoryProvider",
    "InMemoryLongTermMemory",
    "InMemoryShortTermMemory",
    "InMemoryTaskStore",
    "InMemoryVectorStore",
    "LongTermMemory",
    "Relationship",
    "SearchResult",
    "ShortTermMemory",
    "StoredFact",
    "SubGraph",
    "Task",
    "TaskList",
    "TaskStatus",
    "TaskStore",
    "VectorDocument",
    "VectorStore",
    "agent_scope",
    "current_board_key",
    "decode_message",
    "encode_message",
]
