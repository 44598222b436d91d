"""A format of your own: one class, given in place of a name, which passes the contract.

This one is for Gemini.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kaosmem import ChatMessage, InvalidArgumentError, SessionMemory, TokenCounter
from kaosmem.formats import BlockPlace, HistoryEntry, Layout, Mark, Rendered
from kaosmem.formats.delimiters import (
    BLOCK_BEGIN,
    BLOCK_END,
    escaped_in_history,
    mark_text,
    speaker_line,
)
from kaosmem.testing import FormatContract

MESSAGE_TOKENS = 3


class GeminiFormat:
    """Contents of Google's Gemini API: `user` and `model` speak, the system instruction stands beside them."""

    name = "gemini"

    def entry_tokens(
        self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None
    ) -> int:
        # known: the tokens of the entry's text alone. A format that shows the text unchanged may
        #     count from it, faster.
        return _tokens(_content(entry), counter)

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return 0

    def frame_tokens(
        self,
        *,
        static: bool,
        first: HistoryEntry | None,
        block: BlockPlace | None,
        counter: TokenCounter,
    ) -> int:
        tokens = MESSAGE_TOKENS if static else 0
        if block:
            tokens += counter(BLOCK_BEGIN) + counter(BLOCK_END)
        return tokens + (MESSAGE_TOKENS if block is BlockPlace.OWN_MESSAGE else 0)

    def takes_block(self, entry: HistoryEntry) -> bool:
        return isinstance(entry, ChatMessage) and entry.role == "user"

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, Any]] = ()) -> Rendered:
        # after: messages of a growing window that stand before these. A format that merges
        #     neighbours needs the last.
        contents = [_content(entry) for part in layout.history for entry in part.entries]
        if layout.block:
            block = {"text": "".join((BLOCK_BEGIN, *layout.block, BLOCK_END))}
            if layout.block_place is BlockPlace.IN_MESSAGE:
                contents[-1]["parts"].insert(0, block)
            else:
                contents.append({"role": "user", "parts": [block]})
        return Rendered(messages=contents, system="".join(layout.static))

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        tokens = sum(_tokens(content, counter) for content in rendered.messages or ())
        return tokens + (MESSAGE_TOKENS + counter(rendered.system) if rendered.system else 0)

    def parse(self, message: object) -> ChatMessage:
        match message:
            case {"role": "user" | "model" as role, "parts": [{"text": str() as text}]}:
                return ChatMessage("assistant" if role == "model" else "user", text)
        raise InvalidArgumentError("a gemini message needs a role and one part of text")


def _content(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry as a content.

    Calls and results are told as text, to keep the example short.
    """
    if isinstance(entry, Mark):
        return {"role": "user", "parts": [{"text": mark_text(entry)}]}
    parts = [{"text": escaped_in_history(entry.text)}]
    if entry.role not in ("user", "assistant"):
        parts.insert(0, {"text": speaker_line(entry.role)})
    return {"role": "model" if entry.role == "assistant" else "user", "parts": parts}


def _tokens(content: Mapping[str, Any], counter: TokenCounter) -> int:
    return MESSAGE_TOKENS + sum(counter(part["text"]) for part in content["parts"])


class TestGeminiFormat(FormatContract):
    """Run by pytest: all that a session asks of a format."""

    def make(self) -> GeminiFormat:
        return GeminiFormat()


async def test_a_session_hands_over_contents_for_gemini() -> None:
    memory = SessionMemory.test_mode()
    memory.add("role", "Be brief.")
    memory.add_message(
        {"role": "model", "parts": [{"text": "Ann owns the deal."}]}, format=GeminiFormat()
    )
    memory.add("messages", "Who owns it?", role="user")
    context = await memory.assemble_context(budget=200, format=GeminiFormat())
    assert context.system == "Be brief.\n"
    assert [content["role"] for content in context.messages] == ["model", "user"]
