"""LlamaIndex 0.14: the memory of an agent or a chat engine."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from kaosmem.errors import needs_extra
from kaosmem.formats.fields import plainest
from kaosmem.integrations import part_tables as part
from kaosmem.integrations.conversations import Framework, run_and_wait
from kaosmem.integrations.model_calls import ModelCalls
from kaosmem.integrations.part_tables import PartTable
from kaosmem.persistence.storage.places import Location
from kaosmem.types import content
from kaosmem.types.items import ChatMessage

with needs_extra("llama-index"):
    from llama_index.core.base.llms import types as llama
    from llama_index.core.memory import BaseMemory

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
    parts = [block.model_dump(mode="json", exclude_none=True) for block in message.blocks]
    blocks = _BLOCKS.read(parts)
    call_id = message.additional_kwargs.get("tool_call_id")
    if message.role == llama.MessageRole.TOOL and call_id:
        result: Any = plainest(blocks)
        return [ChatMessage("tool", (content.ToolResultBlock(call_id, result),))]
    return [ChatMessage(message.role.value, blocks)]


def write_message(message: ChatMessage) -> llama.ChatMessage:
    """Return a message of the framework. A result is alone in its message."""
    result = message.blocks[0]
    if isinstance(result, content.ToolResultBlock):
        named = {"tool_call_id": result.tool_use_id}
        return llama.ChatMessage(message.text, role="tool", additional_kwargs=named)
    given = {"role": message.role, "blocks": _BLOCKS.write(message.blocks)}
    return llama.ChatMessage.model_validate(given)


_FRAMEWORK = Framework(read_message, write_message)


class KaosmemMemory(BaseMemory):
    """Keeps a conversation in a session, and gives the packed request.

    An agent adds its instructions, and the messages of its loop of tools, behind the memory's back:
    they come in at the end of a run. Leave room for them: the budget is that of the memory alone.

    Args:
        location: The place of the sessions.
        conversation: The id of the conversation.
        options: Further arguments of `ModelCalls`, such as `budget`.
    """

    _calls: ModelCalls = PrivateAttr()
    _recent: list[llama.ChatMessage] = PrivateAttr(default_factory=list)

    def __init__(
        self,
        location: Location,
        *,
        conversation: str,
        **options: Any,
    ) -> None:
        super().__init__()
        self._calls = ModelCalls(location, _FRAMEWORK, conversation, **options)

    @classmethod
    def from_defaults(cls, **options: Any) -> KaosmemMemory:
        """Return a memory. The arguments are those of the class."""
        return cls(**options)

    def get(self, input: str | None = None, **_: Any) -> list[llama.ChatMessage]:
        """Return the packed request."""
        return run_and_wait(self._calls.request(self._recent)).with_system

    def get_all(self) -> list[llama.ChatMessage]:
        """Return all messages that the session holds live."""
        return run_and_wait(self._calls.all())

    def put(self, message: llama.ChatMessage) -> None:
        """Store a message."""
        self._recent.append(message)
        run_and_wait(self._calls.keep([message]))

    def set(self, messages: list[llama.ChatMessage]) -> None:
        """Store the new ones of messages that stand for the whole conversation."""
        self._recent = list(messages)
        run_and_wait(self._calls.request(self._recent))

    def reset(self) -> None:
        """Move all messages to the archive."""
        self._recent = []
        run_and_wait(self._calls.clear())
