"""BM25 scores of entries for the terms of a query, in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    queries: Sequence[Mapping[int, int]],
    postings: Postings,
    codes: NDArray[np.uint16],
    saturation: Saturation,
) -> list[Int64s]:
    """Return the scores of all slots in Q32 for each query.

    Args:
        queries: Weights in Q16, by numbers of terms. A term of a later query is one of the first.
        codes: Codes of the lengths of the slots.
        saturation: Shares of a weight, by codes of occurrences and lengths.
    """
    terms = list(queries[0])
    packed, sizes = postings.of(terms)
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
