"""Microsoft Agent Framework 1.x: a chat middleware, a `HistoryProvider`, and a `CompactionStrategy`."""

from kaosmem.integrations.agent_framework.compaction import KaosmemCompaction
from kaosmem.integrations.agent_framework.history import KaosmemHistoryProvider
from kaosmem.integrations.agent_framework.middleware import KaosmemMiddleware

__all__ = ["KaosmemCompaction", "KaosmemHistoryProvider", "KaosmemMiddleware"]
