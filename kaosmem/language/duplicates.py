"""Duplicates: items whose texts are equal but for case and white space.

Texts that differ in one word are never duplicates: that word may be a value, a name, a date or a
negation. An item that was formed from messages gives way to them: where all its sources are shown,
it says nothing more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Protocol, TypeVar

from kaosmem.language.analysis import words_of
from kaosmem.types import OpaqueBlock
from kaosmem.types.content import ImageBlock, ToolResultBlock
from kaosmem.types.items import Item, once_per_item

FORMED = "formed"
"""The tag of an item that was formed from a conversation."""
PROPOSAL = "proposal"
"""The field of a formed item's metadata that only an open proposal has."""
_MAX_PASSED_OVER = 256
"""So many units that are too large, or are duplicates, may take the room of a proposal."""
_CHARS_AT_ONCE = 65_536
_WORDS_AT_ONCE = 10_000


@once_per_item
def duplicate_key(item: Item) -> int:
    """Return a number of 64 bits, equal for duplicates. That of an item with an image is 0."""
    if _is_text(item):
        return duplicate_key_of_text(item.text)
    return 0


def duplicate_key_of_text(text: str) -> int:
    """Return the number of an item with this text, by a digest."""
    digest = blake2b(digest_size=16)
    if len(text) <= _CHARS_AT_ONCE:
        digest.update(_joined(text.split()))
    else:
        words = iter(words_of(text))
        while some := list(islice(words, _WORDS_AT_ONCE)):
            digest.update(_joined(some))
    return int.from_bytes(digest.digest()[:8], "little", signed=True)


def _joined(words: Iterable[str]) -> bytes:
    return " ".join(("", *words)).casefold().encode()


def _is_text(item: Item) -> bool:
    """Return whether an item's text is all that it holds."""
    if isinstance(item.content, str):
        return True
    parts = [*item.content]
    for block in item.content:
        if isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
            parts += block.content
    return not any(isinstance(part, ImageBlock | OpaqueBlock) for part in parts)


class DuplicateFinder:
    """The items that a window shows, or a source proposes, so far, by what they say."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._by_key: dict[int, Item] = {}  # the newest ones
        self._by_id: dict[str, Item] = {}
        self.note(items)

    def note(self, items: Iterable[Item]) -> None:
        """Note items as shown."""
        for item in items:
            self._by_id[item.id] = item
            own = duplicate_key(item)
            twin = self._by_key.get(own)
            if own and (twin is None or _is_newer(item, twin)):
                self._by_key[own] = item

    def knows(self, item: Item) -> bool:
        """Return whether an item is a duplicate of an earlier one; note it otherwise."""
        if duplicate_key(item) in self._by_key:
            return True
        self.note((item,))
        return False

    def twins(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Return the ids of the twins of a unit's items; () if not all of them are duplicates.

        A shown item of the same section is a twin only if it is not older: a repeated statement is
        the newest one.
        """
        twins = []
        for item in items:
            twin = self._twin(item)
            if twin is None:
                return ()
            twins.append(twin.id)
        return tuple(twins)

    def _twin(self, item: Item) -> Item | None:
        if FORMED in item.tags and item.sources:
            sources = [self._by_id.get(source) for source in item.sources]
            if None not in sources:
                return sources[0]
        twin = self._by_key.get(duplicate_key(item))
        if twin is None or _is_newer(item, twin):
            return None
        return twin


def _is_newer(item: Item, twin: Item) -> bool:
    return item.section == twin.section and item.created_at > twin.created_at


def part_of_room(
    tokens: int,
    item: Item | None,
    cap: int,
    shown_before: DuplicateFinder,
) -> int:
    """Return a unit's part of the twice `cap` tokens that a source proposes.

    A unit that is larger than the cap, or says the same as one before it, is proposed for the
    record alone: it takes no room from units that fit.

    Args:
        item: The first item of the unit, None if it can't be read.
        shown_before: The texts that were proposed. It takes in the item.
    """
    part = max(1, tokens)  # even the empty are so many at most
    if part <= cap and (item is None or not shown_before.knows(item)):
        return part
    return min(part, 1 + 2 * cap // _MAX_PASSED_OVER)


class Unit(Protocol):
    """Items that stay together."""

    @property
    def items(self) -> Sequence[Item]: ...


UnitT = TypeVar("UnitT", bound=Unit)


def newest_first(units: Sequence[UnitT]) -> tuple[UnitT, ...]:
    """Return units in their order, with duplicates newest first in the places that they had."""
    places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, unit in enumerate(units):
        places[tuple(map(duplicate_key, unit.items))].append(place)
    ordered = list(units)
    for statements, same in places.items():
        if len(same) == 1 or not all(statements):  # a unit with an image is no duplicate
            continue
        newest = [units[place] for place in same]
        newest.sort(key=lambda unit: unit.items[0].created_at, reverse=True)
        for place, unit in zip(same, newest, strict=True):
            ordered[place] = unit
    return tuple(ordered)
