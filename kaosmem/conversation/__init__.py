"""Conversations: a log of events, its view, and the messages for a model."""

from kaosmem.conversation.attention import LLMAttentionCondenser
from kaosmem.conversation.condensation import Condensation, CondensationRequest, SummaryEvent
from kaosmem.conversation.condensers import (
    Condenser,
    CondenserPipeline,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
    StrategyCondenser,
)
from kaosmem.conversation.events import (
    ActionEvent,
    ConversationEvent,
    EventSource,
    ObservationEvent,
    RecalledText,
)
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.messages import ConversationMemory
from kaosmem.conversation.prompts import MemoryTier, PromptTemplates, fitted_tiers
from kaosmem.conversation.rolling import CondensationReason, RollingCondenser, ViewOutline
from kaosmem.conversation.summarizing import LLMSummarizingCondenser
from kaosmem.conversation.view import ConversationView

__all__ = [
    "ActionEvent",
    "Condensation",
    "CondensationReason",
    "CondensationRequest",
    "Condenser",
    "CondenserPipeline",
    "ConversationEvent",
    "ConversationMemory",
    "ConversationView",
    "EventLog",
    "EventSource",
    "LLMAttentionCondenser",
    "LLMSummarizingCondenser",
    "MemoryTier",
    "ObservationEvent",
    "ObservationMaskingCondenser",
    "PromptTemplates",
    "RecalledText",
    "RecentEventsCondenser",
    "RollingCondenser",
    "StrategyCondenser",
    "SummaryEvent",
    "ViewOutline",
    "fitted_tiers",
]
