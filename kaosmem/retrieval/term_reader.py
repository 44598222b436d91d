"""The numbers of the terms of items, each chunk between white space being analysed once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.language.analysis import MAX_CHUNK_CHARS, analyze, chunk_terms, words_of
from kaosmem.language.keys import key_words

if TYPE_CHECKING:
    from kaosmem.retrieval.arrays import Int64s, UInt32s
    from kaosmem.retrieval.vocabulary import Vocabulary
    from kaosmem.types.items import Item

_MAX_CHUNKS = 1 << 17


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

    def __init__(self, vocabulary: Vocabulary, analyze: Callable[[str], list[str]]) -> None:
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

    @property
    def is_ours(self) -> bool:
        """Return whether texts are analysed by `kaosmem.language.analysis`, chunk by chunk."""
        return self._analyze is analyze

    def _numbers(self, text: str) -> Iterable[int]:
        if self.is_ours:
            return chain.from_iterable(map(self._chunks.__getitem__, words_of(text)))
        return map(self._vocabulary.given, self._analyze(text))
