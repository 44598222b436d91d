"""Messages of LlamaIndex as messages of kaosmem, and back."""

from __future__ import annotations

from llama_index.core.base.llms import types as llama

from kaosmem.integrations import part_tables as part
from kaosmem.integrations.part_tables import PartTable
from kaosmem.types import content
from kaosmem.types.items import ChatMessage

_SEALED = {"additional_information": {"signature": part.SIGNATURE}}
_CALL = {"tool_call_id": part.ID, "tool_name": part.NAME, "tool_kwargs": part.ARGUMENTS}
_DATA = {"image": part.DATA, "image_mimetype": part.MEDIA_TYPE}
_BLOCKS = PartTable(
    "block_type",
    {"block_type": "text", "text": part.TEXT},
    {"block_type": "thinking", "content": part.THINKING, **_SEALED},
    {"block_type": "tool_call", **_CALL},
    {"block_type": "image", "url": part.URL},
    {"block_type": "image", **_DATA},
)


def read_message(message: llama.ChatMessage) -> list[ChatMessage]:
    """Return a message as a list of one."""
    call_id = message.additional_kwargs.get("tool_call_id")
    if message.role == llama.MessageRole.TOOL and call_id:
        result = content.ToolResultBlock(call_id, message.content or "")
        return [ChatMessage("tool", (result,))]
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in message.blocks]
    return [ChatMessage(message.role.value, _BLOCKS.read(blocks))]


def write_message(message: ChatMessage) -> llama.ChatMessage:
    """Return a message of the framework. A result is alone in its message."""
    result = message.blocks[0]
    if isinstance(result, content.ToolResultBlock):
        named = {"tool_call_id": result.tool_use_id}
        return llama.ChatMessage(message.text, role="tool", additional_kwargs=named)
    given = {"role": message.role, "blocks": _BLOCKS.write(message.blocks)}
    return llama.ChatMessage.model_validate(given)
