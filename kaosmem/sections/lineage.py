"""The derivation of items from others."""

from __future__ import annotations

import hashlib
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


class Forgotten:
    """The ids of items that were forgotten, as digests: an id may repeat its item's text."""

    def __init__(self, digests: Iterable[str] = ()) -> None:
        self._digests = {*digests}

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and _digest(item_id) in self._digests

    def add(self, item_ids: Iterable[str]) -> None:
        """Enter ids."""
        self._digests.update(map(_digest, item_ids))

    def update(self, other: Forgotten) -> None:
        """Enter all that another has."""
        self._digests |= other._digests

    def to_list(self) -> list[str]:
        """Return the digests, sorted."""
        return sorted(self._digests)


def _digest(item_id: str) -> str:
    return hashlib.sha256(item_id.encode()).hexdigest()[:32]
