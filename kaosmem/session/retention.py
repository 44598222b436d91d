"""Retention: the items of a section that a policy names are archived or erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kaosmem.display import listed
from kaosmem.names import shown
from kaosmem.sections.retention import RetentionPolicy, age_begin
from kaosmem.sections.section import Section
from kaosmem.session.forgetting import forget
from kaosmem.session.open_session import OpenSession
from kaosmem.session.receipts import ErasureReceipt
from kaosmem.types.items import Item

PINNED = "pinned"
REQUIRED = "required"
WAITING = "its call waits for a result"
SOURCE = "an item that stays comes from it"


@dataclass(frozen=True, kw_only=True)
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
        verb = "would go" if self.is_dry_run else "erased" if self.receipt else "archived"
        text = f"{shown(self.section)}: {verb}: {len(self.items):,}"
        if self.kept:
            reasons = listed(sorted({*self.kept.values()}), 3)
            text += f"; due, but kept: {len(self.kept):,} ({reasons})"
        return text


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
        item_ids = [item.id for unit in self._live_units() for item in unit]
        receipt = None
        if self._policy.erase:
            item_ids = await self._without_sources({*item_ids, *await self._archived_ids()})
            if item_ids and not dry_run:
                receipt = await forget(self._session, item_ids)
        elif item_ids and not dry_run:
            self._section.retire(item_ids, at=self._now)
            await self._session.saver.save()
        return RetentionReport(
            section=self._section.spec.name,
            items=tuple(item_ids),
            kept=self.kept,
            receipt=receipt,
            is_dry_run=dry_run,
        )

    def archive(self) -> None:
        """Move the items to the archive, and save nothing."""
        item_ids = [item.id for unit in self._live_units() for item in unit]
        self._section.retire(item_ids, at=self._now)

    def _live_units(self) -> list[list[Item]]:
        """Return the live units that go, the least important and oldest first."""
        required = self._section.proposer.required_units()
        due = []
        for first in self._section.held.units_in_order():
            unit = [*self._section.held.unit(first)[0]]
            if not all(map(self._is_due, unit)):
                continue
            reason = self._reason_to_stay(first, unit, is_required=first in required)
            if reason:
                self.kept.update((item.id, reason) for item in unit)
            else:
                due.append(unit)
        if self._policy.max_tokens is None:
            return due
        usage = self._section.held.usage
        due.sort(key=lambda unit: max(map(age_begin, unit)))
        due.sort(key=lambda unit: max(usage.importance(item.id) for item in unit))
        excess = self._section.used - self._policy.max_tokens
        chosen = []
        for unit in due:
            if excess > 0:
                chosen.append(unit)
                excess -= sum(item.tokens for item in unit)
        return chosen

    def _reason_to_stay(self, first: int, unit: list[Item], *, is_required: bool) -> str:
        if any(item.pinned for item in unit):
            return PINNED
        if is_required:
            return REQUIRED
        return WAITING if self._section.held.units.is_waiting(first) else ""

    async def _archived_ids(self) -> set[str]:
        """Return the archived items that go. An id goes if all of its versions are due."""
        if self._policy.max_tokens is not None:
            return set()
        name = self._section.spec.name
        stored = await self._session.saver.archived()
        versions = [*stored.get(name, ()), *self._section.archive.in_memory()]
        # A call and its results go together.
        units: dict[object, list[Item]] = {}
        for version in versions:
            unit = version.item.id if version.unit is None else version.unit
            units.setdefault(unit, []).append(version.item)
        due: set[str] = set()
        staying: set[str] = set()
        for unit_items in units.values():
            is_due = all(map(self._is_due, unit_items))
            (due if is_due else staying).update(item.id for item in unit_items)
        live = {item_id for item_id in due if self._session.factory.section_of(item_id)}
        return (due - staying - live).difference(self._session.saver.unpurged)

    async def _without_sources(self, item_ids: set[str]) -> list[str]:
        """Return items without the sources of live items that stay, and without their units.

        To erase a source erases all that was derived from it.
        """
        while True:
            sources: set[str] = set()
            for item in await self._session.saver.derived_items(item_ids):
                if item.id not in item_ids and self._session.factory.section_of(item.id):
                    sources.update(item.sources)
            staying = sources & item_ids
            if not staying:
                return sorted(item_ids)
            for item_id in [*staying]:
                if item_id in self._section:
                    held = self._section.held
                    unit, _ = held.unit(held.units.first(held.ordinal(item_id)))
                    staying.update(item.id for item in unit)
            self.kept.update(dict.fromkeys(staying, SOURCE))
            item_ids = item_ids - staying

    def _is_due(self, item: Item) -> bool:
        return self._policy.is_due(item, self._section.held.usage, self._now)
