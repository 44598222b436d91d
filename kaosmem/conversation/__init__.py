"""Conversations: a log of events, its view, and the messages for a model."""

from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.condensation import Condensation, CondensationRequest, SummaryEvent
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
from kaosmem.conversation.event import ConversationEvent, EventSource
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.memory_tiers import MemoryTier, fitted_tiers
from kaosmem.conversation.messages import ConversationConfig, ConversationMemory
from kaosmem.conversation.observation import ObservationEvent, RecalledText
from kaosmem.conversation.prompts import PromptTemplates
from kaosmem.conversation.view import ConversationView

__all__ = [
    "ActionEvent",
    "AmortizedForgettingCondenser",
    "AttentionConfig",
    "BrowserOutputCondenser",
    "Condensation",
    "CondensationReason",
    "CondensationRequest",
    "Condenser",
    "CondenserPipeline",
    "ConversationConfig",
    "ConversationEvent",
    "ConversationMemory",
    "ConversationView",
    "ConversationWindowCondenser",
    "EventLog",
    "EventSource",
    "LLMAttentionCondenser",
    "LLMSummarizingCondenser",
    "MaskingConfig",
    "MemoryTier",
    "NoOpCondenser",
    "ObservationEvent",
    "ObservationMaskingCondenser",
    "PromptTemplates",
    "RecalledText",
    "RecentEventsCondenser",
    "RecentEventsConfig",
    "RollingCondenser",
    "RollingConfig",
    "StructuredSummaryCondenser",
    "SummarizingConfig",
    "SummaryEvent",
    "fitted_tiers",
]
