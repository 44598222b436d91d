"""Postings: which entries have a term, and how often each has it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A posting is slot << 8 | occurrences, so that those of a term are in order of slots. So many occurrences and more
# are kept in a table beside them.
_OCCURRENCE_BITS = 8
_MANY = (1 << _OCCURRENCE_BITS) - 1
# Slots from here on do not fit into a posting of 4 bytes.
_NARROW_SLOTS = 1 << 32 - _OCCURRENCE_BITS
# A term in more than one entry of 8 is scored faster as a column over all of them.
_COLUMN_SHARE = 8


class Postings:
    """The terms of entries in slots 0 to n - 1, in 4 bytes for each entry that has a term.

    A change may leave a slot without an entry for a moment, but only the last one for good.
    """

    def __init__(self) -> None:
        self._size = 0
        self._typecode = "I"
        self._packed: defaultdict[str, array[int]] = defaultdict(partial(array, self._typecode))
        self._many: dict[str, dict[int, int]] = {}  # term -> slot -> occurrences, where there are _MANY or more
        # The postings of common terms as occurrences by slot, made when a query first asks.
        self._columns: dict[str, NDArray[np.uint8]] = {}
        self._column_size = 0

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._packed)

    def __contains__(self, term: object) -> bool:
        return term in self._packed

    def frequency(self, term: str) -> int:
        """Return how many entries have the term."""
        return len(self._packed.get(term, ()))

    def attach(self, slot: int, terms: Sequence[str]) -> None:
        """Put the terms of an entry into a free slot."""
        occurrences = Counter(terms)
        place = array.append if slot >= self._size else insort
        self._grow(max(self._size, slot + 1))
        packed, shifted = self._packed, slot << _OCCURRENCE_BITS
        for term, n in occurrences.items():
            place(packed[term], shifted | (n if n < _MANY else _MANY))
        for term in self._columns.keys() & occurrences.keys():
            self._columns[term][slot] = min(occurrences[term], _MANY)
        if len(terms) >= _MANY:
            self._note_many((term, slot, n) for term, n in occurrences.items() if n >= _MANY)

    def attach_many(self, entries: Sequence[Sequence[str]]) -> None:
        """Put the terms of each entry into the next slot: sorted together, which costs less than placing each."""
        first = self._size
        self._grow(first + len(entries))
        terms, starts, slots, occurrences = _sorted_terms(entries, first)
        postings = (slots << _OCCURRENCE_BITS | np.minimum(occurrences, _MANY)).astype(self._typecode)
        packed, view, width = self._packed, memoryview(postings.tobytes()), postings.itemsize
        for term, (start, stop) in zip(terms, pairwise([*starts, len(slots)]), strict=True):
            packed[term].frombytes(view[start * width : stop * width])
        for place in np.flatnonzero(occurrences >= _MANY).tolist():
            term = terms[bisect_right(starts, place) - 1]
            self._note_many([(term, int(slots[place]), int(occurrences[place]))])
        self._columns.clear()

    def detach(self, slot: int, terms: Iterable[str]) -> None:
        """Take the terms of an entry out of its slot."""
        distinct = set(terms)
        packed, shifted = self._packed, slot << _OCCURRENCE_BITS
        for term in distinct:
            postings = packed[term]
            del postings[bisect_left(postings, shifted)]
            if not postings:
                del packed[term]
                self._columns.pop(term, None)
        for term in self._columns.keys() & distinct:
            self._columns[term][slot] = 0
        for term in self._many.keys() & distinct:
            self._many[term].pop(slot, None)
            if not self._many[term]:
                del self._many[term]
        if slot == self._size - 1:
            self._size = slot

    def is_common(self, term: str) -> bool:
        """Return whether the term is had by so many entries, never very often, that its column is the cheaper form."""
        return self.frequency(term) * _COLUMN_SHARE > self._size and term not in self._many

    def column(self, term: str) -> NDArray[np.uint8]:
        """Return how often each entry has a common term: shape (n,), a view to be let go of before the next change."""
        column = self._columns.get(term)
        if column is None:
            slots, occurrences, _ = self.unpacked([term])
            column = self._columns[term] = np.zeros(self._column_size, np.uint8)
            column[slots] = occurrences
        return column[: self._size]

    def unpacked(self, terms: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Return the slots and occurrences of terms, one term after another, and how many each has.

        All are copies: an array can't grow while it is viewed.
        """
        views = [np.frombuffer(self._packed[term], self._typecode) for term in terms]
        packed = np.concatenate(views, dtype=np.int64) if views else np.empty(0, np.int64)
        slots, occurrences, sizes = packed >> _OCCURRENCE_BITS, packed & _MANY, list(map(len, views))
        if not self._many.keys().isdisjoint(terms):
            stop = 0
            for term, size in zip(terms, sizes, strict=True):
                start, stop = stop, stop + size
                for slot, n in self._many.get(term, {}).items():
                    occurrences[start + np.searchsorted(slots[start:stop], slot)] = n
        return slots, occurrences, sizes

    def _note_many(self, found: Iterable[tuple[str, int, int]]) -> None:
        for term, slot, n in found:
            self._many.setdefault(term, {})[slot] = n

    def _grow(self, size: int) -> None:
        if size > _NARROW_SLOTS and self._typecode == "I":
            self._typecode = "q"
            self._packed.default_factory = partial(array, self._typecode)
            for term, postings in self._packed.items():
                self._packed[term] = array(self._typecode, postings)
        if size > self._column_size:
            # The next query makes those columns anew that it needs, with room to grow.
            self._column_size = size + size // 4 + 64
            self._columns.clear()
        self._size = size


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
