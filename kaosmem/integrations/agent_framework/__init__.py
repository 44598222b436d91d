"""Microsoft Agent Framework 1.x: a chat middleware, a `HistoryProvider`, and a `CompactionStrategy`."""

from kaosmem.integrations.agent_framework.compaction import KaosmemCompaction as KaosmemCompaction
from kaosmem.integrations.agent_framework.history import (
    KaosmemHistoryProvider as KaosmemHistoryProvider,
)
from kaosmem.integrations.agent_framework.middleware import KaosmemMiddleware as KaosmemMiddleware
