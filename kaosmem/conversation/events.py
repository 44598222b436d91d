"""What happens in a conversation: actions and observations. All are frozen."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias, TypeVar

from kaosmem.conversation.kinds import ACTION_KINDS, ERROR_KINDS, HIDDEN_KINDS, OBSERVATION_KINDS, SPOKEN_KINDS
from kaosmem.errors import InvalidContentError
from kaosmem.formats import FORMATS
from kaosmem.names import check_name, shown_name
from kaosmem.tokens import TokenCounter
from kaosmem.types import (
    ChatMessage,
    Content,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    check_content,
    check_text,
    content_text,
    is_integer,
)
from kaosmem.units import Link

UNLOGGED = -1
"""The id of an event that no log has taken yet."""

B = TypeVar("B", bound=ContentBlock)
Observed: TypeAlias = str | tuple[TextBlock | ImageBlock, ...]


class EventSource(StrEnum):
    """Whose doing an event is."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. id, timestamp: given by the log that takes it; the timestamp is aware."""

    type: ClassVar[str] = "event"
    id: int = UNLOGGED
    timestamp: datetime | None = None
    source: EventSource = EventSource.ENVIRONMENT
    _message: ChatMessage | None = field(default=None, init=False, repr=False, compare=False)
    _size: tuple[TokenCounter, int] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_integer(self.id) or self.id < UNLOGGED:
            raise InvalidContentError("an event's id is no whole number from 0 up; leave it out, the log gives it")
        if self.timestamp is not None and not (isinstance(self.timestamp, datetime) and self.timestamp.tzinfo):
            raise InvalidContentError("an event's timestamp is no aware datetime; give one with tzinfo=UTC")
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
    def link(self) -> Link:
        """Return what ties it to other events."""
        return Link(role=self.source)

    @property
    def message(self) -> ChatMessage:
        """Return it as a message of its own, always the same object, so that what was measured about it stays known."""
        message = self._message
        if message is None:
            message = self._made_message()
            object.__setattr__(self, "_message", message)
        return message

    @property
    def text(self) -> str:
        """Return what it says as one text, a call as `name(arguments)`."""
        return self.message.text

    def tokens(self, counter: TokenCounter) -> int:
        """Return what its message takes, as `count_messages` counts it for OpenAI; the same counter counts it once."""
        size = self._size
        if size is None or size[0] is not counter:
            size = counter, FORMATS["openai"].entry_tokens(self.message, counter)
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


