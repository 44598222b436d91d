"""The sessions that the command works on, by URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from kaosmem.errors import InvalidNameError, UnknownSessionError
from kaosmem.names import check_name, shown
from kaosmem.retrieval import Ranker
from kaosmem.sections import DEFAULT_SECTIONS
from kaosmem.session import SessionMemory, list_sessions

_SHOWN = 10


@asynccontextmanager
async def opened_corpus(
    url: str | None, namespace: str, counter: str, ranker: Ranker | None = None
) -> AsyncIterator[SessionMemory]:
    """Open the session at `url` for writing, new or stored; None is a memory that is gone afterwards."""
    sections = tuple(
        # Of a few passages too, the question chooses: an agent's newest documents may matter most, a folder's do not.
        replace(
            spec,
            ranker=spec.ranker or ranker,
            retrieval_threshold=0 if spec.name == "documents" else spec.retrieval_threshold,
        )
        for spec in DEFAULT_SECTIONS
    )
    if url is None:
        yield SessionMemory.test_mode(sections=sections, counter=counter)
        return
    root, session_id = split_url(url)
    async with SessionMemory.open(
        root, session_id, namespace=namespace, sections=sections, counter=counter, ranker=ranker
    ) as memory:
        yield memory


@asynccontextmanager
async def opened(url: str, namespace: str) -> AsyncIterator[SessionMemory]:
    """Open a stored session for reading. Raises UnknownSessionError where there is none."""
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    async with SessionMemory.open(root, session_id, namespace=namespace, read_only=True) as memory:
        yield memory


async def check_stored(root: str, session_id: str, namespace: str) -> None:
    """Raise UnknownSessionError where there is no session, with the names of those that are there."""
    check_name(session_id, "session id")
    stored = await list_sessions(root, namespace)
    if session_id not in stored:
        there = ", ".join(map(repr, stored[:_SHOWN])) + ", …" * (len(stored) > _SHOWN)
        raise UnknownSessionError(
            f"no session {shown(session_id)} in {root!r}, namespace {namespace!r}; "
            + (f"there are {there}" if stored else "there are none; `kaosmem assemble --session` makes one")
        )


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
