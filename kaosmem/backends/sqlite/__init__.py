"""Stores in one file of SQLite, which several processes may share."""

from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import (
    SqliteGraphStore,
    SqliteHistoryProvider,
    SqliteLongTermMemory,
    SqliteShortTermMemory,
    SqliteTaskStore,
    SqliteVectorMemory,
)
from kaosmem.backends.sqlite.vectors import SqliteVectorStore

__all__ = [
    "SqliteDatabase",
    "SqliteGraphStore",
    "SqliteHistoryProvider",
    "SqliteLongTermMemory",
    "SqliteShortTermMemory",
    "SqliteTaskStore",
    "SqliteVectorMemory",
    "SqliteVectorStore",
]
