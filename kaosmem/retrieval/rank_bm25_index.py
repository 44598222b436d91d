"""The rank_bm25 package behind our `Index`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from rank_bm25 import BM25Okapi

from kaosmem.retrieval.ranker import check_new, unknown
from kaosmem.retrieval.selection import best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.types import Item


class RankBM25Index:
    """Items by ordinal, their texts ranked by `rank_bm25.BM25Okapi`, which is built anew when they have changed."""

    def __init__(self, *, k1: float, b: float, epsilon: float, analyze: Callable[[str], list[str]]) -> None:
        self._parameters = {"k1": k1, "b": b, "epsilon": epsilon}
        self._analyze = analyze
        self._terms: dict[int, list[str]] = {}
        self._model: Any = None

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._terms)

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item); all are refused if one ordinal is negative or taken."""
        self._terms |= {ordinal: self._analyze(item.text) for ordinal, item in check_new(entries, self._terms)}
        self._model = None

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item in an entry's place. Raises KeyError for an unknown ordinal."""
        if ordinal not in self._terms:
            raise unknown(ordinal)
        self._terms[ordinal] = self._analyze(item.text)
        self._model = None

    def remove(self, ordinal: int) -> None:
        """Remove an entry. Raises KeyError for an unknown ordinal."""
        if ordinal not in self._terms:
            raise unknown(ordinal)
        del self._terms[ordinal]
        self._model = None

    def rank(self, query: str, limit: int, *, among: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first, of all entries or of those `among` these ordinals."""
        scores = self.scores(query)
        if among is not None:
            scores = {ordinal: scores[ordinal] for ordinal in among if ordinal in scores}
        return best(np.array(list(scores), np.int64), np.array(list(scores.values())), limit)

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of every entry by ordinal, not rounded."""
        # BM25Okapi divides by the number of entries and of terms.
        if not any(self._terms.values()):
            return dict.fromkeys(self._terms, 0.0)
        if self._model is None:
            self._model = BM25Okapi(list(self._terms.values()), **self._parameters)
        # With b = 1 an entry without terms scores 0 / 0.
        with np.errstate(invalid="ignore"):
            scores: NDArray[np.float64] = np.nan_to_num(self._model.get_scores(self._analyze(query)))
        return dict(zip(self._terms, scores.tolist(), strict=True))
