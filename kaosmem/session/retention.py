"""Retention: the items of a section that a policy names are archived or erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

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
        verb = "erased" if self.receipt else "archived"
        if self.is_dry_run:
            verb = "would go"
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
        units = self._live_units()
        if self._policy.erase:
            units += await self._archived_units()
            units = await self._without_sources(units)
        item_ids = list(chain.from_iterable(units))
        receipt = None
        if item_ids and not dry_run:
            if self._policy.erase:
                receipt = await forget(self._session, sorted(item_ids))
            else:
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
        self._section.retire(chain.from_iterable(self._live_units()), at=self._now)

    def _live_units(self) -> list[list[str]]:
        """Return the ids of the live units that go, the least important and oldest first."""
        held = self._section.held
        required = self._section.proposer.required_units()
        due = []
        for first in held.units_in_order():
            unit, _ = held.unit(first)
            if not all(map(self._is_due, unit)):
                continue
            reason = ""
            if any(item.pinned for item in unit):
                reason = PINNED
            elif first in required:
                reason = REQUIRED
            elif held.units.is_waiting(first):
                reason = WAITING
            if reason:
                self.kept.update((item.id, reason) for item in unit)
            else:
                due.append(unit)
        if self._policy.max_tokens is not None:
            due = self._excess(due, self._policy.max_tokens)
        return [[item.id for item in unit] for unit in due]

    def _excess(self, due: list[tuple[Item, ...]], max_tokens: int) -> list[tuple[Item, ...]]:
        """Return the units that have to go until a section holds no more tokens."""
        ledger = self._section.ledger
        due.sort(key=lambda unit: max(map(age_begin, unit)))
        due.sort(key=lambda unit: max(ledger.importance(item.id) for item in unit))
        excess = self._section.used - max_tokens
        chosen = []
        for unit in due:
            if excess > 0:
                chosen.append(unit)
                excess -= sum(item.tokens for item in unit)
        return chosen

    async def _archived_units(self) -> list[list[str]]:
        """Return the ids of the archived items that go. An id goes if all its versions are due."""
        if self._policy.max_tokens is not None:
            return []
        stored = await self._session.saver.archived()
        versions = [
            *stored.get(self._section.spec.name, ()),
            *self._section.archive.in_memory(),
        ]
        due: dict[str, bool] = {}
        for version in versions:
            item_id = version.item.id
            due[item_id] = due.get(item_id, True) and self._is_due(version.item)
        found = []
        for item_id, is_due in due.items():
            is_live = self._session.factory.section_of(item_id)
            if is_due and not is_live and item_id not in self._session.saver.unpurged:
                found.append([item_id])
        return found

    async def _without_sources(self, units: list[list[str]]) -> list[list[str]]:
        """Return units without the sources of live items that stay.

        To erase a source erases all that was derived from it.
        """
        while True:
            item_ids = {*chain.from_iterable(units)}
            sources: set[str] = set()
            for item in await self._session.saver.derived_items(item_ids):
                if item.id not in item_ids and self._session.factory.section_of(item.id):
                    sources.update(item.sources)
            staying = [unit for unit in units if not sources.isdisjoint(unit)]
            if not staying:
                return units
            for unit in staying:
                self.kept.update(dict.fromkeys(unit, SOURCE))
            units = [unit for unit in units if unit not in staying]

    def _is_due(self, item: Item) -> bool:
        return self._policy.is_due(item, self._section.ledger, self._now)
