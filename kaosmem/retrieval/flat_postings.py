"""Postings in columns, as they are stored and as most of an index keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kaosmem.retrieval.columns import Columns, StoredColumns, unusable

if TYPE_CHECKING:
    from numpy.typing import NDArray

OCCURRENCE_BITS = 8
"""A posting is slot << 8 | occurrences."""
MANY = (1 << OCCURRENCE_BITS) - 1
"""So many occurrences and more are kept in a table beside the postings."""
_CHUNK = 1 << 17  # a part that fits a processor's cache is looked through several times as fast
_NARROW_SLOTS = 1 << 32 - OCCURRENCE_BITS


def is_wide(size: int) -> bool:
    """Return whether the slots of so many entries do not fit into postings of 4 bytes."""
    return size > _NARROW_SLOTS


@dataclass(frozen=True)
class FlatPostings:
    """The postings of terms in order, one term after another.

    starts: where those of each term start, and their end: shape (terms + 1,). packed: shape (n,), of each term in
    order of slots. many: shape (3, m), numbers of terms, slots and occurrences.
    """

    terms: list[str]
    starts: NDArray[np.int64]
    packed: NDArray[np.uint32 | np.int64]
    many: NDArray[np.int64]

    @classmethod
    def of_nothing(cls) -> FlatPostings:
        """Return the postings of no entries."""
        return cls.of_sizes(np.empty(0, np.int64), np.empty(0, np.uint32))

    @classmethod
    def of_sizes(cls, sizes: NDArray[np.int64], packed: NDArray[np.uint32 | np.int64]) -> FlatPostings:
        """Return postings of terms that are known by number alone."""
        return cls([], np.concatenate([[0], np.cumsum(sizes)]), packed, np.empty((3, 0), np.int64))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return how many entries have each term: shape (terms,)."""
        return np.diff(self.starts)

    def many_by_number(self) -> dict[int, dict[int, int]]:
        """Return term -> slot -> occurrences, where they are many."""
        found: dict[int, dict[int, int]] = {}
        for number, slot, occurrences in self.many.T.tolist():
            found.setdefault(number, {})[slot] = occurrences
        return found

    def joined(
        self,
        later: FlatPostings,
        numbers: Mapping[str, int],
        many: Mapping[int, Mapping[int, int]],
        places: NDArray[np.int64],
    ) -> FlatPostings:
        """Return these postings and later ones as one, of the terms that have a number.

        many: occurrences by number and slot. places: by slot, where its entry is to be, -1 for nowhere.
        """
        terms = list(_in_order(numbers))
        of_terms = [numbers[term] for term in terms]
        sizes = later.sizes
        sizes[: len(self.starts) - 1] += self.sizes
        sizes = sizes[of_terms] if of_terms else sizes[:0]
        runs = bytearray()  # grows view by view: a list of them would set off the garbage collector
        for run in self._runs(later, of_terms):
            runs += run
        packed = np.frombuffer(runs, self.packed.dtype)
        if not np.array_equal(places, np.arange(len(places))):
            packed, sizes = _placed(packed, sizes, places)
        order = {number: place for place, number in enumerate(of_terms)}
        table = [
            (order[number], place, n)
            for number, slots in many.items()
            for slot, n in slots.items()
            if (place := int(places[slot])) >= 0
        ]
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return FlatPostings(terms, starts, packed, np.array(sorted(table), np.int64).reshape(-1, 3).T)

    def _runs(self, later: FlatPostings, numbers: list[int]) -> Iterator[memoryview]:
        """Yield the postings of each term, here and there."""
        parts = [(each.packed.data.cast("B"), (each.starts * each.packed.itemsize).tolist()) for each in (self, later)]
        for number in numbers:
            for packed, starts in parts:
                if number + 1 < len(starts):
                    yield packed[starts[number] : starts[number + 1]]

    def columns(self, prefix: str) -> Columns:
        """Return these postings as columns, whose names begin so."""
        return {
            f"{prefix}terms": self.terms,
            f"{prefix}sizes": self.sizes,
            f"{prefix}packed": self.packed,
            f"{prefix}many": self.many.ravel(),
        }

    @classmethod
    def stored(cls, columns: StoredColumns, prefix: str, size: int) -> FlatPostings:
        """Return the postings that are stored as columns, of so many slots. Raises CorruptionError."""
        terms = columns.texts(f"{prefix}terms")
        dtype = np.int64 if columns.is_wide(f"{prefix}packed") else np.uint32
        packed = columns.numbers(f"{prefix}packed", dtype, among=(0, size << OCCURRENCE_BITS))
        sizes = columns.numbers(f"{prefix}sizes", np.int64, among=(1, size + 1))
        many = columns.numbers(f"{prefix}many", np.int64)
        if len(sizes) != len(terms) or int(sizes.sum()) != len(packed) or len(many) % 3:
            raise unusable("its terms and their postings are not as many as they should be")
        found = cls(terms, np.concatenate([[0], np.cumsum(sizes)]), packed, many.reshape(3, -1))
        found._check_order()
        return found

    def places_where(self, condition: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Return where a condition is true of postings, which it is told some at a time."""
        starts = range(0, len(self.packed), _CHUNK)
        found = [start + np.flatnonzero(condition(self.packed[start : start + _CHUNK])) for start in starts]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _check_order(self) -> None:
        """Raise CorruptionError unless each term has a slot once, in order, and the table all large counts."""
        for start in range(0, len(self.packed), _CHUNK):
            chunk = self.packed[start : start + _CHUNK + 1]
            falls = start + 1 + np.flatnonzero(chunk[1:] <= (chunk[:-1] | MANY))
            if (self.starts[np.searchsorted(self.starts, falls)] != falls).any():
                raise unusable("the postings of a term are not in order")
        places = self.places_where(lambda packed: packed & MANY == MANY)
        numbers, slots = self.numbers_at(places), self.packed[places].astype(np.int64) >> OCCURRENCE_BITS
        if not np.array_equal(self.many[:2], [numbers, slots]) or (self.many[2] < MANY).any():
            raise unusable("its table of many occurrences is not that of its postings")

    def numbers_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which terms have the postings at these places."""
        return np.searchsorted(self.starts, places, side="right") - 1


def _in_order(terms: Iterable[str]) -> Iterator[str]:
    """Yield terms in order, sorted a few at a time: one sort of all would stop every other thread until it ends."""
    parts: dict[str, list[str]] = {}
    for term in terms:
        parts.setdefault(term[:2], []).append(term)
    for start in sorted(parts):
        yield from sorted(parts[start])


def _placed(
    packed: NDArray[np.uint32 | np.int64], sizes: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.uint32 | np.int64], NDArray[np.int64]]:
    """Return postings with their slots' new places, of each term in order, and how many each term has left."""
    left = places[places >= 0]
    moved = np.maximum(places, 0) << OCCURRENCE_BITS
    moved = moved.astype(np.int64 if is_wide(len(left)) else np.uint32)
    slots = packed >> OCCURRENCE_BITS
    packed = moved[slots] | (packed & MANY).astype(moved.dtype)
    if len(left) < len(places):
        kept = (places >= 0)[slots]
        packed, sizes = packed[kept], _summed(kept, sizes)
    if (left[1:] < left[:-1]).any():
        packed = packed[np.lexsort((packed, np.repeat(np.arange(len(sizes)), sizes)))]
    return packed, sizes


def _summed(kept: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many are kept of runs of these sizes, none of which is 0."""
    starts = np.cumsum(sizes) - sizes
    return np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else sizes
