"""The match of whole documents and conversations with a query, by their texts and names."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaosmem.exact import UNITS, idf
from kaosmem.retrieval.columns import Columns, StoredColumns, owned
from kaosmem.retrieval.postings import FlatPostings, Postings
from kaosmem.retrieval.scores import is_test_name, scaled, title_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.scores import QueryTerms
    from kaosmem.types.items import Item


NONE = 0
"""The number of no label."""
_NO_NUMBERS = np.empty(0, np.int32)


class Labels:
    """The label of each slot, by number: from 1 on, each given once."""

    def __init__(self, names: Iterable[str] = (), numbers: NDArray[np.int32] = _NO_NUMBERS) -> None:
        self.numbers = array("i", numbers.tobytes())  # by slot
        self._names: list[str | None] = [
            None,
            *names,
        ]  # by number, None where no slot has it any more
        self.number_of = {
            name: number for number, name in enumerate(self._names) if name is not None
        }
        self._sizes = array(
            "i", np.bincount(numbers, minlength=len(self._names)).astype(np.int32).tobytes()
        )

    def __len__(self) -> int:
        """Return how many labels there are."""
        return len(self.number_of)

    @property
    def size(self) -> int:
        """Return one above the largest number ever given."""
        return len(self._names)

    def name(self, number: int) -> str:
        """Return the label of a number, "" for one that no slot has."""
        return self._names[number] or ""

    def append(self, name: str | None) -> bool:
        """Label the next slot, None for not at all, and return whether none had this label."""
        if name is None:
            self.numbers.append(NONE)
            return False
        number = self.number_of.get(name)
        if is_new := number is None:
            number = self.number_of[name] = len(self._names)
            self._names.append(name)
            self._sizes.append(0)
        self.numbers.append(number)
        self._sizes[number] += 1
        return is_new

    def clear(self, slot: int) -> bool:
        """Take a slot's label away, and return whether no other has it."""
        number, self.numbers[slot] = self.numbers[slot], NONE
        name = self._names[number]
        if name is None:
            return False
        self._sizes[number] -= 1
        if not self._sizes[number]:
            del self.number_of[name]
            self._names[number] = None
        return not self._sizes[number]

    def frozen(
        self,
    ) -> Callable[[NDArray[np.int64]], tuple[list[str], NDArray[np.int32], NDArray[np.int64]]]:
        """Return a function that gives the labels of some slots as they are now.

        It returns the labels in order, the new number of each slot's label, and the new number of
        each old number, -1 for a label that is gone.
        """
        return partial(_settled, dict(self.number_of), self.size, np.array(self.numbers, np.int32))


def _settled(
    number_of: dict[str, int], size: int, numbers: NDArray[np.int32], slots: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int64]]:
    names: Sequence[str] = sorted(number_of)
    places = np.full(size, -1)
    places[[NONE, *map(number_of.__getitem__, names)]] = np.arange(len(names) + 1)
    return list(names), places[numbers[slots]].astype(np.int32), places


K1, B = 1.2, 0.4
"""BM25's parameters: of sources here, and of entries where signals are added to it."""


class Named(NamedTuple):
    """The shares of the sources' names that a query has: each of shape (n,), from 0 to 1.

    rarest: by the rarest term of the name that the query has, 1 for a term that no other name has.
    share: the query's share of the name; rare terms count more.
    is_test: 1 for the name of a test where the query does not ask for tests.
    """

    rarest: NDArray[np.float64]
    share: NDArray[np.float64]
    is_test: NDArray[np.float64]


