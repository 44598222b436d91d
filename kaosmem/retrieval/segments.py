"""Postings: which entries have a term, and how often each has it.

Entries are indexed in segments, which are merged as they become many. The entries that came last
are in no segment yet: their postings are in a table.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.retrieval.bm25 import times_code, times_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s, UInt32s
    from kaosmem.retrieval.columns import Ragged

TIMES_BITS = 8
"""A posting is slot << 8 | code of the number of occurrences."""
TIMES_MASK = (1 << TIMES_BITS) - 1
MAX_SLOTS = 1 << 32 - TIMES_BITS
_MAX_IN_TABLE = 1 << 13
"""So many terms of the newest entries are in a table before a segment is made of them."""
_MAX_MERGED = 1 << 20
"""No larger segment is made by merging, which bounds the time of a merge to about 30 ms."""
_MERGED_AT_ONCE = 1 << 20


class Segment(NamedTuple):
    """The postings of some neighbouring slots.

    Attributes:
        size: Number of slots.
        terms: Numbers of the terms, rising: shape (t,).
        starts: Where the postings of each term start, and the end of all: shape (t + 1,).
        packed: The postings, of each term in order of slots.
    """

    size: int
    terms: UInt32s
    starts: Int64s
    packed: UInt32s

    @property
    def frequencies(self) -> Int64s:
        """Return how many entries have each term."""
        return np.diff(self.starts)

    def postings(self, numbers: UInt32s) -> list[UInt32s]:
        """Return the postings of each term."""
        if not len(self.terms):
            return [self.packed[:0]] * len(numbers)
        places = np.minimum(self.terms.searchsorted(numbers), len(self.terms) - 1)
        starts = self.starts[places]
        stops = np.where(self.terms[places] == numbers, self.starts[places + 1], starts)
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        return [self.packed[start:stop] for start, stop in bounds]


def segment_of(values: UInt32s, sizes: Int64s, first: int) -> Segment:
    """Return the postings of entries in slots from `first` on.

    Args:
        values: Numbers of the terms of the entries, one entry after another.
        sizes: How many terms each entry has.
    """
    slots = np.repeat(np.arange(first, first + len(sizes), dtype=np.uint64), sizes)
    keys = values.astype(np.uint64) << np.uint64(32) | slots
    keys.sort()
    starts = np.flatnonzero(_changes(keys))
    times = np.diff(starts, append=len(keys))
    keys = keys[starts]
    packed = keys.astype(np.uint32) << np.uint32(TIMES_BITS) | times_codes(times)
    terms = (keys >> np.uint64(32)).astype(np.uint32)
    by_term = np.flatnonzero(_changes(terms))
    return Segment(len(sizes), terms[by_term], np.append(by_term, len(terms)), packed)


def _changes(values: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Return whether each value differs from the one before it; the first one does."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def merged(segments: Sequence[Segment]) -> Segment:
    """Return neighbouring segments as one."""
    if len(segments) == 1:
        return segments[0]
    terms = np.unique(np.concatenate([each.terms for each in segments]))
    sizes = np.zeros(len(terms), np.int64)
    for each in segments:
        sizes[np.searchsorted(terms, each.terms)] += each.frequencies
    starts = np.concatenate([[0], np.cumsum(sizes)])
    packed = np.empty(int(starts[-1]), np.uint32)
    free = starts[:-1].copy()
    for each in segments:
        places = np.searchsorted(terms, each.terms)
        _copy_postings(each, free[places], packed)
        free[places] += each.frequencies
    return Segment(sum(each.size for each in segments), terms, starts, packed)


def _copy_postings(segment: Segment, places: Int64s, packed: UInt32s) -> None:
    """Copy the postings of each term to its place, some terms at a time to save memory."""
    bounds = np.arange(0, len(segment.packed), _MERGED_AT_ONCE)
    firsts = np.unique(np.append(np.searchsorted(segment.starts, bounds), len(segment.terms)))
    for first, last in pairwise(firsts.tolist()):
        start = int(segment.starts[first])
        stop = int(segment.starts[last])
        shifts = places[first:last] - segment.starts[first:last]
        targets = np.repeat(shifts, np.diff(segment.starts[first : last + 1]))
        targets += np.arange(start, stop)
        packed[targets] = segment.packed[start:stop]


def renumbered(segment: Segment, slots: Int64s, numbers: UInt32s) -> Segment:
    """Return the postings of a segment with other numbers.

    Args:
        slots: The new slot of each slot, -1 for one that is left out.
        numbers: The new number of each term.
    """
    moved = slots[segment.packed >> TIMES_BITS]
    kept = moved >= 0
    packed = (moved[kept] << TIMES_BITS).astype(np.uint32) | (segment.packed[kept] & TIMES_MASK)
    left = np.concatenate([[0], np.cumsum(kept)])[segment.starts]
    terms = numbers[segment.terms]
    order = np.argsort(terms)
    order = order[np.diff(left)[order] > 0]
    sizes = np.diff(left)[order]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(left[order] - starts[:-1], sizes)
    places += np.arange(len(places))
    packed = packed[places]
    left_slots = slots[slots >= 0]
    if (left_slots[1:] < left_slots[:-1]).any():
        keys = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes) << np.uint64(32) | packed
        keys.sort()
        packed = keys.astype(np.uint32)
    return Segment(len(left_slots), terms[order], starts, packed)


class Postings:
    """The postings of the entries of an index.

    Args:
        sequences: Numbers of the terms of each slot, in order.
    """

    def __init__(self, sequences: Ragged) -> None:
        self._sequences = sequences
        self._segments: list[Segment] = []
        self._indexed = 0  # slots that are in segments
        self._tail: dict[int, list[int]] = {}  # postings of the other slots, by number of a term

    def of(self, numbers: Sequence[int]) -> list[list[UInt32s]]:
        """Return the postings of each term, part by part, in order of slots."""
        wanted = np.array(numbers, np.uint32)
        found: list[list[UInt32s]] = [[] for _ in numbers]
        for segment in self._segments:
            for parts, part in zip(found, segment.postings(wanted), strict=True):
                if len(part):
                    parts.append(part)
        for parts, number in zip(found, numbers, strict=True):
            if number in self._tail:
                parts.append(np.array(self._tail[number], np.uint32))
        return found

    def add(self, segment: Segment) -> None:
        """Take in the postings of new slots, which follow those that are known."""
        self._index_tail(len(self._sequences) - segment.size)
        self._append(segment)

    def add_entry(self, slot: int, times: Mapping[int, int]) -> None:
        """Take in the postings of the next slot. times: how often it has each term, by number."""
        shifted = slot << TIMES_BITS
        for number, occurrences in times.items():
            posting = shifted | times_code(occurrences)
            self._tail.setdefault(number, []).append(posting)
        starts = self._sequences.starts
        if starts[slot + 1] - starts[self._indexed] >= _MAX_IN_TABLE:
            self._index_tail(slot + 1)

    def take_over(self, segment: Segment) -> None:
        """Have the postings of a segment, and no others."""
        self._segments = [segment]
        self._indexed = segment.size

    def frozen(self) -> list[Segment]:
        """Return all postings as they are now, in segments that do not change."""
        tail = segment_of_rows(self._sequences, self._indexed, len(self._sequences))
        return [*self._segments, tail]

    def own(self) -> None:
        """Keep no memory of others."""
        for place, segment in enumerate(self._segments):
            if not segment.packed.flags.owndata:
                self._segments[place] = segment._replace(packed=segment.packed.copy())

    def _index_tail(self, stop: int) -> None:
        if stop > self._indexed:
            self._append(segment_of_rows(self._sequences, self._indexed, stop))
            self._tail = {}

    def _append(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._indexed += segment.size
        while len(self._segments) > 1:
            last = len(self._segments[-1].packed)
            before = len(self._segments[-2].packed)
            if before > 2 * last or before + last > _MAX_MERGED:
                return
            self._segments[-2:] = [merged(self._segments[-2:])]


def segment_of_rows(sequences: Ragged, first: int, stop: int) -> Segment:
    """Return the postings of some slots."""
    starts = sequences.starts[first : stop + 1]
    return segment_of(sequences.values[starts[0] : starts[-1]], np.diff(starts), first)


def slots_and_codes(
    parts: Iterable[UInt32s],
) -> tuple[Int64s, Int64s]:
    """Return the slots and the codes of occurrences of postings."""
    packed = np.concatenate([np.empty(0, np.uint32), *parts]).astype(np.int64)
    return packed >> TIMES_BITS, packed & TIMES_MASK
