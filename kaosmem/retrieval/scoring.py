"""BM25 scores of entries for the terms of a query, in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.retrieval.bm25 import SHARE_BITS
from kaosmem.retrieval.order import floor
from kaosmem.retrieval.segments import TIMES_BITS, TIMES_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s, UInt32s
    from kaosmem.retrieval.bm25 import Saturation
    from kaosmem.retrieval.segments import Postings

_SCORED_AT_ONCE = 1 << 15
"""Postings that are scored together. Few operations on many numbers cost less than many on few."""
_LEAST_PRUNED = 1 << 14
"""So many postings left are worth a look at what they can change."""
_LOOK_UP = 8
"""To look an entry up in postings costs as much as to score so many of them."""


class _Weighted(NamedTuple):
    """A term of a query, with its postings in parts."""

    weight: int
    parts: list[UInt32s]
    size: int


class Scorer:
    """Scores entries by slot, in Q32.

    Args:
        codes: Codes of the lengths of the entries.
        saturation: Shares of a weight, by codes of occurrences and lengths.
    """

    def __init__(
        self, postings: Postings, codes: NDArray[np.uint16], saturation: Saturation
    ) -> None:
        self._postings = postings
        self._codes = codes
        self._saturation = saturation

    def scores(self, weights: Mapping[int, int]) -> Int64s:
        """Return the scores of all slots.

        Args:
            weights: Weights in Q16, by numbers of terms.
        """
        scores = np.zeros(len(self._codes), np.int64)
        for group in _groups(self._weighted(weights)):
            self._add(scores, group)
        return scores

    def contenders(self, weights: Mapping[int, int], limit: int) -> tuple[Int64s, Int64s]:
        """Return the slots that may be among the `limit` best, and their scores.

        The terms with the largest weights come first. Once the others cannot lift any further entry
        among the best, they are looked up for the entries that may be there.
        """
        terms = self._weighted(weights)
        scores = np.zeros(len(self._codes), np.int64)
        done = 0
        for group in _groups(terms):
            self._add(scores, group)
            done += len(group)
            rest = terms[done:]
            size = sum(term.size for term in rest)
            if size < _LEAST_PRUNED:
                continue
            least = floor(scores, limit) - (sum(term.weight for term in rest) << SHARE_BITS)
            if least <= 0:
                continue
            (slots,) = np.nonzero(scores >= least)
            if len(slots) * sum(len(term.parts) for term in rest) * _LOOK_UP < size:
                return slots, scores[slots] + self._looked_up(slots, rest)
        (slots,) = np.nonzero(scores >= max(1, floor(scores, limit)))
        return slots, scores[slots]

    def _weighted(self, weights: Mapping[int, int]) -> list[_Weighted]:
        """Return the terms, those with the largest weights first."""
        found = []
        parts_of = self._postings.of(list(weights))
        for weight, parts in zip(weights.values(), parts_of, strict=True):
            found.append(_Weighted(weight, parts, sum(map(len, parts))))
        found.sort(key=lambda term: -term.weight)
        return found

    def _add(self, scores: Int64s, terms: Sequence[_Weighted]) -> None:
        """Add what these terms give to the scores of all slots."""
        parts = [part for term in terms for part in term.parts]
        if not parts:
            return
        weights = np.array([term.weight for term in terms], np.int64)
        packed = np.concatenate(parts).astype(np.int64)
        slots = packed >> TIMES_BITS
        gains = self._shares(packed, slots)
        gains *= np.repeat(weights, [term.size for term in terms])
        np.add.at(scores, slots, gains)

    def _looked_up(self, slots: Int64s, terms: Sequence[_Weighted]) -> Int64s:
        """Return what these terms give to the scores of some slots, in order of slots."""
        keys = (slots << TIMES_BITS).astype(np.uint32)
        found = np.zeros(len(slots), np.int64)
        for term in terms:
            for part in term.parts:
                places = np.minimum(part.searchsorted(keys), len(part) - 1)
                packed = part[places].astype(np.int64)
                (hits,) = np.nonzero(packed >> TIMES_BITS == slots)
                found[hits] += self._shares(packed[hits], slots[hits]) * term.weight
        return found

    def _shares(self, packed: Int64s, slots: Int64s) -> Int64s:
        """Return the share of a term's weight that each posting gets."""
        places = packed & TIMES_MASK
        places *= self._saturation.width
        places += self._codes.take(slots)
        return self._saturation.shares.take(places).astype(np.int64)


def _groups(terms: Sequence[_Weighted]) -> list[list[_Weighted]]:
    """Return terms in groups that are scored together."""
    groups: list[list[_Weighted]] = [[]]
    size = 0
    for term in terms:
        if size + term.size > _SCORED_AT_ONCE and groups[-1]:
            groups.append([])
            size = 0
        groups[-1].append(term)
        size += term.size
    return groups
