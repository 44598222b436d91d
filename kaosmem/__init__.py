"""Decide what an LLM agent sees: typed memory sections, packed exactly into a token budget, explained and durable."""

from importlib import import_module
from typing import TYPE_CHECKING

from kaosmem.assembly import Context, Decision, Reason, SectionUse, SourceReport, SourceStatus
from kaosmem.clients import EmbeddingClient
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DuplicateItemError,
    DuplicateTaskError,
    DurabilityError,
    ForgetIncompleteError,
    InvalidArgumentError,
    InvalidBudgetError,
    InvalidContentError,
    InvalidFilterError,
    InvalidNameError,
    InvalidTransitionError,
    ItemTooLargeError,
    KaosmemError,
    MissingExtraError,
    NothingToIngestError,
    ReadOnlyError,
    SectionFullError,
    SourceUnavailableError,
    TestIsolationError,
    UnknownAssemblerError,
    UnknownBlobError,
    UnknownEncodingError,
    UnknownFormatError,
    UnknownItemError,
    UnknownScopeError,
    UnknownSectionError,
    UnknownSessionError,
    UnknownTaskError,
    UnsupportedVersionError,
    UnusableDumpError,
    WindowTooSmallError,
)
from kaosmem.eviction import EvictionPolicy
from kaosmem.formats import count_messages
from kaosmem.ingest import IngestReport
from kaosmem.names import safe_id
from kaosmem.retrieval import BM25Ranker, DenseRanker, Embedder, GraphRanker, LinearRanker, RankBM25Ranker, Ranker
from kaosmem.sections import DEFAULT_SECTIONS, ForgettingSource, Proposal, Section, SectionSpec, Source
from kaosmem.session import RepairReport, SessionMemory, delete_session, list_sessions, repair_session
from kaosmem.tokens import TiktokenCounter, TokenCounter, ToktokCounter, get_counter
from kaosmem.types import (
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    Item,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
)

if TYPE_CHECKING:
    from kaosmem.adapters import (
        BlobHandle,
        BlobSource,
        FactSource,
        GraphSource,
        StateSource,
        TaskSource,
        VectorSource,
    )
    from kaosmem.stores import (
        BlobStore,
        CypherCapable,
        Document,
        GlobalTaskStore,
        GraphStore,
        HistoryProvider,
        InMemoryFileStore,
        InMemoryGraphStore,
        InMemoryHistoryProvider,
        InMemoryLongTermMemory,
        InMemoryShortTermMemory,
        InMemoryTaskStore,
        InMemoryVectorStore,
        LongTermMemory,
        Memory,
        SearchResult,
        ShortTermMemory,
        Task,
        TaskList,
        TaskStatus,
        TaskStore,
        VectorStore,
        agent_scope,
        current_agent_id,
        current_agent_label,
        current_board_key,
        current_parent_agent_id,
        current_thread_id,
    )

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_SECTIONS",
    "BM25Ranker",
    "BlobHandle",
    "BlobSource",
    "BlobStore",
    "ChatMessage",
    "ConflictError",
    "Context",
    "CorruptionError",
    "CypherCapable",
    "Decision",
    "DenseRanker",
    "Document",
    "DocumentBlock",
    "DuplicateItemError",
    "DuplicateTaskError",
    "DurabilityError",
    "Embedder",
    "EmbeddingClient",
    "Entity",
    "EvictionPolicy",
    "FactSource",
    "ForgetIncompleteError",
    "ForgettingSource",
    "GlobalTaskStore",
    "GraphRanker",
    "GraphSource",
    "GraphStore",
    "HistoryProvider",
    "ImageBlock",
    "InMemoryFileStore",
    "InMemoryGraphStore",
    "InMemoryHistoryProvider",
    "InMemoryLongTermMemory",
    "InMemoryShortTermMemory",
    "InMemoryTaskStore",
    "InMemoryVectorStore",
    "IngestReport",
    "InvalidArgumentError",
    "InvalidBudgetError",
    "InvalidContentError",
    "InvalidFilterError",
    "InvalidNameError",
    "InvalidTransitionError",
    "Item",
    "ItemTooLargeError",
    "KaosmemError",
    "LinearRanker",
    "LongTermMemory",
    "Memory",
    "MissingExtraError",
    "NothingToIngestError",
    "Proposal",
    "RankBM25Ranker",
    "Ranker",
    "ReadOnlyError",
    "Reason",
    "Relationship",
    "RepairReport",
    "SearchResult",
    "Section",
    "SectionFullError",
    "SectionSpec",
    "SectionUse",
    "SessionMemory",
    "ShortTermMemory",
    "Source",
    "SourceReport",
    "SourceStatus",
    "SourceUnavailableError",
    "StateSource",
    "SubGraph",
    "Task",
    "TaskList",
    "TaskSource",
    "TaskStatus",
    "TaskStore",
    "TestIsolationError",
    "TextBlock",
    "ThinkingBlock",
    "TiktokenCounter",
    "TokenCounter",
    "ToktokCounter",
    "ToolResultBlock",
    "ToolUseBlock",
    "Trust",
    "UnknownAssemblerError",
    "UnknownBlobError",
    "UnknownEncodingError",
    "UnknownFormatError",
    "UnknownItemError",
    "UnknownScopeError",
    "UnknownSectionError",
    "UnknownSessionError",
    "UnknownTaskError",
    "UnsupportedVersionError",
    "UnusableDumpError",
    "VectorSource",
    "VectorStore",
    "WindowTooSmallError",
    "agent_scope",
    "count_messages",
    "current_agent_id",
    "current_agent_label",
    "current_board_key",
    "current_parent_agent_id",
    "current_thread_id",
    "delete_session",
    "get_counter",
    "list_sessions",
    "repair_session",
    "safe_id",
]

_ADAPTERS = frozenset(
    ("BlobHandle", "BlobSource", "FactSource", "GraphSource", "StateSource", "TaskSource", "VectorSource")
)


def __getattr__(name: str) -> object:
    # The stores and what shows them, which not every program needs.
    if name in __all__:
        kind = "adapters" if name in _ADAPTERS else "stores"
        return getattr(import_module(f"kaosmem.{kind}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
