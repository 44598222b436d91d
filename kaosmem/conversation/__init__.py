"""Conversations: a log of events, its view, and the messages for a model."""

from kaosmem.conversation.action import Action
from kaosmem.conversation.condensation import Condensation, CondensationRequest, Summary
from kaosmem.conversation.condensers import (
    AmortizedForgettingCondenser,
    AttentionConfig,
    BrowserOutputCondenser,
    CondensationReason,
    Condenser,
    CondenserPipeline,
    ConversationWindowCondenser,
    LLMAttentionCondenser,
    LLMSummarizingCondenser,
    MaskingConfig,
    NoOpCondenser,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
    RecentEventsConfig,
    RollingCondenser,
    RollingConfig,
    StructuredSummaryCondenser,
    SummarizingConfig,
)
from kaosmem.conversation.event import Event, EventSource
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.memory_tiers import MemoryTier, fitted_tiers
from kaosmem.conversation.messages import ConversationConfig, ConversationMemory
from kaosmem.conversation.observation import Knowledge, Observation
from kaosmem.conversation.prompts import PromptTemplates
from kaosmem.conversation.view import View

__all__ = [
    "Action",
    "AmortizedForgettingCondenser",
    "AttentionConfig",
    "BrowserOutputCondenser",
    "Condensation",
    "CondensationReason",
    "CondensationRequest",
    "Condenser",
    "CondenserPipeline",
    "ConversationConfig",
    "ConversationMemory",
    "ConversationWindowCondenser",
    "Event",
    "EventLog",
    "EventSource",
    "Knowledge",
    "LLMAttentionCondenser",
    "LLMSummarizingCondenser",
    "MaskingConfig",
    "MemoryTier",
    "NoOpCondenser",
    "Observation",
    "ObservationMaskingCondenser",
    "PromptTemplates",
    "RecentEventsCondenser",
    "RecentEventsConfig",
    "RollingCondenser",
    "RollingConfig",
    "StructuredSummaryCondenser",
    "SummarizingConfig",
    "Summary",
    "View",
    "fitted_tiers",
]
