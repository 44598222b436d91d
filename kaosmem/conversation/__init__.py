"""A conversation: its log of events, the view that is left of it, and the messages that a model is given."""

from kaosmem.conversation.condensation import Condensation, CondensationRequest, Summary
from kaosmem.conversation.events import Action, Event, EventSource, Knowledge, Observation
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.memory_tiers import MemoryTier, fitted_tiers
from kaosmem.conversation.messages import ConversationConfig, ConversationMemory
from kaosmem.conversation.prompts import PromptTemplates
from kaosmem.conversation.view import View

__all__ = [
    "Action",
    "Condensation",
    "CondensationRequest",
    "ConversationConfig",
    "ConversationMemory",
    "Event",
    "EventLog",
    "EventSource",
    "Knowledge",
    "MemoryTier",
    "Observation",
    "PromptTemplates",
    "Summary",
    "View",
    "fitted_tiers",
]
