"""Stored sessions: listing, opening, erasing and repairing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from kaosmem.assembly.context import Context
from kaosmem.cli.report import damage_json
from kaosmem.cli.terminal import Phases
from kaosmem.errors import InvalidArgumentError, InvalidNameError, NotFoundError
from kaosmem.ingest.passages import IngestReport
from kaosmem.names import check_name, shown, shown_location
from kaosmem.persistence.storage.places import filesystem_of, unknown_session
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.session import ErasureReceipt, RepairReport, list_namespaces, stored_sessions
from kaosmem.session.directory import list_sessions
from kaosmem.session.memory import SessionMemory
from kaosmem.session.saving.repair import repair_session
from kaosmem.types import JSONDict, JSONObject


async def list_stored(
    root: str,
    namespace: str | None,
    *,
    limit: int,
) -> JSONDict:
    """Return the sessions that were saved last, and the number of all. None is opened.

    Args:
        namespace: List this one only. None lists all namespaces.

    Raises:
        NotFoundError: If the place itself is missing.
    """
    if namespace is None:
        namespaces = await list_namespaces(root)
    else:
        namespaces = [namespace]
    found: list[JSONDict] = []
    for name in namespaces:
        for session in await stored_sessions(root, name):
            saved = session.saved.isoformat(" ", "seconds") if session.saved else None
            found.append(
                {
                    "namespace": name,
                    "session": session.session_id,
                    "bytes": session.size_bytes,
                    "last_saved": saved,
                }
            )
    if not found and not await asyncio.to_thread(filesystem_of(root).exists, ""):
        raise NotFoundError(
            f"no sessions in {shown_location(root)}: there is no such place; check the path, or "
            "make a session with "
            "`kaosmem assemble --session`"
        )
    found.sort(key=lambda each: each["last_saved"] or "", reverse=True)
    return {"root": root, "total": len(found), "sessions": found[:limit]}


@asynccontextmanager
async def open_corpus(
    url: str | None,
    namespace: str,
    counter: str,
    ranker: Ranker | None = None,
) -> AsyncIterator[SessionMemory]:
    """Open the session at `url` for writing, new or stored.

    None is a memory that is gone afterwards.
    """
    # The question chooses among a few passages too. The newest of an agent's documents may matter
    # most, but the newest of a folder's do not.
    sections = DEFAULT_SECTIONS.replace(documents={"retrieval_threshold": 0})
    if url is None:
        yield SessionMemory.test_mode(sections=sections, counter=counter, ranker=ranker)
        return
    root, session_id = split_url(url)
    check_name(session_id, "session id")
    is_stored = session_id in await list_sessions(root, namespace)
    async with SessionMemory.open(
        root,
        session_id,
        namespace=namespace,
        sections=None if is_stored else sections,
        counter=counter,
        ranker=ranker,
    ) as memory:
        yield memory


async def ask_session(
    query: str,
    *,
    path: str | None,
    url: str | None,
    namespace: str,
    counter: str,
    ranker: Ranker,
    reading: JSONObject,
    asking: JSONObject,
) -> tuple[SessionMemory, IngestReport | None, Context]:
    """Read files into a session if a path is given, ask it, and show the progress.

    Args:
        path: None asks the stored session, and changes nothing.
        url: The session that keeps the files; None is one that is gone afterwards.
        reading, asking: Arguments of `ingest` and `assemble_context`.
    """
    report = None
    with Phases() as phases:
        phases.begin("opening the session")
        opening = open_stored if path is None else open_corpus
        async with opening(url, namespace, counter, ranker) as memory:
            if path is not None:
                phases.begin("reading files")
                report = await memory.ingest(path, progress=phases.show, **reading)
                if url is not None:
                    phases.begin("saving")
                    await memory.save()
            phases.begin("indexing items")
            await memory.admin.prepare(progress=partial(phases.show, ""))
            phases.begin("ranking and packing")
            context = await memory.assemble_context(query, **asking)
            phases.begin("closing")
    return memory, report, context


@asynccontextmanager
async def open_stored(
    url: str | None,
    namespace: str,
    counter: str | None = None,
    ranker: Ranker | None = None,
) -> AsyncIterator[SessionMemory]:
    """Open a stored session for reading, with its own sections.

    Raises NotFoundError where there is none.
    """
    root, session_id = split_url(url or "")
    async with SessionMemory.open(
        root,
        session_id,
        namespace=namespace,
        sections=None,
        counter=counter,
        ranker=ranker,
        read_only=True,
    ) as memory:
        yield memory


async def check_stored(
    root: str,
    session_id: str,
    namespace: str,
) -> None:
    """Raise NotFoundError where there is no session."""
    if check_name(session_id, "session id") not in await list_sessions(root, namespace):
        raise await asyncio.to_thread(unknown_session, root, session_id, namespace)


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


async def erase_items(
    url: str,
    namespace: str,
    item_ids: list[str],
) -> ErasureReceipt:
    """Erase items of a stored session. Raises as `SessionMemory.forget`, and NotFoundError."""
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    async with SessionMemory.open(root, session_id, namespace=namespace, sections=None) as memory:
        return await memory.forget(*item_ids)


async def repair_copy(
    url: str,
    into: str | None,
    namespace: str,
) -> RepairReport:
    """Copy the intact items of a session into a new one. Raises as `repair_session`."""
    root, session_id = split_url(url)
    with Phases() as phases:
        phases.begin("reading intact records")
        return await repair_session(root, session_id, into, namespace)


async def erasure_faults(
    url: str,
    namespace: str,
    receipt: Path,
) -> tuple[str, ...]:
    """Return why the erasure of a receipt's file does not hold, () if it holds.

    Raises InvalidArgumentError.
    """
    try:
        stored = json.loads(await asyncio.to_thread(receipt.read_bytes))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InvalidArgumentError(
            f"no receipt in {shown(str(receipt))}: {why}; give the file of --receipt"
        ) from None
    async with open_stored(url, namespace) as memory:
        return await memory.admin.verify(ErasureReceipt.from_dict(stored))


def repair_json(report: RepairReport) -> JSONDict:
    """Return the result of a repair as JSON values."""
    return {
        "session": report.session_id,
        "state": "sound" if report.into is None else "damaged",
        "into": report.into,
        "items": dict(report.items),
        "archived": dict(report.archived),
        "damage": damage_json(report.damage),
        "outdated": [*report.outdated],
    }
