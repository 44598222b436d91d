"""Retention: the items of a section that a policy names are archived or erased."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from kaosmem.sections.retention import RetentionPolicy, age_begin
from kaosmem.sections.section import Section
from kaosmem.session.forgetting import ErasureReceipt, forget
from kaosmem.session.open_session import OpenSession
from kaosmem.types.items import Item


class RetentionReport(NamedTuple):
    """The outcome of a retention. It holds no text.

    Attributes:
        items: The ids of the items that went, or would go.
        kept: The reasons why due items stay, by id.
        receipt: The receipt of the erasure, None if nothing was erased.
    """

    items: tuple[str, ...]
    kept: Mapping[str, str]
    receipt: ErasureReceipt | None = None


async def retain(
    session: OpenSession,
    section: Section,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
) -> RetentionReport:
    """Archive or erase the items that a policy names, and save. See `SessionAdmin.retain`."""
    now = session.clock()
    if not dry_run:
        session.check_writable()
        await session.saver.save()
        await session.saver.refresh()
    kept: dict[str, str] = {}
    units = _live_units(section, policy, now, kept)
    if policy.erase:
        units += await _archived_units(session, section, policy, now)
        units = await _without_sources(session, units, kept)
    item_ids = tuple(chain.from_iterable(units))
    receipt = None
    if policy.erase and item_ids and not dry_run:
        receipt = await forget(session, sorted(item_ids))
    elif not dry_run:
        section.retire(item_ids, at=now)
        await session.saver.save()
    return RetentionReport(item_ids, kept, receipt)


def _live_units(
    section: Section,
    policy: RetentionPolicy,
    now: datetime,
    kept: dict[str, str],
) -> list[list[str]]:
    """Return the ids of the live units that go, the least important and oldest first.

    Args:
        kept: Gets the reasons why due items stay, by id.
    """
    held = section.held
    required = section.proposer.required_units()
    units = []
    for first in [ordinal for ordinal in held if held.units.first(ordinal) == ordinal]:
        unit = held.unit(first)
        if not all(policy.is_due(item, held.ledger, now) for item in unit):
            continue
        reason = ""
        if any(item.pinned for item in unit):
            reason = "pinned"
        elif first in required:
            reason = "required"
        elif held.units.is_waiting(first):
            reason = "its call waits for a result"
        if reason:
            kept |= dict.fromkeys((item.id for item in unit), reason)
        else:
            units.append((held.importance(first), max(map(age_begin, unit)), unit))
    units.sort(key=itemgetter(0, 1))
    return _in_excess([unit for _, _, unit in units], section.used, policy.max_tokens)


def _in_excess(
    units: Iterable[Sequence[Item]],
    used: int,
    most: int | None,
) -> list[list[str]]:
    """Return the ids of the first units that a section of so many tokens has above its most."""
    going = []
    for unit in units:
        if most is not None and used <= most:
            break
        going.append([item.id for item in unit])
        used -= sum(item.tokens for item in unit)
    return going


async def _archived_units(
    session: OpenSession,
    section: Section,
    policy: RetentionPolicy,
    now: datetime,
) -> list[list[str]]:
    """Return the ids of the archived items that go: not live, and due in all their versions."""
    going: dict[str, bool] = {}
    for version in await session.archived(section):
        item = version.item
        is_due = policy.max_tokens is None and policy.is_due(item, section.ledger, now)
        is_live = session.factory.section_of(item.id) is not None
        going[item.id] = going.get(item.id, True) and is_due and not is_live
    return [[item_id] for item_id, is_due in going.items() if is_due]


async def _without_sources(
    session: OpenSession,
    units: list[list[str]],
    kept: dict[str, str],
) -> list[list[str]]:
    """Return units without the sources of live items that stay.

    To erase a source erases all that was derived from it.
    """
    item_ids = {*chain.from_iterable(units)}
    sources: set[str] = set()
    for item in await session.saver.derived_items(item_ids):
        if item.id not in item_ids and session.factory.section_of(item.id):
            sources.update(item.sources)
    staying = [unit for unit in units if not sources.isdisjoint(unit)]
    if not staying:
        return units
    kept |= dict.fromkeys(chain.from_iterable(staying), "an item that stays comes from it")
    return await _without_sources(session, [unit for unit in units if unit not in staying], kept)
