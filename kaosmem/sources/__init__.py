"""Stores as sources of a session's contexts; one file for each kind of store."""

from kaosmem.sources.blob import BlobHandle, BlobSource
from kaosmem.sources.conversation import ConversationSource
from kaosmem.sources.graph import GraphSource
from kaosmem.sources.history import HistorySource
from kaosmem.sources.memory import FactSource, StateSource
from kaosmem.sources.profile import ProfileSource
from kaosmem.sources.tasks import TaskSource
from kaosmem.sources.vector import VectorSource

__all__ = [
    "BlobHandle",
    "BlobSource",
    "ConversationSource",
    "FactSource",
    "GraphSource",
    "HistorySource",
    "ProfileSource",
    "StateSource",
    "TaskSource",
    "VectorSource",
]
