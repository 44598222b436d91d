"""The evicted units of a section that may be recalled; their texts may be in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Protocol

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.types import JSONValue
from kaosmem.types.items import Item
from kaosmem.units import Link


class EvictedFile(Protocol):
    """A file that holds evicted items."""

    def read(
        self, evicted: Sequence[EvictedItem]
    ) -> list[Mapping[str, JSONValue] | CorruptionError]:
        """Return the stored items, or the error for each that can't be read. This is I/O."""
        ...


@dataclass(
    slots=True, eq=False
)  # not frozen: a session has as many as it ever evicted, and opens faster
class EvictedItem:
    """An evicted item whose text is in a file.

    position, unit, updated, valid_until: as of an `Archived`. created_at, stated_from: of an item
        with a key.
    is_results: it holds tool results only. line: its number in the file, from 0.
    """

    id: str
    section: str
    tokens: int
    position: int
    unit: int
    updated: int
    key: str | None
    created_at: datetime | None
    stated_from: datetime | None
    valid_until: datetime | None
    is_results: bool
    file: EvictedFile = field(repr=False)
    line: int

    @property
    def item(self) -> EvictedItem:
        """Return itself, as an `Archived` has an item."""
        return self


def read_evicted(evicted: Iterable[EvictedItem]) -> dict[EvictedItem, Item | CorruptionError]:
    """Return items, or why they can't be read. This is I/O, and may be done in another thread."""
    of: dict[EvictedFile, list[EvictedItem]] = {}
    for each in evicted:
        of.setdefault(each.file, []).append(each)
    read = {}
    for file, wanted in of.items():
        for each, stored in zip(wanted, file.read(wanted), strict=True):
            read[each] = _item_of(each, stored)
    return read


def _item_of(
    evicted: EvictedItem, stored: Mapping[str, JSONValue] | CorruptionError
) -> Item | CorruptionError:
    if isinstance(stored, CorruptionError):
        return stored
    try:
        item = Item.from_dict(stored, evicted.section)
    except InvalidArgumentError as error:
        return CorruptionError(str(error))
    return item if item.tokens == evicted.tokens else replace(item, tokens=evicted.tokens)