@dataclass(frozen=True, slots=True, repr=False)
class Action(Event):
    """What somebody did: said something, called a tool, or both.

    kind: one of `ACTION_KINDS`, or any other name. content: what was said, reasoning included, beside the call.
    response: id of the model's answer that the call is part of; those of one answer stay together.
    Raises InvalidNameError or InvalidContentError.
    """

    type: ClassVar[str] = "action"
    kind: str
    content: Content = ""
    call: ToolUseBlock | None = None
    response: str = ""
    source: EventSource = field(default=EventSource.AGENT, kw_only=True)

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        _check_kind(self.kind, OBSERVATION_KINDS, "an observation")
        _set_content(self)
        if self.call is not None:
            call = check_content((self.call,))[0]
            if not isinstance(call, ToolUseBlock):
                raise InvalidContentError(f"a call is a {type(call).__name__}; give a ToolUseBlock")
            object.__setattr__(self, "call", call)
        check_text(self.response, "response")

    def __repr__(self) -> str:
        return f"<Action {self.id} {self.kind}, {self.source}, {len(content_text(self.content)):,} characters>"

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it."""
        return self.kind not in HIDDEN_KINDS

    @property
    def role(self) -> str:
        """Return the role that it is shown under."""
        if self.call is not None:
            return "assistant"
        if self.kind == "system_message":
            return "system"
        return "assistant" if self.source is EventSource.AGENT else str(self.source)

    @property
    def has_words(self) -> bool:
        """Return whether it says something beside its call and its reasoning."""
        if isinstance(self.content, str):
            return bool(self.content.strip())
        return any(
            bool(block.text.strip()) if isinstance(block, TextBlock) else not isinstance(block, ThinkingBlock)
            for block in self.content
        )

    @property
    def link(self) -> Link:
        """Return what ties it to other events: its call, the model's answer, signed reasoning."""
        if self.call is None and isinstance(self.content, str):
            return Link(role=self.role)
        sealed = not isinstance(self.content, str) and any(
            isinstance(block, ThinkingBlock) and block.is_sealed for block in self.content
        )
        if self.call is None:
            return Link(role=self.role, loop=sealed)
        return Link(calls=(self.call.id,), batch=self.response or None, loop=sealed, role=self.role)

    def without_call(self) -> Action:
        """Return a copy that only says what it says beside its call."""
        return self.changed(call=None, response="")

    def _made_message(self) -> ChatMessage:
        content = self.content
        if self.call is not None:
            content = (*said_blocks(content), self.call)
        elif self.source is not EventSource.AGENT and self.kind not in SPOKEN_KINDS:
            content = labelled(self.kind, content)
        trust = Trust.TOOL if self.source is EventSource.ENVIRONMENT and self.role != "system" else None
        return ChatMessage(self.role, content, id=self.name, trust=trust)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Something that can be recalled: a skill, a note, what is known of a repository. name: tells it apart."""

    name: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        check_text(self.text, "knowledge")


@dataclass(frozen=True, slots=True, repr=False)
class Observation(Event):
    """What came back.

    kind: one of `OBSERVATION_KINDS`, or any other name. call_id: of the call that it answers, "" for none: any kind
    with one closes its call. recalled: what is told with it, once in a conversation.
    Raises InvalidNameError or InvalidContentError.
    """

    type: ClassVar[str] = "observation"
    kind: str
    content: Observed = ""
    call_id: str = ""
    recalled: tuple[Knowledge, ...] = ()

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        _check_kind(self.kind, ACTION_KINDS, "an action")
        _set_content(self)
        if not isinstance(self.content, str) and not all(isinstance(b, TextBlock | ImageBlock) for b in self.content):
            raise InvalidContentError("an observation holds other than texts and images; leave them to actions")
        check_text(self.call_id, "call_id")
        object.__setattr__(self, "recalled", tuple(self.recalled))
        if not all(isinstance(each, Knowledge) for each in self.recalled):
            raise InvalidContentError("an observation recalls other than Knowledge; give each a name and a text")

    def __repr__(self) -> str:
        return f"<Observation {self.id} {self.kind}, {len(content_text(self.content)):,} characters>"

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it: what answers a call always."""
        return bool(self.call_id) or self.kind not in HIDDEN_KINDS

    @property
    def is_error(self) -> bool:
        """Return whether it says that something failed."""
        return self.kind in ERROR_KINDS

    @property
    def role(self) -> str:
        """Return the role that it is shown under."""
        if self.call_id:
            return "tool"
        return self.kind if self.kind in OBSERVATION_KINDS else "environment"

    @property
    def link(self) -> Link:
        """Return what ties it to other events: the call that it answers."""
        return Link(answers=(self.call_id,), role="tool") if self.call_id else Link(role=self.role)

    def _made_message(self) -> ChatMessage:
        content: Content = self.content
        if self.recalled:
            content = (*said_blocks(content), *(TextBlock(each.text) for each in self.recalled))
        if self.call_id:
            content = (ToolResultBlock(self.call_id, content, is_error=self.is_error),)  # type: ignore[arg-type]
        return ChatMessage(self.role, content, id=self.name, trust=Trust.TOOL)


def said_blocks(content: str | tuple[B, ...]) -> tuple[B | TextBlock, ...]:
    """Return content as blocks, no text as none."""
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return content


def labelled(label: str, content: Content) -> Content:
    """Return content with a label in front of it."""
    return f"[{label}]\n{content}" if isinstance(content, str) else (TextBlock(f"[{label}]"), *content)


def _source(given: object) -> EventSource:
    try:
        return EventSource(given)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidContentError(f"no source {shown_name(given)}; there are {', '.join(EventSource)}") from None


def _check_kind(kind: str, others: Iterable[str], what: str) -> None:
    if kind in others:
        raise InvalidContentError(f"{kind!r} is the kind of {what}; make one")
    check_name(kind, "kind of event")


def _set_content(event: Action | Observation) -> None:
    if type(event.content) is str:
        check_text(event.content, "content")
        return
    content = check_content(event.content)
    if not isinstance(content, str) and any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in content):
        raise InvalidContentError("an event's content holds a call or a result; give them as its call or call_id")
    object.__setattr__(event, "content", content or "")
