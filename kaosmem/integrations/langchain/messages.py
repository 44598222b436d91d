"""Messages of LangChain as messages of kaosmem, and back."""

from __future__ import annotations

from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
)

from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.types.items import ChatMessage


def read_message(message: BaseMessage) -> list[ChatMessage]:
    """Return a message as a list of one."""
    (given,) = convert_to_openai_messages([message])
    thinking = []
    for block in message.content_blocks:
        if block["type"] == "reasoning":
            signature = block.get("extras", {}).get("signature")
            thinking.append({"thinking": block.get("reasoning") or "", "signature": signature})
    return read_chat_dict({**given, "thinking_blocks": thinking})


def write_message(message: ChatMessage) -> BaseMessage:
    """Return a message of the framework."""
    written = write_chat_dict(message)
    reasoning = []
    for block in written.pop("thinking_blocks", ()):
        extras = {"signature": block.get("signature", "")}
        reasoning.append({"type": "reasoning", "reasoning": block["thinking"], "extras": extras})
    if reasoning:
        written["content"] = [*reasoning, {"type": "text", "text": message.text}]
    (built,) = convert_to_messages([written])
    return built
