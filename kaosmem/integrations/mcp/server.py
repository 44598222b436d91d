"""The server: tools over a session, the tools of the reference `memory` server, and resources."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import AnyHttpUrl

import kaosmem
from kaosmem.arguments import check_text, json_text
from kaosmem.errors import ConflictError, InvalidArgumentError, KaosmemError
from kaosmem.integrations.mcp.graph_tools import KnowledgeGraph
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.session.tools import MemoryTools, cut_to_tokens, item_line

MAX_ATTEMPTS = 5
"""Number of times that a call runs if other processes change the same items."""
MIN_TOKEN_CHARS = 16
"""Length of the shortest token that guards a server."""
_LEAST_LINE_TOKENS = 8
"""The line of any item has more tokens: an id, a section and a day."""
_INSTRUCTIONS = (
    "The long-term memory of this agent. Call assemble_context first: it returns all that matters "
    "to a question within a budget of tokens. Call remember for statements that later "
    "conversations need; a key replaces the older value."
)

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(destructive_hint=False, open_world_hint=False)
_REPLACES = ToolAnnotations(destructive_hint=True, open_world_hint=False)
_MEMORY_TOOLS = {
    "assemble_context": _READS,
    "explain_context": _READS,
    "list_versions": _READS,
    "search_memory": _READS,
    "read_memory": _READS,
    "remember": _ADDS,
    "correct_memory": _REPLACES,
    "forget_memory": _REPLACES,
}
_GRAPH_TOOLS = {
    "create_entities": _ADDS,
    "create_relations": _ADDS,
    "add_observations": _ADDS,
    "delete_entities": _REPLACES,
    "delete_observations": _REPLACES,
    "delete_relations": _REPLACES,
    "read_graph": _READS,
    "search_nodes": _READS,
    "open_nodes": _READS,
}


async def memory_server(
    sessions: Sessions,
    session_id: str,
    *,
    section: str = "findings",
    max_tokens: int = 4_000,
    token: str | None = None,
) -> MCPServer[Any]:
    """Return an MCP server over one session.

    Each call of a tool is a turn: it sees the saves of other processes, and is saved at its end.

    Args:
        sessions: The sessions of the program, such as `Sessions("./.kaosmem", sections=None)`.
        session_id: The session. The first call that changes it creates it.
        section: The section that gets what a model remembers. It is not static.
        max_tokens: Size of a result, and the default budget of `assemble_context`.
        token: The bearer token of clients over HTTP, at least 16 characters. None: no token.

    Raises:
        NotFoundError: If there is no such section.
        InvalidArgumentError: If the section is static, or the token or max_tokens is not valid.
        KaosmemError: As `SessionMemory.open`.
    """
    async with sessions.turn(session_id) as memory:
        MemoryTools(memory, max_tokens, section=section)  # checks both arguments
        names = [spec.name for spec in memory.sections]
    turns = _Turns(sessions, session_id, max_tokens=max_tokens)
    server: MCPServer[Any] = MCPServer(
        "kaosmem",
        version=kaosmem.__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        **_guarded_by(token),
    )
    _add_tools(server, turns, _MEMORY_TOOLS, MemoryTools, section=section)
    _add_tools(server, turns, _GRAPH_TOOLS, KnowledgeGraph)
    server.resource("memory://knowledge-graph", mime_type="application/json")(turns.graph)
    for name in names:
        text = partial(turns.section, name)
        described = f"The newest items of section {name}."
        server.add_resource(
            FunctionResource.from_function(
                text, f"kaosmem://sections/{name}", name=name, description=described
            )
        )
    return server


class _OneToken:
    """Accepts one bearer token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access of a token, None for any but the right one."""
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token="", client_id="kaosmem", scopes=[])


def _guarded_by(token: str | None) -> dict[str, Any]:
    """Return the arguments of a server that asks for a token."""
    if token is None:
        return {}
    if len(check_text(token, "token")) < MIN_TOKEN_CHARS:
        raise InvalidArgumentError(
            f"the token has {len(token)} characters; give at least {MIN_TOKEN_CHARS}, made at random"
        )
    # The SDK asks for an issuer of tokens. There is none, and it is shown nowhere.
    settings = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
    return {"auth": settings, "token_verifier": _OneToken(token)}


class _Turns:
    """The turns of one session, in which the tools of the server run.

    Args:
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

    async def run(self, work: Callable[[SessionMemory], Any]) -> Any:
        """Return the result of a function of the memory, awaited if need be, and save its changes.

        If another process changed the same items meanwhile, the function runs again on the stored
        session.

        Raises:
            ToolError: If the function or the save raises a KaosmemError. Nothing has changed then.
        """
        conflicts = 0
        while True:
            try:
                async with self._sessions.turn(self._session_id) as memory:
                    result = work(memory)
                    return await result if inspect.isawaitable(result) else result
            except KaosmemError as error:
                conflicts += 1
                if conflicts == MAX_ATTEMPTS or not isinstance(error, ConflictError):
                    raise ToolError(str(error)) from error

    async def section(self, name: str) -> str:
        """Return the newest items of a section that fit the size of a result, newest first."""

        def work(memory: SessionMemory) -> str:
            newest = islice(reversed(memory[name]), self.max_tokens // _LEAST_LINE_TOKENS + 1)
            text = "\n".join(map(item_line, newest))
            return cut_to_tokens(text, memory.admin.counter, self.max_tokens)

        return await self.run(work)

    async def graph(self) -> str:
        """Read the knowledge graph, the newest entities first, as far as the budget allows."""
        graph = await self.run(lambda memory: KnowledgeGraph(memory, self.max_tokens).read_graph())
        return json_text(graph)


def _add_tools(
    server: MCPServer[Any],
    turns: _Turns,
    annotations: Mapping[str, ToolAnnotations],
    tools: type,
    **options: str,
) -> None:
    """Add methods as tools of a server. Each call is a turn.

    Args:
        annotations: The names of the methods, with what they do. A method has typed parameters and
            a docstring for the model. It returns a text, or a dict.
        tools: The class of the methods. It takes the memory of a turn and the size of a result.
        options: Further arguments of the class.
    """
    for name, annotation in annotations.items():
        method = getattr(tools, name)
        server.add_tool(
            _tool(turns, method, partial(tools, **options)),
            name,
            description=inspect.getdoc(method),
            annotations=annotation,
            structured_output=False,
        )


def _tool(
    turns: _Turns,
    method: Callable[..., Any],
    tools: Callable[..., Any],
) -> Callable[..., Awaitable[object]]:
    """Return a function with the parameters of a method, which calls it in a turn."""

    async def call(**given: Any) -> object:
        result = await turns.run(lambda memory: method(tools(memory, turns.max_tokens), **given))
        if not isinstance(result, dict):
            return result
        # The reference server gives a result twice, as a text and as an object.
        text = TextContent(type="text", text=result.get("message") or json_text(result))
        return CallToolResult(content=[text], structured_content=result)

    signature = inspect.signature(method, eval_str=True)
    _, *parameters = signature.parameters.values()
    told = signature.replace(parameters=parameters)
    call.__signature__ = told  # type: ignore[attr-defined]
    return call
