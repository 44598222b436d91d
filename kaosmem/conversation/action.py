"""Actions: events that an agent, a user or the environment causes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kaosmem.conversation.event import ConversationEvent, EventSource, check_kind, checked_content, said_blocks
from kaosmem.conversation.kinds import HIDDEN_KINDS, OBSERVATION_KINDS, SPOKEN_KINDS
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.fields import plainest
from kaosmem.names import shown_name
from kaosmem.types import (
    ChatMessage,
    Content,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Trust,
    check_content,
    check_text,
    content_text,
    trust_of,
)
from kaosmem.units import Link


@dataclass(frozen=True, slots=True, repr=False)
class ActionEvent(ConversationEvent):
    """An event that an agent, a user or the environment caused: words, a tool call, or both.

    kind: one of `ACTION_KINDS`, or any other name.
    content: the words, reasoning included, beside the call.
    response: id of the model's answer that the call belongs to. The actions of one answer stay together.
    Raises InvalidNameError or InvalidArgumentError.

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
        check_kind(self.kind, OBSERVATION_KINDS, "an observation")
        object.__setattr__(self, "content", checked_content(self.content))
        if self.call is not None:
            call = check_content((self.call,))[0]
            if not isinstance(call, ToolUseBlock):
                raise InvalidArgumentError(f"a call is a {type(call).__name__}; give a ToolUseBlock")
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
    def authority(self) -> Trust:
        """Return how far it is trusted: as far as its role, but words of the environment as a tool's."""
        if self.source is EventSource.AGENT and self.kind != "system_message":
            return Trust.MODEL
        role = self.role
        return Trust.TOOL if self.source is EventSource.ENVIRONMENT and role != "system" else trust_of(role, "")

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
    def is_tied(self) -> bool:
        """Return whether it is a call."""
        return self.call is not None

    @property
    def link(self) -> Link:
        """Return the ties to other events: the call, and the answer of the model that it is part of."""
        if self.call is None:
            return Link(role=self.role)
        return Link(calls=(self.call.id,), batch=self.response or None, role=self.role)

    def without_call(self) -> ActionEvent:
        """Return a copy without its call, with its text alone."""
        return self.changed(call=None, response="")

    def _made_message(self) -> ChatMessage:
        content = self.content
        if self.call is not None:
            content = (*said_blocks(content), self.call)
        elif self.source is not EventSource.AGENT and self.kind not in SPOKEN_KINDS:
            content = _labelled(self.kind, content)
        trust = self.authority if self.source is EventSource.ENVIRONMENT else None
        return ChatMessage(self.role, content, id=self.name, trust=trust)


def actions_of(reply: ChatMessage, *, response: str) -> list[ActionEvent]:
    """Return an assistant's message as actions, one for each tool call; the other blocks stand before their call.

    response: the id that ties the calls together.
    Raises InvalidArgumentError for a message of another role and for blocks that no action holds.
    """
    if reply.role != "assistant":
        raise InvalidArgumentError(
            f"a reply has the role 'assistant', not {shown_name(reply.role)}; append an Action or an Observation"
        )
    calls = [place for place, block in enumerate(reply.blocks) if isinstance(block, ToolUseBlock)]
    if not calls:
        return [ActionEvent("message", reply.content, pinned=reply.pinned)]
    last = calls[-1]
    actions = []
    said: list[ContentBlock] = []
    for block in (*reply.blocks[:last], *reply.blocks[last + 1 :], reply.blocks[last]):
        if isinstance(block, ToolUseBlock):
            actions.append(ActionEvent("tool_call", plainest(said), block, response, pinned=reply.pinned))
            said = []
        else:
            said.append(block)
    return actions


def _labelled(label: str, content: Content) -> Content:
    return f"[{label}]\n{content}" if isinstance(content, str) else (TextBlock(f"[{label}]"), *content)
