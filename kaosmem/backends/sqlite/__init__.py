"""Stores in one file of SQLite, which several processes may share."""

from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.graph import SqliteGraphStore
from kaosmem.backends.sqlite.stores import (
    SqliteHistoryProvider,
    SqliteLongTermMemory,
    SqliteShortTermMemory,
    SqliteTaskStore,
)
from kaosmem.backends.sqlite.vectors import SqliteVectorStore

__all__ = [
    "SqliteDatabase",
    "SqliteGraphStore",
    "SqliteHistoryProvider",
    "SqliteLongTermMemory",
    "SqliteShortTermMemory",
    "SqliteTaskStore",
    "SqliteVectorStore",
]
