"""Messages of Pydantic AI as messages of kaosmem, and back."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from kaosmem.integrations import part_tables as part
from kaosmem.types.items import ChatMessage

_ROLES = {"system-prompt": "system", "tool-return": "tool"}
_TEXTS = ("text", "retry-feedback", "system-prompt")
_NAMED = {"tool_name": part.NAME, "tool_call_id": part.ID}
_THOUGHT = {"part_kind": "thinking", "provider_name": part.PROVIDER}
_RESULT = {"tool_call_id": part.RESULT_ID, "content": part.RESULT, "outcome": part.OUTCOME}
_PARTS = part.PartTable(
    "part_kind",
    *({"part_kind": kind, "content": part.TEXT} for kind in _TEXTS),
    {**_THOUGHT, "id": "redacted_thinking", "content": "", "signature": part.SEALED},
    {**_THOUGHT, "content": part.THINKING, "signature": part.SIGNATURE},
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
        blocks = _SAID.read(told["content"]) if kind == "user-prompt" else _PARTS.read([told])
        messages.append(ChatMessage(_ROLES.get(kind, "user"), blocks))
    return messages


def write_message(message: ChatMessage) -> ModelMessage:
    """Return a message of the framework. A result is alone in its message."""
    kind = "response" if message.role == "assistant" else "request"
    parts = _PARTS.write(message.blocks)
    if message.role not in ("assistant", "tool"):
        said = [each.get("content", each) for each in _SAID.write(message.blocks)]
        parts = [{"part_kind": "user-prompt", "content": said}]
    return ModelMessagesTypeAdapter.validate_python([{"kind": kind, "parts": parts}])[0]
