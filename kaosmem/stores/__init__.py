"""Stores outside a session: a Protocol and an implementation in memory for each kind."""

from kaosmem.entities import Entity, GraphPath, Relationship, SubGraph
from kaosmem.stores.blob import BlobInfo, BlobStore, InMemoryFileStore
from kaosmem.stores.facts import (
    BaseLongTermMemory,
    InMemoryLongTermMemory,
    LongTermMemory,
    StoredFact,
)
from kaosmem.stores.graph import BaseGraphStore, CypherCapable, GraphStore, InMemoryGraphStore
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
    current_agent_id,
    current_agent_label,
    current_board_key,
    current_parent_agent_id,
    current_thread_id,
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
    "BlobInfo",
    "BlobStore",
    "CypherCapable",
    "Entity",
    "GlobalTaskStore",
    "GraphPath",
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
    "current_agent_id",
    "current_agent_label",
    "current_board_key",
    "current_parent_agent_id",
    "current_thread_id",
    "decode_message",
    "encode_message",
]
