"""The sessions that the command works on, by URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from kaosmem.errors import InvalidNameError, KaosmemError, MissingExtraError, UnknownItemError
from kaosmem.names import check_name, shown
from kaosmem.session import SessionMemory, list_sessions

_SHOWN = 10


@asynccontextmanager
async def opened_corpus(url: str | None, namespace: str, counter: str) -> AsyncIterator[SessionMemory]:
    """Open the session at `url` for writing, new or stored; None is a memory that is gone afterwards."""
    if url is None:
        yield SessionMemory.test_mode(counter=counter)
        return
    root, session_id = split_url(url)
    async with AsyncExitStack() as stack:
        with _explained(root):
            memory = await stack.enter_async_context(
                SessionMemory.open(root, session_id, namespace=namespace, counter=counter)
            )
        yield memory


@asynccontextmanager
async def opened(url: str, namespace: str) -> AsyncIterator[SessionMemory]:
    """Open a stored session for reading. Raises UnknownItemError where there is none."""
    root, session_id = split_url(url)
    check_name(session_id, "session id")
    async with AsyncExitStack() as stack:
        with _explained(root):
            stored = await list_sessions(root, namespace)
            if session_id not in stored:
                there = ", ".join(map(repr, stored[:_SHOWN])) + ", …" * (len(stored) > _SHOWN)
                raise UnknownItemError(
                    f"no session {shown(session_id)} in {root!r}, namespace {namespace!r}; "
                    + (f"there are {there}" if stored else "there are none; `kaosmem assemble --session` makes one")
                )
            memory = await stack.enter_async_context(
                SessionMemory.open(root, session_id, namespace=namespace, read_only=True)
            )
        yield memory


def split_url(url: str) -> tuple[str, str]:
    """Return the root and the id of the session that a URL names. Raises InvalidNameError."""
    scheme, colon, place = url.rpartition("://")
    root, slash, session_id = place.rstrip("/").rpartition("/")
    if not session_id or not slash:
        raise InvalidNameError(
            f"{shown(url)} is not a session URL; "
            "give <root>/<session id>, such as ./.kaosmem/deal-42 or s3://bucket/deal-42"
        )
    return scheme + colon + (root or "/"), session_id


@contextmanager
def _explained(root: str) -> Iterator[None]:
    """Say of what a filesystem raises which place is meant."""
    try:
        yield
    except KaosmemError:
        raise
    except ImportError as error:
        raise MissingExtraError(f"{shown(root)} needs a package that is not installed: {error}") from error
    except (OSError, ValueError) as error:
        raise InvalidNameError(
            f"no session can be kept in {shown(root)}: {error}; give a folder, or a URL that fsspec knows"
        ) from error
