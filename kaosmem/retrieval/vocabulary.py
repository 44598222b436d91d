"""The terms of an index, each under a number: the reading of items, and the vectors of terms."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, count, repeat
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.language.analysis import (
    MAX_CHUNK_CHARS,
    Analyzer,
    analyze,
    chunk_terms,
    text_terms,
    words_of,
)
from kaosmem.language.keys import key_words
from kaosmem.memos import memoized
from kaosmem.retrieval.bm25 import WEIGHT_BITS
from kaosmem.retrieval.columns import GrowingArray

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile

    from kaosmem.retrieval.columns import Int8s, Int32s, Int64s, UInt32s
    from kaosmem.types.items import Item

NO_TERM = 0
"""The number of no term."""
_MAX_CHUNKS = 1 << 17


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
        self._rows = GrowingArray(np.int32)  # of word vectors, of the terms that were asked for
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
        if number and self.frequencies.values[number]:
            return number
        return NO_TERM

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

    def lose(self, numbers: UInt32s, *, of_title: bool = False) -> None:
        """Note that an entry or a title with these terms is gone, and forget its own terms."""
        counts = self.title_frequencies if of_title else self.frequencies
        counts.values[numbers] -= 1
        used = self.frequencies.values[numbers] + self.title_frequencies.values[numbers]
        for number in numbers[used == 0].tolist():
            self._numbers.pop(self._terms[number], None)
            self._terms[number] = ""

    def rows(self, numbers: Int64s) -> Int64s:
        """Return the rows of terms in the table of word vectors, by their numbers."""
        new = self._terms[len(self._rows) :]
        self._rows.extend(word_vectors().rows_of(new))
        return self._rows.values[numbers].astype(np.int64)

    def _count_new(self) -> None:
        """Make room for the counts of terms that came since."""
        new = self._terms[len(self.frequencies) :]
        if new:
            self.frequencies.lengthen(len(self._terms))
            self.title_frequencies.lengthen(len(self._terms))
            self.are_digits.extend(np.fromiter(map(str.isdigit, new), np.bool_, len(new)))


class _ChunkNumbers(dict[str, tuple[int, ...]]):
    """The numbers of the terms of chunks. Most chunks of any text have been seen before."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        numbers = tuple(map(self._vocabulary.given, chunk_terms(chunk)))
        if len(chunk) <= MAX_CHUNK_CHARS:
            self[chunk] = numbers
        return numbers


class TermReader:
    """Reads items as sequences of numbers of a vocabulary.

    Chunks are remembered until the reader is told to forget them.

    Args:
        analyze: Splits a text into terms.
    """

    def __init__(self, vocabulary: Vocabulary, analyze: Analyzer) -> None:
        self._vocabulary = vocabulary
        self._analyze = analyze
        self.forget()

    def forget(self) -> None:
        """Forget all chunks."""
        self._chunks = _ChunkNumbers(self._vocabulary)

    def read(self, items: Sequence[Item]) -> tuple[UInt32s, Int64s]:
        """Return the terms of items, one item after another, and how many each item has.

        The terms of an item's key that its text lacks come before those of the text.
        """
        if len(self._chunks) > _MAX_CHUNKS:
            self.forget()
        values = array("I")
        lengths = array("q")
        for item in items:
            first = len(values)
            if item.key is not None:
                own = {*self._numbers(item.text)}
                about = self._numbers(key_words(item.key))
                values.extend(number for number in about if number not in own)
            values.extend(self._numbers(item.text))
            lengths.append(len(values) - first)
        return np.array(values, np.uint32), np.array(lengths, np.int64)

    def _numbers(self, text: str) -> Iterable[int]:
        if self._analyze is analyze:
            numbers = chain.from_iterable(map(self._chunks.__getitem__, words_of(text)))
            return chain(numbers, map(self._vocabulary.given, text_terms(text)))
        return map(self._vocabulary.given, self._analyze(text))


# The vectors of terms.

WORD_VECTORS_FILE = "word_vectors.npz"
NO_ROW = 0
"""The row of all terms without a vector. It is a row of zeros."""
_BYTE = 127
TOPIC_UNITS = 1 << 12
"""Weights of terms are whole numbers of 1 / TOPIC_UNITS."""
_ROWS_AT_ONCE = 64
"""So many rows of 128 numbers are below what libraries for linear algebra share among threads."""
_NEAR_TERMS = 8
"""So many terms with a cosine of a half or more may stand for a word that nobody said."""
GRID = 1 << 20
"""Cosines are whole numbers of 1 / GRID."""


