"""Haystack 3.x: a chat generator around the one of an agent or a pipeline."""

from kaosmem.integrations.haystack.generator import KaosmemChatGenerator as KaosmemChatGenerator
