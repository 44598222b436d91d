"""Postings: which entries have a term, and how often each has it. BM25 scores are their sums.

Entries are indexed in segments, which are merged as they become many.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kaosmem.retrieval.bm25 import times_codes
from kaosmem.retrieval.columns import are_changes, run_lengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kaosmem.retrieval.bm25 import Saturation
    from kaosmem.retrieval.columns import Int64s, UInt32s
    from kaosmem.retrieval.dumps import StoredColumns

TIMES_BITS = 8
"""A posting is slot << 8 | code of the number of occurrences."""
TIMES_MASK = (1 << TIMES_BITS) - 1
MAX_SLOTS = 1 << 32 - TIMES_BITS
_GROWTH = 2
"""A segment is merged with the one before it, unless that one is so many times as large."""
_MAX_MERGED = 1 << 20
"""No larger segment is made by merging, which bounds the time of a merge to about 30 ms."""
_SCORED_AT_ONCE = 1 << 15
"""So many postings stay in a processor's cache from one operation to the next."""
_SORTED_AT_ONCE = 1 << 14
"""The terms of so many entries are sorted at a time, which saves memory."""


class Segment(NamedTuple):
    """The postings of some neighbouring slots.

    Attributes:
        terms: Numbers of the terms, rising: shape (t,).
        starts: Where the postings of each term start, and the end of all: shape (t + 1,).
        packed: The postings, of each term in order of slots.
    """

    terms: UInt32s
    starts: Int64s
    packed: UInt32s

    @property
    def frequencies(self) -> Int64s:
        """Return how many entries have each term."""
        return self.starts[1:] - self.starts[:-1]

    def postings(self, numbers: UInt32s) -> list[UInt32s]:
        """Return the postings of each term."""
        if not len(self.terms):
            return [self.packed[:0]] * len(numbers)
        places = np.minimum(self.terms.searchsorted(numbers), len(self.terms) - 1)
        starts = self.starts[places]
        stops = np.where(self.terms[places] == numbers, self.starts[places + 1], starts)
        bounds = zip(starts.tolist(), stops.tolist(), strict=True)
        return [self.packed[start:stop] for start, stop in bounds]


def segment_of(
    values: UInt32s,
    sizes: Int64s,
    first: int,
) -> Segment:
    """Return the postings of entries in slots from `first` on.

    Args:
        values: Numbers of the terms of the entries, one entry after another.
        sizes: How many terms each entry has.
    """
    slots = np.repeat(np.arange(first, first + len(sizes), dtype=np.uint64), sizes)
    keys = values.astype(np.uint64) << np.uint64(32) | slots
    keys.sort()
    starts = np.flatnonzero(are_changes(keys))
    times = run_lengths(starts, len(keys))
    keys = keys[starts]
    packed = keys.astype(np.uint32) << np.uint32(TIMES_BITS) | times_codes(times)
    return _segment((keys >> np.uint64(32)).astype(np.uint32), packed)


def _segment(terms: UInt32s, packed: UInt32s) -> Segment:
    """Return a segment of postings in order of their terms."""
    starts = np.flatnonzero(are_changes(terms))
    return Segment(terms[starts], np.append(starts, len(terms)), packed)


def merged(segments: Sequence[Segment]) -> Segment:
    """Return neighbouring segments as one."""
    terms = np.concatenate([np.repeat(each.terms, each.frequencies) for each in segments])
    order = terms.argsort(kind="stable")
    packed = np.concatenate([each.packed for each in segments])
    return _segment(terms[order], packed[order])


def frozen_segments(values: UInt32s, sizes: Int64s) -> dict[str, NDArray[Any]]:
    """Return the columns of the postings of all entries, in slots from 0 on."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    segments = []
    for first in range(0, max(1, len(sizes)), _SORTED_AT_ONCE):
        own = sizes[first : first + _SORTED_AT_ONCE]
        stop = first + len(own)
        segments.append(segment_of(values[starts[first] : starts[stop]], own, first))
    frequencies = np.concatenate([each.frequencies for each in segments])
    return {
        "segments": np.array([len(each.terms) for each in segments], np.int64),
        "segment_terms": np.concatenate([each.terms for each in segments]),
        "frequencies": frequencies.astype(np.int32),
        "packed": np.concatenate([each.packed for each in segments]),
    }


def stored_segments(columns: StoredColumns) -> list[Segment]:
    """Return the segments of a dump."""
    terms = columns.numbers("segment_terms", np.uint32)
    packed = columns.numbers("packed", np.uint32)
    frequencies = columns.numbers("frequencies", np.int32)
    starts = np.concatenate([[0], np.cumsum(frequencies, dtype=np.int64)])
    segments = []
    first = 0
    for size in columns.numbers("segments", np.int64).tolist():
        own = starts[first : first + size + 1]
        postings = packed[own[0] : own[-1]]
        segments.append(Segment(terms[first : first + size], own - own[0], postings))
        first += size
    return segments


class Postings:
    """The postings of the entries of an index."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = [*segments]

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
                terms = segment.terms.copy()
                self._segments[place] = Segment(terms, segment.starts, segment.packed.copy())
