"""Stores as sources of a session's contexts; one file for each kind of store."""

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
