"""The items that leave a section so that another one has room."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from kaosmem.errors import InvalidArgumentError, SectionFullError
from kaosmem.names import shown
from kaosmem.sections.item_table import ItemTable, is_older
from kaosmem.sections.spec import SectionSpec
from kaosmem.types.items import Item
from kaosmem.units import Link


def choose_leaving(held: ItemTable, item: Item, *, tokens: int, items: int) -> list[str] | None:
    """Return the ids of the items that an item, new or updated, supersedes or evicts.

    None: it leaves itself.

    It leaves if it is outranked, or if the live item with its key began to hold later.

    Raises InvalidArgumentError, SectionFullError.

    Args:
        tokens, items: Growth of the section.
    """
    spec = held.spec
    if _is_older(held, item):
        return None
    budget = spec.budget if spec.policy.bounded else None
    if budget is not None and item.tokens > budget:
        raise SectionFullError(
            f"item {shown(item.id)} has {item.tokens} tokens, more than the {budget} of section "
            f"{spec.name!r}; split it, or raise the section's budget",
            section=spec.name,
            need=item.tokens,
            budget=budget,
        )
    first = _superseded(held, item)
    if first is None:
        try:
            return _choose_victims(held, item, tokens=tokens, items=items)
        except SectionFullError:
            if spec.policy.competes and _may_leave(held, item):
                return None
            raise
    unit, freed = held.unit(first)
    victims = _choose_victims(
        held, item, tokens=tokens - freed, items=items - len(unit), leaving=(first,)
    )
    return [*(each.id for each in unit), *victims]


def choose_surplus(held: ItemTable, *, tokens: int, keep: Iterable[str]) -> list[str] | None:
    """Return the ids to evict to free tokens and be within `max_items`, None if that can't be done.

    The newest unit stays, as it would have if it had just been added, and so do those of the items
    to keep.
    """
    most = held.spec.max_items
    surplus = 0 if most is None else len(held) - most
    kept = {*islice(held.newest_first(), 1), *held.units.firsts(map(held.ordinal, keep))}
    victims = held.choose_victims(None, tokens=tokens, items=surplus, keep=kept)
    return None if victims is None else _ids(held, victims)


def _is_older(held: ItemTable, item: Item) -> bool:
    """Return whether the live item with an item's key began to hold later.

    Raises InvalidArgumentError.
    """
    ordinal = held.keyed.get(item.key)
    if ordinal is None:
        return False
    newer = held[ordinal]
    if newer.id == item.id or not is_older(item, newer):
        return False
    if not Link.of(item).is_plain:
        raise InvalidArgumentError(
            f"item {shown(item.id)} is an older version of {shown(newer.id)} by its timestamp, and "
            "is in one unit with "
            "other items, as a call and its result are; leave out its key"
        )
    return True


def _superseded(held: ItemTable, item: Item) -> int | None:
    """Return the first ordinal of the unit with another item of the same key, None without one."""
    ordinal = held.keyed.get(item.key)
    if ordinal is None:
        return None
    older = held[ordinal]
    if older.id == item.id:
        return None
    first = held.units.first(ordinal)
    if first in held.would_join(item):
        raise InvalidArgumentError(
            f"item {shown(item.id)} has the key of {shown(older.id)} and would be in one unit with "
            "it, as a call "
            "and its result are, which stay together; leave out the key of one"
        )
    return first


def _choose_victims(
    held: ItemTable,
    item: Item,
    *,
    tokens: int,
    items: int,
    leaving: Collection[int] = (),
) -> list[str]:
    """Return the ids that must go so that a section may grow by these, for an item new or updated.

    Args:
        leaving: First ordinals of units that go anyway.
    """
    spec = held.spec
    budget = spec.budget if spec.policy.bounded else None
    if spec.compaction is not None:  # which comes before any eviction
        return []
    excess = 0 if budget is None or tokens <= 0 else held.used + tokens - budget
    surplus = 0 if spec.max_items is None or items <= 0 else len(held) + items - spec.max_items
    if excess <= 0 and surplus <= 0:
        return []
    victims = held.choose_victims(item, tokens=excess, items=surplus, keep=leaving)
    if victims is None:
        raise SectionFullError(
            f"section {spec.name!r} is full: item {shown(item.id)} needs "
            + (f"{excess} tokens" if excess > 0 else f"{surplus} place")
            + f" more than its policy {spec.policy.name!r} can free; {_advice(spec)}",
            section=spec.name,
            need=item.tokens,
            budget=budget,
        )
    return _ids(held, victims)


def _may_leave(held: ItemTable, item: Item) -> bool:
    """Return whether an item, new or updated, can be archived without tearing a unit."""
    if item.pinned or not Link.of(item).is_plain:
        return False
    others = _ids(held, held.would_join(item))
    return all(item_id == item.id for item_id in others)


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


def _ids(held: ItemTable, firsts: Iterable[int]) -> list[str]:
    ids = []
    for first in firsts:
        ids += [item.id for item in held.unit(first)[0]]
    return ids
