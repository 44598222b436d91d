"""The package rank_bm25 behind the protocol of an index: the reference for our own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from rank_bm25 import BM25Okapi

from kaosmem.language.keys import key_words
from kaosmem.retrieval.ranker import check_new, unknown_ordinal
from kaosmem.retrieval.scores import Scored, best

if TYPE_CHECKING:
    from kaosmem.language.analysis import Analyzer
    from kaosmem.types.items import Item


def item_terms(item: Item, analyze: Analyzer) -> list[str]:
    """Return the terms of an item: those of its key that its text lacks, then those of its text."""
    terms = analyze(item.text)
    if item.key is None:
        return terms
    known = frozenset(terms)
    about = [term for term in analyze(key_words(item.key)) if term not in known]
    return about + terms


class RankBM25Index:
    """Items by ordinal, ranked by `rank_bm25.BM25Okapi`, which is built anew after changes."""

    def __init__(
        self,
        *,
        k1: float,
        b: float,
        epsilon: float,
        analyze: Analyzer,
    ) -> None:
        self._parameters = {"k1": k1, "b": b, "epsilon": epsilon}
        self._analyze = analyze
        self._terms: dict[int, list[str]] = {}
        self._model: Any = None

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        for ordinal, item in check_new(entries, self._terms):
            self._terms[ordinal] = item_terms(item, self._analyze)
        self._model = None

    def update(self, ordinal: int, item: Item) -> None:
        self.remove(ordinal)
        self.add([(ordinal, item)])

    def remove(self, ordinal: int) -> None:
        if ordinal not in self._terms:
            raise unknown_ordinal(ordinal)
        del self._terms[ordinal]
        self._model = None

    def rank(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Scored:
        scores = self.scores(query)
        if among is not None:
            scores = {ordinal: scores[ordinal] for ordinal in among if ordinal in scores}
        ordinals = np.array(list(scores), np.int64)
        values = np.array(list(scores.values()))
        return best(ordinals, values, limit)

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of every entry by ordinal, not rounded."""
        # BM25Okapi divides by the number of entries and of terms.
        if not any(self._terms.values()):
            return dict.fromkeys(self._terms, 0.0)
        ordinals = sorted(self._terms)
        if self._model is None:
            self._model = BM25Okapi([self._terms[each] for each in ordinals], **self._parameters)
        # With b = 1 an entry without terms scores 0 / 0.
        with np.errstate(invalid="ignore"):
            found = np.nan_to_num(self._model.get_scores(self._analyze(query)))
        return dict(zip(ordinals, found.tolist(), strict=True))
