"""LlamaIndex 0.14: the memory of an agent or a chat engine."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms import types as llama
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from kaosmem.integrations.model_calls import ModelCalls, now, unknown_part
from kaosmem.persistence.storage.places import Location
from kaosmem.types import ContentBlock
from kaosmem.types.content import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)
from kaosmem.types.items import ChatMessage


class KaosmemMemory(BaseMemory):
    """Keeps a conversation in a session, and gives the packed request.

    An agent adds its instructions, and the messages of its loop of tools, behind the memory's back:
    they come in at the end of a run. Leave room for them: the budget is that of the memory alone.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    _conversation: str = PrivateAttr()
    _calls: ModelCalls[llama.ChatMessage] = PrivateAttr()
    _recent: list[llama.ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(self, location: Location, *, conversation: str, **options: Any) -> None:
        super().__init__()
        self._conversation = conversation
        self._calls = ModelCalls(location, read=_read, write=_write, **options)

    @classmethod
    def from_defaults(cls, **options: Any) -> KaosmemMemory:
        """Return a memory. The arguments are those of the class."""
        return cls(**options)

    def get(self, input: str | None = None, **_: Any) -> list[llama.ChatMessage]:
        """Return the packed request."""
        return now(self._calls.request(self._conversation, self._recent)).with_system

    def get_all(self) -> list[llama.ChatMessage]:
        """Return all messages that the session holds live."""
        return now(self._calls.all(self._conversation))

    def put(self, message: llama.ChatMessage) -> None:
        """Store a message."""
        self._recent.append(message)
        now(self._calls.keep(self._conversation, [message]))

    def set(self, messages: list[llama.ChatMessage]) -> None:
        """Store the new ones of messages that stand for the whole conversation."""
        self._recent = list(messages)
        now(self._calls.request(self._conversation, self._recent))

    def reset(self) -> None:
        """Move all messages to the archive."""
        self._recent = []
        now(self._calls.clear(self._conversation))


def _read(message: llama.ChatMessage) -> list[ChatMessage]:
    blocks = tuple(map(_block, message.blocks))
    call_id = message.additional_kwargs.get("tool_call_id")
    if message.role == llama.MessageRole.TOOL and call_id:
        return [ChatMessage("tool", (ToolResultBlock(call_id, message.content or ""),))]
    return [ChatMessage(message.role.value, blocks)]


def _block(block: Any) -> ContentBlock:
    match block:
        case llama.TextBlock(text=text):
            return TextBlock(text)
        case llama.ThinkingBlock():
            signature = block.additional_information.get("signature") or ""
            return ThinkingBlock(block.content or "", signature)
        case llama.ToolCallBlock():
            return ToolUseBlock(block.tool_call_id or "", block.tool_name, block.tool_kwargs)
        case llama.ImageBlock(url=url) if url:
            return ImageBlock(str(url), block.image_mimetype or "")
    return unknown_part(block.block_type, block)


def _write(message: ChatMessage) -> llama.ChatMessage:
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        named = {"tool_call_id": result.tool_use_id}
        return llama.ChatMessage(message.text, role="tool", additional_kwargs=named)
    role = message.role if message.role in ("system", "assistant") else "user"
    return llama.ChatMessage([_llama_block(block) for block in message.blocks], role=role)


def _llama_block(block: ContentBlock) -> Any:
    match block:
        case ThinkingBlock():
            sealed = {"signature": block.signature}
            return llama.ThinkingBlock(content=block.thinking, additional_information=sealed)
        case ToolUseBlock():
            return llama.ToolCallBlock(
                tool_call_id=block.id, tool_name=block.name, tool_kwargs=block.arguments
            )
        case ImageBlock(url=url):
            return llama.ImageBlock(url=url)
    return llama.TextBlock(text=block_text(block))
