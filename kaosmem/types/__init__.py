"""Items, messages and content blocks. All are frozen."""

from kaosmem.arguments import JSONDict as JSONDict
from kaosmem.arguments import JSONObject as JSONObject
from kaosmem.arguments import JSONValue
from kaosmem.types.content import Content, ContentBlock, OpaqueBlock

__all__ = ["Content", "ContentBlock", "JSONValue", "OpaqueBlock"]
