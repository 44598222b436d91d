"""Postings: which entries have a term, and how often each has it. BM25 scores are their sums.

Entries are indexed in segments, which are merged as they become many.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.retrieval.bm25 import times_codes
from kaosmem.retrieval.columns import are_changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kaosmem.retrieval.bm25 import Saturation
    from kaosmem.retrieval.columns import Int64s, UInt32s

TIMES_BITS = 8
"""A posting is slot << 8 | code of the number of occurrences."""
TIMES_MASK = (1 << TIMES_BITS) - 1
MAX_SLOTS = 1 << 32 - TIMES_BITS
_GROWTH = 2
"""A segment is merged with the one before it, unless that one is so many times as large."""
_MAX_MERGED = 1 << 20
"""No larger segment is made by merging, which bounds the time of a merge to about 30 ms."""
_MERGED_AT_ONCE = 1 << 20
_SCORED_AT_ONCE = 1 << 15
"""So many postings stay in a processor's cache from one operation to the next."""
_SORTED_AT_ONCE = 1 << 13
"""The terms of so many entries are sorted at a time, which saves memory."""


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
    starts = np.flatnonzero(are_changes(keys))
    times = np.diff(starts, append=len(keys))
    keys = keys[starts]
    packed = keys.astype(np.uint32) << np.uint32(TIMES_BITS) | times_codes(times)
    terms = (keys >> np.uint64(32)).astype(np.uint32)
    by_term = np.flatnonzero(are_changes(terms))
    return Segment(len(sizes), terms[by_term], np.append(by_term, len(terms)), packed)


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


def whole_segment(values: UInt32s, sizes: Int64s) -> Segment:
    """Return the postings of all entries, in slots from 0 on. Some are sorted at a time."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for first in range(0, max(1, len(sizes)), _SORTED_AT_ONCE):
        own = sizes[first : first + _SORTED_AT_ONCE]
        stop = first + len(own)
        parts.append(segment_of(values[starts[first] : starts[stop]], own, first))
    return merged(parts)


class Postings:
    """The postings of the entries of an index."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []

    def of(self, numbers: Sequence[int]) -> tuple[UInt32s, Int64s]:
        """Return the postings of terms, one term after another, and how many each term has.

        The postings of a term are in order of slots.
        """
        wanted = np.array(numbers, np.uint32)
        by_term: list[list[UInt32s]] = [[] for _ in numbers]
        for segment in self._segments:
            for found, more in zip(by_term, segment.postings(wanted), strict=True):
                found.append(more)
        sizes = [sum(map(len, parts)) for parts in by_term]
        packed = np.concatenate([np.empty(0, np.uint32), *chain.from_iterable(by_term)])
        return packed, np.array(sizes, np.int64)

    def scores(
        self,
        queries: Sequence[Mapping[int, int]],
        codes: NDArray[np.uint16],
        saturation: Saturation,
    ) -> list[Int64s]:
        """Return the scores of all slots in Q32 for each query.

        Args:
            queries: Weights in Q16, by numbers of terms. A term of a later query is one of the
                first.
            codes: Codes of the lengths of the slots.
            saturation: Shares of a weight, by codes of occurrences and lengths.
        """
        terms = list(queries[0])
        packed, sizes = self.of(terms)
        scores = []
        by_posting = []
        for weights in queries:
            of_terms = np.array([weights.get(term, 0) for term in terms], np.int64)
            by_posting.append(np.repeat(of_terms, sizes))
            scores.append(np.zeros(len(codes), np.int64))
        for start in range(0, len(packed), _SCORED_AT_ONCE):
            stop = start + _SCORED_AT_ONCE
            chunk = packed[start:stop].astype(np.int64)
            slots = chunk >> TIMES_BITS
            places = (chunk & TIMES_MASK) * saturation.width + codes.take(slots)
            shares = saturation.shares.take(places).astype(np.int64)
            for found, own in zip(scores, by_posting, strict=True):
                np.add.at(found, slots, shares * own[start:stop])
        return scores

    def add(self, segment: Segment) -> None:
        """Take in the postings of the next slots."""
        self._segments.append(segment)
        while len(self._segments) > 1:
            last = len(self._segments[-1].packed)
            before = len(self._segments[-2].packed)
            if before > _GROWTH * last or before + last > _MAX_MERGED:
                return
            self._segments[-2:] = [merged(self._segments[-2:])]

    def own(self) -> None:
        """Keep no memory of others."""
        for place, segment in enumerate(self._segments):
            if not segment.packed.flags.owndata:
                self._segments[place] = segment._replace(packed=segment.packed.copy())
