"""BM25 in whole numbers: the same scores on every machine. Entries are found by postings.

A posting says which entry has a term, and how often. Entries are indexed in segments, which are
merged as they become many. A weight and a share are in units of 2**-16 (Q16), a score is in units
of 2**-32 (Q32).
Source: Robertson & Zaragoza 2009; the idf of Lucene's BM25Similarity, as a binary logarithm.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kaosmem.retrieval.columns import are_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kaosmem.retrieval.columns import Int32s, Int64s, UInt32s
    from kaosmem.retrieval.dumps import StoredColumns

WEIGHT_BITS = 16
SHARE_BITS = 16
_MILLION = 10**6
_LOG_BITS = 40
_LN2 = 0.6931471805599453


def log2_q16(numerator: int, denominator: int) -> int:
    """Return the binary logarithm of a fraction from 1 up, in Q16, rounded down.

    The 16th power of a number from 1 to 2 gives four more binary digits of its logarithm.

    >>> log2_q16(8, 1), log2_q16(3, 2)
    (196608, 38336)
    """
    number = (numerator << _LOG_BITS) // denominator
    found = number.bit_length() - 1 - _LOG_BITS
    number >>= found
    for _ in range(WEIGHT_BITS // 4):
        power = number**16
        digits = power.bit_length() - 1 - 16 * _LOG_BITS
        number = power >> 15 * _LOG_BITS + digits
        found = (found << 4) + digits
    return found


@lru_cache(maxsize=1 << 12)
def idf_q16(size: int, frequency: int) -> int:
    """Return the weight of a term that `frequency` of `size` entries have.

    It is log2((size + 1) / (frequency + 1/2)), and is above 0.

    >>> idf_q16(1_000, 1_000) < idf_q16(1_000, 10) < idf_q16(1_000, 1)
    True
    """
    return max(1, log2_q16(2 * size + 2, 2 * frequency + 1))


def _rising(
    exact: int,
    steps: int,
    count: int,
) -> Int64s:
    """Return `count` numbers: all below `exact`, then `steps` to each power of two."""
    numbers = [*range(exact)]
    for later in range(count - exact):
        doublings, step = divmod(later, steps)
        number = exact + exact * step // steps
        numbers.append(number << doublings)
    return np.array(numbers, np.int64)


TIMES = _rising(64, 16, 256)
"""The numbers of occurrences that a posting can tell apart, by code.

A number above 63 is rounded down by at most a sixteenth, where one more occurrence adds nothing
that anybody sees.
"""
LENGTHS = _rising(256, 32, 768)
"""The lengths of entries that BM25 tells apart, by code. A length above 255 is rounded down by at
most 3 %. Lucene tells fewer apart.
"""


def times_codes(times: Int64s) -> UInt32s:
    """Return the codes of numbers of occurrences."""
    return _codes(TIMES, times).astype(np.uint32)


def length_codes(lengths: Int64s) -> NDArray[np.uint16]:
    """Return the codes of lengths."""
    return _codes(LENGTHS, lengths).astype(np.uint16)


def _codes(numbers: Int64s, wanted: Int64s) -> Int64s:
    return numbers.searchsorted(wanted, side="right") - 1


class Saturation(NamedTuple):
    """BM25's share of a term's weight, by the codes of occurrences and length.

    Attributes:
        shares: Flat table, row by row; a row is of one number of occurrences.
        width: Size of a row.
    """

    shares: Int32s
    width: int


class BM25(NamedTuple):
    """The parameters of BM25 in millionths."""

    k1: int
    b: int

    @classmethod
    def of(cls, k1: float, b: float) -> BM25:
        """Return the parameters nearest to these."""
        return cls(max(1, round(k1 * _MILLION)), round(b * _MILLION))

    @property
    def unit(self) -> float:
        """Return the unit of a score, by which it is the usual one: with k1 + 1 and ln."""
        return (self.k1 + _MILLION) * _LN2 / (_MILLION << WEIGHT_BITS + SHARE_BITS)

    def norms(self, average_x256: int, lengths: list[int]) -> list[int]:
        """Return the addends to occurrences in the divisor, in Q16: above 0, larger for longer ones.

        Args:
            average_x256: Average length of an entry, in units of 1 / 256.
        """
        divisor = _MILLION * _MILLION * average_x256
        fixed = (_MILLION - self.b) * average_x256
        grows = 256 * self.b
        products = [self.k1 * (fixed + grows * length) for length in lengths]
        return [max(1, (product << SHARE_BITS) // divisor) for product in products]

    def saturation(
        self,
        average_x256: int,
        times: int,
        lengths: int,
    ) -> Saturation:
        """Return the shares for the first codes of occurrences and of lengths.

        The length 0 has the share 0: it is that of a removed entry.
        """
        norms = self.norms(average_x256, LENGTHS[:lengths].tolist())
        shares = share_of(TIMES[:times, None], np.array(norms, np.int64)).astype(np.int32)
        shares[:, 0] = 0
        return Saturation(shares.ravel(), lengths)


def share_of(times: Int64s, norms: Int64s) -> Int64s:
    """Return times / (times + norm) in Q16. norms: in Q16, above 0."""
    return (times << 2 * SHARE_BITS) // ((times << SHARE_BITS) + norms)


# Postings.

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
        places = self.terms.searchsorted(numbers)
        places = np.minimum(places, len(self.terms) - 1)
        starts = self.starts[places]
        are_known = self.terms[places] == numbers
        stops = np.where(are_known, self.starts[places + 1], starts)
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
    # A key is term << 32 | slot, so that one sort orders the postings by both.
    slot_bits = np.uint64(32)
    slots = np.arange(first, first + len(sizes), dtype=np.uint64)
    keys = values.astype(np.uint64) << slot_bits | np.repeat(slots, sizes)
    keys.sort()
    starts = np.flatnonzero(are_changes(keys))
    times = np.diff(starts, append=len(keys))
    keys = keys[starts]
    packed = keys.astype(np.uint32) << np.uint32(TIMES_BITS) | times_codes(times)
    terms = keys >> slot_bits
    return _segment(terms.astype(np.uint32), packed)


def _segment(terms: UInt32s, packed: UInt32s) -> Segment:
    """Return a segment of postings in order of their terms."""
    starts = np.flatnonzero(are_changes(terms))
    bounds = np.append(starts, len(terms))
    return Segment(terms[starts], bounds, packed)


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
        terms = values[starts[first] : starts[stop]]
        segments.append(segment_of(terms, own, first))
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
        sizes = np.zeros(len(numbers), np.int64)
        by_segment = []
        for segment in self._segments:
            found = segment.postings(wanted)
            sizes += np.fromiter(map(len, found), np.int64, len(found))
            by_segment.append(found)
        by_term = chain.from_iterable(zip(*by_segment, strict=True))
        return np.concatenate([np.empty(0, np.uint32), *by_term]), sizes

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
        segments = self._segments
        segments.append(segment)
        while len(segments) > 1:
            last = len(segments[-1].packed)
            before = len(segments[-2].packed)
            if before > _GROWTH * last or before + last > _MAX_MERGED:
                return
            segments[-2:] = [merged(segments[-2:])]

    def own(self) -> None:
        """Keep no memory of others."""
        for place, segment in enumerate(self._segments):
            if not segment.packed.flags.owndata:
                terms = segment.terms.copy()
                self._segments[place] = Segment(terms, segment.starts, segment.packed.copy())
