"""The arguments of a call of a provider's SDK: messages, system prompt, tools and cache marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

_MARK = {"type": "ephemeral"}
_POINT = {"cachePoint": {"type": "default"}}


class RequestParts(NamedTuple):
    """The parts of a request.

    Attributes:
        messages: The messages as the SDK takes them.
        system: The system prompt beside them, "" for none.
        tools: The tools of the call.
        marks: The indexes of the messages whose end is marked for the cache; None for no marks.
    """

    messages: Sequence[dict[str, Any]]
    system: str
    tools: Sequence[Any]
    marks: Sequence[int] | None


def request_arguments(format: str, parts: RequestParts) -> dict[str, Any]:
    """Return the arguments of a call of the SDK. A format of one's own gets `messages`."""
    return _ARGUMENTS.get(format, _chat)(parts)


def _chat(parts: RequestParts) -> dict[str, Any]:
    beside = {"system": parts.system} if parts.system else {}
    return {**beside, "messages": list(parts.messages), **_with_tools(parts.tools)}


def _responses(parts: RequestParts) -> dict[str, Any]:
    return {"input": list(parts.messages), **_with_tools(parts.tools)}


def _gemini(parts: RequestParts) -> dict[str, Any]:
    config: dict[str, Any] = _with_tools(parts.tools)
    if parts.system:
        config["system_instruction"] = parts.system
    return {"contents": list(parts.messages), **({"config": config} if config else {})}


def _anthropic(parts: RequestParts) -> dict[str, Any]:
    arguments: dict[str, Any] = {"messages": _marked(parts, _with_control)}
    if parts.system:
        block: dict[str, Any] = {"type": "text", "text": parts.system}
        is_marked = parts.marks is not None
        arguments["system"] = [{**block, "cache_control": _MARK}] if is_marked else parts.system
    return arguments | _with_tools(parts.tools)


def _with_control(content: Any) -> list[Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]


def _bedrock(parts: RequestParts) -> dict[str, Any]:
    arguments: dict[str, Any] = {"messages": _marked(parts, lambda content: [*content, _POINT])}
    if parts.system:
        points = [] if parts.marks is None else [_POINT]
        arguments["system"] = [{"text": parts.system}, *points]
    return arguments | ({"toolConfig": {"tools": list(parts.tools)}} if parts.tools else {})


def _marked(parts: RequestParts, mark: Callable[[Any], list[Any]]) -> list[dict[str, Any]]:
    """Return messages with marks at the end of some, on copies. The last three are enough."""
    marked = [*parts.messages]
    for at in list(parts.marks or ())[-3:]:
        marked[at] = {**marked[at], "content": mark(marked[at]["content"])}
    return marked


def _with_tools(tools: Iterable[Any]) -> dict[str, Any]:
    given = list(tools)
    return {"tools": given} if given else {}


_ARGUMENTS = {
    "anthropic": _anthropic,
    "bedrock": _bedrock,
    "gemini": _gemini,
    "openai-responses": _responses,
}
