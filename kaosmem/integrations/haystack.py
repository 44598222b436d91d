"""Haystack 3.x: a chat generator around the one of an agent or a pipeline."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.errors import needs_extra
from kaosmem.integrations.chat_dicts import read_chat_dict, write_chat_dict
from kaosmem.integrations.conversations import Framework, now
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.persistence.storage.places import Location
from kaosmem.types import ContentBlock
from kaosmem.types import items as chat
from kaosmem.types.content import ToolResultBlock, ToolUseBlock

with needs_extra("haystack"):
    from haystack import component
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import flatten_tools_or_toolsets


def read_message(message: ChatMessage) -> list[chat.ChatMessage]:
    """Return a message as a list of one."""
    reasoning = message.reasoning
    thinking = [] if reasoning is None else [{"thinking": reasoning.reasoning_text}]
    given = {**message.to_openai_dict_format(), "thinking_blocks": thinking}
    result = message.tool_call_result
    (said,) = read_chat_dict(given, is_error=result is not None and result.error)
    calls = message.tool_calls if result is None else [result.origin]
    if not calls:
        return [said]
    first = len(said.blocks) - len(calls)
    blocks = map(_with_state, said.blocks[first:], calls)
    return [replace(said, content=(*said.blocks[:first], *blocks))]


def _with_state(block: Any, call: ToolCall) -> ContentBlock:
    return replace(block, extra=json_text(call.extra) if call.extra else "")


def write_message(message: chat.ChatMessage) -> ChatMessage:
    """Return a message of the framework. A result is alone in its message.

    A call has two ids in OpenAI's Responses: the second one is in its `extra`.
    """
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        origin = ToolCall(result.name, {}, result.tool_use_id, _extra(result))
        return ChatMessage.from_tool(message.text, origin, error=result.is_error)
    written = ChatMessage.from_openai_dict_format(write_chat_dict(message))
    blocks = [block for block in message.blocks if isinstance(block, ToolUseBlock)]
    if not blocks:
        return written
    calls = list(map(_with_extra, written.tool_calls, blocks))
    return ChatMessage.from_assistant(written.text, tool_calls=calls)


def _with_extra(call: ToolCall, block: ToolUseBlock) -> ToolCall:
    extra = _extra(block)
    if extra and "call_id" in extra:
        # Under its first id, the provider would ask for the reasoning that is left out here.
        return replace(call, id=f"fc_{extra['call_id']}", extra=extra)
    return replace(call, extra=extra)


def _extra(block: ToolUseBlock | ToolResultBlock) -> dict[str, Any] | None:
    return json.loads(block.extra) if block.extra else None


_FRAMEWORK = Framework(
    read_message,
    write_message,
    id_remedy="give conversation=..., or generation_kwargs={'conversation': ...}",
)


@component
class KaosmemChatGenerator:
    """Keeps a conversation in a session, and packs each request of a chat generator.

    Args:
        generator: The chat generator that calls the model.
        location: The place of the sessions.
        conversation: The id of the conversation. `generation_kwargs={"conversation": ...}` of a
            run names another one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(
        self,
        generator: Any,
        location: Location,
        *,
        conversation: str | None = None,
        **options: Any,
    ) -> None:
        self.generator = generator
        self.calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
        streaming_callback: Any = None,
    ) -> dict[str, Any]:
        """Pack a request, and keep its reply."""
        named = dict(generation_kwargs or {})
        conversation = named.pop("conversation", None)
        schemas = [tool.tool_spec for tool in flatten_tools_or_toolsets(tools)]
        packed = now(self.calls.request(messages, conversation=conversation, tools=schemas))
        others = {"tools": tools, "streaming_callback": streaming_callback}
        result: dict[str, Any] = self.generator.run(
            packed.with_system, generation_kwargs=named, **others
        )
        now(self.calls.keep(result["replies"][:1], conversation=conversation))
        return result