class Past:
    """Evicted items, each under its ordinal, and the units that they are in.

    A unit is named by the ordinal of its first item.

    Attributes:
        texts: The items that only files hold and that were read for a proposal, by ordinal.
        keeps_texts: All texts that are read or were in memory stay there, so that a search finds
            them.
        used: The tokens of all items.
        unloaded: Number of further items in archive files, of which nothing else is known.
        ended: The time from which a superseded item no longer holds, by ordinal.
    """

    def __init__(self) -> None:
        self.used = 0
        self.unloaded = 0
        self.texts: dict[int, Item] = {}
        self.keeps_texts = False
        self.ended: dict[int, datetime] = {}
        self._items: dict[int, Item | EvictedItem] = {}
        # The ascending ordinals of the unit of each item that is not alone: one list for all.
        self._units: dict[int, list[int]] = {}
        self._by_key: dict[str, list[int]] = {}
        self._results: set[int] = set()

    def __len__(self) -> int:
        """Return how many items were evicted."""
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._items

    def __getitem__(self, ordinal: int) -> Item | EvictedItem:
        """Return an item if its text is at hand, else its EvictedItem."""
        return self.texts.get(ordinal) or self._items[ordinal]

    @property
    def all_alone(self) -> bool:
        """Return whether no unit has several items."""
        return not self._units

    @property
    def has_keys(self) -> bool:
        """Return whether any item has a key."""
        return bool(self._by_key)

    def expect(self, evicted: int) -> None:
        """Note how many items were evicted and may be recalled.

        Archive files hold those that are not here.
        """
        self.unloaded = evicted - len(self)

    def put(self, items: Mapping[int, Item | EvictedItem], units: Mapping[int, int]) -> None:
        """Keep new items by ordinal.

        Args:
            units: The first ordinal of the unit, for items that are not the first. That one may be
                forgotten.
        """
        members: dict[int, list[int]] = {}
        for ordinal, first in units.items():
            is_first_here = first in items and first not in units
            members.setdefault(first, [first] if is_first_here else []).append(ordinal)
        for unit in members.values():
            if len(unit) > 1:
                unit.sort()
                self._units.update(dict.fromkeys(unit, unit))
        self._items.update(items)
        for ordinal, item in items.items():
            self.used += item.tokens
            if item.key is not None:
                self._by_key.setdefault(item.key, []).append(ordinal)
            if item.is_results if isinstance(item, EvictedItem) else Link.of(item).is_results:
                self._results.add(ordinal)

    def inherit(self, other: Past, ordinals: Container[int]) -> None:
        """Keep the items at some ordinals as another past does, where the whole unit is there."""
        items: dict[int, Item | EvictedItem] = {}
        units: dict[int, int] = {}
        for ordinal, item in other._items.items():
            unit = other.members(ordinal)
            if all(at in ordinals and at not in self for at in unit):
                items[ordinal] = item
                if ordinal != unit[0]:
                    units[ordinal] = unit[0]
        evicted = self.unloaded + len(self)
        self.put(items, units)
        self.expect(evicted)
        self.ended.update((at, end) for at, end in other.ended.items() if at in items)
        if self.keeps_texts:
            self.texts.update((at, text) for at, text in other.texts.items() if at in items)

    def is_at(self, evicted: EvictedItem) -> bool:
        """Return whether an item's text is still where it was read."""
        return self._items.get(evicted.position) is evicted

    def place(self, evicted: EvictedItem) -> None:
        """Let go of an item's text, which a file holds now."""
        known = self._items.get(evicted.position)
        if known is None or (known.id, known.tokens) != (evicted.id, evicted.tokens):
            return
        if self.keeps_texts and isinstance(known, Item):
            self.texts[evicted.position] = known
        self._items[evicted.position] = evicted

    def ordinals(self, item_ids: Container[str]) -> set[int]:
        """Return the ordinals under which any of these ids was evicted."""
        return {ordinal for ordinal, item in self._items.items() if item.id in item_ids}

    def forget(self, ordinals: Collection[int], count: int = 0) -> None:
        """Take items out; the rest of their units stays together.

        Of `count` in all, files hold the others.
        """
        self.unloaded = max(0, self.unloaded - max(0, count - len(ordinals)))
        for ordinal in ordinals:
            self._take(ordinal)

    def _take(self, ordinal: int) -> None:
        item = self._items.pop(ordinal)
        self.used -= item.tokens
        self.texts.pop(ordinal, None)
        self.ended.pop(ordinal, None)
        self._results.discard(ordinal)
        if item.key is not None:
            self._by_key[item.key].remove(ordinal)
            if not self._by_key[item.key]:
                del self._by_key[item.key]
        unit = self._units.pop(ordinal, [])
        if unit:
            unit.remove(ordinal)
        if len(unit) == 1:
            del self._units[unit[0]]

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an item's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit[0]

    def last(self, ordinal: int) -> int:
        """Return the last ordinal of an item's unit."""
        unit = self._units.get(ordinal)
        return ordinal if unit is None else unit[-1]

    def members(self, ordinal: int) -> tuple[int, ...]:
        """Return the ordinals of an item's unit, none for one that is not here."""
        unit = self._units.get(ordinal)
        if unit is not None:
            return tuple(unit)
        return (ordinal,) if ordinal in self._items else ()

    def known_unit(self, ordinal: int) -> list[Item | EvictedItem]:
        """Return the items of a unit in order; an EvictedItem where a file holds the text."""
        return [self[at] for at in self.members(ordinal)]

    def tokens(self, ordinal: int) -> int:
        """Return the tokens of an item's unit."""
        return sum(self._items[at].tokens for at in self.members(ordinal))

    def unread(self, firsts: Iterable[int]) -> tuple[EvictedItem, ...]:
        """Return the items of the evicted ones among these units whose texts are in files."""
        items = chain.from_iterable(map(self.known_unit, firsts))
        return tuple(item for item in items if isinstance(item, EvictedItem))

    def keep_texts(self, firsts: Iterable[int]) -> None:
        """Let go of all texts that were read but those of these units, unless all are kept."""
        if not self.keeps_texts:
            kept = chain.from_iterable(map(self.members, firsts))
            self.texts = {at: self.texts[at] for at in kept if at in self.texts}

    @property
    def without_text(self) -> list[EvictedItem]:
        """Return the items whose texts are not at hand, beside those that are not loaded."""
        items = map(self.__getitem__, self._items)
        return [item for item in items if isinstance(item, EvictedItem)]

    def known_metadata(self) -> Iterator[Mapping[str, JSONValue]]:
        """Yield the metadata of the items whose texts are at hand."""
        for item in map(self.__getitem__, self._items):
            if isinstance(item, Item):
                yield item.metadata

    def item_tokens(self, ordinal: int) -> int:
        """Return the tokens of an item, 0 for an unknown one."""
        item = self._items.get(ordinal)
        return 0 if item is None else item.tokens

    def keyed(self, key: str) -> list[int]:
        """Return the ordinals of the items with a key, in order."""
        return sorted(self._by_key.get(key, ()))

    def is_orphan(self, ordinal: int) -> bool:
        """Return whether a unit holds only results whose calls never came or are forgotten."""
        return bool(self._results) and self._results.issuperset(self.members(ordinal))

    def newest_first(self) -> Iterator[int]:
        """Yield the first ordinal of each unit, the unit with the newest item first."""
        for ordinal in sorted(self._items, reverse=True):
            if self.last(ordinal) == ordinal:
                yield self.first(ordinal)

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure anew all items whose text is at hand."""
        for ordinal, item in self._items.items():
            if isinstance(item, Item):
                self._items[ordinal] = replace(item, tokens=count(item))
        self.used = sum(item.tokens for item in self._items.values())
