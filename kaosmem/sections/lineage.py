"""What was derived from what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaosmem.entities import Relationship, entity_item_id, part_of
from kaosmem.types import Item


def derived_from(item_ids: Iterable[str], items: Iterable[Item]) -> set[str]:
    """Return these ids and those of all that was derived from them, in any number of steps.

    items: live and archived ones, all versions of each: an item is derived if one of its versions was. A
    relationship is derived from the entities at its ends, whose names it shows.
    """
    children: dict[str, list[str]] = {}
    for item in items:
        for parent in _parents(item):
            children.setdefault(parent, []).append(item.id)
    found = set(item_ids)
    left = list(found)
    while left:
        new = set(children.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def _parents(item: Item) -> Iterator[str]:
    yield from item.sources
    # One in a static section, where no item names sources, is derived all the same.
    if "relationship" in item.metadata and isinstance(part := part_of(item.metadata), Relationship):
        yield entity_item_id(part.source)
        yield entity_item_id(part.target)