class SourceMatcher:
    """The sources of entries by slot.

    `metadata["source"]` names an entry's source. Its terms are those of its entries, and its name
    is its title.
    """

    def __init__(self, analyze: Callable[[str], list[str]]) -> None:
        self._analyze = analyze
        self._labels = Labels()
        self._lengths = array("q", [0])  # terms of all entries, by number
        self._titles = Postings()  # slots are numbers of sources
        self._titles.attach([])  # of NONE

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self._labels)

    @property
    def numbers(self) -> NDArray[np.int32]:
        """Return the number of each slot's source.

        It is a copy: no entry can come while the array is viewed, and the traceback of a query that
        failed would keep a view.
        """
        return np.array(self._labels.numbers, np.int32)

    def append(self, item: Item, length: int) -> None:
        """Note the source of an entry with this number of terms, in the next slot."""
        given = item.metadata.get("source")
        name = given if isinstance(given, str) and given else None
        if self._labels.append(name) and name:
            self._lengths.append(0)
            self._titles.attach(sorted(title_terms(name, self._analyze)))
        self._lengths[self._labels.numbers[-1]] += length

    def clear(self, slot: int, length: int) -> None:
        """Note that the entry in a slot is gone; of a source that has no other, nothing is kept."""
        number = self._labels.numbers[slot]
        self._lengths[number] -= length
        if self._labels.clear(slot):
            self._titles.detach(number)

    def frozen(self) -> Callable[[NDArray[np.int64]], Columns]:
        """Return how the columns of some slots are made, whatever changes after this call."""
        labels = self._labels.frozen()
        titles = self._titles.frozen()

        def columns(slots: NDArray[np.int64]) -> Columns:
            names, numbers, places = labels(slots)
            return {"sources": names, "source_numbers": numbers, **titles(places).columns("title_")}

        return columns

    def rearrange(self, slots: NDArray[np.int64], lengths: NDArray[np.int32]) -> None:
        """Move the entries in these slots into the first ones. lengths: their numbers of terms."""
        names, numbers, places = self._labels.frozen()(slots)
        self._have(names, numbers, self._titles.frozen()(places), lengths)

    def restore(self, columns: StoredColumns, lengths: NDArray[np.int32]) -> None:
        """Take over the sources of entries from columns.

        lengths: their numbers of terms. Raises CorruptionError.
        """
        names = columns.texts("sources")
        numbers = columns.numbers(
            "source_numbers", np.int32, among=(0, len(names) + 1), size=len(lengths)
        )
        titles = FlatPostings.stored(columns, "title_", len(names) + 1)
        self._have(names, numbers, replace(titles, packed=owned(titles.packed)), lengths)

    def _have(
        self,
        names: list[str],
        numbers: NDArray[np.int32],
        titles: FlatPostings,
        lengths: NDArray[np.int32],
    ) -> None:
        self._labels = Labels(names, numbers)
        self._lengths = array(
            "q", np.bincount(numbers, lengths, len(names) + 1).astype(np.int64).tobytes()
        )
        self._titles = Postings(titles, len(names) + 1)

    def matches(
        self,
        asked: QueryTerms,
        occurrences: Iterable[tuple[str, NDArray[np.int64], NDArray[np.int64]]],
    ) -> NDArray[np.float64]:
        """Return how well each source matches a query, by number, from 0 to 1.

        Its content, scored by BM25 as one text, and its name count equally. The matches are cubed,
        so that few stand out.

        Args:
            occurrences: Terms of the query, the slots of the entries with the term, and how often
                each entry has it.
        """
        if not self._labels:
            return np.zeros(len(self._lengths))
        matches = scaled(self._content_scores(asked.counts, occurrences)) + scaled(
            self._title_scores(asked.titles)
        )
        matches[NONE] = 0.0
        shares = scaled(matches)
        return shares * shares * shares

    def named(self, asked: QueryTerms, numbers: NDArray[np.int32]) -> Named:
        """Return the share of each source's name that a query has."""
        count = len(self._labels)
        rarest, share, is_test = (np.zeros(self._labels.size) for _ in range(3))
        asks_for_tests = "test" in asked.counts
        for number in np.unique(numbers[numbers != NONE]).tolist():
            name = self._labels.name(number)
            is_test[number] = not asks_for_tests and is_test_name(name)
            terms = title_terms(name, self._analyze)
            idfs = {term: idf(count, self._titles.frequency(term)) for term in sorted(terms)}
            had = [idf for term, idf in idfs.items() if term in asked.titles]
            if had:
                rarest[number] = max(had) / idf(count, 1)
                share[number] = math.fsum(had) / math.fsum(idfs.values())
        return Named(rarest[numbers], share[numbers], is_test[numbers])

    def _content_scores(
        self,
        counts: Mapping[str, int],
        occurrences: Iterable[tuple[str, NDArray[np.int64], NDArray[np.int64]]],
    ) -> NDArray[np.float64]:
        lengths = np.array(self._lengths, np.int64)
        count = len(self._labels)
        numbers = self.numbers
        average = max(1.0, int(lengths[1:].sum()) / count)
        norms = K1 * (1 - B + B * lengths / average)
        scores = np.zeros(len(lengths))
        for term, slots, times in occurrences:
            held = np.bincount(numbers[slots], times, len(lengths))
            held[NONE] = 0.0
            weight = counts[term] * idf(count, int(np.count_nonzero(held))) * (K1 + 1) * UNITS
            scores += np.rint(weight * held / (held + norms))
        return scores

    def _title_scores(self, titles: Collection[str]) -> NDArray[np.float64]:
        scores = np.zeros(len(self._lengths))
        for term in titles:
            if term in self._titles:
                numbers, _, _ = self._titles.unpacked([term])
                scores[numbers] += round(idf(len(self._labels), len(numbers)) * UNITS)
        return scores
