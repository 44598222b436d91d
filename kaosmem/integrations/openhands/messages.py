"""Messages of OpenHands as messages of kaosmem, and back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from openhands.sdk.event import ActionEvent, LLMConvertibleEvent, MessageEvent, SystemPromptEvent
from openhands.sdk.llm import Message

from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.types import JSONDict
from kaosmem.types.content import ToolResultBlock
from kaosmem.types.items import ChatMessage

Group = tuple[LLMConvertibleEvent, ...]
"""The events of one message: the calls of a reply, or one event."""
_AS_SENT = {"cache_enabled": False, "vision_enabled": True, "function_calling_enabled": True}


def grouped(events: Iterable[Any]) -> list[Group]:
    """Return events with one element for each message, without system prompts."""
    said = [event for event in events if not isinstance(event, SystemPromptEvent)]
    return [tuple(group) for _, group in groupby(said, key=_message_id)]


def _message_id(event: LLMConvertibleEvent) -> str:
    return event.llm_response_id if isinstance(event, ActionEvent) else event.id


def read_group(group: Group) -> list[ChatMessage]:
    """Return the message of a group, in a list."""
    (message,) = LLMConvertibleEvent.events_to_messages(list(group))
    plain = {"force_string_serializer": False, "send_reasoning_content": False}
    return read_chat_dict(message.to_chat_dict(**_AS_SENT, **plain))


def write_group(message: ChatMessage) -> Group:
    """Return a message as a group of one event."""
    written = write_chat_dict(message)
    if not isinstance(written["content"], str):
        written["content"] = list(map(_part, written["content"]))
    calls = written.pop("tool_calls", ())
    if calls:
        written["tool_calls"] = [
            {**call["function"], "id": call["id"], "origin": "completion"} for call in calls
        ]
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        written["name"] = result.name
    return (MessageEvent(source="environment", llm_message=Message.model_validate(written)),)


def _part(part: JSONDict) -> JSONDict:
    if part["type"] == "text":
        return part
    return {"type": "image", "image_urls": [part["image_url"]["url"]]}
