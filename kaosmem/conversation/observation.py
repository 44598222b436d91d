"""Observations: events that come back to an agent, such as tool results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from kaosmem.conversation.event import ConversationEvent, check_kind, checked_content, said_blocks
from kaosmem.conversation.kinds import ACTION_KINDS, ERROR_KINDS, HIDDEN_KINDS, OBSERVATION_KINDS
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import (
    ChatMessage,
    Content,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    Trust,
    check_text,
    content_text,
)
from kaosmem.units import Link

Observed: TypeAlias = str | tuple[TextBlock | ImageBlock, ...]


@dataclass(frozen=True, slots=True)
class RecalledText:
    """A text to recall, such as a skill or a note on a repository. name: identifies it."""

    name: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        check_text(self.text, "knowledge")


@dataclass(frozen=True, slots=True, repr=False)
class ObservationEvent(ConversationEvent):
    """An event that came back to an agent, such as a tool result.

    kind: one of `OBSERVATION_KINDS`, or any other name.
    call_id: id of the call that it answers, "" for none. An observation of any kind answers its call.
    recalled: knowledge that is shown with it, once in a conversation.
    Raises InvalidNameError or InvalidArgumentError.

    >>> ObservationEvent("result", "Notice is thirty days.", "call-1").role
    'tool'
    """

    type: ClassVar[str] = "observation"
    kind: str
    content: Observed = ""
    call_id: str = ""
    recalled: tuple[RecalledText, ...] = ()

    def __post_init__(self) -> None:
        ConversationEvent.__post_init__(self)
        check_kind(self.kind, ACTION_KINDS, "an action")
        object.__setattr__(self, "content", checked_content(self.content))
        if not isinstance(self.content, str) and not all(isinstance(b, TextBlock | ImageBlock) for b in self.content):
            raise InvalidArgumentError("an observation holds other than texts and images; leave them to actions")
        check_text(self.call_id, "call_id")
        recalled = tuple(self.recalled) if isinstance(self.recalled, Iterable) else (self.recalled,)
        if not all(isinstance(each, RecalledText) for each in recalled):
            raise InvalidArgumentError("an observation recalls other than Knowledge; give each a name and a text")
        object.__setattr__(self, "recalled", recalled)

    def __repr__(self) -> str:
        return f"<Observation {self.id} {self.kind}, {len(content_text(self.content)):,} characters>"

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it; it always may if it answers a call."""
        return bool(self.call_id) or self.kind not in HIDDEN_KINDS

    @property
    def authority(self) -> Trust:
        """Return how far it is trusted: as far as a tool."""
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

    @property
    def is_tied(self) -> bool:
        """Return whether it answers a call."""
        return bool(self.call_id)

    @property
    def link(self) -> Link:
        """Return the ties to other events: the call that it answers."""
        return Link(answers=(self.call_id,) if self.call_id else (), role="tool")

    def _made_message(self) -> ChatMessage:
        content: Content = self.content
        if self.recalled:
            content = (*said_blocks(content), *(TextBlock(each.text) for each in self.recalled))
        if self.call_id:
            content = (ToolResultBlock(self.call_id, content, is_error=self.is_error),)  # type: ignore[arg-type]
        return ChatMessage(self.role, content, id=self.name, trust=self.authority)
