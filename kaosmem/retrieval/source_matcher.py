"""The documents and conversations that entries are from, and how each as a whole matches a query."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.selection import scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.types import Item

K1, B = 1.2, 0.4
"""BM25's parameters: of sources here, and of entries where signals are added to it."""
NOWHERE = 0
"""The number of no source, which matches nothing."""


class SourceMatcher:
    """The sources of entries in slots 0 to n - 1, by number.

    A source is what `metadata["source"]` names. Its terms are those of its entries, and its name is its title.
    """

    def __init__(self, analyze: Callable[[str], list[str]]) -> None:
        self._analyze = analyze
        self.numbers = array("i")  # by slot
        self._number_of: dict[str, int] = {}
        self._names: list[str] = [""]  # by number
        self._free: list[int] = []
        self._sizes: list[int] = [0]  # entries, by number
        self._lengths: list[int] = [0]  # terms of all entries, by number
        self._titled: dict[str, set[int]] = {}  # term of a name -> numbers

    def append(self) -> None:
        """Add a slot of no source."""
        self.numbers.append(NOWHERE)

    def pop(self) -> None:
        """Take the last slot away, whose entry has left its source."""
        self.numbers.pop()

    def enter(self, slot: int, item: Item, length: int) -> None:
        """Note the source of an entry of so many terms."""
        name = item.metadata.get("source")
        if not isinstance(name, str) or not name:
            return
        number = self._number_of.get(name)
        if number is None:
            number = self._opened(name)
        self.numbers[slot] = number
        self._sizes[number] += 1
        self._lengths[number] += length

    def leave(self, slot: int, length: int) -> None:
        """Note that the entry in a slot is gone; of a source that has no other, nothing is kept."""
        number, self.numbers[slot] = self.numbers[slot], NOWHERE
        if number == NOWHERE:
            return
        self._sizes[number] -= 1
        self._lengths[number] -= length
        if not self._sizes[number]:
            self._close(number)

    def _opened(self, name: str) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._names)
            self._names.append("")
            self._sizes.append(0)
            self._lengths.append(0)
        self._names[number] = name
        self._number_of[name] = number
        for term in set(self._analyze(name)):
            self._titled.setdefault(term, set()).add(number)
        return number

    def _close(self, number: int) -> None:
        name, self._names[number] = self._names[number], ""
        del self._number_of[name]
        self._free.append(number)
        for term in set(self._analyze(name)):
            self._titled[term].discard(number)
            if not self._titled[term]:
                del self._titled[term]

    def matches(
        self, counts: Mapping[str, int], occurrences: Iterable[tuple[str, NDArray[np.int64], NDArray[np.int64]]]
    ) -> NDArray[np.float64]:
        """Return how well each source matches a query, by number: 1 the best, cubed, so that few stand out.

        Half by what it holds, scored by BM25 as one text, half by its name.
        counts: of the query's terms. occurrences: of those that entries have, slots and how often each has the term.
        """
        if not self._number_of:
            return np.zeros(len(self._names))
        matches = scaled(self._content_scores(counts, occurrences)) + scaled(self._title_scores(counts))
        matches[NOWHERE] = 0.0
        return scaled(matches) ** 3

    def _content_scores(
        self, counts: Mapping[str, int], occurrences: Iterable[tuple[str, NDArray[np.int64], NDArray[np.int64]]]
    ) -> NDArray[np.float64]:
        lengths = np.array(self._lengths, np.float64)
        count, numbers = len(self._number_of), np.frombuffer(self.numbers, np.int32)
        average = max(1.0, lengths[1:].sum() / count)
        norms = K1 * (1 - B + B * lengths / average)
        scores = np.zeros(len(lengths))
        for term, slots, times in occurrences:
            held = np.bincount(numbers[slots], times, len(lengths))
            held[NOWHERE] = 0.0
            idf = _idf(count, int(np.count_nonzero(held)))
            scores += counts[term] * idf * held * (K1 + 1) / (held + norms)
        return scores

    def _title_scores(self, counts: Mapping[str, int]) -> NDArray[np.float64]:
        scores = np.zeros(len(self._names))
        for term in counts:
            if numbers := self._titled.get(term):
                scores[list(numbers)] += _idf(len(self._number_of), len(numbers))
        return scores


def _idf(count: int, frequency: int) -> float:
    return math.log1p((count - frequency + 0.5) / (frequency + 0.5))
