"""Events as JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.condensation import Condensation, CondensationRequest
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.observation import ObservationEvent, RecalledText
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_name
from kaosmem.types import JSONValue, content_json

_TYPES: dict[str, type[ConversationEvent]] = {
    each.type: each for each in (ActionEvent, ObservationEvent, Condensation, CondensationRequest)
}
_FIELDS = {name: tuple(each.name for each in fields(kind) if each.init) for name, kind in _TYPES.items()}

_TO_JSON: dict[str, Callable[[Any], JSONValue]] = {
    "timestamp": datetime.isoformat,
    "source": str,
    "content": content_json,
    "call": lambda call: content_json((call,))[0],
    "recalled": lambda recalled: [{"name": each.name, "text": each.text} for each in recalled],
    "forgotten_ids": list,
    "forgotten_range": list,
    "metadata": dict,
}
_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "timestamp": datetime.fromisoformat,
    "recalled": lambda recalled: [RecalledText(**each) for each in recalled],
}
_LEFT_OUT = frozenset({"content", "response", "call_id", "recalled", "metadata", "pinned"})
"""Fields that are not stored if they are empty or False."""
_SUMMARY = ("summary", "summary_offset")


def check_event(event: object) -> None:
    """Raise InvalidArgumentError for a summary: no log keeps one, as a view makes it of its condensation."""
    if getattr(event, "type", None) not in _TYPES:
        raise InvalidArgumentError(f"a log keeps no {type(event).__name__}; give an event, or a condensation")


def event_json(event: ConversationEvent) -> dict[str, JSONValue]:
    """Return an event as JSON values, without empty fields. Raises InvalidArgumentError."""
    check_event(event)
    stored: dict[str, JSONValue] = {"type": event.type}
    for name in _FIELDS[event.type]:
        value = getattr(event, name)
        if value is not None and (value or name not in _LEFT_OUT):
            stored[name] = _TO_JSON[name](value) if name in _TO_JSON else value
    return stored


def event_of(stored: Mapping[str, JSONValue]) -> ConversationEvent:
    """Return the event that `event_json` made JSON of.

    Half of a summary, or a blank one, is kept as it was stored, though no view shows it.
    Raises InvalidArgumentError.
    """
    kind = stored.get("type") if isinstance(stored, Mapping) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InvalidArgumentError(
            f"no type of event {shown_name(kind)}, only {', '.join(_TYPES)}; read it with the kaosmem that wrote it"
        )
    if unknown := stored.keys() - {"type", *_FIELDS[kind]}:
        raise InvalidArgumentError(
            f"a stored {kind} has unknown fields {sorted(map(shown_name, unknown))}; leave them out"
        )
    try:
        given = {name: _FROM_JSON[name](stored[name]) if name in _FROM_JSON else stored[name] for name in stored}
        del given["type"]
        summary = {name: given.pop(name) for name in _SUMMARY if name in given}
        event = _TYPES[kind](**given)
        for name, value in summary.items():
            object.__setattr__(event, name, value)
        if isinstance(event, Condensation):
            event.check_fields()
    except (AttributeError, TypeError, ValueError) as error:
        # Not from the error: the messages of these may show what was stored.
        reason = str(error) if isinstance(error, InvalidArgumentError) else type(error).__name__
        raise InvalidArgumentError(f"not a stored {kind}: {reason}") from None
    return event
