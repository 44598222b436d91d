"""Stores in PostgreSQL."""

from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.postgres.graph import AGEGraphStore
from kaosmem.backends.postgres.stores import (
    PgTaskStore,
    PgVectorMemory,
    PostgresHistoryProvider,
    PostgresLongTermMemory,
    PostgresShortTermMemory,
)
from kaosmem.backends.postgres.vectors import PgVectorStore

__all__ = [
    "AGEGraphStore",
    "PgTaskStore",
    "PgVectorMemory",
    "PgVectorStore",
    "PostgresDatabase",
    "PostgresHistoryProvider",
    "PostgresLongTermMemory",
    "PostgresShortTermMemory",
]
