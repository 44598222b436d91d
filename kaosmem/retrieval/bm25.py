"""BM25 in whole numbers: the same scores on every machine.

A weight and a share are in units of 2**-16 (Q16), a score is in units of 2**-32 (Q32).
Source: Robertson & Zaragoza 2009; the idf of Lucene's BM25Similarity, as a binary logarithm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.columns import Int64s, UInt32s

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
    later = [(exact * (steps + n % steps) // steps) << n // steps for n in range(count - exact)]
    return np.array([*range(exact), *later], np.int64)


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

    shares: NDArray[np.int32]
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
        norms = np.array(self.norms(average_x256, LENGTHS[:lengths].tolist()), np.int64)
        shares = share_of(TIMES[:times, None], norms).astype(np.int32)
        shares[:, 0] = 0
        return Saturation(shares.ravel(), lengths)


def share_of(times: Int64s, norms: Int64s) -> Int64s:
    """Return times / (times + norm) in Q16. norms: in Q16, above 0."""
    return (times << 2 * SHARE_BITS) // ((times << SHARE_BITS) + norms)
