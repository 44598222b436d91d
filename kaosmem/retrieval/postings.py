"""Postings: which entries have a term, and how often each has it."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.columns import owned
from kaosmem.retrieval.flat_postings import MANY, OCCURRENCE_BITS, FlatPostings, is_wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A term in more than one entry of 8 is scored faster as a column over all of them.
_COLUMN_SHARE = 8
# The terms of entries in a flat part are found for so many slots at once.
_BLOCK_BITS = 10


class Postings:
    """The terms of entries by slot, in 4 bytes for each entry that has a term, and as many to find an entry's terms.

    flat: of the first `size` slots, none of them empty. It is never changed: removed entries are passed over, until
    the postings are made flat again. A term is kept by number, and as text only while an entry has it.
    """

    def __init__(self, flat: FlatPostings | None = None, size: int = 0) -> None:
        flat = flat or FlatPostings.of_nothing()
        self._numbers = dict(zip(flat.terms, range(len(flat.terms)), strict=True))
        self._terms = list(flat.terms)  # by number
        self._frequencies = array("i", flat.sizes.astype(np.int32).tobytes())  # by number
        self._flat, self._flat_size = FlatPostings.of_sizes(flat.sizes, flat.packed), size
        self._full = bytearray(b"\1") * size  # by slot
        self._empty = 0
        self._typecode = "q" if flat.packed.itemsize == 8 else "I"
        # Of the slots after those that are flat: by number of a term, and the numbers of each slot's terms.
        # As bytes, not arrays: the collector of garbage looks through every array each time.
        self._later: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._own, self._ends = array("I"), array("q", [0])
        self._blocks: dict[int, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}  # slots in order and their numbers
        self._many = flat.many_by_number()  # number -> slot -> occurrences, where there are MANY or more
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
        """Return how many entries have each term, in no order, and 0 of some that are gone: shape (n,)."""
        return np.array(self._frequencies, np.int32)

    def attach(self, terms: Sequence[str]) -> None:
        """Put the terms of an entry into the next slot."""
        slot, occurrences = len(self._full), Counter(terms)
        self._grow(slot + 1)
        numbers = list(map(self._number, occurrences))
        later, frequencies, shifted = self._later, self._frequencies, slot << OCCURRENCE_BITS
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
        """Put the terms of each entry into the next slot: sorted together, which costs less than placing each."""
        first = len(self._full)
        self._grow(first + len(entries))
        terms, starts, slots, occurrences = _sorted_terms(entries, first)
        numbers = list(map(self._number, terms))
        postings = (slots << OCCURRENCE_BITS | np.minimum(occurrences, MANY)).astype(self._typecode)
        later, frequencies = self._later, self._frequencies
        view, width = memoryview(postings.tobytes()), postings.itemsize
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
        """Return whether the term is had by so many entries, never very often, that its column is the cheaper form."""
        number = self._numbers.get(term)
        if number is None or number in self._many:
            return False
        return self._frequencies[number] * _COLUMN_SHARE > len(self._full) - self._empty

    def column(self, term: str) -> NDArray[np.uint8]:
        """Return how often each entry has a common term: shape (n,), a view to be let go of before the next change."""
        number = self._numbers[term]
        column = self._columns.get(number)
        if column is None:
            slots, occurrences, _ = self.unpacked([term])
            column = self._columns[number] = np.zeros(self._column_size, np.uint8)
            column[slots] = occurrences
        return column[: len(self._full)]

    def unpacked(self, terms: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Return the slots and occurrences of terms, one term after another, and how many each has.

        All are copies: an array can't grow while it is viewed.
        """
        numbers = [self._numbers[term] for term in terms]
        parts = [part for number in numbers for part in self._parts(number)]
        packed = np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, np.int64)
        slots, occurrences = packed >> OCCURRENCE_BITS, packed & MANY
        if self._empty:
            full = np.frombuffer(self._full, np.bool_)[slots]
            slots, occurrences = slots[full], occurrences[full]
        sizes = [self._frequencies[number] for number in numbers]
        if not self._many.keys().isdisjoint(numbers):
            stop = 0
            for number, size in zip(numbers, sizes, strict=True):
                start, stop = stop, stop + size
                if many := self._many.get(number):
                    places = start + np.flatnonzero(occurrences[start:stop] == MANY)
                    occurrences[places] = [many[slot] for slot in slots[places].tolist()]
        return slots, occurrences, sizes

    def frozen(self) -> Callable[[NDArray[np.int64]], FlatPostings]:
        """Return how these postings are made flat, whatever changes after this call.

        It takes the place of each slot's entry among those that are left, -1 for one that is not.
        """
        numbers, sizes = sorted(self._later), np.zeros(len(self._terms), np.int64)
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
            places = self._flat.places_where(lambda packed: packed >> (OCCURRENCE_BITS + _BLOCK_BITS) == block)
            slots = self._flat.packed[places].astype(np.int64) >> OCCURRENCE_BITS
            order = np.argsort(slots, kind="stable")
            self._blocks[block] = slots[order], self._flat.numbers_at(places)[order].astype(np.int32)
        in_order, of_slots = self._blocks[block]
        start, stop = np.searchsorted(in_order, [slot, slot + 1])
        found: list[int] = of_slots[start:stop].tolist()
        return found

    def _grow(self, size: int) -> None:
        if is_wide(size) and self._typecode != "q":
            self._typecode = "q"
            self._flat = replace(self._flat, packed=self._flat.packed.astype(np.int64))
            for number, postings in self._later.items():
                self._later[number] = bytearray(np.frombuffer(postings, np.uint32).astype(np.int64).tobytes())
        if size > self._column_size:
            # The next query makes those columns anew that it needs, with room to grow.
            self._column_size = size + size // 4 + 64
            self._columns.clear()
        self._full.extend(b"\1" * (size - len(self._full)))


def _sorted_terms(
    entries: Sequence[Sequence[str]], first: int
) -> tuple[list[str], list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of entries in slots from `first` on, where the postings of each start, and all the postings.

    These are slots and occurrences, both of shape (n,), one term after another.
    """
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    by_number = np.fromiter(map(numbers.__getitem__, chain.from_iterable(entries)), np.int64)
    by_number <<= 32
    by_number |= np.repeat(np.arange(first, first + len(entries)), list(map(len, entries)))
    # The numbers of terms rise in the order of `numbers`, so the sorted runs are its terms one after another.
    runs, occurrences = np.unique(by_number, return_counts=True)
    starts = np.flatnonzero(np.diff(runs >> 32, prepend=-1)).tolist()
    return list(numbers), starts, runs & 0xFFFFFFFF, occurrences
