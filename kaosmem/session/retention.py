"""Retention: which items of a section go by age, use, kind and size, archived or erased."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kaosmem.arguments import check_count, check_several, check_text
from kaosmem.display import listed
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown
from kaosmem.sections.archive import Archived
from kaosmem.sections.section import Section
from kaosmem.session.forgetting import forget
from kaosmem.session.open_session import OpenSession
from kaosmem.session.opening import SharedSessions
from kaosmem.session.receipts import ErasureReceipt
from kaosmem.session.saving.past import archived_items
from kaosmem.types.items import Item

PINNED = "pinned"
REQUIRED = "required"
WAITING = "its call waits for a result"


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """The conditions on which items go. An item goes if it meets all that are given.

    Attributes:
        older_than: Age, from when the item was added or happened, whichever is later.
        unused_for: Time since the last use by a reply, the last verification or the begin of its
            age, whichever is latest.
        used_less_than: A number of turns whose reply used the item (see `Context.credit`).
        kinds: Values of `metadata["kind"]`, such as "episodic". The default is all items.
        max_tokens: Live items go only as far as the section holds more tokens, the least important
            first, then the oldest.
        erase: Erase the items, with all that is derived from them, archived versions included. The
            default moves live items to the archive, where `fetch` finds them and no context does.

    Raises:
        InvalidArgumentError: If there is no condition, or one is not valid.

    >>> from datetime import timedelta
    >>> policy = RetentionPolicy(older_than=timedelta(days=90), used_less_than=1)
    >>> policy.erase
    False
    """

    older_than: timedelta | None = None
    unused_for: timedelta | None = None
    used_less_than: int | None = None
    kinds: tuple[str, ...] = ()
    max_tokens: int | None = None
    erase: bool = False

    def __post_init__(self) -> None:
        for name in ("older_than", "unused_for"):
            span = getattr(self, name)
            if span is not None and not (isinstance(span, timedelta) and span > timedelta()):
                raise InvalidArgumentError(f"{name} is no time above 0; give a timedelta")
        if self.used_less_than is not None:
            check_count(self.used_less_than, "used_less_than", least=1)
        if self.max_tokens is not None:
            check_count(self.max_tokens, "max_tokens")
        kinds = [check_text(kind, "kind") for kind in check_several(self.kinds, "kinds")]
        object.__setattr__(self, "kinds", tuple(kinds))
        given = (self.older_than, self.unused_for, self.used_less_than, self.max_tokens)
        if all(condition is None for condition in given) and not self.kinds:
            raise InvalidArgumentError(
                "the policy has no condition, so that all items would go; give older_than, "
                "unused_for, used_less_than, kinds or max_tokens"
            )

    def is_due(self, item: Item, section: Section, now: datetime) -> bool:
        """Return whether an item meets all conditions but that on the size of the section.

        A clock that is behind makes items younger, so that they stay.
        """
        usage = section.held.usage
        told = age_begin(item)
        used = usage.used_at.get(item.id, told)
        verified = usage.verified_at.get(item.id, told)
        if self.kinds and item.metadata.get("kind") not in self.kinds:
            return False
        if self.older_than is not None and now - told <= self.older_than:
            return False
        if self.unused_for is not None and now - max(told, used, verified) <= self.unused_for:
            return False
        uses = usage.credited.get(item.id, 0)
        return self.used_less_than is None or uses < self.used_less_than


@dataclass(frozen=True, kw_only=True)
class RetentionReport:
    """The outcome of a retention. It prints the sums, and holds no text.

    Attributes:
        section: The section.
        items: The ids of the items that went, or would go.
        tokens: Their tokens, as far as they were live.
        kept: The reasons why due items stay, by id.
        receipt: The receipt of the erasure, None if nothing was erased.
        is_dry_run: Nothing has changed.
    """

    section: str
    items: tuple[str, ...] = ()
    tokens: int = 0
    kept: Mapping[str, str] = field(default_factory=dict)
    receipt: ErasureReceipt | None = None
    is_dry_run: bool = False

    def __str__(self) -> str:
        verb = "would go" if self.is_dry_run else "erased" if self.receipt else "archived"
        number = "1 item" if len(self.items) == 1 else f"{len(self.items):,} items"
        parts = [f"{shown(self.section)}: {number} ({self.tokens:,} tokens) {verb}"]
        reasons = sorted({*self.kept.values()})
        if reasons:
            parts.append(f"{len(self.kept):,} due items stay: {listed(reasons, 3)}")
        return "; ".join(parts)


async def retain(
    session: OpenSession,
    policy: RetentionPolicy,
    section: Section,
    *,
    dry_run: bool,
    shared: SharedSessions,
) -> RetentionReport:
    """Archive or erase the items that a policy names, as `SessionAdmin.retain` describes it."""
    if not dry_run:
        session.check_writable()
        await session.saver.save()
        await session.saver.refresh()
    choice = _Choice(section, policy, session.clock())
    items = choice.live_items()
    if policy.erase and policy.max_tokens is None:
        items += await choice.archived_items(session)
    if policy.erase:
        items = await choice.without_sources(session, items)
    tokens = sum(item.tokens for item in items if item.id in section)
    ids = tuple(dict.fromkeys(item.id for item in items))
    receipt = None
    if ids and not dry_run and policy.erase:
        receipt = await forget(session, ids, shared=shared)
    elif ids and not dry_run:
        section.retire(ids, at=choice.now)
        await session.saver.save()
    return RetentionReport(
        section=section.spec.name,
        items=ids,
        tokens=tokens,
        kept=choice.kept,
        receipt=receipt,
        is_dry_run=dry_run,
    )


class _Choice:
    """The choice of the items that go.

    Attributes:
        now: The time of the call.
        kept: The reasons why due items stay, by id.
    """

    def __init__(self, section: Section, policy: RetentionPolicy, now: datetime) -> None:
        self._section = section
        self._policy = policy
        self.now = now
        self.kept: dict[str, str] = {}

    def live_items(self) -> list[Item]:
        """Return the live items that go, in whole units, the least important and oldest first."""
        required = self._section.proposer.required_units()
        due: list[Sequence[Item]] = []
        for first in self._section.held.units_in_order():
            items, _ = self._section.held.unit(first)
            if not all(self._is_due(item) for item in items):
                continue
            reason = self._reason_to_stay(first, items, required)
            if reason:
                self.kept.update((item.id, reason) for item in items)
            else:
                due.append(items)
        due.sort(key=self._order)
        most = self._policy.max_tokens
        if most is None:
            return [item for unit in due for item in unit]
        excess = self._section.used - most
        chosen: list[Item] = []
        for unit in due:
            if excess <= 0:
                break
            chosen += unit
            excess -= sum(item.tokens for item in unit)
        return chosen

    async def archived_items(self, session: OpenSession) -> list[Item]:
        """Return the archived items that go. An id goes if all of its versions are due."""
        name = self._section.spec.name
        entries = await asyncio.to_thread(archived_items, session.log)
        versions = [Archived.from_dict(data, own) for own, data in entries if own == name]
        versions += self._section.archive.in_memory()
        # A call and its results go together.
        staying = {each.unit for each in versions if not self._is_due(each.item)}
        gone = session.saver.unpurged
        found: dict[str, list[bool]] = {}
        items = {}
        for version in versions:
            item = version.item
            if session.factory.section_of(item.id) is None and item.id not in gone:
                is_alone = version.unit is None or version.unit not in staying
                found.setdefault(item.id, []).append(is_alone and self._is_due(item))
                items[item.id] = item
        return [items[item_id] for item_id, are_due in found.items() if all(are_due)]

    async def without_sources(self, session: OpenSession, items: list[Item]) -> list[Item]:
        """Return items without the sources of live items that stay, and without their units.

        To erase a source erases all that was derived from it.
        """
        ids = {item.id for item in items}
        derived = await session.saver.derived_items(ids)
        while True:
            needed = {}
            for item in derived:
                is_live = session.factory.section_of(item.id) is not None
                if is_live and item.id not in ids:
                    needed.update(dict.fromkeys(item.sources, f"source of {shown(item.id)}"))
            kept = self._with_units(needed.keys() & ids)
            if not kept:
                return [item for item in items if item.id in ids]
            for item_id in kept:
                self.kept[item_id] = needed.get(item_id, "in one unit with a source")
            ids -= kept

    def _with_units(self, item_ids: Iterable[str]) -> set[str]:
        found = {*item_ids}
        held = self._section.held
        for item_id in item_ids:
            if item_id in self._section:
                items, _ = held.unit(held.units.first(held.ordinal(item_id)))
                found.update(item.id for item in items)
        return found

    def _is_due(self, item: Item) -> bool:
        return self._policy.is_due(item, self._section, self.now)

    def _reason_to_stay(self, first: int, items: Sequence[Item], required: set[int]) -> str:
        if any(item.pinned for item in items):
            return PINNED
        if first in required:
            return REQUIRED
        return WAITING if self._section.held.units.is_waiting(first) else ""

    def _order(self, items: Sequence[Item]) -> tuple[int, datetime]:
        usage = self._section.held.usage
        importance = max(usage.importance(item.id) for item in items)
        return importance, max(map(age_begin, items))


def age_begin(item: Item) -> datetime:
    """Return when the age of an item begins: when it was added or happened, whichever is later."""
    return max(item.created_at, item.valid_from)
