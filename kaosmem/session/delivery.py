"""Delivery: a shelf of long-term memory follows what a formed section holds true."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from kaosmem.errors import NotFoundError
from kaosmem.formation.shelf import SHELF, FactShelf
from kaosmem.language.duplicates import PROPOSAL
from kaosmem.sections.archive import Archived
from kaosmem.sections.ledger import NOT_ON_SHELF_YET
from kaosmem.sections.operations import Form
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item


async def deliver(
    session: OpenSession,
    section: Section,
    shelf: FactShelf,
) -> list[Item]:
    """Bring a shelf up to what is committed in a section, and note how far this came.

    New facts are saved there. A corrected one is saved anew, and one that was removed or retired
    leaves. While a change of the section is unsaved, and so may be lost, nothing is done.

    Returns:
        The items that were saved. After the next save, see `SectionFormation.take_back`.
    """
    name = section.spec.name
    if section.journal or session.saver.number_unsaved(name):
        return []
    saved: list[Item] = []
    known = section.ledger.shelved
    shelved: dict[str, int | None] = {}
    for version in await _left(session, section, shelf):
        item = version.item
        shelved[item.id] = None
        if _is_withdrawn(section, version):
            await shelf.erase((item,))
        elif known.get(item.id) == NOT_ON_SHELF_YET and PROPOSAL not in item.metadata:
            saved.append(item)
    for item in section:
        updated = section.held.updated.get(section.held.ordinals[item.id], 0)
        is_on_shelf = item.metadata.get(SHELF) == shelf.name and PROPOSAL not in item.metadata
        if is_on_shelf and known.get(item.id) != updated:
            saved.append(item)
            shelved[item.id] = updated
    for item in saved:
        # A person has corrected or accepted an updated one: it holds from now on.
        said_at = None if shelved[item.id] else await _said_at(session, item)
        await shelf.put(item, said_at, own=known)
    formation = Form(name, shelved=[*shelved.items()])
    section.form(formation.without(session.saver.forgotten))
    return saved


async def _left(
    session: OpenSession,
    section: Section,
    shelf: FactShelf,
) -> list[Archived]:
    """Return the last versions of the items on a shelf that have left the section."""
    left = section.ledger.shelved.keys() - section.held.ordinals.keys()
    if not left:
        return []
    found = {}
    for version in await session.archived(section):
        if version.item.id in left and version.item.metadata.get(SHELF) == shelf.name:
            found[version.item.id] = version
    return [*found.values()]


def _is_withdrawn(section: Section, version: Archived) -> bool:
    """Return whether an item was removed: not evicted, and not replaced by a version."""
    key = version.item.key
    is_replaced = key is not None and section.current_id(key) is not None
    return version.ended is not None and not is_replaced


async def _said_at(session: OpenSession, item: Item) -> datetime | None:
    """Return when the words of an item were said, None if a source of it is gone."""
    with suppress(NotFoundError):
        sources = await session.fetch_all(item.sources)
        return max((source.valid_from for source in sources), default=None)
    return None
