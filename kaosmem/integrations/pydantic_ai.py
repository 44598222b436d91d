"""Pydantic AI 2.x: a capability of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.errors import needs_extra
from kaosmem.integrations import part_tables as part
from kaosmem.integrations.conversations import Framework
from kaosmem.integrations.model_calls import PackedCalls
from kaosmem.types.items import ChatMessage

with needs_extra("pydantic-ai"):
    from pydantic_ai import messages as ai
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_ai.tools import RunContext

_ROLES = {"system-prompt": "system", "tool-return": "tool"}
_TEXTS = ("text", "retry-feedback", "system-prompt")
_NAMED = {"tool_name": part.NAME, "tool_call_id": part.ID}
_THOUGHT = {"part_kind": "thinking", "provider_name": part.PROVIDER}
_RESULT = {"tool_call_id": part.RESULT_ID, "content": part.RESULT, "outcome": part.OUTCOME}
_PARTS = part.PartTable(
    "part_kind",
    *({"part_kind": kind, "content": part.TEXT} for kind in _TEXTS),
    {**_THOUGHT, "id": "redacted_thinking", "content": "", "signature": part.SEALED},
    {**_THOUGHT, "id": part.REASONING_ID, "content": part.THINKING, "signature": part.SIGNATURE},
    {"part_kind": "tool-call", **_NAMED, "args": part.ARGUMENTS},
    {"part_kind": "tool-return", **_NAMED, **_RESULT},
)
_SAID = part.PartTable(
    "kind",
    {"kind": "text-content", "content": part.TEXT},
    {"kind": "binary", "data": part.DATA, "media_type": part.MEDIA_TYPE},
    {"kind": "image-url", "url": part.URL},
)


def read_message(message: ModelMessage) -> list[ChatMessage]:
    """Return a message of the framework: each part of a request is a message."""
    (given,) = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    if given["kind"] == "response":
        return [ChatMessage("assistant", _PARTS.read(given["parts"]))]
    messages = []
    for told in given["parts"]:
        kind = told["part_kind"]
        if kind == "tool-return":
            told["content"] = _result(told["content"])
        if kind == "user-prompt":
            blocks = _SAID.read(told["content"])
        else:
            blocks = _PARTS.read([told])
        messages.append(ChatMessage(_ROLES.get(kind, "user"), blocks))
    return messages


def _result(content: Any) -> Any:
    """Return the content of a result, as blocks if it has an image or another file."""
    items = content if isinstance(content, list) else [content]
    files = [isinstance(item, dict) and "media_type" in item for item in items]
    if not any(files):
        return content
    parts = []
    for item, is_file in zip(items, files, strict=True):
        is_plain = is_file or isinstance(item, str)
        parts.append(item if is_plain else json_text(item))
    return _SAID.read(parts)


def write_message(message: ChatMessage) -> ModelMessage:
    """Return a message of the framework. A result is alone in its message."""
    kind = "response" if message.role == "assistant" else "request"
    parts = _PARTS.write(message.blocks)
    if message.role not in ("assistant", "tool"):
        said = [each.get("content", each) for each in _SAID.write(message.blocks)]
        if len(said) == 1 and isinstance(said[0], str):
            (said,) = said  # a list of one text is sent otherwise
        parts = [{"part_kind": "user-prompt", "content": said}]
    return ModelMessagesTypeAdapter.validate_python([{"kind": kind, "parts": parts}])[0]


def _for_model(model: Any, message: ModelMessage) -> ModelMessage:
    """Return a message without thinking of other providers, which the model would show as a text."""
    if not isinstance(message, ai.ModelResponse):
        return message
    models = getattr(model, "models", [model])  # those of a FallbackModel
    parts = []
    for each in message.parts:
        is_thinking = isinstance(each, ai.ThinkingPart)
        if not is_thinking or any(m.accepts_stateless_artifacts(message, each) for m in models):
            parts.append(each)
    return replace(message, parts=parts)


class KaosmemCapability(PackedCalls, AbstractCapability[Any]):
    """Keeps each conversation of an agent in a session, and packs each request of its model.

    The message history of the run stays as it is: the capability changes the request alone. System
    prompts of the messages come first in each request.

    Args:
        location: The place of the sessions. Each `conversation_id` has one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    framework = Framework(
        read_message, write_message, id_remedy="run the agent with conversation_id=..."
    )

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Pack a request."""
        given = request_context.model_request_parameters
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters_json_schema,
            }
            for tool in (*given.function_tools, *given.output_tools)
        ]
        packed = await self.calls.request(
            request_context.messages,
            conversation=ctx.conversation_id,
            system="\n\n".join(part.content for part in given.instruction_parts or ()),
            tools=tools,
        )
        sent = [_for_model(request_context.model, message) for message in packed.messages]
        if packed.static:
            prompt = ai.SystemPromptPart(packed.static)
            sent.insert(0, ai.ModelRequest([prompt]))
        return replace(request_context, messages=sent)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: Any,
        response: ai.ModelResponse,
    ) -> ai.ModelResponse:
        """Keep a reply."""
        interrupted = response.state != "complete"
        await self.calls.keep([response], conversation=ctx.conversation_id, interrupted=interrupted)
        return response
