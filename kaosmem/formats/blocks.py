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

from collections.abc import Iterable, Iterator, Sequence

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import OPENING, speaker_line
from kaosmem.formats.fields import (
    check_has_content,
    mapping_of,
)
from kaosmem.formats.messages import MessageFormat
from kaosmem.formats.shaped_blocks import Block, named_message
from kaosmem.formats.shapes import (
    EMPTY,
    values_by_name,
)
from kaosmem.names import shown_name
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import ContentBlock, JSONDict, JSONObject, OpaqueBlock
from kaosmem.types.content import (
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.types.items import ChatMessage

BLOCK_TOKENS = 4
"""The estimated tokens of a content block beside its text, with its share of the framing."""


class BlockFormat(MessageFormat):
    """A format whose messages are the user's or the assistant's, each with blocks of content.

    Attributes:
        merges: Whether the roles have to alternate: neighbours of one role are one message.
        is_arranged: Whether thinking stands before the rest of the assistant's message, and no
            white space at its end.
        other_roles: Further roles of messages that are read.
    """

    is_system_beside = True
    has_opening = True
    block_framing = BLOCK_TOKENS
    other_roles: tuple[str, ...] = ()
    merges = False
    is_arranged = True

    # A provider's own parts of messages.

    def message_of(self, given: JSONObject) -> JSONObject:
        """Return the message of a reply, and a message as it is."""
        return given

    def check_content(self, given: JSONObject) -> None:
        """Check that a message has content. Raises InvalidArgumentError."""
        check_has_content(given, self.message_name)

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
        parts = self.read_content(given.get(self.content_name) or [])
        if role == self.roles[True]:
            role = "assistant"
        elif role != "system":
            is_answer = parts and all(isinstance(block, ToolResultBlock) for block in parts)
            role = "tool" if is_answer else "user"
        return named_message(role, parts)

    # The format.

    def message_tokens(self, message: JSONObject, counter: TokenCounter) -> int:
        """Return the estimated tokens of the blocks of a message."""
        return self.parts_tokens(self.blocks_of(message), counter)

    # Messages of a request.

    def message_of_text(self, text: str, role: str = "") -> JSONDict:
        """Return a message of the user with a text that kaosmem made."""
        return self._message([self.text(text)])

    def _message(self, blocks: list[Block], *, is_assistants: bool = False) -> JSONDict:
        """Return a message of the API before its blocks are in their plainest form."""
        return {"role": self.roles[is_assistants], self.content_name: blocks}

    def joined(self, messages: list[JSONDict], after: Sequence[JSONObject]) -> list[JSONDict]:
        """Return the messages of a request with alternating roles, as far as the API wants it."""
        joined = self._merged(self._filled(messages, after))
        for message in joined:
            message[self.content_name] = self.plain(message[self.content_name])
        return joined

    def _filled(self, messages: list[JSONDict], after: Sequence[JSONObject]) -> list[JSONDict]:
        """Return messages with a first one of the other speaker where the API wants one.

        Messages that were sent before stay as they were, so that none can be merged with the last
        of them.
        """
        if not messages:
            return messages
        is_assistants = self.is_assistants(messages[0])
        opens = is_assistants
        if after:
            opens = self.merges and self.is_assistants(after[-1]) is is_assistants
        if not opens:
            return messages
        filler = self.text(OPENING if is_assistants else EMPTY)
        return [self._message([filler], is_assistants=not is_assistants), *messages]

    def _merged(self, messages: Iterable[JSONDict]) -> list[JSONDict]:
        """Return messages with the results of one batch, or all neighbours of one role, as one."""
        merged: list[JSONDict] = []
        for message in messages:
            last = merged[-1] if merged else None
            if last is None or last["role"] != message["role"]:
                merged.append(message)
            elif self.merges or (self._is_results(message) and self._is_results(last)):
                last[self.content_name] += message[self.content_name]
            else:
                merged.append(message)
        return merged

    def _is_results(self, message: JSONObject) -> bool:
        return all(map(self.is_result, self.blocks_of(message)))

    def used_ids(self, messages: Sequence[JSONObject]) -> Iterator[str]:
        """Yield the ids of the calls in messages."""
        for message in messages:
            for block in self.blocks_of(message):
                shape, values = self.shape_of(block)
                if shape.kind is ToolUseBlock:
                    yield values_by_name(values).get("id", "")

    # Messages of an entry.

    def users_messages(
        self,
        role: str,
        results: Sequence[ToolResultBlock],
        content: Sequence[ContentBlock],
    ) -> list[JSONDict]:
        """Return one message: results, then what a speaker said."""
        blocks = [self.write(result) or {} for result in results]
        if content or not results:
            if role != "user":
                blocks.append(self.text(speaker_line(role)))
            blocks += self.shown_blocks(content)
        return [self._message(blocks)]

    def assistants_messages(self, content: Sequence[ContentBlock]) -> list[JSONDict]:
        """Return one message: what an assistant said and called."""
        blocks = self.shown(content, is_assistants=True)
        has_parts = any(isinstance(block, OpaqueBlock) for block in content)
        # Thinking stays where it is between a server's tools: whoever moves it is refused.
        if self.is_arranged and not has_parts:
            blocks.sort(key=lambda block: self.kind(block) is not ThinkingBlock)
        if not blocks or self.kind(blocks[-1]) is ThinkingBlock:
            blocks.append(self.text(EMPTY))
        if self.is_arranged and self.kind(blocks[-1]) is TextBlock:
            blocks[-1]["text"] = blocks[-1]["text"].rstrip()
        return [self._message(self.finished(blocks), is_assistants=True)]
