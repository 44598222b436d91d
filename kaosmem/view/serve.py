"""The page served live for a running agent, on the loopback address and behind a token.

The server needs the extra `view` (Starlette and uvicorn). It reads the stored session anew when its
files have changed, and answers nobody without the token.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from kaosmem.errors import MissingExtraError
from kaosmem.persistence.storage.places import fingerprint
from kaosmem.serving import serve_app
from kaosmem.session.memory import SessionMemory
from kaosmem.view.page import PageData, escaped_json, html_page, page_data

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_LOCAL = "127.0.0.1", "localhost", "[::1]", "::1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LivePage:
    """The page of a stored session, as its files are now.

    Args:
        root: The folder or URL that holds the session.
    """

    def __init__(
        self,
        root: str,
        session_id: str,
        namespace: str,
    ) -> None:
        self._place = root, session_id, namespace
        self._seen: Hashable = None
        self._data: PageData | None = None
        self._lock = asyncio.Lock()

    async def data(self) -> PageData:
        """Return the data of the page. Raises KaosmemError."""
        root, session_id, namespace = self._place
        async with self._lock:
            found = await asyncio.to_thread(fingerprint, root, session_id, namespace)
            if self._data is None or found != self._seen:
                opening = SessionMemory.open(
                    root, session_id, namespace=namespace, sections=None, read_only=True
                )
                async with opening as memory:
                    self._data = page_data(memory._session, is_live=True)
                self._seen = found
            return self._data


def view_app(
    page: LivePage,
    token: str,
    *,
    hosts: tuple[str, ...] = _LOCAL,
) -> Starlette:
    """Return the server of a page.

    Args:
        token: What the page's address and each later request must carry.
        hosts: The names that a request may call the server by. Other names are refused, so that no
            other site's page can ask it under a name of its own.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import HTMLResponse, PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError(
            "a live page needs the extra 'view': pip install 'kaosmem[view]'"
        ) from None

    async def answer(request: Request) -> Response:
        given = request.headers.get("x-token") or request.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), token.encode()):
            return PlainTextResponse("the token is missing or wrong", 403, _HEADERS)
        data = await page.data()
        if request.url.path == "/":
            return HTMLResponse("".join(html_page(data)), headers=_HEADERS)
        count = request.query_params.get("after", "0")
        after = 0
        if count.isdecimal():
            after = int(count)
        news = turns_after(data, after)
        return Response(escaped_json(news), media_type="application/json", headers=_HEADERS)

    return Starlette(
        routes=[Route("/", answer), Route("/news", answer)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
    )


def turns_after(data: PageData, after: int) -> dict[str, object]:
    """Return the turns that a page with the first `after` turns lacks, and only their number if none."""
    numbers = [*data.turns]
    if len(numbers) == after:
        return {"number": after}
    turns = {str(number): dict(data.turns[number]) for number in numbers[after:]}
    return {"session": dict(data.session), "items": dict(data.items), "data": turns}


async def serve_page(
    page: LivePage,
    host: str,
    port: int,
    started: Callable[[str], None],
) -> None:
    """Serve a page until the process is told to stop, to those who have its random token.

    Args:
        port: 0 takes a free port.
        started: Gets the address of the page, with the token, when a browser can open it.

    Raises:
        InvalidArgumentError: If the address cannot be used.
        MissingExtraError: If the extra `view` is not installed.
    """
    await page.data()
    token = secrets.token_urlsafe(24)
    app = view_app(page, token, hosts=(*_LOCAL, host))
    await serve_app(app, host, port, path=f"/?token={token}", started=started)
