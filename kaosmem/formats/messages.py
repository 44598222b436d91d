"""The common part of all formats of messages: entries of a history become messages, and are counted.

A format says how its messages look, and has a table of its blocks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kaosmem.formats.delimiters import BLOCK_BEGIN, BLOCK_END, OPENING, mark_text
from kaosmem.formats.fields import CallIds
from kaosmem.formats.layout import BlockPlace, HistoryEntry, Layout, Mark, Rendered
from kaosmem.formats.shaped_blocks import ShapedBlocks
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import ContentBlock, JSONDict, JSONObject
from kaosmem.types.content import ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage

REPLY_TOKENS = 3
"""The tokens with which a provider begins the reply."""


class _KnownText(NamedTuple):
    """A counter that knows the tokens of one text."""

    counter: TokenCounter
    text: object
    tokens: int
    name: str = "a known text"
    additive: bool = True

    def __call__(self, text: str) -> int:
        if text == self.text:
            return self.tokens
        return self.counter(text)


class MessageFormat(ShapedBlocks):
    """A format of messages, each with content that is a text or blocks.

    Attributes:
        roles: The roles of the user and of the assistant.
        has_opening: Whether the first message has to be the user's.
        content_name: The field of a message that holds its content.
        is_system_beside: Whether the system prompt stands beside the messages, not as the first.
        kept_ids: The beginnings of ids that stay as they are stored.
    """

    roles = ("user", "assistant")
    has_opening = False
    content_name = "content"
    is_system_beside = False
    kept_ids: tuple[str, ...] = ()

    @abstractmethod
    def message_tokens(self, message: JSONObject, counter: TokenCounter) -> int:
        """Return the tokens of one message with its framing."""

    @abstractmethod
    def assistants_messages(self, content: Sequence[ContentBlock]) -> list[JSONDict]:
        """Return messages for what an assistant said and called."""

    @abstractmethod
    def users_messages(
        self,
        role: str,
        results: Sequence[ToolResultBlock],
        content: Sequence[ContentBlock],
    ) -> list[JSONDict]:
        """Return messages for results and the words of any other role. Either may be empty."""

    def blocks_of(self, message: JSONObject) -> Sequence[JSONObject]:
        """Return the blocks of a message of the API."""
        content = message.get(self.content_name)
        if isinstance(content, str):
            return [self.text(content)]
        return content or ()

    def is_result(self, block: JSONObject) -> bool:
        """Return whether a block is the result of a call."""
        return self.kind(block) is ToolResultBlock

    def is_binding(self, block: JSONObject) -> bool:
        """Return whether a block is thinking that is valid after the same instructions alone."""
        return self.kind(block) is ThinkingBlock

    def message_of_text(self, text: str, role: str = "") -> JSONDict:
        """Return a message with a text that kaosmem made. role: the user's if it is empty."""
        return {"role": role or self.roles[False], self.content_name: text}

    def joined(self, messages: list[JSONDict], after: Sequence[JSONObject]) -> list[JSONDict]:
        """Return the messages of a request as the provider wants them together.

        Args:
            after: The messages that stand before them in the same request.
        """
        return messages

    def used_ids(self, messages: Sequence[JSONObject]) -> Iterable[str]:
        """Return the ids of the calls in messages, as far as no other call may have them."""
        return ()

    # The format.

    def entry_tokens(
        self,
        entry: HistoryEntry,
        counter: TokenCounter,
        *,
        known: int | None = None,
    ) -> int:
        """Return the tokens of one entry of a history."""
        if known is not None and isinstance(entry, ChatMessage):
            counter = _KnownText(counter, entry.content, known)
        tokens = 0
        for message in self.entry_messages(entry):
            tokens += self.message_tokens(message, counter)
        return tokens

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        """Return the tokens of a history section's header: messages have none."""
        return 0

    def frame_tokens(
        self,
        *,
        static: bool,
        first: HistoryEntry | None,
        block: BlockPlace | None,
        counter: TokenCounter,
    ) -> int:
        tokens = REPLY_TOKENS if static or first is not None or block else 0
        if static:
            tokens += self.message_tokens(self.message_of_text("", "system"), counter)
        if self.has_opening and first is not None:
            begins = self.entry_messages(first)[0]
            if self.is_assistants(begins):
                tokens += self.message_tokens(self.message_of_text(OPENING), counter)
        if block:
            tokens += counter(BLOCK_BEGIN) + counter(BLOCK_END)
        if block is BlockPlace.OWN_MESSAGE:
            tokens += self.message_tokens(self.message_of_text(""), counter)
        elif block:
            tokens += self.block_framing
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        if isinstance(entry, Mark):
            return False
        return self.is_users(self.entry_messages(entry)[-1])

    def is_assistants(self, message: JSONObject) -> bool:
        """Return whether a message is the assistant's."""
        return message.get("role") == self.roles[True]

    def is_users(self, message: JSONObject) -> bool:
        """Return whether a message is the user's, and no result."""
        is_users = message.get("role") == self.roles[False]
        return is_users and not any(map(self.is_result, self.blocks_of(message)))

    def without_thinking(self, message: JSONObject) -> JSONObject:
        """Return a message without thinking that its provider bound to other instructions."""
        blocks = self.blocks_of(message)
        kept = [dict(block) for block in blocks if not self.is_binding(block)]
        if len(kept) == len(blocks):
            return message
        return {**message, self.content_name: kept}

    def render(self, layout: Layout, *, after: Sequence[JSONObject] = ()) -> Rendered:
        static = "".join(layout.static)
        messages: list[JSONDict] = []
        if layout.static and not self.is_system_beside:
            messages.append(self.message_of_text(static, "system"))
        taken = self.used_ids(after)
        ids = CallIds(taken, kept=self.kept_ids)
        for part in layout.history:
            for entry in part.entries:
                messages += self.entry_messages(ids.applied(entry))
        if layout.block:
            block = "".join((BLOCK_BEGIN, *layout.block, BLOCK_END))
            if layout.block_place is BlockPlace.IN_MESSAGE:
                self._put_first(messages[-1], block)
            else:
                messages.append(self.message_of_text(block))
        system = static if self.is_system_beside else None
        return Rendered(system=system, messages=self.joined(messages, after))

    def _put_first(self, message: JSONDict, text: str) -> None:
        content = message[self.content_name]
        if isinstance(content, str):
            content = [self.text(content)] if content else []
        message[self.content_name] = [self.text(text), *content]

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        """Return the tokens of a rendered context, counted from scratch."""
        messages: list[JSONObject] = list(rendered.messages or ())
        if rendered.system:
            messages.append(self.message_of_text(rendered.system))
        if not messages:
            return 0
        tokens = REPLY_TOKENS
        for message in messages:
            tokens += self.message_tokens(message, counter)
        return tokens

    def entry_messages(self, entry: HistoryEntry) -> list[JSONDict]:
        """Return the messages for one entry of a history."""
        if isinstance(entry, Mark):
            return [self.message_of_text(mark_text(entry))]
        results = [block for block in entry.blocks if isinstance(block, ToolResultBlock)]
        others = [block for block in entry.blocks if not isinstance(block, ToolResultBlock)]
        is_assistants = entry.role == "assistant" or any(
            isinstance(block, ToolUseBlock) for block in others
        )
        if not is_assistants:
            return self.users_messages(entry.role, results, others)
        messages: list[JSONDict] = []
        if results:
            messages += self.users_messages(entry.role, results, ())
        if others or not results:
            messages += self.assistants_messages(others)
        return messages