class WordVectors:
    """A vector for each common English term.

    Args:
        terms: The terms, of which the first has the row 1.
        rows: Shape (1 + terms, dimensions). The first row is of no term.

    Attributes:
        rows: Vectors of about the same length. A sum of the products of two of them is exact in
            single precision, in any order.
    """

    def __init__(self, terms: Iterable[str], rows: Int8s) -> None:
        self._numbers = dict(zip(terms, count(NO_ROW + 1)))
        self.rows = rows
        wide = rows.astype(np.int64)
        mean_square = int((wide * wide).sum()) // max(1, len(rows) - 1)
        self._length = isqrt(mean_square)

    def rows_of(self, terms: Sequence[str]) -> Int32s:
        """Return the row of each term, NO_ROW for a term without a vector."""
        return np.fromiter(map(self._numbers.get, terms, repeat(NO_ROW)), np.int32, len(terms))

    def mean_of(self, terms: Sequence[str], weights: Int64s) -> Int64s:
        """Return the direction of the weighted mean of terms, in whole numbers up to 127."""
        vectors = self.rows[self.rows_of(terms)]
        total = (weights[:, None] * vectors).sum(axis=0)
        most = int(np.abs(total).max(initial=0))
        found: Int64s = total * _BYTE // max(1, most)
        return found

    def products(self, rows: Int64s, vector: Int64s) -> Int64s:
        """Return the product of a vector with each of some rows.

        The rows are multiplied a few at a time. A library for linear algebra would share more of
        them among threads, and wait for these where the processor is busy.
        """
        size = len(rows)
        block_count = -(-size // _ROWS_AT_ONCE)  # rounded up
        together = np.full(block_count * _ROWS_AT_ONCE, NO_ROW)
        together[:size] = rows
        taken = self.rows.take(together, axis=0).astype(np.float32)
        blocks = taken.reshape(-1, _ROWS_AT_ONCE, len(vector))
        products = (blocks @ vector.astype(np.float32)).ravel()
        return products[:size].astype(np.int64)

    def cosines(
        self,
        sums: Int64s,
        squares: Int64s,
        vector: Int64s,
    ) -> Int64s:
        """Return the cosines of a vector with weighted means of terms, in units of 1 / GRID.

        A mean is taken to be as long as if its terms had nothing in common.

        Args:
            sums: By mean, the sum of its weights times the products of its terms with the vector.
            squares: By mean, the sum of the squares of its weights.
        """
        length = np.sqrt(float((vector * vector).sum())) * self._length
        lengths = np.sqrt(squares) * max(1.0, length)
        # Of 256 terms, whose weights are below 2**16 and products below 2**18, it is below 2**62.
        scaled = sums * GRID
        found: Int64s = np.rint(scaled / np.maximum(1.0, lengths)).astype(np.int64)
        return found


@cache
def common_terms() -> dict[str, None]:
    """Return the common English terms of the table in order, read when they are first needed."""
    with _table() as table:
        return dict.fromkeys(table["terms"].tobytes().decode().split())


@cache
def word_vectors() -> WordVectors:
    """Return the table, read when it is first needed: that takes ten times as long as the terms.

    `benchmarks/distill_word_vectors.py` makes it of all-MiniLM-L6-v2.
    """
    with _table() as table:
        return WordVectors(common_terms(), table["rows"])


@memoized(1 << 12)
def near_terms(term: str) -> Sequence[tuple[str, int]]:
    """Return the terms of the table that are nearest to a term in meaning, nearest first.

    Each comes with the square of its cosine in Q16. There are none of a term without a vector.
    """
    table = word_vectors()
    row = int(table.rows_of([term])[0])
    if row == NO_ROW:
        return ()
    # All vectors are about as long as this one.
    products = table.products(np.arange(len(table.rows)), table.rows[row].astype(np.int64))
    longest = int(products[row])
    products[row] = 0
    (near,) = np.nonzero(products * 2 >= longest)
    near = near[np.argsort(-products[near], kind="stable")][:_NEAR_TERMS]
    terms = list(common_terms())
    found = []
    for number in near.tolist():
        product = min(longest, int(products[number]))
        found.append((terms[number - 1], (product**2 << WEIGHT_BITS) // longest**2))
    return found


def _table() -> NpzFile:
    found: NpzFile = np.load(
        io.BytesIO(files("kaosmem.retrieval").joinpath(WORD_VECTORS_FILE).read_bytes())
    )
    return found
