"""Signals of candidates: scores relative to neighbours and sources, and phrases."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import UNITS, exps, idf, log, logs
from kaosmem.memos import register_memo
from kaosmem.retrieval.columns import owned
from kaosmem.retrieval.source_matcher import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray


REACH = 6
"""Entries of one source at most so many places apart are of one passage."""
_NO_MATCH = 0.02  # the share of the best score at which a text counts as good as without a match
_PRESSED = 16.0
_LITTLE = 0.001  # a share of the best candidate's score: lower scores of neighbours hardly count


def best_of_source(numbers: NDArray[np.int32], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each candidate the best score in its source, whose number is given."""
    most = np.zeros(int(numbers.max(initial=0)) + 1)
    np.maximum.at(most, numbers, scores)
    return most[numbers]


def place_in_source(numbers: NDArray[np.int32], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 2 / (2 + n) for a candidate, where n others of its source have a better score."""
    rounded = np.round(scores, 9)
    better = (rounded > rounded[:, None]) & (numbers == numbers[:, None])
    places: NDArray[np.float64] = 2 / (2 + np.count_nonzero(better, axis=1))
    return places


def match_scores(words: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of the best BM25 score on a logarithmic scale.

    The best has 1, and a text without a match 0.
    A model that weighs this alone multiplies BM25 scores, and so ranks as BM25 does.
    """
    return logs(1 + words / _NO_MATCH) / log(1 + 1 / _NO_MATCH)


def hundredths(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e to the power of each sum, as hundredths of the best: from 100 down to 0.0000002.

    Ratios are exact down to e**-16. Smaller scores are pressed together, and stay in order.
    """
    below = sums - sums.max()
    if (below >= -_PRESSED).all():
        return 100 * exps(below)
    pressed = -_PRESSED - 4 * (1 - exps(np.minimum(0.0, below + _PRESSED) / 4))
    return 100 * exps(np.where(below < -_PRESSED, pressed, below))


def passage_scores(
    ordinals: NDArray[np.int64], numbers: NDArray[np.int32], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the scores of the candidates near each candidate, on a logarithmic scale.

    A candidate is near if it stands within REACH places in the same named source.

    Args:
        sums: Logarithms of scores.
    """
    if (numbers == NONE).all():
        return np.zeros(len(numbers))
    order = np.argsort(ordinals)
    at = ordinals[order]
    source = numbers[order]
    scores = exps(np.maximum(sums - sums.max(), -30.0))[order]
    total = np.zeros(len(order))
    for step in range(1, min(REACH + 1, len(order))):
        together = (
            (at[step:] - at[:-step] <= REACH)
            & (source[step:] == source[:-step])
            & (source[step:] != NONE)
        )
        total[step:] += together * scores[:-step]
        total[:-step] += together * scores[step:]
    found = np.empty(len(order))
    found[order] = logs(1 + total / _LITTLE)
    return found


def values_at(
    values: NDArray[np.float64], slots: NDArray[np.int64], near: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of the candidates in the slots `near`, 0 for a slot of no candidate."""
    order = np.argsort(slots)
    places = order[np.minimum(np.searchsorted(slots, near, sorter=order), len(slots) - 1)]
    return np.where(slots[places] == near, values[places], 0.0)


HASHES = 1 << 16
"""Two terms of one hash are one here: that costs a signal little, and an entry two bytes a term."""
MAX_TERMS = 256
"""So many of the first terms of an entry are kept, which bounds the cost of a query."""
_NO_HASHES = np.empty(0, np.uint16)


@lru_cache(maxsize=1 << 16)
def term_hash(term: str) -> int:
    """Return a number below HASHES that is the same in every process."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) & (HASHES - 1)


register_memo(term_hash.cache_clear)


class Sequences:
    """The first terms of entries by slot.

    hashes, sizes: of entries in the first slots, one after another, and of how many terms each is.
    """

    def __init__(
        self, hashes: NDArray[np.uint16] = _NO_HASHES, sizes: NDArray[np.uint16] = _NO_HASHES
    ) -> None:
        self._hashes = hashes
        self._ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._later: list[bytes] = []

    def append(self, terms: Sequence[str]) -> None:
        """Put the terms of an entry into the next slot."""
        self._later.append(array("H", map(term_hash, islice(terms, MAX_TERMS))).tobytes())

    def clear(self, slot: int) -> None:
        """Forget the terms of an entry that is gone."""
        later = slot + 1 - len(self._ends)
        if later >= 0:
            self._later[later] = b""
        else:
            self._hashes = owned(self._hashes)

    def gathered(self, slots: Iterable[int]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the hashes of entries, one after another, and the row of each: shapes (n,)."""
        hashes, sizes = _gathered(self._hashes, self._ends, self._later, slots)
        return hashes, np.repeat(np.arange(len(sizes)), sizes)

    def frozen(self) -> Callable[[Iterable[int]], tuple[NDArray[np.uint16], NDArray[np.uint16]]]:
        """Return a function that gives the hashes and sizes of some slots as they are now."""
        return partial(_gathered, self._hashes, self._ends, list(self._later))


def _gathered(
    hashes: NDArray[np.uint16],
    ends: NDArray[np.int64],
    later: Sequence[bytes],
    slots: Iterable[int],
) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    first = len(ends) - 1
    flat = hashes.data.cast("B")
    wanted = np.fromiter(slots, np.int64)
    starts = 2 * ends[np.minimum(wanted, first)]
    stops = 2 * ends[np.minimum(wanted + 1, first)]
    bounds = zip(wanted.tolist(), starts.tolist(), stops.tolist(), strict=True)
    # grows view by view: a list of them sets off the garbage collector
    gathered = bytearray()
    sizes = array("H")
    for slot, start, stop in bounds:
        found = flat[start:stop] if slot < first else later[slot - first]
        gathered += found
        sizes.append(len(found) // 2)
    return np.frombuffer(gathered, np.uint16), np.frombuffer(sizes, np.uint16)


def phrase_scores(
    query: Sequence[str], hashes: NDArray[np.uint16], rows: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """Return the score of each entry for the pairs of neighbouring terms of the query.

    A rare pair counts more. The shape is (size,).

    Args:
        hashes, rows: As `Sequences.gathered` returns them.
    """
    scores = np.zeros(size)
    if len(hashes) < 2:
        return scores
    pairs = hashes[:-1].astype(np.int64) << 16 | hashes[1:]
    pairs[rows[:-1] != rows[1:]] = -1
    for first, second in sorted(set(pairwise(map(term_hash, query)))):
        having = np.unique(rows[:-1][pairs == (first << 16 | second)])
        scores[having] += round(idf(size, len(having)) * UNITS)
    return scores


def having(
    sequence: Sequence[str], hashes: NDArray[np.uint16], rows: NDArray[np.int64], size: int
) -> NDArray[np.bool_]:
    """Return whether each entry has these terms one after another: shape (size,).

    hashes, rows: as `Sequences.gathered` returns them.
    """
    found = np.zeros(size, np.bool_)
    starts = len(hashes) - len(sequence) + 1
    if starts < 1 or not sequence:
        return found
    is_start = rows[:starts] == rows[len(sequence) - 1 :]
    for step, term in enumerate(sequence):
        is_start &= hashes[step : step + starts] == term_hash(term)
    found[rows[:starts][is_start]] = True
    return found
