"""BM25 scores of entries for the terms of a query, in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.segments import TIMES_BITS, TIMES_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.arrays import Int64s
    from kaosmem.retrieval.bm25 import Saturation
    from kaosmem.retrieval.segments import Postings

_SCORED_AT_ONCE = 1 << 15
"""So many postings stay in a processor's cache from one operation to the next."""


def bm25_scores(
    weights: Mapping[int, int],
    postings: Postings,
    codes: NDArray[np.uint16],
    saturation: Saturation,
) -> Int64s:
    """Return the scores of all slots in Q32.

    Args:
        weights: Weights in Q16, by numbers of terms.
        codes: Codes of the lengths of the slots.
        saturation: Shares of a weight, by codes of occurrences and lengths.
    """
    scores = np.zeros(len(codes), np.int64)
    packed, sizes = postings.of(list(weights))
    by_posting = np.repeat(np.array(list(weights.values()), np.int64), sizes)
    for start in range(0, len(packed), _SCORED_AT_ONCE):
        chunk = packed[start : start + _SCORED_AT_ONCE].astype(np.int64)
        slots = chunk >> TIMES_BITS
        places = (chunk & TIMES_MASK) * saturation.width + codes.take(slots)
        gains = saturation.shares.take(places).astype(np.int64)
        gains *= by_posting[start : start + _SCORED_AT_ONCE]
        np.add.at(scores, slots, gains)
    return scores
