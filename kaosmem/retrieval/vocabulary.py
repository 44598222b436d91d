"""The terms of an index, each under a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.columns import GrowingArray

if TYPE_CHECKING:
    from kaosmem.retrieval.arrays import Int64s, UInt32s

NO_TERM = 0
"""The number of no term."""


class Vocabulary:
    """The terms of entries and of titles, each under a number from 1 on.

    A term is forgotten with the last entry or title that has it. Its number is not given again.

    Args:
        terms: Terms for the first numbers, all different.

    Attributes:
        frequencies: Number of entries with each term, by number.
        title_frequencies: Number of titles with each term, by number.
        are_digits: Whether each term is made of digits alone, by number.
    """

    def __init__(self, terms: Iterable[str] = ()) -> None:
        self._terms = ["", *terms]  # by number, "" for a forgotten one
        self._numbers = dict(zip(self._terms, range(len(self._terms)), strict=True))
        self.frequencies = GrowingArray(np.int32)
        self.are_digits = GrowingArray(np.bool_)
        self.title_frequencies = GrowingArray(np.int32)
        self._count_new()

    @property
    def size(self) -> int:
        """Return one above the largest number ever given."""
        return len(self._terms)

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self._numbers) - 1

    def number(self, term: str) -> int:
        """Return the number of a term, NO_TERM for an unknown one."""
        return self._numbers.get(term, NO_TERM)

    def given(self, term: str) -> int:
        """Return the number of a term, which gets one if it is new."""
        number = self._numbers.get(term)
        if number is None:
            number = len(self._terms)
            self._numbers[term] = number
            self._terms.append(term)
        return number

    def term(self, number: int) -> str:
        """Return the term of a number, "" for a forgotten one."""
        return self._terms[number]

    def number_in_entries(self, term: str) -> int:
        """Return the number of a term that an entry has, NO_TERM for any other."""
        number = self.number(term)
        return number if self.frequencies.values[number] else NO_TERM

    def has(self, term: str) -> bool:
        """Return whether an entry has a term."""
        return self.number_in_entries(term) != NO_TERM

    def starting_with(self, prefix: str) -> list[str]:
        """Return the terms of entries that begin with a prefix."""
        found = [term for term in self._terms if term.startswith(prefix)]
        return list(filter(self.has, found))

    def in_order(self) -> Int64s:
        """Return the numbers of the terms in order of the terms.

        They are sorted a few at a time: one sort of all would stop every other thread.
        """
        parts: dict[str, list[str]] = {}
        for term in self._numbers:
            parts.setdefault(term[:2], []).append(term)
        ordered: list[int] = []
        for start in sorted(parts):
            ordered.extend(map(self._numbers.__getitem__, sorted(parts[start])))
        return np.array(ordered[1:], np.int64)  # the first is that of no term

    def count(self, numbers: UInt32s, entries: Int64s) -> None:
        """Note how many new entries have each of these terms."""
        self._count_new()
        self.frequencies.values[numbers] += entries.astype(np.int32)

    def count_titles(self, numbers: UInt32s) -> None:
        """Note the terms of new titles."""
        self._count_new()
        np.add.at(self.title_frequencies.values, numbers, 1)

    def lose(self, numbers: UInt32s) -> None:
        """Note that an entry with these terms is gone."""
        self.frequencies.values[numbers] -= 1
        self._forget_unused(numbers)

    def lose_title(self, numbers: UInt32s) -> None:
        """Note that a title with these terms is gone."""
        self.title_frequencies.values[numbers] -= 1
        self._forget_unused(numbers)

    def _count_new(self) -> None:
        """Make room for the counts of terms that came since."""
        new = self._terms[len(self.frequencies) :]
        if new:
            self.frequencies.extend(np.zeros(len(new), np.int32))
            self.title_frequencies.extend(np.zeros(len(new), np.int32))
            self.are_digits.extend(np.fromiter(map(str.isdigit, new), np.bool_, len(new)))

    def _forget_unused(self, numbers: UInt32s) -> None:
        used = self.frequencies.values[numbers] + self.title_frequencies.values[numbers]
        for number in numbers[used == 0].tolist():
            self._numbers.pop(self._terms[number], None)
            self._terms[number] = ""


class TermNumbers:
    """A number for each term of an index, worked out when it is first asked for.

    Args:
        vocabulary: The terms, by number.
        number_of: Returns the number of a term, 0 or more.
    """

    def __init__(self, vocabulary: Vocabulary, number_of: Callable[[str], int]) -> None:
        self._vocabulary = vocabulary
        self._number_of = number_of
        self._found = GrowingArray(np.int64)  # by number of the term, -1 if nobody asked for it

    def of(self, terms: Int64s) -> Int64s:
        """Return the numbers for terms, which are given by their numbers in the vocabulary."""
        missing = self._vocabulary.size - len(self._found)
        self._found.extend(np.full(max(0, missing), -1))
        found = self._found.values
        for term in terms[found[terms] < 0].tolist():
            found[term] = self._number_of(self._vocabulary.term(term))
        return found[terms]
