"""The arguments of a call of a provider's SDK: messages, system prompt, tools and cache marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kaosmem.types import JSONDict

_MARK = {"type": "ephemeral"}
_POINT = {"cachePoint": {"type": "default"}}
_MARK_NAMES = {"cache_control", "cachePoint"}
_MAX_MARKS = 4


class RequestParts(NamedTuple):
    """The parts of a request.

    Attributes:
        messages: The messages as the SDK takes them.
        system: The system prompt beside them, "" for none.
        tools: The tools of the call.
        marks: The indexes of the messages whose end is marked for the cache; None for no marks.
    """

    messages: Sequence[JSONDict]
    system: str
    tools: Sequence[Any]
    marks: Sequence[int] | None


def request_arguments(format: str, parts: RequestParts) -> JSONDict:
    """Return the arguments of a call of the SDK. A format of one's own gets `messages`."""
    messages = list(parts.messages)
    tools = list(parts.tools)
    beside: JSONDict = {"system": parts.system, "tools": tools}
    match format:
        case "openai-responses":
            return {"input": messages, **_filled(beside)}
        case "gemini":
            config = _filled({"system_instruction": parts.system, "tools": tools})
            return {"contents": messages, **_filled({"config": config})}
        case "anthropic" if parts.marks is not None:
            if parts.system:
                beside["system"] = _with_control(parts.system)
            return {"messages": _marked(parts, _with_control), **_filled(beside)}
        case "bedrock":
            points = [] if parts.marks is None else [_POINT]
            if parts.system:
                beside["system"] = [{"text": parts.system}, *points]
            beside["toolConfig"] = _filled({"tools": beside.pop("tools")})
            marked = _marked(parts, lambda content: [*content, _POINT])
            return {"messages": marked, **_filled(beside)}
    return {"messages": messages, **_filled(beside)}


def _filled(fields: JSONDict) -> JSONDict:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _with_control(content: Any) -> list[Any]:
    """Return content as blocks, the last one with a mark for the cache."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    *blocks, last = content
    return [*blocks, {**last, "cache_control": _MARK}]


def _marked(parts: RequestParts, mark: Callable[[Any], list[Any]]) -> list[JSONDict]:
    """Return messages with marks at the end of some, on copies. The last three are enough.

    A request has at most four marks: one is that of the system prompt, and tools may have some.
    """
    room = _MAX_MARKS - 1
    for tool in parts.tools:
        if isinstance(tool, Mapping) and not _MARK_NAMES.isdisjoint(tool):
            room -= 1
    marked = list(parts.messages)
    marks = list(reversed(parts.marks or ()))
    for at in marks[: max(0, room)]:
        message = marked[at]
        marked[at] = {**message, "content": mark(message["content"])}
    return marked
