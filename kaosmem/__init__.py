"""Decide what an LLM agent sees: typed memory sections, packed exactly into a token budget, explained and durable."""

from kaosmem.assembly import Context, Decision, Reason
from kaosmem.errors import (
    ConflictError,
    CorruptionError,
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
    NotFoundError,
    SectionFullError,
    WindowTooSmallError,
)
from kaosmem.formats import render_messages
from kaosmem.ingest import IngestReport
from kaosmem.retrieval import BM25Ranker, DenseRanker, Embedder, LinearRanker, Query, Ranker
from kaosmem.sections import DEFAULT_SECTIONS, Hit, Proposal, Section, SectionSpec, Source
from kaosmem.sections.eviction import EvictionPolicy
from kaosmem.session import (
    SessionMemory,
    SessionOptions,
    Window,
    delete_session,
    list_sessions,
    repair_session,
)
from kaosmem.tokens import TokenCounter, context_length, get_counter
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
    Version,
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
    "DenseRanker",
    "DocumentBlock",
    "DurabilityError",
    "Embedder",
    "EvictionPolicy",
    "Hit",
    "ImageBlock",
    "IngestReport",
    "InvalidArgumentError",
    "Item",
    "KaosmemError",
    "LinearRanker",
    "NotFoundError",
    "Proposal",
    "Query",
    "Ranker",
    "Reason",
    "Section",
    "SectionFullError",
    "SectionSpec",
    "SessionMemory",
    "SessionOptions",
    "Source",
    "TextBlock",
    "ThinkingBlock",
    "TokenCounter",
    "ToolResultBlock",
    "ToolUseBlock",
    "Trust",
    "Version",
    "Window",
    "WindowTooSmallError",
    "context_length",
    "delete_session",
    "get_counter",
    "list_sessions",
    "render_messages",
    "repair_session",
]
