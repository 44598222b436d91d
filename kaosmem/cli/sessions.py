"""Stored sessions: listing, opening, erasing and repairing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kaosmem.assembly.context import Context
from kaosmem.cli.report import damage_json, number_or_dash
from kaosmem.cli.terminal import Phases, write, write_table
from kaosmem.errors import InvalidArgumentError, InvalidNameError, KaosmemError, NotFoundError
from kaosmem.ingest.passages import IngestReport
from kaosmem.names import check_name, shown, shown_location
from kaosmem.persistence.storage.places import StoredSession, filesystem_of, unknown_session
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.spec import DEFAULT_SECTIONS
from kaosmem.session import ErasureReceipt, RepairReport, list_namespaces, stored_sessions
from kaosmem.session.directory import list_sessions
from kaosmem.session.memory import SessionMemory

_COLUMNS = "namespace", "session", "items", "tokens", "archived", "bytes", "last saved"


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in a list; without figures if it can't be read, which the note then says."""

    namespace: str
    stored: StoredSession
    items: int | None = None
    tokens: int | None = None
    archived: int | None = None
    note: str = ""


async def listed_sessions(
    root: str, namespace: str | None, *, limit: int, progress: Callable[[str, int, int], None]
) -> tuple[list[Listed], int]:
    """Return the sessions that were saved last, with their figures, and the number of all.

    Args:
        namespace: List this one only. None lists all namespaces.

    Raises:
        NotFoundError: If the place itself is missing.
    """
    if namespace is None:
        namespaces = await list_namespaces(root)
    else:
        namespaces = [namespace]
    found = []
    for name in namespaces:
        found += [(name, session) for session in await stored_sessions(root, name)]
    if not found and not await asyncio.to_thread(filesystem_of(root).exists, ""):
        raise NotFoundError(
            f"no sessions in {shown_location(root)}: there is no such place; check the path, or "
            "make a session with "
            "`kaosmem assemble --session`"
        )
    earliest = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda each: each[1].saved or earliest, reverse=True)
    listed = []
    for done, (name, session) in enumerate(found[:limit], 1):
        listed.append(await _listed(root, name, session))
        progress(session.session_id, done, min(limit, len(found)))
    return listed, len(found)


async def _listed(root: str, namespace: str, session: StoredSession) -> Listed:
    url = f"{root.rstrip('/')}/{session.session_id}"
    try:
        async with opened(url, namespace) as memory:
            sections = [memory[spec.name] for spec in memory.sections]
            return Listed(
                namespace,
                session,
                items=sum(map(len, sections)),
                tokens=memory.admin.used,
                archived=sum(len(section.archive) for section in sections),
                note="; ".join(memory.notices),
            )
    except KaosmemError as error:
        return Listed(namespace, session, note=str(error))


def print_sessions(root: str, namespace: str | None, listed: list[Listed], total: int) -> None:
    """Print sessions, a line each, then their notes."""
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    title = f"{total:,} session{'s' * (total != 1)} in {root}, {where}"
    rows = [
        (
            each.namespace,
            each.stored.session_id,
            *map(number_or_dash, (each.items, each.tokens, each.archived, each.stored.size_bytes)),
            _second(each.stored.saved),
        )
        for each in listed
    ]
    write_table(title, _COLUMNS, rows)
    for each in listed:
        if each.note:
            write(f"note: {each.stored.session_id}: {each.note}\n")
    if total > len(listed):
        write(f"… and {total - len(listed):,} saved before; --limit shows more\n")


def _second(time: datetime | None) -> str:
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}Z"


def sessions_json(root: str, listed: list[Listed], total: int) -> dict[str, Any]:
    """Return sessions as JSON values."""
    return {
        "root": root,
        "total": total,
        "sessions": [
            {
                "namespace": each.namespace,
                "session": each.stored.session_id,
                "items": each.items,
                "tokens": each.tokens,
                "archived": each.archived,
                "bytes": each.stored.size_bytes,
                "last_saved": each.stored.saved.isoformat() if each.stored.saved else None,
                "note": each.note,
            }
            for each in listed
        ],
    }


