"""The log of a conversation: events in the order in which they happened, and their form in JSON."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import count
from typing import Any, TypeVar, overload

from kaosmem.arguments import STRICT_JSON, Clock, json_text, utc_now
from kaosmem.conversation.events import (
    UNLOGGED,
    ActionEvent,
    ConversationEvent,
    ObservationEvent,
    actions_of,
)
from kaosmem.conversation.view import Condensation, ConversationView
from kaosmem.errors import InvalidArgumentError, NotFoundError
from kaosmem.formats import Format, parse_message
from kaosmem.types import JSONDict, JSONObject, JSONValue
from kaosmem.types.content import content_json

_TYPES: dict[str, type[ConversationEvent]] = {
    each.type: each for each in (ActionEvent, ObservationEvent, Condensation)
}
_FIELDS = {
    name: tuple(each.name for each in fields(kind) if each.init) for name, kind in _TYPES.items()
}

_TO_JSON: dict[str, Callable[[Any], JSONValue]] = {
    "timestamp": datetime.isoformat,
    "source": str,
    "content": content_json,
    "call": lambda call: content_json((call,))[0],
    "forgotten_ids": list,
}
_LEFT_OUT = frozenset({"content", "response", "call_id", "pinned"})
"""Fields that are not stored if they are empty or False."""


def check_event(event: object) -> None:
    """Raise InvalidArgumentError for a summary.

    No log keeps one: a view makes it of its condensation.
    """
    if getattr(event, "type", None) not in _TYPES:
        raise InvalidArgumentError(
            f"a log keeps no {type(event).__name__}; give an event, or a condensation"
        )


def event_json(event: ConversationEvent) -> JSONDict:
    """Return an event as JSON values, without empty fields. Raises InvalidArgumentError."""
    check_event(event)
    stored: JSONDict = {"type": event.type}
    for name in _FIELDS[event.type]:
        value = getattr(event, name)
        if value is not None and (value or name not in _LEFT_OUT):
            stored[name] = _TO_JSON[name](value) if name in _TO_JSON else value
    return stored


def event_of(stored: JSONObject) -> ConversationEvent:
    """Return the event that `event_json` made JSON of.

    Raises InvalidArgumentError.
    """
    try:
        given: dict[str, Any] = dict(stored)
        kind = _TYPES[given.pop("type")]
        if "timestamp" in given:
            given["timestamp"] = datetime.fromisoformat(given["timestamp"])
        return kind(**given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Not from the error: the messages of these may show what was stored.
        reason = str(error) if isinstance(error, InvalidArgumentError) else type(error).__name__
        raise InvalidArgumentError(
            f"not a stored event: {reason}; read it with the kaosmem that wrote it"
        ) from None


E = TypeVar("E", bound=ConversationEvent)


class EventLog(Sequence[ConversationEvent]):
    """Events, oldest first. Nothing in it changes or goes: condensers append condensations.

    Raises InvalidArgumentError.

    Args:
        events: Those of a log that was read back, with their ids, ascending.
        clock: None is the computer's, in UTC.

    >>> from kaosmem.conversation import ActionEvent
    >>> log = EventLog()
    >>> log.append(ActionEvent("message", "Why does the client never give up?", source="user")).id
    0
    >>> [event.text for event in log.view]
    ['Why does the client never give up?']
    >>> EventLog.from_lines(log.lines())[0] == log[0]
    True
    """

    def __init__(
        self,
        events: Iterable[ConversationEvent] = (),
        *,
        clock: Clock | None = None,
    ) -> None:
        self._events: list[ConversationEvent] = []
        self._clock = clock or utc_now
        self._view: ConversationView | None = None
        for event in events:
            check_event(event)
            if event.id == UNLOGGED:
                raise InvalidArgumentError(
                    "an event has no id, as no log has taken it yet; append it"
                )
            if event.id < self.next_id:
                raise InvalidArgumentError(
                    f"event {event.id} comes after {self.next_id - 1}; give ids that ascend"
                )
            self._events.append(event)

    @property
    def view(self) -> ConversationView:
        """Return the view of its events: always the same object, which takes in appended events."""
        if self._view is None:
            self._view = ConversationView(self._events)
        return self._view

    @property
    def next_id(self) -> int:
        """Return the id that the next event is given."""
        return self._events[-1].id + 1 if self._events else 0

    def append(self, event: E) -> E:
        """Append a new event, and return it as the log took it.

        It has an id, and the time of the clock if it had none.
        Raises InvalidArgumentError for a summary, and for an event that a log has taken.
        """
        check_event(event)
        if event.id != UNLOGGED:
            raise InvalidArgumentError(
                f"event {event.id} is in a log already; append one without an id"
            )
        timestamp = event.timestamp or self._clock()
        if timestamp.tzinfo is None:
            raise InvalidArgumentError(
                "a log's clock gives a datetime without a zone; give one in UTC"
            )
        taken = event.changed(id=self.next_id, timestamp=timestamp)
        self._events.append(taken)
        if self._view is not None:
            self._view.append(taken)
        return taken

    def append_reply(
        self, reply: object, *, format: str | Format | None = None
    ) -> list[ActionEvent]:
        """Append a model's reply, and return its events.

        They are an action for each tool call, or one action for words alone.
        Raises InvalidArgumentError for a missing format, and for a reply that cannot be kept. Then
        nothing is appended.

        Args:
            reply: A reply or an assistant's message of a provider, as a dict or an object of its
                package; or a ChatMessage.
            format: The provider's format, "anthropic" or "openai"; a ChatMessage needs none.

        >>> log = EventLog()
        >>> call = {"type": "tool_use", "id": "call-1", "name": "find", "input": {"path": "src"}}
        >>> log.append_reply({"role": "assistant", "content": [call]}, format="anthropic")
        [<ActionEvent 0 tool_call, agent>]
        """
        message = parse_message(reply, format)
        # Providers' ids of replies may be missing or repeat; those of a log do not.
        return [
            self.append(action) for action in actions_of(message, response=f"reply-{self.next_id}")
        ]

    def get(self, event_id: int) -> ConversationEvent:
        """Return an event. Raises NotFoundError."""
        place = bisect_left(self._events, event_id, key=lambda event: event.id)
        if place == len(self._events) or self._events[place].id != event_id:
            raise NotFoundError(f"no event {event_id} in this log of {len(self._events):,}")
        return self._events[place]

    def lines(self) -> Iterator[str]:
        """Yield each event as a line of JSON, without its end."""
        return (json_text(event_json(event)) for event in self._events)

    @classmethod
    def from_lines(cls, lines: Iterable[str | bytes], *, clock: Clock | None = None) -> EventLog:
        """Return the log that `lines` were made of. Raises InvalidArgumentError."""
        return cls(map(_event_of_line, count(1), lines), clock=clock)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[ConversationEvent]:
        return iter(self._events)

    @overload
    def __getitem__(self, position: int) -> ConversationEvent: ...
    @overload
    def __getitem__(self, position: slice) -> list[ConversationEvent]: ...
    def __getitem__(self, position: int | slice) -> ConversationEvent | list[ConversationEvent]:
        return self._events[position]


def view_of(history: Iterable[ConversationEvent]) -> ConversationView:
    """Return the view of a log, a view as it is, or the view of other events.

    Raises InvalidArgumentError.
    """
    if isinstance(history, EventLog):
        return history.view
    return history if isinstance(history, ConversationView) else ConversationView(history)


def _event_of_line(number: int, line: str | bytes) -> ConversationEvent:
    try:
        return event_of(STRICT_JSON.decode(line if isinstance(line, str) else line.decode()))
    except (ValueError, RecursionError) as error:
        # The messages of these show what was stored, or where.
        is_no_json = isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)
        reason = "it is no JSON" if is_no_json else str(error)
        raise InvalidArgumentError(f"line {number} of a log can't be read: {reason}") from None
