"""Conversations: a log of events, its view, and the messages for a model."""

from kaosmem.conversation.condensers import (
    Condenser,
    StrategyCondenser,
)
from kaosmem.conversation.events import ActionEvent, ConversationEvent, ObservationEvent
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.messages import ConversationMemory
from kaosmem.conversation.rolling import LLMSummarizingCondenser, RollingCondenser
from kaosmem.conversation.view import Condensation, ConversationView, SummaryEvent

__all__ = [
    "ActionEvent",
    "Condensation",
    "Condenser",
    "ConversationEvent",
    "ConversationMemory",
    "ConversationView",
    "EventLog",
    "LLMSummarizingCondenser",
    "ObservationEvent",
    "RollingCondenser",
    "StrategyCondenser",
    "SummaryEvent",
]
