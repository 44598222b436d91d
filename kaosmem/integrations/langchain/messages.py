"""Messages of LangChain as messages of kaosmem, and back."""

from __future__ import annotations

from typing import Any

from langchain_core import messages as lc

from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.types import JSONDict
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage

_THINKING = ("reasoning", "thinking", "redacted_thinking")
_SEALED: JSONDict = {"output_version": "v1", "model_provider": "anthropic"}


def read_message(message: lc.BaseMessage) -> list[ChatMessage]:
    """Return a message as a list of one."""
    (given,) = lc.convert_to_openai_messages([message])
    thinking = []
    for block in message.content_blocks:
        if block["type"] == "reasoning":
            signature = block.get("extras", {}).get("signature")
            thinking.append({"thinking": block.get("reasoning") or "", "signature": signature})
        elif block["type"] == "non_standard" and _is_thinking(block):
            thinking.append(block["value"])
    if not isinstance(given["content"], str):
        given["content"] = [part for part in given["content"] if not _is_thinking(part)]
    is_error = getattr(message, "status", "") == "error"
    return read_chat_dict({**given, "thinking_blocks": thinking}, is_error=is_error)


def _is_thinking(part: Any) -> bool:
    return part.get("value", part).get("type") in _THINKING


def write_message(message: ChatMessage) -> lc.BaseMessage:
    """Return a message of the framework. A result of a tool is alone in its message."""
    written = write_chat_dict(message)
    reasoning = list(map(_reasoning, written.pop("thinking_blocks", ())))
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock) and result.is_error:
        return lc.ToolMessage(written["content"], tool_call_id=result.tool_use_id, status="error")
    (built,) = lc.convert_to_messages([written])
    if not reasoning:
        return built
    blocks = [*reasoning, *built.content_blocks]
    return lc.AIMessage(content_blocks=blocks, response_metadata=_SEALED)


def _reasoning(block: JSONDict) -> Any:
    if "data" in block:
        return {"type": "non_standard", "value": block}
    extras = {"signature": block["signature"]}
    return {"type": "reasoning", "reasoning": block["thinking"], "extras": extras}
