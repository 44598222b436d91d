"""smolagents 1.x: a model around the one of an agent."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from smolagents import ChatMessage, MemoryStep, MessageRole, Model
from smolagents.models import get_tool_json_schema

from kaosmem.integrations.model_calls import ModelCalls, now, unknown_part
from kaosmem.persistence.storage.places import Location
from kaosmem.types import ContentBlock
from kaosmem.types import items as chat
from kaosmem.types.content import TextBlock, ToolResultBlock, ToolUseBlock

_Group = tuple[ChatMessage, ...]
"""A message, or the texts of a call and of its results, in which agents of smolagents tell them."""

_ROLES = (MessageRole.SYSTEM, MessageRole.ASSISTANT)


class KaosmemModel(Model):
    """Keeps the conversation of an agent in a session, and packs each request of its model.

    Args:
        model: The model that is called.
        location: The place of the sessions.
        conversation: The id of the conversation. Each agent has its own.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(
        self, model: Model, location: Location, *, conversation: str, **options: Any
    ) -> None:
        super().__init__(model_id=model.model_id)
        self.model = model
        self.conversation = conversation
        self.calls: ModelCalls[_Group] = ModelCalls(
            location,
            read=_read,
            write=_write,
            has_task_lists=True,
            **options,
        )

    def generate(self, messages: list[Any], *args: Any, **options: Any) -> ChatMessage:
        """Pack a request. The agent tells the reply again in its next one."""
        given = list(map(_message_of, messages))
        tools = options.get("tools_to_call_from") or ()
        packed = now(
            self.calls.request(
                self.conversation,
                _groups(given),
                tools=[get_tool_json_schema(tool) for tool in tools],
            )
        )
        sent = [message for group in packed.with_system for message in group]
        return self.model.generate(sent, *args, **options)

    def keep(self, step: MemoryStep, **_: Any) -> None:
        """Store a step of the agent: a callback of its `step_callbacks`, for the last answer."""
        now(self.calls.keep(self.conversation, _groups(step.to_messages())))


def _message_of(given: Any) -> ChatMessage:
    return ChatMessage.from_dict(given) if isinstance(given, dict) else given


def _groups(messages: list[ChatMessage]) -> list[_Group]:
    groups: list[_Group] = []
    for message in messages:
        if message.role == MessageRole.TOOL_RESPONSE and _has_call(groups):
            groups[-1] = (*groups[-1], message)
        else:
            groups.append((message,))
    return groups


def _has_call(groups: list[_Group]) -> bool:
    return bool(groups) and groups[-1][0].role == MessageRole.TOOL_CALL


def _read(group: _Group) -> list[chat.ChatMessage]:
    first, *results = group
    if first.role != MessageRole.TOOL_CALL:
        role = first.role.value if first.role in _ROLES else "user"
        return [chat.ChatMessage(role, tuple(map(_block, _parts(first))))]
    text = _text(first)
    if "final_answer" in text:
        # An answer in words: else the session takes the question for one that nobody answered.
        return [chat.ChatMessage("assistant", "\n\n".join(map(_text, group)))]
    call_id = sha256(text.encode()).hexdigest()[:16]
    call = ToolUseBlock(call_id, "call", {"text": text})
    result = ToolResultBlock(call_id, "\n\n".join(map(_text, results)))
    return [chat.ChatMessage("assistant", (call,)), chat.ChatMessage("tool", (result,))]


def _parts(message: ChatMessage) -> list[dict[str, Any]]:
    content = message.content or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(message: ChatMessage) -> str:
    return "\n\n".join(part["text"] for part in _parts(message) if part["type"] == "text")


def _block(part: dict[str, Any]) -> ContentBlock:
    return TextBlock(part["text"]) if part["type"] == "text" else unknown_part(part["type"], part)


def _write(message: chat.ChatMessage) -> _Group:
    block = message.blocks[0]
    if isinstance(block, ToolUseBlock):
        return (_message(MessageRole.TOOL_CALL, json.loads(block.arguments)["text"]),)
    if isinstance(block, ToolResultBlock):
        return (_message(MessageRole.TOOL_RESPONSE, message.text),)
    role = message.role if message.role in _ROLES else "user"
    return (_message(MessageRole(role), message.text),)


def _message(role: MessageRole, text: str) -> ChatMessage:
    return ChatMessage(role, [{"type": "text", "text": text}])
