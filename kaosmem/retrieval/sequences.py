"""The terms of entries in their order, as short hashes: what can't be read from postings."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.memos import register_memo

if TYPE_CHECKING:
    from numpy.typing import NDArray

HASHES = 1 << 16
"""Two terms of one hash are one here: that costs a signal little, and an entry two bytes a term."""
MAX_TERMS = 256
"""So many of an entry's first terms are kept: what it is about shows in them, and the cost of a query is bounded."""


@lru_cache(maxsize=1 << 16)
def term_hash(term: str) -> int:
    """Return a number below HASHES that is the same in every process."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) & (HASHES - 1)


register_memo(term_hash.cache_clear)


class Sequences:
    """The first terms of entries in slots 0 to n - 1."""

    def __init__(self) -> None:
        self._slots: list[bytes] = []

    def __setitem__(self, slot: int, terms: Sequence[str]) -> None:
        self._slots[slot] = array("H", map(term_hash, islice(terms, MAX_TERMS))).tobytes()

    def append(self) -> None:
        """Add a slot without terms."""
        self._slots.append(b"")

    def pop(self) -> None:
        """Take the last slot away."""
        self._slots.pop()

    def gathered(self, slots: Iterable[int]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the hashes of entries, one entry after another, and of each the row of its entry: both shape (n,)."""
        found = [self._slots[slot] for slot in slots]
        hashes = np.frombuffer(b"".join(found), np.uint16)
        rows = np.repeat(np.arange(len(found)), [len(each) // 2 for each in found])
        return hashes, rows


def phrase_scores(
    query: Sequence[str], hashes: NDArray[np.uint16], rows: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """Return what each entry has of the query's pairs of neighbouring terms, the rarer the more: shape (size,).

    hashes, rows: as `Sequences.gathered` returns them.
    """
    scores = np.zeros(size)
    if len(hashes) < 2:
        return scores
    pairs = hashes[:-1].astype(np.int64) << 16 | hashes[1:]
    pairs[rows[:-1] != rows[1:]] = -1
    for first, second in sorted(set(pairwise(map(term_hash, query)))):
        having = np.unique(rows[:-1][pairs == (first << 16 | second)])
        scores[having] += np.log1p((size - len(having) + 0.5) / (len(having) + 0.5))
    return scores
