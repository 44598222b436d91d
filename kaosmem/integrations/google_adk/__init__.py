"""Google ADK 2.x: a plugin of a runner or an app, and a `BaseMemoryService`."""

from kaosmem.integrations.google_adk.memory_service import (
    KaosmemMemoryService as KaosmemMemoryService,
)
from kaosmem.integrations.google_adk.plugin import KaosmemPlugin as KaosmemPlugin
