"""Stores outside a session: a Protocol and an implementation in memory for each kind."""

from kaosmem.stores.agent_scope import (
    agent_scope,
    current_agent_id,
    current_agent_label,
    current_board_key,
    current_parent_agent_id,
    current_thread_id,
)
from kaosmem.stores.blob import BlobStore, InMemoryFileStore
from kaosmem.stores.graph import CypherCapable, GraphStore, InMemoryGraphStore
from kaosmem.stores.history import HistoryProvider, InMemoryHistoryProvider
from kaosmem.stores.memory import (
    InMemoryLongTermMemory,
    InMemoryShortTermMemory,
    LongTermMemory,
    Memory,
    ShortTermMemory,
)
from kaosmem.stores.task_list import Task, TaskList, TaskStatus
from kaosmem.stores.tasks import GlobalTaskStore, InMemoryTaskStore, TaskStore
from kaosmem.stores.vector import Document, InMemoryVectorStore, SearchResult, VectorStore

__all__ = [
    "BlobStore",
    "CypherCapable",
    "Document",
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
    "Memory",
    "SearchResult",
    "ShortTermMemory",
    "Task",
    "TaskList",
    "TaskStatus",
    "TaskStore",
    "VectorStore",
    "agent_scope",
    "current_agent_id",
    "current_agent_label",
    "current_board_key",
    "current_parent_agent_id",
    "current_thread_id",
]
