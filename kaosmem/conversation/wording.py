"""The message for one event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.event import B, ConversationEvent, said_blocks
from kaosmem.conversation.observation import ObservationEvent, Observed, RecalledText
from kaosmem.conversation.prompts import PromptTemplates
from kaosmem.types import ChatMessage, ImageBlock, TextBlock, block_text, content_text


class Wording:
    """Words events, one after the other. A recalled fact is told once.

    max_chars: limit of a result, None for any length. vision: whether images are shown. never: names of what is not
    recalled.
    """

    def __init__(
        self, prompts: PromptTemplates, *, max_chars: int | None, vision: bool, never: Iterable[str] = ()
    ) -> None:
        self._prompts, self._max_chars, self._vision = prompts, max_chars, vision
        self._recalled = set(never)

    def message(self, event: ConversationEvent) -> ChatMessage | None:
        """Return an event as a message, its own where nothing is to change, None where it says nothing."""
        if isinstance(event, ObservationEvent):
            return self._result(event)
        message = event.message
        if isinstance(event, ActionEvent) and event.call is None and not event.has_words:
            return None
        if isinstance(message.content, str):
            return message
        content = self._seen(message.content)
        return message if content is message.content else replace(message, content=content)

    def _result(self, event: ObservationEvent) -> ChatMessage | None:
        content = self._observed(event)
        if not event.call_id and not content_text(content).strip():
            return None
        if content is event.content and not event.recalled:
            return event.message
        return event.changed(content=content, recalled=()).message

    def _observed(self, event: ObservationEvent) -> Observed:
        """Return the result, cut to the shown length, and the facts recalled for the first time."""
        content = event.content if isinstance(event.content, str) else self._seen(event.content)
        content = self._cut(content)
        new = [self._prompts.fill("knowledge", name=each.name, text=each.text) for each in self._new(event)]
        return (*said_blocks(content), *map(TextBlock, new)) if new else content

    def _seen(self, blocks: tuple[B, ...]) -> tuple[B | TextBlock, ...]:
        """Return blocks with texts for images where these are not shown; the same tuple where there are none."""
        if self._vision or not any(isinstance(block, ImageBlock) for block in blocks):
            return blocks
        return tuple(TextBlock(block_text(block)) if isinstance(block, ImageBlock) else block for block in blocks)

    def _new(self, event: ObservationEvent) -> Iterator[RecalledText]:
        for each in event.recalled:
            if each.name not in self._recalled and each.text.strip():
                self._recalled.add(each.name)
                yield each

    def _cut(self, content: Observed) -> Observed:
        """Return content whose texts, where they are too long together, are one that is cut; images come after it."""
        if self._max_chars is None:
            return content
        text = "\n".join(block.text for block in said_blocks(content) if isinstance(block, TextBlock))
        if len(text) <= self._max_chars:
            return content
        text = self._shorter(text, self._max_chars)
        if isinstance(content, str):
            return text
        return (TextBlock(text), *(block for block in content if isinstance(block, ImageBlock)))

    def _shorter(self, text: str, max_chars: int) -> str:
        """Return the beginning and the end of a text, with a mark for the part left out between them."""
        marker = f"\n{self._prompts.fill('left_out', chars=len(text))}\n"  # no other number is longer
        kept = max_chars - len(marker)
        if kept < 2:
            return text[:max_chars]
        tail = kept // 2
        marker = f"\n{self._prompts.fill('left_out', chars=len(text) - kept)}\n"
        return text[: kept - tail] + marker + text[len(text) - tail :]
