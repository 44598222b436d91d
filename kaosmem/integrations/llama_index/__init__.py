"""LlamaIndex 0.14: the memory of an agent or a chat engine."""

from kaosmem.integrations.llama_index.memory import KaosmemMemory as KaosmemMemory
