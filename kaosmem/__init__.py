"""Decide what an LLM agent sees: typed memory sections, packed exactly into a token budget, explained and durable."""

from kaosmem.assembly.context import Context, Decision, Reason
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
from kaosmem.ingest.passages import IngestReport
from kaosmem.language.query import Query
from kaosmem.retrieval.ranker import Ranker
from kaosmem.retrieval.rankers import BM25Ranker, DenseRanker, Embedder, LinearRanker
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.eviction import EvictionPolicy
from kaosmem.sections.proposal import Hit, Proposal, Source
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.directory import delete_session, list_sessions
from kaosmem.session.memory import SessionMemory
from kaosmem.session.options import SessionOptions
from kaosmem.session.saving.repair import repair_session
from kaosmem.session.sessions import Sessions
from kaosmem.session.synchronous import SyncSessionMemory
from kaosmem.session.windows import Window
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.tokens.models import context_length
from kaosmem.types.content import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
)
from kaosmem.types.items import ChatMessage, Item
from kaosmem.types.versions import Version

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
    "Sessions",
    "Source",
    "SyncSessionMemory",
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
