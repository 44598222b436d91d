"""Near-duplicates: items of which one says what another says."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias
from zlib import crc32

from kaosmem.types import ImageBlock, Item, ToolResultBlock

SHINGLE_WORDS = 5
Shingles: TypeAlias = frozenset[tuple[str, ...]]


def shingles(item: Item) -> Shingles:
    """Return all runs of five words of an item's text; of fewer words, these as one.

    Words are what blanks part, in any case.
    """
    words = item.text.casefold().split()
    return frozenset(_runs(words)) or frozenset((tuple(words),))


def are_near(one: Shingles, other: Shingles) -> bool:
    """Return whether two sets have at least four fifths of their union in common: a Jaccard index of 0.8."""
    fewer, more = sorted((len(one), len(other)))
    if 5 * fewer < 4 * more:
        return False
    common = len(one & other)
    return 5 * common >= 4 * (fewer + more - common)


def sketch(item: Item) -> array[int]:
    """Return hashes of those shingles that come first in an order that all items share, made once in an item's life.

    The sketches of near-duplicates have a hash in common: each holds more than a fifth of the shingles, of which at
    most a fifth come before the first common one. Items that hold images are like no other: theirs are empty.
    """
    return item.memo("sketch", _sketch)


def _sketch(item: Item) -> array[int]:
    if not _is_text(item):
        return array("I")
    words = item.text.casefold().encode().split()
    # First come those that begin with the longest words: these are soon found, and few other texts have them.
    lengths = list(map(len, words[: 1 - SHINGLE_WORDS]))
    least = len(lengths) // 5 + 1
    shortest = sorted(lengths)[-least] if lengths else 0
    starts = (start for start, length in enumerate(lengths) if length >= shortest)
    hashes = {crc32(b" ".join(words[start : start + SHINGLE_WORDS])) for start in starts}
    if len(hashes) < least:  # too few words, or the same ones again and again
        hashes = {crc32(" ".join(shingle).encode()) for shingle in shingles(item)}
    return array("I", sorted(hashes))


def _runs(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)


def _is_text(item: Item) -> bool:
    """Return whether an item's text is all that it holds."""
    if isinstance(item.content, str):
        return True
    inner = (block.content for block in item.content if isinstance(block, ToolResultBlock))
    parts = chain(item.content, *(each for each in inner if not isinstance(each, str)))
    return not any(isinstance(part, ImageBlock) for part in parts)


class Shown:
    """Items that are shown, to be asked which others say what one of them says."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)
        self._hashes: set[int] = set().union(*map(sketch, self._items))
        self._bearers: dict[int, list[int]] = {}  # hash -> places in `_items`, of the first `_filed`
        self._filed = 0
        self._shingles: dict[int, Shingles] = {}  # by place, of those that were compared

    def admit(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Note items as shown, or return for each the id of the first shown one that it is a near-duplicate of.

        Items that come together stay together: they are noted, and () returned, where any of them is no duplicate.
        """
        twins = []
        for item in items:
            own, before = sketch(item), len(self._hashes)
            self._hashes.update(own)
            # Most share no hash with what is shown: all of theirs are new.
            if len(self._hashes) < before + len(own) and (twin := self._twin(item, own)) is not None:
                twins.append(twin)
        if len(twins) == len(items):
            return tuple(twins)
        self._items += items
        return ()

    def _twin(self, item: Item, own: Iterable[int]) -> str | None:
        self._file()
        own_shingles = shingles(item)
        for place in sorted({*chain.from_iterable(self._bearers.get(each, ()) for each in own)}):
            if place not in self._shingles:
                self._shingles[place] = shingles(self._items[place])
            if are_near(own_shingles, self._shingles[place]):
                return self._items[place].id
        return None

    def _file(self) -> None:
        for place in range(self._filed, len(self._items)):
            for each in sketch(self._items[place]):
                self._bearers.setdefault(each, []).append(place)
        self._filed = len(self._items)


class Told:
    """Items that were told apart so far: it knows most near-duplicates of them at sight, and is never wrong."""

    def __init__(self) -> None:
        self._by_least: dict[int, Item] = {}

    def knows(self, item: Item) -> bool:
        """Return whether an item is known to be a near-duplicate of an earlier one; note it otherwise."""
        own = sketch(item)
        if not own or (other := self._by_least.setdefault(own[0], item)) is item:
            return False
        return item.content == other.content or are_near(shingles(item), shingles(other))
