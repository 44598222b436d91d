"""An index that ranks by BM25 and stays exact through adds, updates and removals without being rebuilt."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Literal

import numpy as np

from kaosmem.retrieval.postings import Postings
from kaosmem.retrieval.ranker import check_new, unknown
from kaosmem.retrieval.selection import FLOOR_SHARE, best, floor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.types import Item

# From so many entries on, sorting their terms together costs less than placing each; at most so many at a time, as
# what the sorting takes stays in the process.
_MIN_BATCH, _MAX_BATCH = 32, 1024


class BM25Index:
    """Items by ordinal, their texts ranked by BM25 over the exact statistics of the entries that are there.

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
        self._items: list[Item] = []
        self._lengths = array("i")
        self._total_length = 0
        self._postings = Postings()
        # Frequency -> how many terms have it; kept for Okapi's average alone.
        self._terms_by_frequency: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._ordinals)

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item); all are refused if one ordinal is negative or taken."""
        new = check_new(entries, self._slots)
        if len(new) < _MIN_BATCH:
            for ordinal, item in new:
                terms = self._analyze(item.text)
                self._append(ordinal, item)
                self._attach(len(self) - 1, terms)
        else:
            for start in range(0, len(new), _MAX_BATCH):
                self._add_batch(new[start : start + _MAX_BATCH])

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item in an entry's place. Raises KeyError for an unknown ordinal."""
        slot = self._slot(ordinal)
        terms = self._analyze(item.text)
        self._detach(slot)
        self._items[slot] = item
        self._attach(slot, terms)

    def remove(self, ordinal: int) -> None:
        """Remove an entry. Raises KeyError for an unknown ordinal."""
        slot = self._slot(ordinal)
        last = len(self) - 1
        self._detach(slot)
        if slot != last:
            self._ordinals[slot], self._items[slot] = self._ordinals[last], self._items[last]
            self._slots[self._ordinals[slot]] = slot
            self._attach(slot, self._detach(last))
        del self._slots[ordinal]
        self._pop()

    def rank(self, query: str, limit: int, *, among: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first, of all entries or of those `among` these ordinals."""
        weights = self._weights(query)
        if not weights or limit < 1:
            return []
        common = {term: weight for term, weight in weights.items() if self._postings.is_common(term)}
        scores = self._rare_scores({term: weight for term, weight in weights.items() if term not in common})
        slots: NDArray[np.int64] | slice = slice(None)
        if among is not None:
            slots = self._slots_of(among)
        elif common and len(self) >= FLOOR_SHARE * limit:
            slots = self._contenders(scores, common, limit)
        scores = scores[slots]
        if common:
            scores += self._common_scores(common, slots)
        return best(np.frombuffer(self._ordinals, np.int64)[slots], scores, limit)

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of every entry by ordinal, not rounded; `idf="okapi"` may give negative ones."""
        return dict(zip(self._ordinals, self._rare_scores(self._weights(query)).tolist(), strict=True))

    def _slot(self, ordinal: int) -> int:
        if ordinal not in self._slots:
            raise unknown(ordinal)
        return self._slots[ordinal]

    def _slots_of(self, ordinals: Collection[int]) -> NDArray[np.int64]:
        """Return the slots of those ordinals that have one, each once."""
        found = np.fromiter(map(self._slots.get, ordinals, repeat(-1)), np.int64, len(ordinals))
        chosen = np.zeros(len(self), np.bool_)
        chosen[found[found >= 0]] = True
        return np.flatnonzero(chosen)

    def _append(self, ordinal: int, item: Item) -> None:
        slot = len(self)
        self._slots[ordinal] = ordinal if ordinal == slot else slot  # where equal one object: 32 bytes an entry
        self._ordinals.append(ordinal)
        self._items.append(item)
        self._lengths.append(0)

    def _pop(self) -> None:
        """Give up the last slot, which is free."""
        self._ordinals.pop()
        self._items.pop()
        self._lengths.pop()

    def _attach(self, slot: int, terms: list[str]) -> None:
        """Count the terms of the entry in `slot`."""
        self._set_terms(slot, terms)
        self._count_frequencies(terms, -1)
        self._postings.attach(slot, terms)
        self._count_frequencies(terms, 1)

    def _detach(self, slot: int) -> list[str]:
        """Uncount the terms of the entry in `slot` and return them."""
        terms = self._analyze(self._items[slot].text)
        self._total_length -= len(terms)
        self._count_frequencies(terms, -1)
        self._postings.detach(slot, terms)
        self._count_frequencies(terms, 1)
        return terms

    def _add_batch(self, entries: Sequence[tuple[int, Item]]) -> None:
        """Add many entries, whose terms are sorted together instead of placed one by one."""
        terms = [self._analyze(item.text) for _, item in entries]
        for (ordinal, item), own in zip(entries, terms, strict=True):
            self._append(ordinal, item)
            self._set_terms(len(self) - 1, own)
        self._count_frequencies(chain.from_iterable(terms), -1)
        self._postings.attach_many(terms)
        self._count_frequencies(chain.from_iterable(terms), 1)

    def _set_terms(self, slot: int, terms: list[str]) -> None:
        """Note what the terms of an entry say of it alone."""
        self._total_length += len(terms)
        # Any length but 0 will do for an entry without terms: it spares the formula a division 0 / 0.
        self._lengths[slot] = len(terms) or 1

    def _count_frequencies(self, terms: Iterable[str], sign: Literal[-1, 1]) -> None:
        """Take the present frequencies of terms out of the histogram, or put them in."""
        if self._idf == "okapi":
            for term in set(terms):
                self._terms_by_frequency[self._postings.frequency(term)] += sign

    def _weights(self, query: str) -> dict[str, float]:
        return self._weights_of(self._analyze(query))

    def _weights_of(self, terms: Iterable[str]) -> dict[str, float]:
        """Return what each known term of a query weighs: its idf, for each time that it occurs, times k1 + 1."""
        counts = {term: n for term, n in Counter(terms).items() if term in self._postings}
        idf = self._lucene_idf if self._idf == "lucene" else self._okapi_idf
        return {term: idf(self._postings.frequency(term)) * n * (self._k1 + 1) for term, n in counts.items()}

    def _lucene_idf(self, frequency: int) -> float:
        """Return ln(1 + (n - frequency + 0.5) / (frequency + 0.5)), which is never negative."""
        return math.log1p((len(self) - frequency + 0.5) / (frequency + 0.5))

    def _okapi_idf(self, frequency: int) -> float:
        """Return rank_bm25's idf: where Okapi's would be negative, epsilon times its average over all terms."""
        idf = math.log(len(self) - frequency + 0.5) - math.log(frequency + 0.5)
        return idf if idf >= 0 else self._epsilon * self._average_okapi_idf()

    def _average_okapi_idf(self) -> float:
        terms = {frequency: n for frequency, n in self._terms_by_frequency.items() if frequency and n}
        frequencies = np.fromiter(terms, np.int64, len(terms))
        idfs = np.log(len(self) - frequencies + 0.5) - np.log(frequencies + 0.5)
        return math.fsum((np.fromiter(terms.values(), np.int64, len(terms)) * idfs).tolist()) / len(self._postings)

    def _rare_scores(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        """Return what these terms give every slot, at a cost that grows with their postings."""
        slots, occurrences, sizes = self._postings.unpacked(weights)
        by_posting = np.repeat(np.fromiter(weights.values(), np.float64, len(weights)), sizes)
        norms = self._norms(np.frombuffer(self._lengths, np.int32)[slots])
        scores = np.zeros(len(self))
        np.add.at(scores, slots, occurrences * by_posting / (occurrences + norms))
        return scores

    def _common_scores(self, weights: Mapping[str, float], slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return what these common terms give some slots."""
        norms = self._norms(np.frombuffer(self._lengths, np.int32)[slots])
        scores = np.zeros(len(norms))
        for term, weight in weights.items():
            occurrences = self._postings.column(term)[slots]
            scores += occurrences * weight / (occurrences + norms)
        return scores

    def _contenders(self, scores: NDArray[np.float64], common: Mapping[str, float], limit: int) -> NDArray[np.int64]:
        """Return the slots whose scores may be among the `limit` best with what the common terms add.

        They are told by half the precision, at twice the speed.
        """
        rough = scores.astype(np.float32)
        norms = self._norms(np.frombuffer(self._lengths, np.int32).astype(np.float32))
        for term, weight in common.items():
            shares = self._postings.column(term).astype(np.float32)
            divisors = shares + norms
            shares *= weight
            shares /= divisors
            rough += shares
        # Each step may be off by 2**-24 of a score, which is at most all the weights, here as at the floor.
        most = float(scores.max()) + sum(map(abs, common.values()))
        error = 2**-22 * (8 + len(common)) * most
        return np.flatnonzero(rough >= floor(rough, limit) - error - 1e-9)

    def _norms(self, lengths: NDArray[np.floating | np.int32]) -> NDArray[np.floating]:
        """Return what the formula adds to an entry's occurrences of a term, which is more for a longer entry."""
        average_length = max(self._total_length, 1) / max(len(self), 1)
        norms = lengths * (self._k1 * self._b / average_length)
        norms += self._k1 * (1 - self._b)
        return norms
