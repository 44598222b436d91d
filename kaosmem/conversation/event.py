"""The base class of events. Events are frozen."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self, TypeVar

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import message_tokens
from kaosmem.names import check_name, shown_name
from kaosmem.tokens import TokenCounter
from kaosmem.types import (
    ChatMessage,
    Content,
    ContentBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    check_content,
    check_text,
    is_integer,
)
from kaosmem.units import Link

UNLOGGED = -1
"""The id of an event that no log has taken yet."""

B = TypeVar("B", bound=ContentBlock)


class EventSource(StrEnum):
    """The originator of an event."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationEvent:
    """One thing that happened.

    id, timestamp: given by the log that takes it; the timestamp is aware.
    pinned: the event stays in every view. No condenser and no condensation removes it.
    """

    type: ClassVar[str] = "event"
    id: int = UNLOGGED
    timestamp: datetime | None = None
    source: EventSource = EventSource.ENVIRONMENT
    pinned: bool = False
    _message: ChatMessage | None = field(default=None, init=False, repr=False, compare=False)
    _size: tuple[TokenCounter, int] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_integer(self.id) or self.id < UNLOGGED:
            raise InvalidArgumentError("an event's id is no whole number from 0 up; leave it out, the log gives it")
        if self.timestamp is not None and not (isinstance(self.timestamp, datetime) and self.timestamp.tzinfo):
            raise InvalidArgumentError("an event's timestamp is no aware datetime; give one with tzinfo=UTC")
        if type(self.pinned) is not bool:
            raise InvalidArgumentError(f"pinned is {shown_name(self.pinned)}; give True or False")
        if type(self.source) is not EventSource:
            object.__setattr__(self, "source", _source(self.source))

    def __repr__(self) -> str:
        # Without its content: tracebacks and logs are full of reprs.
        return f"<{type(self).__name__} {self.id}>"

    @property
    def name(self) -> str:
        """Return its id as messages name it, "" where no log has taken it."""
        return "" if self.id == UNLOGGED else str(self.id)

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it."""
        return False

    @property
    def is_tied(self) -> bool:
        """Return whether a call or a result ties it to other events."""
        return False

    @property
    def link(self) -> Link:
        """Return the ids that tie it to other events."""
        return Link(role=self.source)

    @property
    def message(self) -> ChatMessage:
        """Return it as a message of its own, always the same object, so that its measured size stays known."""
        message = self._message
        if message is None:
            message = self._made_message()
            if self.pinned:
                message = replace(message, pinned=True)
            object.__setattr__(self, "_message", message)
        return message

    @property
    def authority(self) -> Trust:
        """Return how far it is trusted, as its message is."""
        return self.message.authority

    @property
    def text(self) -> str:
        """Return its content as one text, a call as `name(arguments)`."""
        return self.message.text

    def tokens(self, counter: TokenCounter) -> int:
        """Return its message's tokens, as `count_messages` counts it for OpenAI; the same counter counts it once."""
        size = self._size
        if size is None or size[0] is not counter:
            size = counter, message_tokens(self.message, counter)
            object.__setattr__(self, "_size", size)
        return size[1]

    def changed(self, **values: object) -> Self:
        """Return a copy with other values, not checked again."""
        changed = copy(self)
        for name, value in {**values, "_message": None, "_size": None}.items():
            object.__setattr__(changed, name, value)
        return changed

    def _made_message(self) -> ChatMessage:
        return ChatMessage(str(self.source), "", id=self.name)


def said_blocks(content: str | tuple[B, ...]) -> tuple[B | TextBlock, ...]:
    """Return content as blocks, no text as none."""
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return content


def check_kind(kind: str, others: Iterable[str], what: str) -> None:
    """Raise InvalidArgumentError for a kind reserved for `what`, InvalidNameError for one that is no name."""
    if kind in others:
        raise InvalidArgumentError(f"{kind!r} is the kind of {what}; make one")
    check_name(kind, "kind of event")


def checked_content(given: Content) -> Content:
    """Return content without calls and results. Raises InvalidArgumentError."""
    if type(given) is str:
        return check_text(given, "content")
    content = check_content(given)
    if not isinstance(content, str) and any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in content):
        raise InvalidArgumentError("an event's content holds a call or a result; give them as its call or call_id")
    return content or ""


def _source(given: object) -> EventSource:
    try:
        return EventSource(given)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidArgumentError(f"no source {shown_name(given)}; there are {', '.join(EventSource)}") from None
