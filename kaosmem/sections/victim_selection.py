"""The items that leave a section so that another one has room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import islice

from kaosmem.arguments import MAX_INTEGER
from kaosmem.errors import InvalidArgumentError, SectionFullError
from kaosmem.names import shown
from kaosmem.sections.eviction import EvictionQueue, EvictionStats, combined_stats
from kaosmem.sections.item_table import ItemTable, is_user_message
from kaosmem.sections.spec import SectionSpec
from kaosmem.types.items import Item
from kaosmem.units import Link


class VictimSelection:
    """Chooses the units of a table that leave, so that another one has room."""

    def __init__(self, held: ItemTable) -> None:
        spec = held.spec
        self._held = held
        self._budget = spec.budget if spec.policy.bounded else None
        self._queue = EvictionQueue(spec.policy, held.evictable)

    def leaving(
        self,
        item: Item,
        now: datetime | None,
        superseded: Sequence[int],
        *,
        tokens: int,
        items: int,
    ) -> list[str] | None:
        """Return the ids of the items that an item, new or updated, supersedes or evicts.

        None: it leaves itself. It does if it is outranked, or if another version of its key, live,
        evicted or removed, began to hold later.

        Raises InvalidArgumentError, SectionFullError.

        Args:
            now: The present, by which a version is yet to begin. None: all have begun.
            superseded: The ordinals of the items that it supersedes.
            tokens: Growth of the section in tokens.
            items: Growth of the section in items.
        """
        held = self._held
        spec = held.spec
        if self._is_older(item, now):
            return None
        budget = self._budget
        if budget is not None and item.tokens > budget:
            raise SectionFullError(
                f"item {shown(item.id)} has {item.tokens} tokens, more than the {budget} of "
                f"section {spec.name!r}; split it, or raise the section's budget",
                section=spec.name,
                need=item.tokens,
                budget=budget,
            )
        self._check_apart(item)
        if not superseded:
            try:
                return self._victims_of(item, tokens=tokens, items=items)
            except SectionFullError:
                if spec.policy.competes and self._may_leave(item):
                    return None
                raise
        ids = []
        firsts = [*dict.fromkeys(held.units.firsts(superseded))]
        for first in firsts:
            ids += [each.id for each in held.unit(first)]
            tokens -= held.tokens(first)
        victims = self._victims_of(item, tokens=tokens, items=items - len(ids), leaving=firsts)
        return [*ids, *victims]

    def surplus(self, *, tokens: int, keep: Iterable[str]) -> list[str] | None:
        """Return the ids to evict to free tokens and be within `max_items`.

        Return None if that can't be done. The newest unit stays, as it would have if it had just
        been added, and so do those of the items to keep.
        """
        held = self._held
        most = held.spec.max_items
        surplus = 0 if most is None else len(held) - most
        kept = {*islice(held.newest_first(), 1), *held.units.firsts(map(held.ordinal, keep))}
        newcomer = EvictionStats(held.taken, held.taken, 0, 0, MAX_INTEGER, 0, 0, 0)
        return self._victims(newcomer, own=kept, tokens=tokens, items=surplus)

    def _is_older(self, item: Item, now: datetime | None) -> bool:
        """Return whether another version of an item's key began to hold later.

        Raises InvalidArgumentError.
        """
        newer = self._held.keyed.later_than(item, now)
        if newer is None:
            return False
        if not Link.of(item).is_plain:
            raise InvalidArgumentError(
                f"item {shown(item.id)} is an older version of {shown(newer.id)} by its timestamp, "
                "and is in one unit with other items, as a call and its result are; leave out its "
                "key"
            )
        return True

    def _check_apart(self, item: Item) -> None:
        """Raise InvalidArgumentError if an item would be in one unit with another of its key."""
        held = self._held
        others = [ordinal for ordinal in held.keyed.live(item.key) if held[ordinal].id != item.id]
        if not others:
            return
        joined = self._joined(item)
        for ordinal in others:
            if held.units.first(ordinal) in joined:
                raise InvalidArgumentError(
                    f"item {shown(item.id)} has the key of {shown(held[ordinal].id)} and would be "
                    "in one unit with it, as a call and its result are, which stay together; leave "
                    "out the key of one"
                )

    def _joined(self, item: Item) -> set[int]:
        """Return the first ordinals of the units that an item, new or updated, would be in."""
        held = self._held
        ordinal = held.ordinals.get(item.id, held.taken)
        own = held.units.joins(ordinal, Link.of(item))
        if ordinal in held:
            return own | {held.units.first(ordinal)}
        return own

    def _may_leave(self, item: Item) -> bool:
        """Return whether an item, new or updated, can be archived without tearing a unit."""
        if item.pinned or not Link.of(item).is_plain:
            return False
        own: list[Item] = []
        for first in self._joined(item):
            own += self._held.unit(first)
        return all(each.id == item.id for each in own)

    def _victims_of(
        self,
        item: Item,
        *,
        tokens: int,
        items: int,
        leaving: Collection[int] = (),
    ) -> list[str]:
        """Return the ids that must go so that the section may grow for an item, new or updated.

        A new entry that speaks abandons calls that wait: they may leave.

        Args:
            tokens: Growth of the section in tokens.
            items: Growth of the section in items.
            leaving: First ordinals of units that go anyway.
        """
        held = self._held
        spec = held.spec
        budget = self._budget
        if spec.compaction is not None:  # which comes before any eviction
            return []
        excess = 0 if budget is None or tokens <= 0 else held.used + tokens - budget
        surplus = 0 if spec.max_items is None or items <= 0 else len(held) + items - spec.max_items
        if excess <= 0 and surplus <= 0:
            return []
        joined = self._joined(item)
        own = {*leaving, *joined}
        newcomer = self._prospect(item, joined)
        asked = held.units.asking
        speaks = item.id not in held.ordinals and Link.of(item).speaks
        with held.units.abandoned() if speaks else nullcontext():
            if speaks and asked is not None:
                self._queue.push(held.units.first(asked))
            # A loop of tools may be longer than the section. It goes on with its task.
            kept = own | self._asked(item)
            victims = self._victims(newcomer, own=kept, tokens=excess, items=surplus)
            if victims is None:
                victims = self._victims(newcomer, own=own, tokens=excess, items=surplus)
        if victims is None:
            raise SectionFullError(
                f"section {spec.name!r} is full: item {shown(item.id)} needs "
                + (f"{excess} tokens" if excess > 0 else f"{surplus} place")
                + f" more than its policy {spec.policy.name!r} can free; {_advice(spec)}",
                section=spec.name,
                need=item.tokens,
                budget=budget,
            )
        return victims

    def _asked(self, item: Item) -> set[int]:
        """Return the first ordinal of the unit with a history's newest question.

        Return none if an item that comes is a question itself.
        """
        question = self._held.newest_question
        if question is None or is_user_message(item):
            return set()
        return {self._held.units.first(question)}

    def _prospect(self, item: Item, joined: Iterable[int]) -> EvictionStats:
        """Return the statistics of the unit that an item would form with the units it joins."""
        held = self._held
        own = held.ordinals.get(item.id, held.taken)
        parts = [EvictionStats(own, own, 1, item.tokens, item.priority, 0, 0, int(item.pinned))]
        for first in joined:
            members = held.units.members(first)
            parts += [held.eviction_stats(member) for member in members if member != own]
        return combined_stats(parts)

    def _victims(
        self,
        newcomer: EvictionStats,
        *,
        own: Collection[int],
        tokens: int,
        items: int,
    ) -> list[str] | None:
        """Return the ids of the units to evict, None if they cannot make the room.

        Args:
            own: First ordinals of units that stay.
            tokens: Tokens to be freed.
            items: Items to be freed.
        """
        held = self._held
        if held.touched is None:
            self._queue.clear()
        for first in held.touched or ():
            self._queue.push(first)
        held.touched = set()
        victims = self._queue.choose_victims(
            newcomer, own=own, tokens=tokens, items=items, firsts=held
        )
        if victims is None:
            return None
        ids = []
        for first in victims:
            ids += [item.id for item in held.unit(first)]
        return ids


def _advice(spec: SectionSpec) -> str:
    """Return the reason why a full section cannot evict enough, and the remedy."""
    limit = "budget" if spec.max_items is None else "budget or max_items"
    if spec.policy.key is None:
        return (
            f"it evicts nothing: remove items, raise its {limit}, or choose a policy that evicts, "
            "such as 'fifo'"
        )
    stays = "pinned items, calls that wait for their results and the item's own unit stay"
    return f"{stays}; unpin or remove items, or raise its {limit}"
