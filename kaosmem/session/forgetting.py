"""Erasing items from a session and its sources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from kaosmem.display import listed
from kaosmem.errors import NotFoundError, SourceError
from kaosmem.formation.shelf import SHELF
from kaosmem.names import check_item_id
from kaosmem.session.open_session import OpenSession
from kaosmem.session.opening import SHARED_SESSIONS
from kaosmem.session.receipts import OLD_VERSIONS, ErasureReceipt, OldVersions
from kaosmem.session.saving.saver import Erased
from kaosmem.session.tracing import turns_of
from kaosmem.types.items import Item


async def forget(session: OpenSession, item_ids: Sequence[str]) -> ErasureReceipt:
    """Erase items and everything derived from them, and return a receipt.

    Raises:
        SourceError: If a source cannot erase an item. It has the receipt of all other work.
    """
    session.check_writable()
    for item_id in item_ids:
        if check_item_id(item_id) not in session.saver.unpurged:
            await _check_known(session, item_id)
    shelved, unable = await _forget_on_shelves(session, item_ids)
    erased = await session.saver.forget(item_ids)
    SHARED_SESSIONS.drop(session.opening)
    sources, unable_sources = await session.roster.forget(erased.item_ids)
    sources |= shelved
    unable += unable_sources
    keeps_versions = await asyncio.to_thread(session.log.storage.keeps_versions)
    receipt = _receipt(
        session, item_ids, erased, sources=sources, old_versions=OLD_VERSIONS[keeps_versions]
    )
    if unable:
        raise SourceError(
            f"{listed(unable, 3)} can't forget what is forgotten here; erase it there",
            sources=unable,
            receipt=receipt,
        )
    return receipt


async def _check_known(session: OpenSession, item_id: str) -> None:
    """Raise NotFoundError for an id that neither the session nor a turn of its trace knows."""
    try:
        await session.fetch(item_id)
    except NotFoundError:
        turns = await asyncio.to_thread(turns_of, session)
        if not any(item_id in turn.shown for turn in turns):
            raise


async def _forget_on_shelves(
    session: OpenSession, item_ids: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Erase facts of long-term memories that were formed from items.

    The session still has the items then, so that a call after a crash finds them again.

    Returns:
        The ids of the erased facts by the name of their shelf, and the names of shelves that failed
        or are not known here.
    """
    if not any(section.ledger.marks for section in session.sections.values()):
        return {}, []
    by_shelf: dict[str, list[Item]] = {}
    for item in await session.saver.derived_items(item_ids):
        if SHELF in item.metadata:
            by_shelf.setdefault(str(item.metadata[SHELF]), []).append(item)
    erased: dict[str, tuple[str, ...]] = {}
    unable: list[str] = []
    for name, items in by_shelf.items():
        try:
            erased[name] = await session.shelves[name].erase(items)
        except Exception:  # it is not known here, or any error of a store
            unable.append(name)
    return erased, unable


def _receipt(
    session: OpenSession,
    item_ids: Sequence[str],
    erased: Erased,
    *,
    sources: dict[str, tuple[str, ...]],
    old_versions: OldVersions,
) -> ErasureReceipt:
    created_at: dict[str, tuple[datetime, ...]] = {}
    newest = session.clock()
    for item_id, times in sorted(erased.created_at.items()):
        created_at[item_id] = tuple(sorted(times))
        newest = max(newest, *times)
    log_id, record, checksum = erased.mark
    return ErasureReceipt(
        session_id=session.session_id,
        namespace=session.opening.namespace,
        at=newest,
        created_at=created_at,
        old_versions=old_versions,
        log_id=log_id,
        record=record,
        checksum=checksum,
        items=tuple(dict.fromkeys(item_ids)),
        derived=tuple(sorted(erased.derived.difference(item_ids))),
        finished=tuple(sorted(erased.item_ids.difference(item_ids, erased.derived))),
        windows=tuple(sorted(erased.windows)),
        files=tuple(sorted(erased.files)),
        sources=sources,
    )
