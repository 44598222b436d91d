"""OpenAI Agents SDK 0.24: a filter of the model's input for a `RunConfig`, and a `Session`."""

from kaosmem.integrations.openai_agents.input_filter import KaosmemFilter as KaosmemFilter
from kaosmem.integrations.openai_agents.session import KaosmemSession as KaosmemSession
