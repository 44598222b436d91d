"""Decide what an LLM agent sees: typed memory sections, packed exactly into a token budget, explained and durable."""

from kaosmem.assembly import Context, Decision, Reason, SectionUse
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DuplicateItemError,
    DurabilityError,
    InvalidBudgetError,
    InvalidContentError,
    InvalidFilterError,
    InvalidNameError,
    ItemTooLargeError,
    KaosmemError,
    MissingExtraError,
    NothingToIngestError,
    ReadOnlyError,
    SectionFullError,
    TestIsolationError,
    UnknownEncodingError,
    UnknownFormatError,
    UnknownItemError,
    UnknownSectionError,
    UnknownSessionError,
    UnsupportedVersionError,
    WindowTooSmallError,
)
from kaosmem.eviction import EvictionPolicy
from kaosmem.formats import count_messages
from kaosmem.ingest import IngestReport
from kaosmem.names import safe_id
from kaosmem.retrieval import BM25Ranker, GraphRanker, RankBM25Ranker, Ranker
from kaosmem.sections import DEFAULT_SECTIONS, Proposal, Section, SectionSpec, Source
from kaosmem.session import SessionMemory, delete_session, list_sessions
from kaosmem.tokens import TokenCounter, get_counter
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

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_SECTIONS",
    "BM25Ranker",
    "ChatMessage",
    "ConflictError",
    "Context",
    "CorruptionError",
    "Decision",
    "DocumentBlock",
    "DuplicateItemError",
    "DurabilityError",
    "Entity",
    "EvictionPolicy",
    "GraphRanker",
    "ImageBlock",
    "IngestReport",
    "InvalidBudgetError",
    "InvalidContentError",
    "InvalidFilterError",
    "InvalidNameError",
    "Item",
    "ItemTooLargeError",
    "KaosmemError",
    "MissingExtraError",
    "NothingToIngestError",
    "Proposal",
    "RankBM25Ranker",
    "Ranker",
    "ReadOnlyError",
    "Reason",
    "Relationship",
    "Section",
    "SectionFullError",
    "SectionSpec",
    "SectionUse",
    "SessionMemory",
    "Source",
    "SubGraph",
    "TestIsolationError",
    "TextBlock",
    "ThinkingBlock",
    "TokenCounter",
    "ToolResultBlock",
    "ToolUseBlock",
    "Trust",
    "UnknownEncodingError",
    "UnknownFormatError",
    "UnknownItemError",
    "UnknownSectionError",
    "UnknownSessionError",
    "UnsupportedVersionError",
    "WindowTooSmallError",
    "count_messages",
    "delete_session",
    "get_counter",
    "list_sessions",
    "safe_id",
]
