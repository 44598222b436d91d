"""Counts of the words of a corpus, packed into an array: the frequencies that idfs need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.corpora.corpus import NAME, OF_ALL_WORDS, OF_PASSAGES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def count_words(counts: Counter[str], texts: Iterable[str]) -> None:
    """Count passages, each of which is its words with spaces between, as `words_of` returns them.

    >>> counts = Counter()
    >>> count_words(counts, ["rent euro rent", "rent"])
    >>> counts["rent"], counts[OF_PASSAGES], counts[OF_ALL_WORDS]
    (2, 2, 4)
    """
    for text in texts:
        words = text.split()
        counts.update({OF_PASSAGES, *words})
        counts[OF_ALL_WORDS] += len(words) - text.count(f" {NAME}")


def packed(counts: Counter[str]) -> NDArray[np.int64]:
    """Return the digests of the words, ascending, and then their counts. It holds no text.

    >>> unpacked(packed(Counter({"rent": 2})), ["rent", "notice"])
    {'rent': 2, 'notice': 0}
    """
    digests = _digests(counts)
    order = np.argsort(digests, kind="stable")
    return np.concatenate([digests[order], np.fromiter(counts.values(), np.int64)[order]])


def unpacked(array: NDArray[np.int64], words: Sequence[str]) -> dict[str, int]:
    """Return the counts of some words."""
    digests, counts = np.split(array, 2)
    if not len(digests):
        return {}
    wanted = _digests(words)
    places = digests.searchsorted(wanted)
    places = np.minimum(places, len(digests) - 1)
    found = np.where(digests[places] == wanted, counts[places], 0)
    return dict(zip(words, found.tolist(), strict=True))


def _digests(words: Iterable[str]) -> NDArray[np.int64]:
    digests = b"".join(blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(digests, "<i8").astype(np.int64)
