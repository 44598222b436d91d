"""Stores in PostgreSQL."""

from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.postgres.history import PostgresHistoryProvider
from kaosmem.backends.postgres.state import PostgresShortTermMemory
from kaosmem.backends.postgres.tasks import PgTaskStore

__all__ = ["PgTaskStore", "PostgresDatabase", "PostgresHistoryProvider", "PostgresShortTermMemory"]
