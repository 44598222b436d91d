"""`kaosmem mcp`: a session as a server of the Model Context Protocol."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kaosmem.cli.options import Counter, Namespace, SessionUrl
from kaosmem.cli.sessions import split_url
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import check_name, shown
from kaosmem.serving import serve_app
from kaosmem.session.sessions import Sessions

TOKEN_VARIABLE = "KAOSMEM_MCP_TOKEN"
"""The environment variable with the token of clients over HTTP. Processes can read arguments."""


async def mcp(
    url: SessionUrl,
    namespace: Namespace = "default",
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve streamable HTTP at this address. KAOSMEM_MCP_TOKEN holds the token of "
            "clients. The default is stdio.",
            show_default=False,
        ),
    ] = None,
    section: Annotated[
        str, typer.Option(help="The section that gets what a model remembers.")
    ] = "findings",
    max_tokens: Annotated[
        int, typer.Option(help="The size of a result, in tokens, at least 1.")
    ] = 4_000,
    counter: Counter = "o200k_base",
) -> None:
    """Serve a session by the Model Context Protocol: over stdio, or over HTTP with a token.

    The first call that changes a session creates it. Each call is saved when it returns. Several
    clients may use one session at once.
    """
    from kaosmem.integrations.mcp import memory_server

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
            app = server.streamable_http_app(host=address[0])
            await serve_app(app, *address, path="/mcp", started=_say)


def _address(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgumentError(
            f"no address in {shown(text)}; give HOST:PORT, such as 127.0.0.1:8765"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _say(url: str) -> None:
    typer.echo(f"kaosmem: serving {url}", err=True)
