"""Messages and content blocks as JSON text, in which every durable store keeps them."""

from __future__ import annotations

import json
from typing import Any

from kaosmem.errors import CorruptionError
from kaosmem.types import ChatMessage, Content, ContentBlock, JSONValue, Trust, content_json, json_text
from kaosmem.types.content import stored_blocks


def message_text(message: ChatMessage) -> str:
    """Return a message as JSON text; fields with their default are left out."""
    fields: dict[str, JSONValue] = {"id": message.id, "pinned": message.pinned, "sources": list(message.sources)}
    given = {name: value for name, value in fields.items() if value}
    if message.trust is not None:
        given["trust"] = int(message.trust)
    return json_text({"role": message.role, "content": content_json(message.content), **given})


def message_of(text: str) -> ChatMessage:
    """Return the message of which `message_text` made a text. Raises CorruptionError."""
    fields = value_of(text)
    try:
        trust = fields.get("trust")
        return ChatMessage(
            fields["role"],
            content_of(fields["content"]),
            id=fields.get("id", ""),
            pinned=fields.get("pinned", False),
            sources=tuple(fields.get("sources", ())),
            trust=None if trust is None else Trust(trust),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(error) from error


def blocks_text(blocks: tuple[ContentBlock, ...]) -> str:
    """Return content blocks as JSON text."""
    return json_text(content_json(blocks))


def blocks_of(text: str) -> tuple[ContentBlock, ...]:
    """Return the blocks of which `blocks_text` made a text. Raises CorruptionError."""
    try:
        return stored_blocks(value_of(text))
    except (TypeError, ValueError) as error:
        raise _damaged(error) from error


def content_of(stored: JSONValue) -> Content:
    """Return content of its JSON values. Raises ValueError."""
    return stored if isinstance(stored, str) else stored_blocks(stored)


def value_of(text: str) -> Any:
    """Return the value of a JSON text. Raises CorruptionError."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> CorruptionError:
    return CorruptionError(f"a stored value is damaged ({type(error).__name__}); restore the store from a copy")
