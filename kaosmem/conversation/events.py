"""Events of a conversation: actions, and observations that come back. Events are frozen."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias, TypeVar

from kaosmem.arguments import check_text, is_integer
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import Format
from kaosmem.formats.fields import plainest
from kaosmem.names import check_name, shown_name
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import Content, ContentBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    check_content,
    trust_of,
)
from kaosmem.types.items import ChatMessage

OBSERVATION_KINDS = (
    "agent_state",
    "browser_output",
    "error",
    "knowledge",
    "rejection",
    "result",
    "workspace",
)

SPOKEN_KINDS = frozenset({"message", "system_message", "think"})
"""Actions that need no label.

Any other action of somebody else than the agent is shown with its kind.
"""
HIDDEN_KINDS = frozenset({"null", "recall_request", "agent_state"})
"""The kinds that no model is shown."""
ERROR_KINDS = frozenset({"error", "rejection"})
"""Observations that say that something failed."""


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

    Attributes:
        id, timestamp: Given by the log that takes it; the timestamp is aware.
        pinned: The event stays in every view. No condenser and no condensation removes it.
    """

    type: ClassVar[str] = "event"
    id: int = UNLOGGED
    timestamp: datetime | None = None
    source: EventSource = EventSource.ENVIRONMENT
    pinned: bool = False
    _message: ChatMessage | None = field(default=None, init=False, repr=False, compare=False)
    _size: tuple[TokenCounter, Format, int] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not is_integer(self.id) or self.id < UNLOGGED:
            raise InvalidArgumentError(
                "an event's id is no whole number from 0 up; leave it out, the log gives it"
            )
        if self.timestamp is not None and not (
            isinstance(self.timestamp, datetime) and self.timestamp.tzinfo
        ):
            raise InvalidArgumentError(
                "an event's timestamp is no aware datetime; give one with tzinfo=UTC"
            )
        object.__setattr__(self, "source", EventSource(self.source))

    def __repr__(self) -> str:
        # Without its content: tracebacks and logs are full of reprs.
        kind = getattr(self, "kind", self.type)
        return f"<{type(self).__name__} {self.id} {kind}, {self.source}>"

    @property
    def name(self) -> str:
        """Return its id as messages name it, "" where no log has taken it."""
        return "" if self.id == UNLOGGED else str(self.id)

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it."""
        return False

    @property
    def message(self) -> ChatMessage:
        """Return it as a message of its own.

        It is always the same object, so that its measured size stays known.
        """
        message = self._message
        if message is None:
            message = self._made_message()
            if self.pinned:
                message = replace(message, pinned=True)
            object.__setattr__(self, "_message", message)
        return message

    @property
    def authority(self) -> Trust:
        """Return its trust, which its message has too."""
        return self.message.authority

    @property
    def text(self) -> str:
        """Return its content as one text, a call as `name(arguments)`."""
        return self.message.text

    @property
    def has_words(self) -> bool:
        """Return whether it says something beside its call and its reasoning."""
        return bool(self.text.strip())

    def tokens(self, counter: TokenCounter, format: Format) -> int:
        """Return its message's tokens in a format. The same counter and format count it once."""
        size = self._size
        if size is None or size[0] is not counter or size[1] is not format:
            size = counter, format, format.entry_tokens(self.message, counter)
            object.__setattr__(self, "_size", size)
        return size[2]

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


