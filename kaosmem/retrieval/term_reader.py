"""The numbers of the terms of items, each chunk between white space being analysed once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.language.analysis import MAX_CHUNK_CHARS, analyze, chunk_terms, words_of
from kaosmem.language.keys import key_words
from kaosmem.retrieval.columns import Ragged

if TYPE_CHECKING:
    from kaosmem.retrieval.arrays import Int64s, UInt32s
    from kaosmem.retrieval.vocabulary import Vocabulary
    from kaosmem.types.items import Item

_MAX_CHUNKS = 1 << 17
_GATHERED_AT_ONCE = 1 << 14
"""The terms of so many chunks are gathered at a time, so that a long text takes little memory."""


class _Chunks(dict[str, int]):
    """The rows of chunks in a column of terms. A chunk that is asked for gets the next row.

    Attributes:
        new: Numbers of the terms of the chunks that came since the column was filled.
        sizes: How many terms each of these chunks has.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._next_row = 0
        self.new = array("I")
        self.sizes = array("q")

    def __missing__(self, chunk: str) -> int:
        terms = chunk_terms(chunk)
        row = self._next_row
        self._next_row += 1
        self.new.extend(map(self._vocabulary.given, terms))
        self.sizes.append(len(terms))
        if len(chunk) <= MAX_CHUNK_CHARS:
            self[chunk] = row
        return row

    def fill(self, column: Ragged) -> None:
        """Put the rows of new chunks after the others."""
        if self.sizes:
            column.extend(np.array(self.new, np.uint32), np.array(self.sizes, np.int64))
            self.new = array("I")
            self.sizes = array("q")


class TermReader:
    """Reads items as sequences of numbers of a vocabulary.

    Most chunks of any text have been seen before. Their terms are remembered until the reader is
    told to forget them.

    Args:
        analyze: Splits a text into terms.
    """

    def __init__(self, vocabulary: Vocabulary, analyze: Callable[[str], list[str]]) -> None:
        self._vocabulary = vocabulary
        self._analyze = analyze
        self.forget()

    def forget(self) -> None:
        """Forget all chunks."""
        self._chunks = _Chunks(self._vocabulary)
        self._terms = Ragged()

    def read(self, items: Sequence[Item]) -> tuple[UInt32s, Int64s]:
        """Return the terms of items, one item after another, and how many each item has.

        The terms of an item's key that its text lacks come before those of the text.
        """
        texts = [item.text for item in items]
        values, sizes = self._read_chunks(texts) if self.is_ours else self._read_texts(texts)
        if all(item.key is None for item in items):
            return values, sizes
        parts = []
        for item, own in zip(items, np.split(values, np.cumsum(sizes)[:-1]), strict=True):
            about = [] if item.key is None else self._given(key_words(item.key))
            known = frozenset(own.tolist())
            parts.append(np.array([each for each in about if each not in known], np.uint32))
            parts.append(own)
        lengths = np.array(list(map(len, parts)), np.int64)
        return np.concatenate(parts), lengths.reshape(-1, 2).sum(axis=1)

    @property
    def is_ours(self) -> bool:
        """Return whether texts are analysed by `kaosmem.language.analysis`, chunk by chunk."""
        return self._analyze is analyze

    def _given(self, text: str) -> list[int]:
        return list(map(self._vocabulary.given, self._analyze(text)))

    def _read_texts(self, texts: Sequence[str]) -> tuple[UInt32s, Int64s]:
        numbers = list(map(self._given, texts))
        values = np.fromiter(chain.from_iterable(numbers), np.uint32)
        return values, np.array(list(map(len, numbers)), np.int64)

    def _read_chunks(self, texts: Sequence[str]) -> tuple[UInt32s, Int64s]:
        if len(self._chunks) > _MAX_CHUNKS:
            self.forget()
        row_of = self._chunks.__getitem__
        rows = array("I")
        ends = array("q", [0])
        for text in texts:
            rows.extend(map(row_of, words_of(text)))
            ends.append(len(rows))
        self._chunks.fill(self._terms)
        parts = []
        before = np.zeros(len(rows) + 1, np.int64)
        for start in range(0, len(rows), _GATHERED_AT_ONCE):
            of_part = np.array(rows[start : start + _GATHERED_AT_ONCE], np.int64)
            values, sizes = self._terms.gathered(of_part)
            parts.append(values)
            before[start + 1 : start + 1 + len(sizes)] = sizes
        np.cumsum(before, out=before)
        values = np.concatenate([np.empty(0, np.uint32), *parts])
        return values, np.diff(before[np.array(ends, np.int64)])
