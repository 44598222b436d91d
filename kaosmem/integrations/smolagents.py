"""smolagents 1.x: a model around the one of an agent."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from kaosmem.errors import needs_extra
from kaosmem.integrations.conversations import Framework, run_and_wait
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.integrations.part_tables import TEXT, PartTable
from kaosmem.persistence.storage.places import Location
from kaosmem.types import items as chat
from kaosmem.types.content import ToolResultBlock, ToolUseBlock

with needs_extra("smolagents"):
    from smolagents import ChatMessage, MemoryStep, MessageRole, Model
    from smolagents.models import get_tool_json_schema

Group = tuple[ChatMessage, ...]
"""A message, or a call and its results."""
_ROLES = {"system": "system", "assistant": "assistant", "tool": "tool-response"}
_PARTS = PartTable("type", {"type": "text", "text": TEXT})


def read_group(group: Group) -> list[chat.ChatMessage]:
    """Return the messages of a group."""
    first, *results = map(_read, group)
    if group[0].role != MessageRole.TOOL_CALL:
        return [first]
    told = "\n\n".join(each.text for each in results)
    if "final_answer" in first.text:
        # An answer in words: else the session takes the question for one that nobody answered.
        return [chat.ChatMessage("assistant", f"{first.text}\n\n{told}".rstrip())]
    call_id = sha256(first.text.encode()).hexdigest()[:16]
    call = ToolUseBlock(call_id, "call", {"text": first.text})
    result = ToolResultBlock(call_id, told)
    return [chat.ChatMessage("assistant", (call,)), chat.ChatMessage("tool", (result,))]


def _read(message: ChatMessage) -> chat.ChatMessage:
    role = message.role.value
    blocks = _PARTS.read(message.content or [])
    return chat.ChatMessage(role if role in _ROLES else "user", blocks)


def write_group(message: chat.ChatMessage) -> Group:
    """Return a message as a group of one."""
    block = message.blocks[0]
    role = _ROLES.get(message.role, "user")
    text = message.text
    if isinstance(block, ToolUseBlock):
        role = "tool-call"
        text = json.loads(block.arguments)["text"]
    return (ChatMessage(MessageRole(role), [{"type": "text", "text": text}]),)


_FRAMEWORK = Framework(read_group, write_group, has_task_lists=True)


class KaosmemModel(Model):
    """Keeps the conversation of an agent in a session, and packs each request of its model.

    Args:
        model: The model that is called.
        location: The place of the sessions.
        conversation: The id of the conversation. Each agent has its own.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(
        self,
        model: Model,
        location: Location,
        *,
        conversation: str,
        **options: Any,
    ) -> None:
        super().__init__(model_id=model.model_id)
        self.model = model
        self.calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    def generate(
        self,
        messages: list[Any],
        *args: Any,
        **options: Any,
    ) -> ChatMessage:
        """Pack a request. The agent tells the reply again in its next one."""
        tools = map(get_tool_json_schema, options.get("tools_to_call_from") or ())
        packed = run_and_wait(self.calls.request(_grouped(messages), tools=list(tools)))
        sent = [message for group in packed.with_system for message in group]
        return self.model.generate(sent, *args, **options)

    def keep(self, step: MemoryStep, **_: Any) -> None:
        """Store a step of the agent: a callback of its `step_callbacks`, for the last answer."""
        run_and_wait(self.calls.keep(_grouped(step.to_messages())))


def _grouped(messages: list[Any]) -> list[Group]:
    groups: list[Group] = []
    for each in messages:
        message = ChatMessage.from_dict(each) if isinstance(each, dict) else each
        is_result = message.role == MessageRole.TOOL_RESPONSE
        if is_result and groups and groups[-1][0].role == MessageRole.TOOL_CALL:
            groups[-1] += (message,)
        else:
            groups.append((message,))
    return groups
