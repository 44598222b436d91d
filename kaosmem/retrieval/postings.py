"""Postings: which entries have a term, and how often each has it."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kaosmem.retrieval.columns import Columns, StoredColumns, owned, unusable

if TYPE_CHECKING:
    from numpy.typing import NDArray


OCCURRENCE_BITS = 8
"""A posting is slot << 8 | occurrences."""
MANY = (1 << OCCURRENCE_BITS) - 1
"""So many occurrences and more are kept in a table beside the postings."""
_CHUNK = 1 << 17  # a part that fits a processor's cache is looked through several times as fast
_NARROW_SLOTS = 1 << 32 - OCCURRENCE_BITS


def is_wide(size: int) -> bool:
    """Return whether the slots of `size` entries do not fit into postings of 4 bytes."""
    return size > _NARROW_SLOTS


@dataclass(frozen=True)
class FlatPostings:
    """The postings of terms in order, one term after another.

    Attributes:
        starts: Where the postings of each term start, and the end of all: shape (terms + 1,).
        packed: The postings, of each term in order of slots: shape (n,).
        many: Numbers of terms, slots and occurrences: shape (3, m).
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
    def of_sizes(
        cls, sizes: NDArray[np.int64], packed: NDArray[np.uint32 | np.int64]
    ) -> FlatPostings:
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

        many: occurrences by number and slot. places: by slot, where its entry is to be, -1 for
            nowhere.
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
        table = []
        for number, slots in many.items():
            for slot, occurrences in slots.items():
                if places[slot] >= 0:
                    table.append((order[number], int(places[slot]), occurrences))
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return FlatPostings(
            terms, starts, packed, np.array(sorted(table), np.int64).reshape(-1, 3).T
        )

    def _runs(self, later: FlatPostings, numbers: list[int]) -> Iterator[memoryview]:
        """Yield the postings of each term, here and there."""
        parts = [
            (each.packed.data.cast("B"), (each.starts * each.packed.itemsize).tolist())
            for each in (self, later)
        ]
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
        """Return the postings of `size` slots that are stored as columns.

        Raises CorruptionError.
        """
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

    def places_where(
        self, condition: Callable[[NDArray[Any]], NDArray[np.bool_]]
    ) -> NDArray[np.int64]:
        """Return where a condition is true of postings, which it is told some at a time."""
        starts = range(0, len(self.packed), _CHUNK)
        found = [
            start + np.flatnonzero(condition(self.packed[start : start + _CHUNK]))
            for start in starts
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _check_order(self) -> None:
        """Check that the slots of each term rise, and that the table has all large counts.

        Raises:
            CorruptionError: If not.
        """
        for start in range(0, len(self.packed), _CHUNK):
            chunk = self.packed[start : start + _CHUNK + 1]
            falls = start + 1 + np.flatnonzero(chunk[1:] <= (chunk[:-1] | MANY))
            if (self.starts[np.searchsorted(self.starts, falls)] != falls).any():
                raise unusable("the postings of a term are not in order")
        places = self.places_where(lambda packed: packed & MANY == MANY)
        numbers = self.numbers_at(places)
        slots = self.packed[places].astype(np.int64) >> OCCURRENCE_BITS
        if not np.array_equal(self.many[:2], [numbers, slots]) or (self.many[2] < MANY).any():
            raise unusable("its table of many occurrences is not that of its postings")

    def numbers_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which terms have the postings at these places."""
        return np.searchsorted(self.starts, places, side="right") - 1


def _in_order(terms: Iterable[str]) -> Iterator[str]:
    """Yield terms in order.

    They are sorted a few at a time: one sort of all would stop every other thread until it ends.
    """
    parts: dict[str, list[str]] = {}
    for term in terms:
        parts.setdefault(term[:2], []).append(term)
    for start in sorted(parts):
        yield from sorted(parts[start])


def _placed(
    packed: NDArray[np.uint32 | np.int64], sizes: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.uint32 | np.int64], NDArray[np.int64]]:
    """Return postings with the new places of their slots, and the number left of each term.

    The postings of each term are in order.
    """
    left = places[places >= 0]
    moved = np.maximum(places, 0) << OCCURRENCE_BITS
    moved = moved.astype(np.int64 if is_wide(len(left)) else np.uint32)
    slots = packed >> OCCURRENCE_BITS
    packed = moved[slots] | (packed & MANY).astype(moved.dtype)
    if len(left) < len(places):
        kept = (places >= 0)[slots]
        packed = packed[kept]
        sizes = _summed(kept, sizes)
    if (left[1:] < left[:-1]).any():
        packed = packed[np.lexsort((packed, np.repeat(np.arange(len(sizes)), sizes)))]
    return packed, sizes


def _summed(kept: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many are kept of runs of these sizes, none of which is 0."""
    starts = np.cumsum(sizes) - sizes
    return np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else sizes


# A term in more than one entry of 8 is scored faster as a column over all of them.
_COLUMN_SHARE = 8
# The terms of entries in a flat part are found for so many slots at once.
_BLOCK_BITS = 10


class Postings:
    """The terms of entries by slot.

    A posting takes 4 bytes, and 4 more to find the terms of an entry. A term is kept by number, and
    as text only while an entry has it.

    Args:
        flat: Postings of the first `size` slots, none of them empty. They are never changed:
            removed entries are passed over, until the postings are made flat again.
    """

    def __init__(self, flat: FlatPostings | None = None, size: int = 0) -> None:
        flat = flat or FlatPostings.of_nothing()
        self._numbers = dict(zip(flat.terms, range(len(flat.terms)), strict=True))
        self._terms = list(flat.terms)  # by number
        self._frequencies = array("i", flat.sizes.astype(np.int32).tobytes())  # by number
        self._flat = FlatPostings.of_sizes(flat.sizes, flat.packed)
        self._flat_size = size
        self._full = bytearray(b"\1") * size  # by slot
        self._empty = 0
        self._typecode = "q" if flat.packed.itemsize == 8 else "I"
        # Of the slots after those that are flat: by number of a term, and the numbers of each
        # slot's terms. As bytes, not arrays: the collector of garbage looks through every array
        # each time.
        self._later: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._own = array("I")
        self._ends = array("q", [0])
        self._blocks: dict[
            int, tuple[NDArray[np.int64], NDArray[np.int32]]
        ] = {}  # slots in order and their numbers
        self._many = (
            flat.many_by_number()
        )  # number -> slot -> occurrences, where there are MANY or more
        # The postings of common terms as occurrences by slot, made when a query first asks.
        self._columns: dict[int, NDArray[np.uint8]] = {}
        self._column_size = size

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._numbers)

    def __contains__(self, term: object) -> bool:
        return term in self._numbers

    @property
    def terms(self) -> Collection[str]:
        """Return the terms that entries have."""
        return self._numbers.keys()

    def frequency(self, term: str) -> int:
        """Return how many entries have the term."""
        number = self._numbers.get(term)
        return 0 if number is None else self._frequencies[number]

    def frequencies(self) -> NDArray[np.int32]:
        """Return the number of entries with each term, in no order, with some zeros: shape (n,)."""
        return np.array(self._frequencies, np.int32)

    def attach(self, terms: Sequence[str]) -> None:
        """Put the terms of an entry into the next slot."""
        slot = len(self._full)
        occurrences = Counter(terms)
        self._grow(slot + 1)
        numbers = list(map(self._number, occurrences))
        later = self._later
        frequencies = self._frequencies
        shifted = slot << OCCURRENCE_BITS
        width = array(self._typecode).itemsize
        for number, n in zip(numbers, occurrences.values(), strict=True):
            later[number] += (shifted | (n if n < MANY else MANY)).to_bytes(width, sys.byteorder)
            frequencies[number] += 1
            if n >= MANY:
                self._many.setdefault(number, {})[slot] = n
            if number in self._columns:
                self._columns[number][slot] = min(n, MANY)
        self._own.extend(numbers)
        self._ends.append(len(self._own))

    def attach_many(self, entries: Sequence[Sequence[str]]) -> None:
        """Put the terms of each entry into the next slot.

        Sorting them together costs less than placing each.
        """
        first = len(self._full)
        self._grow(first + len(entries))
        terms, starts, slots, occurrences = _sorted_terms(entries, first)
        numbers = list(map(self._number, terms))
        postings = (slots << OCCURRENCE_BITS | np.minimum(occurrences, MANY)).astype(self._typecode)
        later = self._later
        frequencies = self._frequencies
        view = memoryview(postings.tobytes())
        width = postings.itemsize
        for number, (start, stop) in zip(numbers, pairwise([*starts, len(slots)]), strict=True):
            later[number] += view[start * width : stop * width]
            frequencies[number] += stop - start
        for place in np.flatnonzero(occurrences >= MANY).tolist():
            number = numbers[bisect_right(starts, place) - 1]
            self._many.setdefault(number, {})[int(slots[place])] = int(occurrences[place])
        by_posting = np.repeat(np.array(numbers, np.uint32), np.diff([*starts, len(slots)]))
        self._own.frombytes(by_posting[np.argsort(slots, kind="stable")].tobytes())
        sizes = np.bincount(slots - first, minlength=len(entries))
        self._ends.frombytes((np.cumsum(sizes) + self._ends[-1]).tobytes())
        self._columns.clear()

    def detach(self, slot: int) -> None:
        """Take the terms of an entry out, whose slot stays empty."""
        numbers = self._numbers_of(slot)
        self._full[slot] = 0
        self._empty += 1
        for number in numbers:
            self._frequencies[number] -= 1
            if not self._frequencies[number]:
                self._drop(number)
        for column in self._columns.values():
            column[slot] = 0
        for number in self._many.keys() & {*numbers}:
            self._many[number].pop(slot, None)
            if not self._many[number]:
                del self._many[number]
        if slot < self._flat_size:
            self._flat = replace(self._flat, packed=owned(self._flat.packed))

    def is_common(self, term: str) -> bool:
        """Return whether a column is the cheaper form.

        It is if enough entries have the term, and none has it very often.
        """
        number = self._numbers.get(term)
        if number is None or number in self._many:
            return False
        return self._frequencies[number] * _COLUMN_SHARE > len(self._full) - self._empty

    def column(self, term: str) -> NDArray[np.uint8]:
        """Return how often each entry has a common term: shape (n,).

        The array is a view. Release it before the next change.
        """
        number = self._numbers[term]
        column = self._columns.get(number)
        if column is None:
            slots, occurrences, _ = self.unpacked([term])
            column = self._columns[number] = np.zeros(self._column_size, np.uint8)
            column[slots] = occurrences
        return column[: len(self._full)]

    def unpacked(
        self, terms: Collection[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Return the slots and occurrences of terms, one term after another, and how many each has.

        All are copies: an array can't grow while it is viewed.
        """
        numbers = [self._numbers[term] for term in terms]
        parts = list(chain.from_iterable(map(self._parts, numbers)))
        packed = np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, np.int64)
        slots = packed >> OCCURRENCE_BITS
        occurrences = packed & MANY
        if self._empty:
            full = np.frombuffer(self._full, np.bool_)[slots]
            slots = slots[full]
            occurrences = occurrences[full]
        sizes = [self._frequencies[number] for number in numbers]
        if not self._many.keys().isdisjoint(numbers):
            stop = 0
            for number, size in zip(numbers, sizes, strict=True):
                start = stop
                stop = stop + size
                if many := self._many.get(number):
                    places = start + np.flatnonzero(occurrences[start:stop] == MANY)
                    occurrences[places] = [many[slot] for slot in slots[places].tolist()]
        return slots, occurrences, sizes

    def frozen(self) -> Callable[[NDArray[np.int64]], FlatPostings]:
        """Return how these postings are made flat, whatever changes after this call.

        It takes the place of each slot's entry among those that are left, -1 for one that is not.
        """
        numbers = sorted(self._later)
        sizes = np.zeros(len(self._terms), np.int64)
        width = array(self._typecode).itemsize
        sizes[numbers] = [len(self._later[number]) // width for number in numbers]
        packed = np.frombuffer(b"".join(map(self._later.__getitem__, numbers)), self._typecode)
        later = FlatPostings.of_sizes(sizes, packed)
        many = {number: dict(slots) for number, slots in self._many.items()}
        return partial(self._flat.joined, later, dict(self._numbers), many)

    def _number(self, term: str) -> int:
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._terms)
            self._terms.append(term)
            self._frequencies.append(0)
        return number

    def _drop(self, number: int) -> None:
        """Forget a term that no entry has."""
        del self._numbers[self._terms[number]]
        self._terms[number] = ""
        self._later.pop(number, None)
        self._columns.pop(number, None)

    def _parts(self, number: int) -> Iterable[NDArray[np.uint32 | np.int64]]:
        starts = self._flat.starts
        if number + 1 < len(starts):
            yield self._flat.packed[starts[number] : starts[number + 1]]
        if number in self._later:
            yield np.frombuffer(self._later[number], self._typecode)

    def _numbers_of(self, slot: int) -> list[int]:
        """Return the numbers of the terms of a slot."""
        later = slot - self._flat_size
        if later >= 0:
            return self._own[self._ends[later] : self._ends[later + 1]].tolist()
        block = slot >> _BLOCK_BITS
        if block not in self._blocks:
            places = self._flat.places_where(
                lambda packed: packed >> (OCCURRENCE_BITS + _BLOCK_BITS) == block
            )
            slots = self._flat.packed[places].astype(np.int64) >> OCCURRENCE_BITS
            order = np.argsort(slots, kind="stable")
            self._blocks[block] = (
                slots[order],
                self._flat.numbers_at(places)[order].astype(np.int32),
            )
        in_order, of_slots = self._blocks[block]
        start, stop = np.searchsorted(in_order, [slot, slot + 1])
        found: list[int] = of_slots[start:stop].tolist()
        return found

    def _grow(self, size: int) -> None:
        if is_wide(size) and self._typecode != "q":
            self._typecode = "q"
            self._flat = replace(self._flat, packed=self._flat.packed.astype(np.int64))
            for number, postings in self._later.items():
                self._later[number] = bytearray(
                    np.frombuffer(postings, np.uint32).astype(np.int64).tobytes()
                )
        if size > self._column_size:
            # The next query makes those columns anew that it needs, with room to grow.
            self._column_size = size + size // 4 + 64
            self._columns.clear()
        self._full.extend(b"\1" * (size - len(self._full)))


def _sorted_terms(
    entries: Sequence[Sequence[str]], first: int
) -> tuple[list[str], list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of entries in slots from `first` on, with their postings.

    Returns:
        The terms, the place where the postings of each start, and the slots and occurrences of all
        postings, one term after another: both of shape (n,).
    """
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    by_number = np.fromiter(map(numbers.__getitem__, chain.from_iterable(entries)), np.int64)
    by_number <<= 32
    by_number |= np.repeat(np.arange(first, first + len(entries)), list(map(len, entries)))
    # The numbers of terms rise in the order of `numbers`, so the sorted runs are its terms one
    # after another.
    runs, occurrences = np.unique(by_number, return_counts=True)
    starts = np.flatnonzero(np.diff(runs >> 32, prepend=-1)).tolist()
    return list(numbers), starts, runs & 0xFFFFFFFF, occurrences
