"""Stores in PostgreSQL."""

from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.postgres.facts import PgVectorMemory, PostgresLongTermMemory
from kaosmem.backends.postgres.graph import AGEGraphStore
from kaosmem.backends.postgres.history import PostgresHistoryProvider
from kaosmem.backends.postgres.state import PostgresShortTermMemory
from kaosmem.backends.postgres.tasks import PgTaskStore
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
