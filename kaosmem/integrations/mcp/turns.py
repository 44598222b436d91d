"""Turns of a session for the tools of a server."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from kaosmem.errors import ConflictError, KaosmemError
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.types import JSONObject

T = TypeVar("T")

MAX_ATTEMPTS = 5
"""Number of times that a call runs if other processes change the same items."""


class SessionTurns:
    """The turns of one session, in which the tools of a server run.

    Args:
        sessions: The sessions of the server.
        session_id: The session.
        max_tokens: Size of a result, in tokens of the session's counter.
    """

    def __init__(
        self,
        sessions: Sessions,
        session_id: str,
        *,
        max_tokens: int,
    ) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self.max_tokens = max_tokens

    async def run(self, work: Callable[[SessionMemory], Awaitable[T]]) -> T:
        """Return the result of a function of the memory, and save what it changed.

        If another process changed the same items meanwhile, the function runs again on the stored
        session.

        Raises:
            ToolError: If the function or the save raises a KaosmemError. Nothing has changed then.
        """
        attempts = MAX_ATTEMPTS
        while True:
            attempts -= 1
            try:
                async with self._sessions.turn(self._session_id) as memory:
                    return await work(memory)
            except ConflictError as error:
                if not attempts:
                    raise ToolError(str(error)) from error
            except KaosmemError as error:
                raise ToolError(str(error)) from error


def add_tools(
    server: MCPServer[Any],
    turns: SessionTurns,
    tools: Callable[..., Any],
    annotations: Mapping[str, ToolAnnotations],
    **options: Any,
) -> None:
    """Add methods of a class as tools of a server. Each call is a turn.

    Args:
        tools: The class. It takes the memory of a turn, the size of a result, and the options.
        annotations: The names of the methods, with what they do. A method has typed parameters and
            a docstring for the model. It returns a text, or a dict of a type.
    """
    for name, annotation in annotations.items():
        method = getattr(tools, name)
        signature = inspect.signature(method, eval_str=True)
        is_text = signature.return_annotation is str
        result = str if is_text else Annotated[CallToolResult, signature.return_annotation]
        _, *parameters = signature.parameters.values()
        call = _turn_of(turns, partial(tools, **options), name)
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters,
            return_annotation=result,
        )
        server.add_tool(
            call,
            name,
            description=inspect.getdoc(method),
            annotations=annotation,
            structured_output=not is_text,
        )


def _turn_of(
    turns: SessionTurns,
    tools: Callable[..., Any],
    name: str,
) -> Callable[..., Awaitable[object]]:
    """Return a function that calls a method in a turn."""

    async def call(**given: Any) -> object:
        async def work(memory: SessionMemory) -> object:
            result = getattr(tools(memory, turns.max_tokens), name)(**given)
            return await result if inspect.isawaitable(result) else result

        result = await turns.run(work)
        return _told(result) if isinstance(result, dict) else result

    return call


def json_of(result: JSONObject) -> str:
    """Return the JSON text of a result, as clients read it."""
    return json.dumps(result, ensure_ascii=False)


def _told(result: JSONObject) -> CallToolResult:
    """Return a result as text and as structured content, as the reference server does."""
    text = result.get("message") or json_of(result)
    content = TextContent(type="text", text=text)
    return CallToolResult(content=[content], structured_content=dict(result))
