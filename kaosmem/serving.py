"""An application of a web server at an address of this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from kaosmem.errors import InvalidArgumentError


async def serve_app(
    app: Any,
    host: str,
    port: int,
    *,
    path: str,
    started: Callable[[str], None],
) -> None:
    """Serve an ASGI application until the process is told to stop. It needs uvicorn.

    Args:
        port: 0 takes a free port.
        path: The path of the URL that `started` gets.
        started: Gets the URL when clients can connect.

    Raises:
        InvalidArgumentError: If the address cannot be used.
    """
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family)) as listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise InvalidArgumentError(
                f"no server at {host} port {port}: {error.strerror}; give another address, or port "
                "0 for a free one"
            ) from error
        listener.listen()
        shown_host = f"[{host}]" if ":" in host else host
        started(f"http://{shown_host}:{listener.getsockname()[1]}{path}")
        config = uvicorn.Config(app, log_level="warning", lifespan="on")
        await uvicorn.Server(config).serve(sockets=[listener])
