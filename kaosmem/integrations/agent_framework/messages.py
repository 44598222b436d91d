"""Messages of Agent Framework as messages of kaosmem, and back."""

from __future__ import annotations

from agent_framework import Content, Message

from kaosmem.integrations import part_tables as part
from kaosmem.integrations.part_tables import PartTable
from kaosmem.types.items import ChatMessage

ID_REMEDY = "run the agent with session=agent.create_session(session_id=...)"
_CALL = {"call_id": part.ID, "name": part.NAME, "arguments": part.ARGUMENTS}
_RESULT = {"call_id": part.RESULT_ID, "result": part.RESULT, "exception": part.ERROR}
_IMAGE = {"media_type": part.MEDIA_TYPE}
_PARTS = PartTable(
    "type",
    {"type": "text", "text": part.TEXT},
    {"type": "text_reasoning", "text": part.THINKING, "protected_data": part.SIGNATURE},
    {"type": "text_reasoning", "protected_data": part.SEALED},
    {"type": "function_call", **_CALL},
    {"type": "function_result", **_RESULT},
    {"type": "uri", "uri": part.URL, **_IMAGE},
    {"type": "data", "uri": part.DATA_URL, **_IMAGE},
)


def read_message(message: Message) -> list[ChatMessage]:
    """Return a message as a list of one."""
    parts = [each.to_dict() for each in message.contents]
    return [ChatMessage(str(message.role), _PARTS.read(parts))]


def write_message(message: ChatMessage) -> Message:
    """Return a message of the framework."""
    return Message(message.role, list(map(Content.from_dict, _PARTS.write(message.blocks))))
