"""A message of a conversation."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaosmem.display import fitted
from kaosmem.types.content import Content, ContentBlock, TextBlock, check_content, content_text, is_block
from kaosmem.types.json_values import check_text
from kaosmem.types.trust import Trust, trust_of


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation.

    role: system, user, assistant or tool. Any other role is a user of that name.
    id: the name by which summaries refer to the message; "" for none.
    pinned: no strategy leaves the message out.
    sources: ids of the messages that it was derived from.
    trust: the default follows from the role (see `trust_of`).
    Raises InvalidArgumentError if the role is no text, or the content is neither a text nor blocks.

    >>> ChatMessage("user", "Who owns the deal?").text
    'Who owns the deal?'
    """

    role: str
    content: Content
    id: str = field(default="", kw_only=True)
    pinned: bool = field(default=False, kw_only=True)
    sources: tuple[str, ...] = field(default=(), kw_only=True)
    trust: Trust | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.role) is not str:
            check_text(self.role, "role")
        content = self.content
        if type(content) is not str and not (type(content) is tuple and all(map(is_block, content))):
            object.__setattr__(self, "content", check_content(content))

    def __repr__(self) -> str:
        role = fitted(self.role or "no role", 20)
        return f"<{type(self).__name__} {role}, {len(self.text):,} characters>"

    @property
    def authority(self) -> Trust:
        """Return how far it is trusted."""
        return trust_of(self.role, self.content) if self.trust is None else self.trust

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """Return the content as blocks."""
        return (TextBlock(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """Return the content as one text."""
        return content_text(self.content)
