"""Erasing items from a session and its sources, and the receipt of an erasure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kaosmem.arguments import json_text
from kaosmem.display import comma_list
from kaosmem.errors import InvalidArgumentError, KaosmemError, NotFoundError, SourceError
from kaosmem.formation.shelf import SHELF
from kaosmem.names import check_item_id
from kaosmem.persistence.erasure import Erasure
from kaosmem.session.open_session import OpenSession
from kaosmem.session.opening import SHARED_SESSIONS
from kaosmem.session.saving.saver import ErasedItems
from kaosmem.session.tracing import turns_of
from kaosmem.types import JSONDict
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from pydantic import AwareDatetime, TypeAdapter

OldVersions: TypeAlias = Literal["none", "kept", "unknown"]

OLD_VERSIONS: Mapping[bool | None, OldVersions] = {False: "none", True: "kept", None: "unknown"}
"""The field of a receipt, by whether the storage keeps old versions of its files."""


@dataclass(frozen=True, kw_only=True)
class ErasureReceipt:
    """The receipt of an erasure.

    `SessionMemory.forget` returns it, and `memory.admin.verify` checks it later.

    It names ids and holds no text and no digest of a text: a digest of a short text can be guessed,
    with a key too by all holders of the key. If your ids tell something about a person, keep the
    receipt as private as the item was.

    Attributes:
        items: The ids that `forget` was given.
        derived: The ids of items that were made from these.
        finished: The ids of items whose erasure an earlier call or another writer had begun, and
            this call finished.
        windows: The names of windows that showed one.
        sources: The erased ids by the name of the attached source.
        files: The session's files that were deleted, because they were written before the erasure.
        log_id: The session's log.
        record: The last record of the log at the erasure.
        checksum: The checksum of that record.
        old_versions: Whether the storage keeps old versions of deleted files: "none", "kept", or
            "unknown" if it does not tell. Kept versions hold the erased texts until you delete
            them, or a lifecycle rule does.
        at: The time of the erasure. No erased item is newer.
        created_at: The times when the erased items were created, by id, as far as this call erased
            them. A later item of an erased id has another time, so `verify` tells the two apart
            though the clocks of two machines differ.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "The account is DE89 3704 0044.", id="account")
    >>> receipt = await memory.forget("account")
    >>> receipt.items, receipt.record
    (('account',), 3)
    >>> ErasureReceipt.from_dict(receipt.to_dict()) == receipt
    True
    """

    session_id: str
    namespace: str
    at: AwareDatetime
    log_id: str
    record: int
    checksum: str
    items: tuple[str, ...]
    derived: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    created_at: Mapping[str, tuple[AwareDatetime, ...]] = field(default_factory=dict)
    old_versions: OldVersions = "unknown"

    @property
    def erasure(self) -> Erasure:
        """The erasure as the session's log has it."""
        ids = *self.items, *self.derived, *self.finished
        return Erasure(
            self.log_id, self.record, self.checksum, frozenset(ids), self.at, self.created_at
        )

    def to_dict(self) -> JSONDict:
        """Return the receipt as JSON values."""
        stored: JSONDict = _adapter().dump_python(self, mode="json")
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ErasureReceipt:
        """Return the receipt that `to_dict` returned.

        A receipt without `created_at` and `old_versions` has no times and says "unknown".

        Raises:
            InvalidArgumentError: If the value is not the value of a receipt.
        """
        try:
            return _adapter().validate_json(json_text(stored), strict=True)
        except (KaosmemError, TypeError, ValueError):
            raise InvalidArgumentError(
                "this is no receipt of an erasure; give the value that to_dict() returned"
            ) from None


@cache
def _adapter() -> TypeAdapter[ErasureReceipt]:
    # Here, since few sessions store a receipt; pydantic finds the names of fields here.
    from pydantic import AwareDatetime, TypeAdapter  # noqa: F401

    return TypeAdapter(ErasureReceipt)


async def forget(session: OpenSession, item_ids: Sequence[str]) -> ErasureReceipt:
    """Erase items and everything derived from them, and return a receipt.

    Raises:
        SourceError: If a source cannot erase an item. It has the receipt of all other work. If a
            shelf of formed facts fails or is not known here, nothing else is erased, so that a
            repeated call still knows the facts.
    """
    session.check_writable()
    session.expire()
    for item_id in item_ids:
        if check_item_id(item_id) not in session.saver.unpurged:
            await _check_known(session, item_id)
    shelved = await _forget_on_shelves(session, item_ids)
    erased = await session.saver.forget(item_ids)
    SHARED_SESSIONS.drop(session.opening)
    sources, unable = await session.registry.forget(erased.item_ids)
    sources |= shelved
    keeps_versions = await asyncio.to_thread(session.log.storage.keeps_versions)
    receipt = _receipt(
        session, item_ids, erased, sources=sources, old_versions=OLD_VERSIONS[keeps_versions]
    )
    if unable:
        raise SourceError(
            f"{comma_list(unable, 3)} can't forget what is forgotten here; erase it there",
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
) -> dict[str, tuple[str, ...]]:
    """Erase facts of long-term memories that were formed from items.

    The session still has the items then, so that a call after a crash or a failure finds them
    again. Without them, nobody would know which facts to erase.

    Returns:
        The ids of the erased facts by the name of their shelf.

    Raises:
        SourceError: If a shelf fails or is not known here.
    """
    if not any(section.ledger.marks for section in session.sections.values()):
        return {}
    by_shelf: dict[str, list[Item]] = {}
    for item in await session.saver.derived_items(item_ids):
        if SHELF in item.metadata:
            by_shelf.setdefault(str(item.metadata[SHELF]), []).append(item)
    erased: dict[str, tuple[str, ...]] = {}
    for name, items in by_shelf.items():
        try:
            erased[name] = await session.shelves[name].erase(items)
        except Exception as error:  # it is not known here, or any error of a store
            raise SourceError(
                f"shelf {name!r} of formed facts is not known here, or it failed, so that nothing "
                "was erased from the session; form with a plan that has the shelf, then forget again",
                sources=[name],
            ) from error
    return erased


def _receipt(
    session: OpenSession,
    item_ids: Sequence[str],
    erased: ErasedItems,
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
