"""The evicted units of a section that may be recalled; their texts may be in files."""

from __future__ import annotations

from bisect import insort
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
    return {
        each: _item_of(each, stored)
        for file, wanted in of.items()
        for each, stored in zip(wanted, file.read(wanted), strict=True)
    }


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
    """Evicted units, each under the ordinal of its first item.

    texts: of items that only files hold, read for a proposal.
    keeps_texts: whether all texts that are read or were in memory stay there, so that a search
        finds them.
    used: tokens of all items.
    unloaded: how many more archive files hold, of which nothing is known to recall them by.
    returned: ordinals of items that came back, though files may list them as evicted.
    ended: by ordinal, the time from which a superseded item no longer holds.
    """

    def __init__(self) -> None:
        self.used = self.unloaded = 0
        self.returned: set[int] = set()
        self.texts: dict[EvictedItem, Item] = {}
        self.keeps_texts = False
        self._items: dict[int, Item | EvictedItem] = {}
        self._members: dict[int, tuple[int, ...]] = {}  # first -> ordinals, of units with several
        self._firsts: dict[int, int] = {}  # ordinal -> first, of items that are not alone
        self._by_key: dict[str, list[int]] = {}
        self.ended: dict[int, datetime] = {}
        self._results: set[int] = set()
        self._lasts: list[int] = []  # of the units, ascending

    def __len__(self) -> int:
        """Return how many items were evicted."""
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._items

    def __getitem__(self, ordinal: int) -> Item | EvictedItem:
        """Return an item if its text is at hand, else its EvictedItem."""
        item = self._items[ordinal]
        return self.texts.get(item, item) if isinstance(item, EvictedItem) else item

    @property
    def all_alone(self) -> bool:
        """Return whether no unit has several items."""
        return not self._members

    @property
    def has_keys(self) -> bool:
        """Return whether any item has a key."""
        return bool(self._by_key)

    def expect(self, evicted: int) -> None:
        """Note how many items were evicted and may be recalled.

        Archive files hold those that are not here.
        """
        self.unloaded = evicted - len(self)

    def put(self, items: Mapping[int, Item | EvictedItem]) -> None:
        """Keep a unit, its items by ordinal in stored order. A known unit stays as it is."""
        first = next(iter(items))
        if first in self._items:
            return
        if len(items) > 1:
            self._members[first] = tuple(items)
            self._firsts |= dict.fromkeys(items, first)
        self._enter(items)
        self.returned.difference_update(items)
        insort(self._lasts, max(items))

    def put_all(self, items: Mapping[int, Item | EvictedItem], firsts: Mapping[int, int]) -> None:
        """Keep new items by ordinal.

        firsts: the first ordinal of the unit, for items that are not the first.
        """
        units: dict[int, list[int]] = {}
        for at, first in firsts.items():  # which may be forgotten
            units.setdefault(
                first, [first] if first in items and first not in firsts else []
            ).append(at)
        for members in units.values():
            self.put({at: items[at] for at in sorted(members)})
        alone = {at: item for at, item in items.items() if at not in self} if units else items
        self._enter(alone)
        self._lasts += alone
        self._lasts.sort()

    def _enter(self, items: Mapping[int, Item | EvictedItem]) -> None:
        self.used += sum(
            item.tokens for ordinal, item in items.items() if ordinal not in self._items
        )
        self._items.update(items)
        for ordinal, item in items.items():
            if item.key is not None:
                self._by_key.setdefault(item.key, []).append(ordinal)
            if item.is_results if isinstance(item, EvictedItem) else Link.of(item).is_results:
                self._results.add(ordinal)

    def is_at(self, evicted: EvictedItem) -> bool:
        """Return whether an item's text is still where it was read."""
        return self._items.get(evicted.position) is evicted

    def place(self, evicted: EvictedItem) -> bool:
        """Let go of an item's text, which a file holds now; return whether it is here."""
        known = self._items.get(evicted.position)
        if known is None or (known.id, known.tokens) != (evicted.id, evicted.tokens):
            return False
        text = self[evicted.position]
        self._items[evicted.position] = evicted
        if self.keeps_texts and isinstance(text, Item):
            self.texts[evicted] = text
        return True

    def ordinals(self, item_ids: Container[str]) -> set[int]:
        """Return the ordinals under which any of these ids was evicted."""
        return {ordinal for ordinal, item in self._items.items() if item.id in item_ids}

    def give_back(self, ordinals: Collection[int], count: int) -> set[int]:
        """Let `count` items come back, and return the ordinals of those in memory."""
        here = {ordinal for ordinal in ordinals if ordinal in self}
        self.forget(here)
        self.unloaded = max(0, self.unloaded - (count - len(here)))
        self.returned.update(ordinals)
        return here

    def forget(self, ordinals: Collection[int], count: int = 0) -> None:
        """Take items out; the rest of their units stays together.

        Of `count` in all, files hold the others.
        """
        self.unloaded = max(0, self.unloaded - max(0, count - len(ordinals)))
        gone = {
            first: self.unit(first)
            for first in {self.first(ordinal) for ordinal in ordinals if ordinal in self}
        }
        for first, unit in gone.items():
            self._members.pop(first, None)
            for ordinal in unit:
                item = self._items.pop(ordinal)
                self.used -= item.tokens
                self._firsts.pop(ordinal, None)
                if item.key is not None:
                    self._by_key[item.key].remove(ordinal)
                self._results.discard(ordinal)
                if ordinal in ordinals:
                    self.ended.pop(ordinal, None)
        lasts = {max(unit) for unit in gone.values()}
        self._lasts = [last for last in self._lasts if last not in lasts]
        for unit in gone.values():
            if left := {ordinal: item for ordinal, item in unit.items() if ordinal not in ordinals}:
                self.put(left)
        self._by_key = {key: versions for key, versions in self._by_key.items() if versions}
        self.texts = {
            item: text
            for item, text in self.texts.items()
            if self._items.get(item.position) is item
        }

    def first(self, ordinal: int) -> int:
        """Return the first ordinal of an item's unit."""
        return self._firsts.get(ordinal, ordinal)

    def last(self, first: int) -> int:
        """Return the last ordinal of a unit."""
        return max(self._members[first]) if first in self._members else first

    def unit(self, first: int) -> dict[int, Item | EvictedItem]:
        """Return the items of a unit by ordinal, in stored order, none for one that is not here."""
        return {ordinal: self._items[ordinal] for ordinal in self.members(first)}

    def members(self, first: int) -> tuple[int, ...]:
        """Return the ordinals of a unit's items."""
        return self._members.get(first, (first,) if first in self._items else ())

    def known_unit(self, first: int) -> list[Item | EvictedItem]:
        """Return the items of a unit in stored order; an EvictedItem where the text is in a file."""
        return [self[ordinal] for ordinal in self.members(first)]

    def tokens(self, first: int) -> int:
        """Return the tokens of a unit."""
        return sum(self._items[ordinal].tokens for ordinal in self._members.get(first, (first,)))

    def unread(self, firsts: Iterable[int]) -> tuple[EvictedItem, ...]:
        """Return the items of the evicted ones among these units whose texts are in files."""
        items = chain.from_iterable(map(self.known_unit, firsts))
        return tuple(item for item in items if isinstance(item, EvictedItem))

    def keep_texts(self, firsts: Iterable[int]) -> None:
        """Let go of all texts that were read but those of these units, unless all are kept."""
        if self.keeps_texts:
            return
        items = (self._items[ordinal] for first in firsts for ordinal in self.members(first))
        self.texts = {
            item: self.texts[item]
            for item in items
            if isinstance(item, EvictedItem) and item in self.texts
        }

    @property
    def without_text(self) -> list[EvictedItem]:
        """Return the items whose texts are not at hand, beside those that are not loaded."""
        return [
            each
            for each in self._items.values()
            if isinstance(each, EvictedItem) and each not in self.texts
        ]

    def known_metadata(self) -> Iterator[Mapping[str, JSONValue]]:
        """Yield the metadata of the items whose texts are at hand."""
        for item in (*self._items.values(), *self.texts.values()):
            if isinstance(item, Item):
                yield item.metadata

    def item_tokens(self, ordinal: int) -> int:
        """Return the tokens of an item, 0 for an unknown one."""
        item = self._items.get(ordinal)
        return 0 if item is None else item.tokens

    def keyed(self, key: str) -> list[int]:
        """Return the ordinals of the items with a key, in order."""
        return sorted(self._by_key.get(key, ()))

    def is_orphan(self, first: int) -> bool:
        """Return whether a unit holds only results whose calls never came or are forgotten."""
        return bool(self._results) and self._results.issuperset(self.members(first))

    def units(self) -> Iterator[dict[int, Item | EvictedItem]]:
        """Yield all units."""
        return (self.unit(self.first(last)) for last in self._lasts)

    def newest_first(self) -> Iterator[int]:
        """Yield the first ordinal of each unit, the unit with the newest item first."""
        return map(self.first, reversed(self._lasts))

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure anew all items whose text is at hand."""
        for ordinal, item in self._items.items():
            if isinstance(item, Item):
                self._items[ordinal] = replace(item, tokens=count(item))
        self.used = sum(item.tokens for item in self._items.values())
