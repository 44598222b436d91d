"""Stores in Redis or Valkey."""

from kaosmem.backends.redis.database import RedisDatabase
from kaosmem.backends.redis.facts import RedisLongTermMemory
from kaosmem.backends.redis.history import RedisHistoryProvider
from kaosmem.backends.redis.state import RedisSessionStore

__all__ = ["RedisDatabase", "RedisHistoryProvider", "RedisLongTermMemory", "RedisSessionStore"]
