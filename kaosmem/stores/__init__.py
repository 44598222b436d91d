"""Stores outside a session: a base class and an implementation in memory for each kind."""

from kaosmem.entities import Entity, Relationship
from kaosmem.stores.blob import BlobStore, InMemoryFileStore
from kaosmem.stores.facts import LongTermMemory
from kaosmem.stores.graph import GraphStore, InMemoryGraphStore
from kaosmem.stores.history import HistoryProvider, InMemoryHistoryProvider
from kaosmem.stores.indexed_facts import InMemoryLongTermMemory
from kaosmem.stores.state import InMemoryShortTermMemory, ShortTermMemory
from kaosmem.stores.task_list import Task, TaskStatus
from kaosmem.stores.tasks import InMemoryTaskStore, TaskStore
from kaosmem.stores.vector import InMemoryVectorStore, VectorDocument, VectorStore

__all__ = [
    "BlobStore",
    "Entity",
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
    "ShortTermMemory",
    "Task",
    "TaskStatus",
    "TaskStore",
    "VectorDocument",
    "VectorStore",
]