@dataclass(frozen=True, slots=True, repr=False)
class ActionEvent(ConversationEvent):
    """An event that an agent, a user or the environment caused: words, a tool call, or both.

    Raises InvalidNameError or InvalidArgumentError.

    Attributes:
        kind: Any name, such as "message", "tool_call" or "file_edit".
        content: The words, reasoning included, beside the call.
        response: Id of the model's answer that the call belongs to. The actions of one answer stay
            together.

    >>> ActionEvent("message", "How long is the notice?", source="user").role
    'user'
    >>> ActionEvent("search", call=ToolUseBlock("call-1", "search", '{"words": "notice"}')).call.name
    'search'
    """

    type: ClassVar[str] = "action"
    kind: str
    content: Content = ""
    call: ToolUseBlock | None = None
    response: str = ""
    source: EventSource = field(default=EventSource.AGENT, kw_only=True)

    def __post_init__(self) -> None:
        ConversationEvent.__post_init__(self)
        check_name(self.kind, "kind of event")
        object.__setattr__(self, "content", check_content(self.content) or "")
        if not isinstance(self.content, str) and any(
            isinstance(block, ToolUseBlock | ToolResultBlock) for block in self.content
        ):
            raise InvalidArgumentError(
                "an event's content holds a call or a result; give them as its call or call_id"
            )
        if self.call is not None:
            call = check_content((self.call,))[0]
            if not isinstance(call, ToolUseBlock):
                raise InvalidArgumentError(
                    f"a call is a {type(call).__name__}; give a ToolUseBlock"
                )
            object.__setattr__(self, "call", call)
        check_text(self.response, "response")

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
    def authority(self) -> Trust:
        """Return its trust: that of its role; words of the environment have that of a tool."""
        if self.source is EventSource.AGENT and self.kind != "system_message":
            return Trust.MODEL
        role = self.role
        return (
            Trust.TOOL
            if self.source is EventSource.ENVIRONMENT and role != "system"
            else trust_of(role, "")
        )

    @property
    def has_words(self) -> bool:
        """Return whether it says something beside its call and its reasoning."""
        if isinstance(self.content, str):
            return bool(self.content.strip())
        return any(
            bool(block.text.strip())
            if isinstance(block, TextBlock)
            else not isinstance(block, ThinkingBlock)
            for block in self.content
        )

    def _made_message(self) -> ChatMessage:
        content = self.content
        if self.call is not None:
            content = (*said_blocks(content), self.call)
        elif self.source is not EventSource.AGENT and self.kind not in SPOKEN_KINDS:
            content = _labelled(self.kind, content)
        trust = self.authority if self.source is EventSource.ENVIRONMENT else None
        return ChatMessage(self.role, content, id=self.name, trust=trust)


def actions_of(reply: ChatMessage, *, response: str) -> list[ActionEvent]:
    """Return an assistant's message as actions, one for each tool call.

    The other blocks stand before their call.

    Raises InvalidArgumentError for a message of another role and for blocks that no action holds.

    Args:
        response: The id that ties the calls together.
    """
    if reply.role != "assistant":
        raise InvalidArgumentError(
            f"a reply has the role 'assistant', not {shown_name(reply.role)}; append an Action or "
            "an Observation"
        )
    calls = [place for place, block in enumerate(reply.blocks) if isinstance(block, ToolUseBlock)]
    if not calls:
        return [ActionEvent("message", reply.content, pinned=reply.pinned)]
    last = calls[-1]
    actions = []
    said: list[ContentBlock] = []
    for block in (*reply.blocks[:last], *reply.blocks[last + 1 :], reply.blocks[last]):
        if isinstance(block, ToolUseBlock):
            actions.append(
                ActionEvent("tool_call", plainest(said), block, response, pinned=reply.pinned)
            )
            said = []
        else:
            said.append(block)
    return actions


def _labelled(label: str, content: Content) -> Content:
    return (
        f"[{label}]\n{content}" if isinstance(content, str) else (TextBlock(f"[{label}]"), *content)
    )


Observed: TypeAlias = str | tuple[TextBlock | ImageBlock, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ObservationEvent(ConversationEvent):
    """An event that came back to an agent, such as a tool result.

    Raises InvalidNameError or InvalidArgumentError.

    Attributes:
        kind: One of `OBSERVATION_KINDS`, or any other name, which is shown as of the environment.
        call_id: Id of the call that it answers, "" for none. An observation of any kind answers its
            call.

    >>> ObservationEvent("result", "Notice is thirty days.", "call-1").role
    'tool'
    """

    type: ClassVar[str] = "observation"
    kind: str
    content: Observed = ""
    call_id: str = ""

    def __post_init__(self) -> None:
        ConversationEvent.__post_init__(self)
        check_name(self.kind, "kind of event")
        object.__setattr__(self, "content", check_content(self.content) or "")
        if not isinstance(self.content, str) and not all(
            isinstance(b, TextBlock | ImageBlock) for b in self.content
        ):
            raise InvalidArgumentError(
                "an observation holds other than texts and images; leave them to actions"
            )
        check_text(self.call_id, "call_id")

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it; it always may if it answers a call."""
        return bool(self.call_id) or self.kind not in HIDDEN_KINDS

    @property
    def authority(self) -> Trust:
        """Return its trust: that of a tool."""
        return Trust.TOOL

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

    def _made_message(self) -> ChatMessage:
        content: Content = self.content
        if self.call_id:
            content = (ToolResultBlock(self.call_id, content, is_error=self.is_error),)  # type: ignore[arg-type]
        return ChatMessage(self.role, content, id=self.name, trust=self.authority)
