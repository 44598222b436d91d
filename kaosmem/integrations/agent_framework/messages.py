"""Messages of Agent Framework as messages of kaosmem, and back."""

from __future__ import annotations

from agent_framework import (
    Content,
    Message,
)

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

ID_REMEDY = "run the agent with session=agent.create_session(session_id=...)"


def read_message(message: Message) -> list[ChatMessage]:
    """Return a message as a list of one."""
    return [ChatMessage(str(message.role), tuple(map(_block, message.contents)))]


def _block(content: Content) -> ContentBlock:
    call_id = content.call_id or ""
    match content.type:
        case "text":
            return TextBlock(content.text or "")
        case "text_reasoning":
            return ThinkingBlock(content.text or "", content.protected_data or "")
        case "function_call":
            return ToolUseBlock(call_id, content.name or "", content.arguments or "{}")
        case "function_result":
            is_error = content.exception is not None
            return ToolResultBlock(call_id, str(content.result or ""), is_error)
        case "uri" | "data" if (content.media_type or "").startswith("image/"):
            return ImageBlock(content.uri or "", content.media_type or "")
    return unknown_part(content.type, content.to_dict())


def write_message(message: ChatMessage) -> Message:
    """Return a message of the framework."""
    return Message(message.role, list(map(_content, message.blocks)))


def _content(block: ContentBlock) -> Content:
    match block:
        case ThinkingBlock():
            return Content.from_text_reasoning(
                text=block.thinking, protected_data=block.signature or None
            )
        case ToolUseBlock():
            return Content.from_function_call(block.id, block.name, arguments=block.arguments)
        case ToolResultBlock():
            error = block_text(block) if block.is_error else None
            return Content.from_function_result(
                block.tool_use_id, result=block_text(block), exception=error
            )
        case ImageBlock(url=url):
            return Content.from_uri(url, media_type=block.media_type or "image/*")
    return Content.from_text(block_text(block))
