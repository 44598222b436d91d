"""A conversation: its log of events, the view that is left of it, and the messages that a model is given."""

from kaosmem.conversation.condensation import Condensation, CondensationRequest, Summary
from kaosmem.conversation.events import Action, Event, EventSource, Knowledge, Observation
from kaosmem.conversation.log import EventLog
from kaosmem.conversation.view import View

__all__ = [
    "Action",
    "Condensation",
    "CondensationRequest",
    "Event",
    "EventLog",
    "EventSource",
    "Knowledge",
    "Observation",
    "Summary",
    "View",
]
