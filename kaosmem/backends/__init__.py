"""Stores that last, one file or package for each service. SQLite and folders need no server."""

from kaosmem.backends.embedded import Stores, open_stores
from kaosmem.backends.folder import FolderFileStore
from kaosmem.backends.s3 import S3FileStore
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.graph import SqliteGraphStore
from kaosmem.backends.sqlite.stores import (
    SqliteHistoryProvider,
    SqliteLongTermMemory,
    SqliteShortTermMemory,
    SqliteTaskStore,
    SqliteVectorMemory,
)
from kaosmem.backends.sqlite.vectors import SqliteVectorStore

__all__ = [
    "FolderFileStore",
    "S3FileStore",
    "SqliteDatabase",
    "SqliteGraphStore",
    "SqliteHistoryProvider",
    "SqliteLongTermMemory",
    "SqliteShortTermMemory",
    "SqliteTaskStore",
    "SqliteVectorMemory",
    "SqliteVectorStore",
    "Stores",
    "open_stores",
]
