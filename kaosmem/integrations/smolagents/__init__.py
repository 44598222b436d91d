"""smolagents 1.x: a model around the one of an agent."""

from kaosmem.integrations.smolagents.model import KaosmemModel as KaosmemModel
