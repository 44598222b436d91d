"""Items, messages and content blocks. All are frozen."""

from kaosmem.types.content import (
    Content,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
    check_content,
    content_json,
    content_text,
)
from kaosmem.types.items import Item, StoredItem, check_extent, decoded, stated_from
from kaosmem.types.json_values import (
    MAX_INTEGER,
    MAX_JSON_DEPTH,
    JSONValue,
    check_json,
    check_metadata,
    check_text,
    is_integer,
    json_text,
)
from kaosmem.types.messages import ChatMessage
from kaosmem.types.trust import Trust, trust_of
from kaosmem.types.versions import Interval, Version, aware, day_text, in_order, known_by

__all__ = [
    "MAX_INTEGER",
    "MAX_JSON_DEPTH",
    "ChatMessage",
    "Content",
    "ContentBlock",
    "DocumentBlock",
    "ImageBlock",
    "Interval",
    "Item",
    "JSONValue",
    "StoredItem",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "Trust",
    "Version",
    "aware",
    "block_text",
    "check_content",
    "check_extent",
    "check_json",
    "check_metadata",
    "check_text",
    "content_json",
    "content_text",
    "day_text",
    "decoded",
    "in_order",
    "is_integer",
    "json_text",
    "known_by",
    "stated_from",
    "trust_of",
]