@asynccontextmanager
async def opened_corpus(
    url: str | None, namespace: str, counter: str, ranker: Ranker | None = None
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


def opened_or_new(
    path: str | None, url: str | None, namespace: str, counter: str, ranker: Ranker
) -> AbstractAsyncContextManager[SessionMemory]:
    """Open a session for reading, or for writing if a path of files is given."""
    if path is None:
        return opened(url or "", namespace, counter, ranker)
    return opened_corpus(url, namespace, counter, ranker)


async def answered(
    opening: AbstractAsyncContextManager[SessionMemory],
    path: str | None,
    reading: Callable[..., Awaitable[IngestReport]],
    asking: Callable[[SessionMemory], Awaitable[Context]],
    *,
    is_saved: bool,
) -> tuple[SessionMemory, IngestReport | None, Context]:
    """Read files into a session if a path is given, ask it, and show the progress.

    Args:
        reading: Reads a path into a session.
        is_saved: Save the session between both.
    """
    report = None
    with Phases() as phases:
        phases.begin("opening the session")
        async with opening as memory:
            if path is not None:
                phases.begin("reading files")
                report = await reading(memory, path, progress=phases.show)
                if is_saved:
                    phases.begin("saving")
                    await memory.save()
            phases.begin("indexing items")
            await memory.admin.prepare(progress=partial(phases.show, ""))
            phases.begin("ranking and packing")
            context = await asking(memory)
            phases.begin("closing")
    return memory, report, context


@asynccontextmanager
async def opened(
    url: str, namespace: str, counter: str | None = None, ranker: Ranker | None = None
) -> AsyncIterator[SessionMemory]:
    """Open a stored session for reading, with its own sections.

    Raises NotFoundError where there is none.
    """
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
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


async def check_stored(root: str, session_id: str, namespace: str) -> None:
    """Raise NotFoundError where there is no session.

    It names the namespaces with that id, else the nearest id.
    """
    check_name(session_id, "session id")
    if session_id in await list_sessions(root, namespace):
        return
    for other in await list_namespaces(root):
        if session_id in await list_sessions(root, other):
            raise NotFoundError(
                f"no session {shown(session_id)} in {shown_location(root)}, namespace "
                f"{namespace!r}; "
                f"namespace {other!r} has one: give --namespace {other}"
            )
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


async def erased(url: str, namespace: str, item_ids: list[str]) -> ErasureReceipt:
    """Erase items of a stored session. Raises as `SessionMemory.forget`, and NotFoundError."""
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    async with SessionMemory.open(root, session_id, namespace=namespace, sections=None) as memory:
        return await memory.forget(*item_ids)


async def verified(url: str, namespace: str, receipt: Path) -> tuple[str, ...]:
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
    async with opened(url, namespace) as memory:
        return await memory.admin.verify(ErasureReceipt.from_dict(stored))


_OLD_VERSIONS = {
    "none": "",
    "kept": "old versions: kept; delete the old versions in the bucket, which hold the items\n",
    "unknown": "old versions: unknown; the storage does not tell whether it keeps old versions of "
    "deleted files\n",
}


def print_receipt(receipt: ErasureReceipt) -> None:
    """Print what was erased, a line for each kind."""
    write(f"erased from session {receipt.session_id} at record {receipt.record}\n")
    for name in ("items", "derived", "finished", "windows", "files"):
        if found := getattr(receipt, name):
            write(f"{name}: {', '.join(found)}\n")
    write(_OLD_VERSIONS[receipt.old_versions])


_REPAIR_COLUMNS = "section", "items", "archived"
_SHOWN_DAMAGE = 20


def print_repair(report: RepairReport) -> None:
    """Print the rescued and the missing items, by section."""
    damage = report.damage[:_SHOWN_DAMAGE]
    if report.into is None:
        write(f"session {report.session_id}: nothing to repair, and nothing was written\n")
        for error in damage:
            write(f"note: {error}\n")
        return
    write(
        f"session {report.session_id} is damaged, and left as it is; session {report.into} has all "
        "that is intact\n"
    )
    title = f"rescued: {sum(report.items.values()):,} items, {sum(report.archived.values()):,} archived versions"
    rows = [
        (name, f"{report.items.get(name, 0):,}", f"{report.archived.get(name, 0):,}")
        for name in dict.fromkeys((*report.items, *report.archived))
    ]
    write_table(title, _REPAIR_COLUMNS, rows)
    write("\n")
    for error in damage:
        write(f"damage: {error}\n")
    if len(report.damage) > len(damage):
        write(f"… and {len(report.damage) - len(damage):,} more; --json has all\n")
    if report.outdated:
        ids = ", ".join(report.outdated[:_SHOWN_DAMAGE])
        write(
            f"older text: the newest text of {len(report.outdated):,} items is lost, such as "
            f"{ids}\n"
        )


def repair_json(report: RepairReport) -> dict[str, Any]:
    """Return the result of a repair as JSON values."""
    return {
        "session": report.session_id,
        "into": report.into,
        "items": dict(report.items),
        "archived": dict(report.archived),
        "damage": damage_json(report.damage),
        "outdated": [*report.outdated],
    }
