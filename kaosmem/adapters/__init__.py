"""Stores as sources of what a session shows, one file a kind as in `kaosmem.stores`."""

from kaosmem.adapters.blob import BlobHandle, BlobSource
from kaosmem.adapters.conversation import ConversationSource
from kaosmem.adapters.graph import GraphSource
from kaosmem.adapters.history import HistorySource
from kaosmem.adapters.memory import FactSource, StateSource
from kaosmem.adapters.tasks import TaskSource
from kaosmem.adapters.vector import VectorSource

__all__ = [
    "BlobHandle",
    "BlobSource",
    "ConversationSource",
    "FactSource",
    "GraphSource",
    "HistorySource",
    "StateSource",
    "TaskSource",
    "VectorSource",
]
