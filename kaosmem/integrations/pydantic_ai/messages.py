"""Messages of Pydantic AI as messages of kaosmem, and back."""

from __future__ import annotations

from pydantic_ai import messages as ai

from kaosmem.integrations.model_calls import unknown_part
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


def read_message(message: ai.ModelMessage) -> list[ChatMessage]:
    """Return a message of the framework: each part of a request is a message."""
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


def write_message(message: ChatMessage) -> ai.ModelMessage:
    """Return a message of the framework. A result is alone in its message."""
    if message.role == "assistant":
        return ai.ModelResponse([_response_part(block) for block in message.blocks])
    result = message.blocks[0]
    if isinstance(result, ToolResultBlock):
        part = ai.ToolReturnPart(
            result.name,
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
