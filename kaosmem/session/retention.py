"""Retention: the items of a section that a policy names are archived or erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter

from kaosmem.display import listed
from kaosmem.names import shown
from kaosmem.sections.retention import RetentionPolicy, age_begin
from kaosmem.sections.section import Section
from kaosmem.session.forgetting import forget
from kaosmem.session.open_session import OpenSession
from kaosmem.session.receipts import ErasureReceipt

PINNED = "pinned"
REQUIRED = "required"
WAITING = "its call waits for a result"
SOURCE = "an item that stays comes from it"


@dataclass(frozen=True)
class RetentionReport:
    """The outcome of a retention. It prints the sums, and holds no text.

    Attributes:
        section: The section.
        items: The ids of the items that went, or would go.
        kept: The reasons why due items stay, by id.
        receipt: The receipt of the erasure, None if nothing was erased.
        is_dry_run: Nothing has changed.
    """

    section: str
    items: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    receipt: ErasureReceipt | None = None
    is_dry_run: bool = False

    def __str__(self) -> str:
        verb = "would go" if self.is_dry_run else "archived"
        if self.receipt:
            verb = "erased"
        text = f"{shown(self.section)}: {verb}: {len(self.items):,}"
        reasons = listed(sorted({*self.kept.values()}), 3)
        return f"{text}; due, but kept: {len(self.kept):,} ({reasons})" if reasons else text


class Retention:
    """Finds the items of a section that a policy names, and archives or erases them.

    Attributes:
        kept: The reasons why due items stay, by id.
    """

    def __init__(self, session: OpenSession, section: Section, policy: RetentionPolicy) -> None:
        self._session = session
        self._section = section
        self._policy = policy
        self._now = session.clock()
        self.kept: dict[str, str] = {}

    async def run(self, *, dry_run: bool = False) -> RetentionReport:
        """Archive or erase the items, and save. `SessionAdmin.retain` describes it."""
        if not dry_run:
            self._session.check_writable()
            await self._session.saver.save()
            await self._session.saver.refresh()
        units = self._live_units()
        if self._policy.erase:
            units += await self._archived_units()
            units = await self._without_sources(units)
        item_ids = [*chain.from_iterable(units)]
        receipt = None
        if self._policy.erase and item_ids and not dry_run:
            receipt = await forget(self._session, sorted(item_ids))
        elif not dry_run:
            self._section.retire(item_ids, at=self._now)
            await self._session.saver.save()
        return RetentionReport(
            self._section.spec.name, tuple(item_ids), self.kept, receipt, dry_run
        )

    def archive(self) -> None:
        """Move the items to the archive, and save nothing."""
        self._section.retire(chain.from_iterable(self._live_units()), at=self._now)

    def _live_units(self) -> list[list[str]]:
        """Return the ids of the live units that go, the least important and oldest first."""
        held = self._section.held
        required = self._section.proposer.required_units()
        excess = self._section.used - (self._policy.max_tokens or 0)
        units = []
        for first in held.units_in_order():
            unit = held.unit(first)
            is_due = all(self._policy.is_due(item, held.ledger, self._now) for item in unit)
            reasons = {
                WAITING: held.units.is_waiting(first),
                REQUIRED: first in required,
                PINNED: any(item.pinned for item in unit),
            }
            for reason, holds in reasons.items():
                if is_due and holds:
                    self.kept |= dict.fromkeys((item.id for item in unit), reason)
            if is_due and not any(reasons.values()):
                units.append((held.importance(first), max(map(age_begin, unit)), unit))
        if self._policy.max_tokens is not None:
            units.sort(key=itemgetter(0, 1))
        going = []
        for _, _, unit in units:
            if excess > 0:
                going.append([item.id for item in unit])
            if self._policy.max_tokens is not None:
                excess -= sum(item.tokens for item in unit)
        return going

    async def _archived_units(self) -> list[list[str]]:
        """Return the ids of the archived items that go. An id goes if all its versions are due."""
        if self._policy.max_tokens is not None:
            return []
        going: dict[str, bool] = {}
        for version in await self._session.archived(self._section):
            item = version.item
            is_live = self._session.factory.section_of(item.id) is not None
            is_due = self._policy.is_due(item, self._section.ledger, self._now)
            going[item.id] = going.get(item.id, True) and is_due and not is_live
        return [[item_id] for item_id, is_due in going.items() if is_due]

    async def _without_sources(self, units: list[list[str]]) -> list[list[str]]:
        """Return units without the sources of live items that stay.

        To erase a source erases all that was derived from it.
        """
        item_ids = {*chain.from_iterable(units)}
        sources: set[str] = set()
        for item in await self._session.saver.derived_items(item_ids):
            if item.id not in item_ids and self._session.factory.section_of(item.id):
                sources.update(item.sources)
        staying = [unit for unit in units if not sources.isdisjoint(unit)]
        if not staying:
            return units
        self.kept |= dict.fromkeys(chain.from_iterable(staying), SOURCE)
        return await self._without_sources([unit for unit in units if unit not in staying])
