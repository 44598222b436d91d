"""Condensers: they shorten a conversation's view by records in its log, one kind each file."""

from kaosmem.conversation.condensers.attention import AttentionConfig, LLMAttentionCondenser
from kaosmem.conversation.condensers.condenser import Condenser, NoOpCondenser
from kaosmem.conversation.condensers.forgetting import (
    AmortizedForgettingCondenser,
    ConversationWindowCondenser,
    RecentEventsCondenser,
    RecentEventsConfig,
)
from kaosmem.conversation.condensers.masking import BrowserOutputCondenser, MaskingConfig, ObservationMaskingCondenser
from kaosmem.conversation.condensers.pipeline import CondenserPipeline
from kaosmem.conversation.condensers.rolling import CondensationReason, RollingCondenser, RollingConfig
from kaosmem.conversation.condensers.summarizing import (
    LLMSummarizingCondenser,
    StructuredSummaryCondenser,
    SummarizingConfig,
)

__all__ = [
    "AmortizedForgettingCondenser",
    "AttentionConfig",
    "BrowserOutputCondenser",
    "CondensationReason",
    "Condenser",
    "CondenserPipeline",
    "ConversationWindowCondenser",
    "LLMAttentionCondenser",
    "LLMSummarizingCondenser",
    "MaskingConfig",
    "NoOpCondenser",
    "ObservationMaskingCondenser",
    "RecentEventsCondenser",
    "RecentEventsConfig",
    "RollingCondenser",
    "RollingConfig",
    "StructuredSummaryCondenser",
    "SummarizingConfig",
]
