"""Counts of terms in a corpus, which can be added up: the frequencies that idfs need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.ranker import CollectionStatistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = 2
_MAX_WORD_BYTES = 200
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


@dataclass(frozen=True, slots=True, eq=False)
class TermCounts:
    """How many passages there are, with how many terms, and how many have each term.

    A term stands under eight bytes of the digest of its word. Counts of a change may be negative.
    Sums drop the terms that no passage has. A term takes 16 bytes.

    >>> counts = TermCounts.of([["rent", "euro"], ["rent"]])
    >>> counts.statistics(["rent", "euro", "notice"]).frequencies
    {'rent': 2, 'euro': 1, 'notice': 0}
    """

    passages: int = 0
    terms: int = 0
    digests: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(
        cls, added: Iterable[Sequence[str]], removed: Iterable[Sequence[str]] = ()
    ) -> TermCounts:
        """Return the counts of a change: the words of passages that came and that went."""
        counts: Counter[str] = Counter()
        passages = 0
        terms = 0
        for sign, texts in ((1, added), (-1, removed)):
            for text in texts:
                passages += sign
                terms += sign * len(text)
                for term in set(text):
                    counts[term] += sign
        digests = np.array(list(map(_digest, counts)), np.uint64)
        order = np.argsort(digests, kind="stable")
        frequencies = np.array(list(counts.values()), np.int64)
        return cls(passages, terms, digests[order], frequencies[order])

    @classmethod
    def sum(cls, parts: Iterable[TermCounts]) -> TermCounts:
        """Return the sum of counts."""
        listed = list(parts)
        if not listed:
            return cls()
        digests = np.concatenate([part.digests for part in listed])
        frequencies = np.concatenate([part.counts for part in listed])
        known, places = np.unique(digests, return_inverse=True)
        sums = np.zeros(len(known), np.int64)
        np.add.at(sums, places, frequencies)
        is_kept = sums > 0
        return cls(
            sum(part.passages for part in listed),
            sum(part.terms for part in listed),
            known[is_kept],
            sums[is_kept],
        )

    def frequencies(self, words: Iterable[str]) -> dict[str, int]:
        """Return the number of passages with each word."""
        listed = list(words)
        wanted = np.array(list(map(_digest, listed)), np.uint64)
        if not len(self.digests):
            return dict.fromkeys(listed, 0)
        places = np.minimum(self.digests.searchsorted(wanted), len(self.digests) - 1)
        counts = np.where(self.digests[places] == wanted, self.counts[places], 0)
        return dict(zip(listed, np.maximum(counts, 0).tolist(), strict=True))

    def statistics(self, terms: Iterable[str]) -> CollectionStatistics:
        """Return the figures of the corpus, with the frequencies of some terms."""
        words = {term: word_of(term) for term in terms}
        known = self.frequencies(words.values())
        frequencies = {term: known[word] for term, word in words.items()}
        return CollectionStatistics(max(0, self.passages), max(0, self.terms), frequencies)

    def dump(self) -> NDArray[np.int64]:
        """Return the counts as one array."""
        header = np.array([self.passages, self.terms], np.int64)
        return np.concatenate([header, self.digests.view(np.int64), self.counts])

    @classmethod
    def load(cls, data: NDArray[np.int64]) -> TermCounts:
        """Return the counts of a dump."""
        passages, terms = data[:_HEADER].tolist()
        digests, frequencies = np.split(data[_HEADER:], 2)
        return cls(passages, terms, digests.view(np.uint64), frequencies)


def word_of(term: str) -> str:
    """Return a term as a word of small ASCII letters, which no engine takes apart.

    Different terms have different words.

    >>> word_of("rent"), word_of("c++")
    ('rent', 'xgdclcl')
    """
    if term.isascii() and term.isalpha() and term.islower() and term[0] != "x":
        return term
    data = term.encode()
    if len(data) > _MAX_WORD_BYTES:
        data = blake2b(data).digest()
    return "x" + data.hex().translate(_LETTERS)


def _digest(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
