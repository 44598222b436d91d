"""Formats of messages with blocks of content: Anthropic, Gemini, Bedrock.

The system prompt stands beside the messages. Tokens are an estimate, since these providers publish
no tokenizer: the session's counter for every text, plus a constant for each block, each id and each
image. It is the sum over the blocks, however they are spread over messages.

The request differs from the stored messages where the API lacks a kind of content:

- Static pieces are the system prompt. A context of static sections alone has no messages.
- The results of a batch of calls stand in one user message after it.
- A message of any other role than user and assistant is a user's, under a line that names the
  speaker. This includes system messages, since not all models take any between others.
- A history that begins with the assistant gets an opening.
- Blank texts are left out, or "(empty)" where nothing else is left.
- Reasoning is sent only to its provider, sealed, in its assistant message.
- A part of another provider is a text that stands for it.
- Images that no provider takes, and images and documents that the assistant sends, are texts.
- Arguments that are no JSON object become `{"arguments": their text}`.
- Ids get the characters that are allowed. An id that was used before is numbered, in a call and in
  its result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    BLOCK_BEGIN,
    BLOCK_END,
    OPENING,
    mark_text,
    speaker_line,
)
from kaosmem.formats.fields import (
    CallIds,
    check_has_content,
    mapping_of,
    parts_of,
)
from kaosmem.formats.layout import BlockPlace, Mark, Rendered
from kaosmem.formats.shaped_blocks import Block, ShapedBlocks, named_message
from kaosmem.formats.shapes import (
    EMPTY,
    values_by_name,
)
from kaosmem.names import shown_name
from kaosmem.types import ContentBlock, JSONObject, JSONValue, OpaqueBlock
from kaosmem.types.content import (
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    check_content,
)
from kaosmem.types.items import ChatMessage

if TYPE_CHECKING:
    from kaosmem.formats.layout import HistoryEntry, Layout
    from kaosmem.tokens.counters import TokenCounter

BLOCK_TOKENS = 4
"""The estimated tokens of a content block beside its text, with its share of the framing."""
REPLY_TOKENS = 3


class _Message(NamedTuple):
    """A message before it gets the provider's names. is_assistants: else it is the user's."""

    is_assistants: bool
    blocks: list[Block]


class BlockFormat(ShapedBlocks):
    """A format whose messages are the user's or the assistant's, each with blocks of content.

    Attributes:
        max_id_chars: The length of a call's id. None: any number.
        kept_ids: The beginnings of ids that stay as they are stored.
        merges: Whether the roles have to alternate: neighbours of one role are one message.
        is_trimmed: Whether the API refuses white space at the end of the assistant's message.
        has_thinking_first: Whether thinking stands before the rest of the assistant's message.
        binds_thinking: Whether thinking is valid only after the same instructions and tools.
        tools_framing: The tokens that the first tool adds beside its schema.
        roles: The roles of the user and of the assistant.
        other_roles: Further roles of messages that are read.
        content_name: The field of a message that holds its blocks.
    """

    max_id_chars: ClassVar[int | None] = None
    kept_ids: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[tuple[str, str]] = ("user", "assistant")
    other_roles: ClassVar[tuple[str, ...]] = ()
    content_name: ClassVar[str] = "content"
    merges: ClassVar[bool] = False
    is_trimmed: ClassVar[bool] = True
    has_thinking_first: ClassVar[bool] = True
    binds_thinking: ClassVar[bool] = False
    tools_framing: ClassVar[int] = 0

    # A provider's own parts of messages.

    @abstractmethod
    def result(self, result: ToolResultBlock) -> Block:
        """Return a result as the provider has it."""

    def message_of(self, given: JSONObject) -> JSONObject:
        """Return the message of a reply, and a message as it is."""
        return given

    def check_content(self, given: JSONObject) -> None:
        """Check that a message has content. Raises InvalidArgumentError."""
        check_has_content(given, self.message_name)

    def content_of(self, blocks: list[Block]) -> JSONValue:
        """Return the content of a message with these blocks."""
        return blocks

    def blocks_of(self, message: JSONObject) -> Sequence[JSONObject]:
        """Return the blocks of a message of the API."""
        blocks: Sequence[JSONObject] = message[self.content_name]
        return blocks

    def finished(self, blocks: list[Block]) -> list[Block]:
        """Return an assistant's blocks with all that the API wants besides its parts."""
        return blocks

    def parse(self, message: object) -> ChatMessage:
        """Return a message of the API, a dict or an object of its SDK, as a ChatMessage.

        A user's message of nothing but results has the role "tool", one under a speaker's line the
        speaker's. Marks of a cache are not kept. A block that only the provider can read, such as a
        file or the result of a search, is kept as it is.

        Raises:
            InvalidArgumentError: If the value is no message, has no content, or cannot be kept.
        """
        given = self.message_of(mapping_of(message, self.message_name))
        role = given.get("role")
        roles = (*self.roles, *self.other_roles)
        if role not in roles:
            raise InvalidArgumentError(
                f"{self.message_name} has a role of {' or '.join(map(repr, roles))}, not {shown_name(role)}"
            )
        self.check_content(given)
        content = given.get(self.content_name)
        if isinstance(content, str):
            return ChatMessage(role, check_content(content))
        parts = self.read_parts(parts_of(content or [], self.message_name))
        if role == self.roles[True]:
            role = "assistant"
        elif role != "system":
            is_answer = parts and all(isinstance(block, ToolResultBlock) for block in parts)
            role = "tool" if is_answer else "user"
        return named_message(role, parts)

    # The format.

    def entry_tokens(
        self,
        entry: HistoryEntry,
        counter: TokenCounter,
        *,
        known: int | None = None,
    ) -> int:
        """Return the estimated tokens of one entry of a history."""
        blocks: list[Block] = []
        for message in self._messages(entry):
            blocks += message.blocks
        is_text = isinstance(entry, ChatMessage) and blocks[-1].get("text") == entry.content
        if known is not None and is_text:
            return known + BLOCK_TOKENS + self.tokens(blocks[:-1], counter)
        return self.tokens(blocks, counter)

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
            tokens += BLOCK_TOKENS
        if first is not None and self._begins_with_assistant(first):
            tokens += BLOCK_TOKENS + counter(OPENING)
        if block:
            tokens += BLOCK_TOKENS + counter(BLOCK_BEGIN) + counter(BLOCK_END)
        return tokens

    def takes_block(self, entry: HistoryEntry) -> bool:
        if isinstance(entry, Mark):
            return False
        last = self._messages(entry)[-1]
        return not last.is_assistants and not any(map(self._is_result, last.blocks))

    def render(self, layout: Layout, *, after: Sequence[JSONObject] = ()) -> Rendered:
        messages: list[_Message] = []
        taken = self._call_ids(after)
        ids = CallIds(taken, max_chars=self.max_id_chars, kept=self.kept_ids)
        for part in layout.history:
            for entry in part.entries:
                messages += self._messages(ids.applied(entry))
        if layout.block:
            block = self.text("".join((BLOCK_BEGIN, *layout.block, BLOCK_END)))
            if layout.block_place is BlockPlace.IN_MESSAGE:
                messages[-1].blocks.insert(0, block)
            else:
                messages.append(_Message(False, [block]))
        filled = self._filled(messages, after)
        return Rendered(
            system="".join(layout.static),
            messages=[
                self._sent(each.blocks, is_assistants=each.is_assistants)
                for each in self._merged(filled)
            ],
        )

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        """Return the estimated tokens of a rendered context, counted from scratch."""
        blocks: list[JSONObject] = []
        for message in rendered.messages or ():
            blocks += self.blocks_of(message)
        if rendered.system:
            blocks.append(self.text(rendered.system))
        return self.tokens(blocks, counter) + (REPLY_TOKENS if blocks else 0)

    def tokens(self, blocks: Iterable[JSONObject], counter: TokenCounter) -> int:
        """Return the estimated tokens of blocks."""
        return sum(BLOCK_TOKENS + self.content_tokens(block, counter) for block in blocks)

    def without_thinking(self, message: JSONObject) -> JSONObject:
        """Return a message of the API without its thinking: the same message if it has none."""
        blocks = self.blocks_of(message)
        kept = [dict(block) for block in blocks if self.kind(block) is not ThinkingBlock]
        if len(kept) == len(blocks):
            return message
        return self._sent(kept, is_assistants=self._is_assistants(message))

    # Messages of a request.

    def _sent(self, blocks: list[Block], *, is_assistants: bool) -> Block:
        """Return a message of the API."""
        return {"role": self.roles[is_assistants], self.content_name: self.content_of(blocks)}

    def _is_assistants(self, message: JSONObject) -> bool:
        return bool(message["role"] == self.roles[True])

    def _filled(self, messages: list[_Message], after: Sequence[JSONObject]) -> list[_Message]:
        """Return messages with a first one of the other speaker where the API wants one.

        Messages that were sent before stay as they were, so that none can be merged with the last
        of them.
        """
        if not messages:
            return messages
        is_assistants = messages[0].is_assistants
        opens = is_assistants
        if after:
            opens = self.merges and self._is_assistants(after[-1]) is is_assistants
        if not opens:
            return messages
        filler = OPENING if is_assistants else EMPTY
        return [_Message(not is_assistants, [self.text(filler)]), *messages]

    def _merged(self, messages: Iterable[_Message]) -> list[_Message]:
        """Return messages with the results of one batch, or all neighbours of one role, as one."""
        merged: list[_Message] = []
        for message in messages:
            last = merged[-1] if merged else None
            is_same = last is not None and last.is_assistants is message.is_assistants
            if last is None or not is_same:
                merged.append(message)
            elif self.merges or (self._is_results(message) and self._is_results(last)):
                last.blocks.extend(message.blocks)
            else:
                merged.append(message)
        return merged

    def _is_result(self, block: JSONObject) -> bool:
        return self.kind(block) is ToolResultBlock

    def _is_results(self, message: _Message) -> bool:
        return all(map(self._is_result, message.blocks))

    def _call_ids(self, messages: Iterable[JSONObject]) -> Iterator[str]:
        """Yield the ids of the calls in messages."""
        for message in messages:
            for block in self.blocks_of(message):
                shape, values = self.shape_of(block)
                if shape.kind is ToolUseBlock:
                    yield values_by_name(values).get("id", "")

    # Messages of an entry.

    def _begins_with_assistant(self, entry: HistoryEntry) -> bool:
        return isinstance(entry, ChatMessage) and self._messages(entry)[0].is_assistants

    def _messages(self, entry: HistoryEntry) -> list[_Message]:
        """Return the messages for one entry of a history."""
        if isinstance(entry, Mark):
            return [_Message(False, [self.text(mark_text(entry))])]
        results: list[Block] = []
        others: list[ContentBlock] = []
        for block in entry.blocks:
            if isinstance(block, ToolResultBlock):
                results.append(self.result(block))
            else:
                others.append(block)
        if results and not others:
            return [_Message(False, results)]
        if entry.role == "assistant" or any(isinstance(block, ToolUseBlock) for block in others):
            answered = [_Message(False, results)] if results else []
            return [*answered, _Message(True, self._assistants_blocks(others))]
        return [_Message(False, [*results, *self._users_blocks(entry.role, others)])]

    def _users_blocks(self, role: str, content: Iterable[ContentBlock]) -> list[Block]:
        blocks = self.shown_blocks(content)
        return blocks if role == "user" else [self.text(speaker_line(role)), *blocks]

    def shown_blocks(self, content: Iterable[ContentBlock]) -> list[Block]:
        """Return blocks of a user's message or of a result, at least one."""
        return self.shown(content, is_assistants=False) or [self.text(EMPTY)]

    def _assistants_blocks(self, content: Sequence[ContentBlock]) -> list[Block]:
        blocks = self.shown(content, is_assistants=True)
        has_parts = any(isinstance(block, OpaqueBlock) for block in content)
        # Thinking stays where it is between a server's tools: whoever moves it is refused.
        if self.has_thinking_first and not has_parts:
            blocks.sort(key=lambda block: self.kind(block) is not ThinkingBlock)
        if not blocks or self.kind(blocks[-1]) is ThinkingBlock:
            blocks.append(self.text(EMPTY))
        if self.is_trimmed and self.kind(blocks[-1]) is TextBlock:
            blocks[-1]["text"] = blocks[-1]["text"].rstrip()
        return self.finished(blocks)
