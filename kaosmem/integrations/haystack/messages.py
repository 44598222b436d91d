"""Messages of Haystack as messages of kaosmem, and back."""

from __future__ import annotations

from haystack.dataclasses import ChatMessage, ToolCall

from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.types import items as chat
from kaosmem.types.content import ToolResultBlock


def read_message(message: ChatMessage) -> list[chat.ChatMessage]:
    """Return a message as a list of one."""
    reasoning = message.reasoning
    thinking = [] if reasoning is None else [{"thinking": reasoning.reasoning_text}]
    given = {**message.to_openai_dict_format(), "thinking_blocks": thinking}
    result = message.tool_call_result
    return read_chat_dict(given, is_error=result is not None and result.error)


def write_message(message: chat.ChatMessage) -> ChatMessage:
    """Return a message of the framework. A result is alone in its message."""
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        origin = ToolCall(result.name, {}, result.tool_use_id)
        return ChatMessage.from_tool(message.text, origin, error=result.is_error)
    return ChatMessage.from_openai_dict_format(write_chat_dict(message))
