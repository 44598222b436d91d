"""An index that ranks by BM25 and stays exact through adds, updates and removals without being rebuilt."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from kaosmem.retrieval.ranker import check_new, unknown
from kaosmem.retrieval.selection import best

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A posting is slot << 32 | occurrences: one integer, and a term's postings in order of slots.
_SLOT_SHIFT = 32
_OCCURRENCES = (1 << _SLOT_SHIFT) - 1
# A term in more than one entry of 8 is scored faster as a column over all of them.
_COLUMN_SHARE = 8
# From so many entries on, sorting their terms together costs less than placing each; at most so many at a time,
# which bounds the memory that it takes.
_MIN_BATCH, _MAX_BATCH = 32, 4096


class BM25Index:
    """Texts by ordinal, ranked by BM25 over the exact statistics of the entries that are there.

    The entries sit in slots 0 to n - 1. A removed entry's slot goes to the entry in the last one, so nothing dead
    is stored or skipped.
    """

    def __init__(
        self,
        *,
        idf: Literal["lucene", "okapi"],
        k1: float,
        b: float,
        epsilon: float,
        analyze: Callable[[str], list[str]],
    ) -> None:
        self._idf, self._k1, self._b, self._epsilon, self._analyze = idf, k1, b, epsilon, analyze
        self._slots: dict[int, int] = {}
        self._ordinals = array("q")
        self._texts: list[str] = []
        self._lengths = array("d")
        self._total_length = 0
        self._postings: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        # How many terms are in 0, 1, ... n entries; kept for Okapi's average alone.
        self._terms_by_frequency = array("q", [0])
        # The postings of common terms as occurrences by slot, made when a query first asks.
        self._columns: dict[str, NDArray[np.float32]] = {}
        self._column_size = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._ordinals)

    def add(self, entries: Iterable[tuple[int, str]]) -> None:
        """Add entries of (ordinal, text); all are refused if one ordinal is negative or taken."""
        new = check_new(entries, self._slots)
        if len(new) < _MIN_BATCH:
            for ordinal, text in new:
                terms = self._analyze(text)
                self._append(ordinal, text)
                self._attach(len(self) - 1, terms)
        else:
            for start in range(0, len(new), _MAX_BATCH):
                self._add_batch(new[start : start + _MAX_BATCH])

    def update(self, ordinal: int, text: str) -> None:
        """Replace an entry's text. Raises KeyError for an unknown ordinal."""
        slot = self._slot(ordinal)
        terms = self._analyze(text)
        self._detach(slot)
        self._texts[slot] = text
        self._attach(slot, terms)

    def remove(self, ordinal: int) -> None:
        """Remove an entry. Raises KeyError for an unknown ordinal."""
        slot = self._slot(ordinal)
        last = len(self) - 1
        self._detach(slot)
        if slot != last:
            self._ordinals[slot], self._texts[slot] = self._ordinals[last], self._texts[last]
            self._slots[self._ordinals[slot]] = slot
            self._attach(slot, self._detach(last))
        del self._slots[ordinal], self._ordinals[last], self._texts[last], self._lengths[last]
        del self._terms_by_frequency[-1]

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first; none if no entry has a word of the query."""
        weights = self._weights(query)
        return best(np.frombuffer(self._ordinals, np.int64), self._scores(weights), limit) if weights else []

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of every entry by ordinal, not rounded; `idf="okapi"` may give negative ones."""
        return dict(zip(self._ordinals, self._scores(self._weights(query)).tolist(), strict=True))

    def _slot(self, ordinal: int) -> int:
        if ordinal not in self._slots:
            raise unknown(ordinal)
        return self._slots[ordinal]

    def _append(self, ordinal: int, text: str) -> None:
        self._slots[ordinal] = len(self)
        self._ordinals.append(ordinal)
        self._texts.append(text)
        self._lengths.append(0.0)
        self._terms_by_frequency.append(0)

    def _attach(self, slot: int, terms: list[str]) -> None:
        """Count the terms of the text in `slot`."""
        occurrences = Counter(terms)
        self._set_length(slot, len(terms))
        self._count_frequencies(occurrences, -1)
        postings, shifted = self._postings, slot << _SLOT_SHIFT
        place = array.append if slot == len(self) - 1 else insort
        for term, n in occurrences.items():
            place(postings[term], shifted | n)
        self._count_frequencies(occurrences, 1)
        self._fit_columns()
        for term in self._columns.keys() & occurrences.keys():
            self._columns[term][slot] = occurrences[term]

    def _detach(self, slot: int) -> list[str]:
        """Uncount the terms of the text in `slot` and return them."""
        terms = self._analyze(self._texts[slot])
        distinct = set(terms)
        self._total_length -= len(terms)
        self._count_frequencies(distinct, -1)
        for term in distinct:
            postings = self._postings[term]
            del postings[bisect_left(postings, slot << _SLOT_SHIFT)]
        self._count_frequencies(distinct, 1)
        for term in self._columns.keys() & distinct:
            self._columns[term][slot] = 0
        for term in distinct:
            if not self._postings[term]:
                del self._postings[term]
        return terms

    def _add_batch(self, entries: Sequence[tuple[int, str]]) -> None:
        """Add many entries, whose terms are sorted together instead of placed one by one."""
        terms = [self._analyze(text) for _, text in entries]
        first = len(self)
        for (ordinal, text), own in zip(entries, terms, strict=True):
            self._append(ordinal, text)
            self._set_length(len(self) - 1, len(own))
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        by_number = np.fromiter(map(numbers.__getitem__, chain.from_iterable(terms)), np.int64)
        slots = np.repeat(np.arange(first, len(self)), list(map(len, terms)))
        # The numbers of terms rise in the order of `numbers`, so the sorted runs are its terms one after another.
        runs, occurrences = np.unique(by_number << _SLOT_SHIFT | slots, return_counts=True)
        postings = (runs & _OCCURRENCES) << _SLOT_SHIFT | occurrences
        starts = np.flatnonzero(np.diff(runs >> _SLOT_SHIFT, prepend=-1)).tolist()
        self._count_frequencies(numbers, -1)
        for term, (start, stop) in zip(numbers, pairwise([*starts, len(runs)]), strict=True):
            self._postings[term].frombytes(postings[start:stop].tobytes())
        self._count_frequencies(numbers, 1)
        self._columns.clear()
        self._fit_columns()

    def _set_length(self, slot: int, length: int) -> None:
        self._total_length += length
        # Any length but 0 will do for an entry without terms: it spares the formula a division 0 / 0.
        self._lengths[slot] = length or 1

    def _count_frequencies(self, terms: Iterable[str], sign: Literal[-1, 1]) -> None:
        """Take the present frequencies of terms out of the histogram, or put them in."""
        if self._idf == "okapi":
            for term in terms:
                self._terms_by_frequency[len(self._postings[term])] += sign

    def _fit_columns(self) -> None:
        """Drop columns that are too short; the next query makes those that it needs anew, with room to grow."""
        if len(self) > self._column_size:
            self._column_size = len(self) + len(self) // 4 + 64
            self._columns.clear()

    def _weights(self, query: str) -> dict[str, float]:
        """Return what each known term of the query weighs: its idf, for each time that it occurs, times k1 + 1."""
        counts = {term: n for term, n in Counter(self._analyze(query)).items() if term in self._postings}
        idf = self._lucene_idf if self._idf == "lucene" else self._okapi_idf
        return {term: idf(len(self._postings[term])) * n * (self._k1 + 1) for term, n in counts.items()}

    def _lucene_idf(self, frequency: int) -> float:
        """Return ln(1 + (n - frequency + 0.5) / (frequency + 0.5)), which is never negative."""
        return math.log1p((len(self) - frequency + 0.5) / (frequency + 0.5))

    def _okapi_idf(self, frequency: int) -> float:
        """Return rank_bm25's idf: where Okapi's would be negative, epsilon times its average over all terms."""
        idf = math.log(len(self) - frequency + 0.5) - math.log(frequency + 0.5)
        return idf if idf >= 0 else self._epsilon * self._average_okapi_idf()

    def _average_okapi_idf(self) -> float:
        terms = np.frombuffer(self._terms_by_frequency, np.int64)
        frequencies = 1 + np.flatnonzero(terms[1:])
        idfs = np.log(len(self) - frequencies + 0.5) - np.log(frequencies + 0.5)
        return math.fsum((terms[frequencies] * idfs).tolist()) / len(self._postings)

    def _scores(self, weights: dict[str, float]) -> NDArray[np.float64]:
        """Return the score of every slot."""
        average_length = max(self._total_length, 1) / max(len(self), 1)
        norms = np.frombuffer(self._lengths) * (self._k1 * self._b / average_length)
        norms += self._k1 * (1 - self._b)
        scores = np.zeros(len(self))
        for term, weight in weights.items():
            if len(self._postings[term]) * _COLUMN_SHARE > len(self):
                shares = self._column(term)[: len(self)].astype(np.float64)
                divisors = shares + norms
                shares *= weight
                shares /= divisors
                scores += shares
            else:
                slots, occurrences = _unpacked(self._postings[term])
                scores[slots] += occurrences * weight / (occurrences + norms[slots])
        return scores

    def _column(self, term: str) -> NDArray[np.float32]:
        """Return how often the term occurs by slot; float32 holds every count below 2**24."""
        column = self._columns.get(term)
        if column is None:
            slots, occurrences = _unpacked(self._postings[term])
            column = self._columns[term] = np.zeros(self._column_size, np.float32)
            column[slots] = occurrences
        return column


def _unpacked(postings: array[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return slots and occurrences, both as copies: an array can't grow while it is viewed."""
    packed = np.frombuffer(postings, np.int64)
    return packed >> _SLOT_SHIFT, packed & _OCCURRENCES
