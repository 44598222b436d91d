"""`kaosmem mcp`: a session as a server of the Model Context Protocol."""

from __future__ import annotations

import os
import sys

from kaosmem.cli.sessions import split_url
from kaosmem.errors import InvalidArgumentError
from kaosmem.integrations.mcp.server import memory_server, serve_http
from kaosmem.names import check_name, shown
from kaosmem.session.sessions import Sessions

TOKEN_VARIABLE = "KAOSMEM_MCP_TOKEN"
"""The environment variable with the token of clients over HTTP. Processes can read arguments."""


async def serve(
    url: str,
    namespace: str,
    *,
    http: str | None,
    section: str,
    max_tokens: int,
    counter: str,
) -> None:
    """Serve a session until the client closes it, or over HTTP until the process is told to stop.

    Raises:
        InvalidNameError: If the URL or the namespace is not valid.
        InvalidArgumentError: If another argument is not valid, or a server for other machines has
            no token.
        KaosmemError: As `SessionMemory.open`.
    """
    root, session_id = split_url(url)
    check_name(session_id, "session id")
    address = None if http is None else _address(http)
    token = os.environ.get(TOKEN_VARIABLE) or None
    if address is not None and token is None:
        raise InvalidArgumentError(
            f"a server over HTTP needs a token; set {TOKEN_VARIABLE} to a random text of at least "
            "16 characters, and give it to clients as 'Authorization: Bearer <token>'"
        )
    async with Sessions(root, namespace=namespace, sections=None, counter=counter) as sessions:
        server = await memory_server(
            sessions,
            session_id,
            section=section,
            max_tokens=max_tokens,
            token=None if address is None else token,
        )
        if address is None:
            await server.run_stdio_async()
        else:
            await serve_http(server, *address, started=_say)


def _address(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgumentError(
            f"no address in {shown(text)}; give HOST:PORT, such as 127.0.0.1:8765"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _say(url: str) -> None:
    sys.stderr.write(f"kaosmem: serving {url}\n")
    sys.stderr.flush()
