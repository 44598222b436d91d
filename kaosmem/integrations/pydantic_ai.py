"""Pydantic AI 2.x: a capability of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai import messages as ai
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from kaosmem.integrations.model_calls import Calls, ModelCalls, in_loop, tool_schema, unknown_part
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


class KaosmemCapability(AbstractCapability[Any]):
    """Keeps each conversation of an agent in a session, and packs each request of its model.

    The message history of the run stays as it is: the capability changes the request alone. System
    prompts of the messages come first in each request.

    Args:
        location: The place of the sessions. Each `conversation_id` has one.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    def __init__(self, location: Location, **options: Any) -> None:
        super().__init__()
        remedy = "run the agent with conversation_id=..."
        self.calls: ModelCalls[ai.ModelMessage] = ModelCalls(
            location, read=_read, write=_write, id_remedy=remedy, **options
        )

    @in_loop
    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Pack a request."""
        parameters = request_context.model_request_parameters
        prompts, messages = _prompts_apart(request_context.messages)
        instructions = (*(parameters.instruction_parts or ()), *prompts)
        tools = [
            tool_schema(tool.name, tool.description, tool.parameters_json_schema)
            for tool in (*parameters.function_tools, *parameters.output_tools)
        ]
        system = "\n\n".join(part.content for part in instructions)
        packed = await self.calls.request(ctx.conversation_id, messages, system=system, tools=tools)
        if packed.static:
            prompts.append(ai.SystemPromptPart(packed.static))
        first = [ai.ModelRequest(prompts)] if prompts else []
        return replace(request_context, messages=[*first, *packed.messages])

    @in_loop
    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ai.ModelResponse,
    ) -> ai.ModelResponse:
        """Keep a reply."""
        interrupted = response.state != "complete"
        await self.calls.keep(ctx.conversation_id, [response], interrupted=interrupted)
        return response


def _prompts_apart(
    given: list[ai.ModelMessage],
) -> tuple[list[ai.SystemPromptPart], list[ai.ModelMessage]]:
    """Return the system prompts of messages, and the messages without them."""
    prompts: list[ai.SystemPromptPart] = []
    messages: list[ai.ModelMessage] = []
    for message in given:
        if isinstance(message, ai.ModelRequest):
            prompts += [part for part in message.parts if isinstance(part, ai.SystemPromptPart)]
            rest = [part for part in message.parts if not isinstance(part, ai.SystemPromptPart)]
            message = replace(message, parts=rest)
        messages.append(message)
    return prompts, messages


def _read(message: ai.ModelMessage) -> list[ChatMessage]:
    if isinstance(message, ai.ModelResponse):
        return [ChatMessage("assistant", tuple(map(_block, message.parts)))]
    return [ChatMessage(_role(part), _request_blocks(part)) for part in message.parts]


def _role(part: ai.ModelRequestPart) -> str:
    return "tool" if isinstance(part, ai.ToolReturnPart) else "user"


def _request_blocks(part: ai.ModelRequestPart) -> tuple[ContentBlock, ...]:
    match part:
        case ai.UserPromptPart(content=str() as text):
            return (TextBlock(text),)
        case ai.UserPromptPart(content=content):
            return tuple(map(_block, content))
    return (_block(part),)


def _block(part: object) -> ContentBlock:
    match part:
        case str() as text:
            return TextBlock(text)
        case ai.TextPart(content=text) | ai.TextContent(content=text):
            return TextBlock(text)
        case ai.ThinkingPart():
            provider = part.provider_name or "anthropic"
            return ThinkingBlock(part.content, part.signature or "", provider=provider)
        case ai.ToolCallPart():
            return ToolUseBlock(part.tool_call_id, part.tool_name, part.args_as_json_str())
        case ai.ToolReturnPart():
            is_error = part.outcome != "success"
            return ToolResultBlock(part.tool_call_id, part.model_response_str(), is_error)
        case ai.ImageUrl(url=url):
            return ImageBlock(url)
        case ai.BinaryContent(is_image=True):
            return ImageBlock(part.data_uri, part.media_type)
        case ai.RetryFeedbackPart(content=str() as text):
            return TextBlock(text)
    return unknown_part(type(part).__name__, part)


def _write(message: ChatMessage, calls: Calls) -> ai.ModelMessage:
    if message.role == "assistant":
        return ai.ModelResponse([_response_part(block) for block in message.blocks])
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        part = ai.ToolReturnPart(
            calls[result.tool_use_id].name,
            message.text,
            result.tool_use_id,
            outcome="failed" if result.is_error else "success",
        )
        return ai.ModelRequest([part])
    return ai.ModelRequest([ai.UserPromptPart([_user_part(block) for block in message.blocks])])


def _response_part(block: ContentBlock) -> ai.ModelResponsePart:
    match block:
        case ToolUseBlock():
            return ai.ToolCallPart(block.name, block.arguments, block.id)
        case ThinkingBlock():
            if not block.signature:
                return ai.ThinkingPart(block.thinking)
            return ai.ThinkingPart(
                block.thinking, signature=block.signature, provider_name=block.provider
            )
    return ai.TextPart(block_text(block))


def _user_part(block: ContentBlock) -> ai.UserContent:
    match block:
        case ImageBlock(url=url) if url.startswith("data:"):
            return ai.BinaryContent.from_data_uri(url)
        case ImageBlock(url=url):
            return ai.ImageUrl(url)
    return block_text(block)
