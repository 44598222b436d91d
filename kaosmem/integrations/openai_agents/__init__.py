"""OpenAI Agents SDK 0.24: a filter of the model's input for a `RunConfig`, and a `Session`."""

from kaosmem.integrations.openai_agents.input_filter import KaosmemFilter
from kaosmem.integrations.openai_agents.session import KaosmemSession

__all__ = ["KaosmemFilter", "KaosmemSession"]
