"""Pydantic AI 2.x: a capability of an agent."""

from kaosmem.integrations.pydantic_ai.capability import KaosmemCapability as KaosmemCapability
