"""Stores in one file of SQLite, which several processes may share."""

from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.facts import SqliteLongTermMemory, SqliteVectorMemory
from kaosmem.backends.sqlite.graph import SqliteGraphStore
from kaosmem.backends.sqlite.history import SqliteHistoryProvider
from kaosmem.backends.sqlite.state import SqliteShortTermMemory
from kaosmem.backends.sqlite.tasks import SqliteTaskStore
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
