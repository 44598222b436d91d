"""The server: tools over a session, the tools of the reference `memory` server, and resources."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl

import kaosmem
from kaosmem.arguments import check_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.integrations.mcp.graph_tools import add_graph_tools
from kaosmem.integrations.mcp.turns import SessionTurns, add_tools
from kaosmem.serving import serve_app
from kaosmem.session.memory import SessionMemory
from kaosmem.session.sessions import Sessions
from kaosmem.session.tools import MemoryTools, cut, item_line

MIN_TOKEN_CHARS = 16
"""Length of the shortest token that guards a server."""
_LEAST_LINE_TOKENS = 8
"""The line of any item has more tokens: an id, a section and a day."""
_INSTRUCTIONS = (
    "The long-term memory of this agent. Call assemble_context first: it returns all that matters "
    "to a question within a budget of tokens. Call remember for statements that later "
    "conversations need; a key replaces the older value."
)

_READS = ToolAnnotations(read_only_hint=True)
_MEMORY_TOOLS = {
    "assemble_context": _READS,
    "explain_context": _READS,
    "list_versions": _READS,
    "search_memory": _READS,
    "read_memory": _READS,
    "remember": ToolAnnotations(destructive_hint=False),
    "correct_memory": ToolAnnotations(destructive_hint=True),
    "forget_memory": ToolAnnotations(destructive_hint=True),
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
    turns = SessionTurns(sessions, session_id, max_tokens=max_tokens)
    server: MCPServer[Any] = MCPServer(
        "kaosmem",
        version=kaosmem.__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        **_guarded_by(token),
    )
    add_tools(server, turns, MemoryTools, _MEMORY_TOOLS, section=section)
    add_graph_tools(server, turns)
    for name in names:
        server.add_resource(_section_resource(turns, name))
    return server


async def serve_http(
    server: MCPServer[Any],
    host: str,
    port: int,
    started: Callable[[str], None],
) -> None:
    """Serve over streamable HTTP until the process is told to stop.

    Args:
        port: 0 takes a free port.
        started: Gets the URL when clients can connect.

    Raises:
        InvalidArgumentError: If the address cannot be used.
    """
    app = server.streamable_http_app(host=host)
    await serve_app(app, host, port, path="/mcp", started=started)


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


def _section_resource(turns: SessionTurns, name: str) -> FunctionResource:
    return FunctionResource.from_function(
        partial(_section_text, turns, name),
        f"kaosmem://sections/{name}",
        name=name,
        description=f"The newest items of section {name}.",
    )


async def _section_text(turns: SessionTurns, name: str) -> str:
    """Return the newest items of a section that fit the size of a result, newest first."""

    async def work(memory: SessionMemory) -> str:
        newest = islice(reversed(memory[name]), turns.max_tokens // _LEAST_LINE_TOKENS + 1)
        text = "\n".join(map(item_line, newest))
        return cut(text, memory.admin.counter, turns.max_tokens)

    return await turns.run(work)
