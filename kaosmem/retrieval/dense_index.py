"""An index that adds embeddings to the signals of `LinearIndex`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.errors import InvalidArgumentError
from kaosmem.memos import register_memo
from kaosmem.retrieval.candidate_scores import place_in_source
from kaosmem.retrieval.columns import Columns, StoredColumns
from kaosmem.retrieval.labels import NONE
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.query_scores import Chosen, QueryScores, QueryTerms
from kaosmem.retrieval.ranker import check_new
from kaosmem.retrieval.vectors import MAX_DIMENSIONS, Vectors, digest, rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.embedder import Embedder
    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.retrieval.weights import Weights
    from kaosmem.types import Item

_BATCH = 256  # texts embedded at a time
_LEAST_SPREAD = 0.02  # of cosines: a smaller spread does not tell a few similar entries apart


class DenseIndex(LinearIndex):
    """Items by ordinal, each with the vector of its text, which is embedded once."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        weights: Weights,
        analyze: Callable[[str], list[str]],
        tokens_of: TokensOf | None = None,
    ) -> None:
        if not 1 <= embedder.dimensions <= MAX_DIMENSIONS:
            raise InvalidArgumentError(
                f"the embedder's vectors have {embedder.dimensions} dimensions; give one with 1 to {MAX_DIMENSIONS}"
            )
        super().__init__(weights=weights, analyze=analyze, tokens_of=tokens_of)
        self._kind = f"dense by {embedder.name}"
        self._embedder = embedder
        self._vectors = Vectors(embedder.dimensions)
        self._ready: dict[int, NDArray[np.int8]] = {}  # rows of the entries being added, by digest

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item), embedded before anything is changed."""
        new = check_new(entries, self._slots)
        with self._embedded([item.text for _, item in new]):
            super().add(new)

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item in an entry's place, embedded only if its text is new. Raises KeyError."""
        self._slots.find(ordinal)
        with self._embedded([item.text]):
            super().update(ordinal, item)

    @contextmanager
    def _embedded(self, texts: Sequence[str]) -> Iterator[None]:
        """Have the rows of texts at hand meanwhile."""
        missing = {digest(text): text for text in texts}
        self._ready = self._vectors.found(missing)
        for known in self._ready:
            del missing[known]
        try:
            for start in range(0, len(missing), _BATCH):
                batch = list(missing)[start : start + _BATCH]
                vectors = self._embedder.embed([missing[each] for each in batch])
                self._ready |= zip(batch, _rows(vectors, self._embedder, len(batch)), strict=True)
            yield
        finally:
            self._ready = {}

    def _append(self, ordinal: int, item: Item, terms: list[str]) -> None:
        super()._append(ordinal, item, terms)
        key = digest(item.text)
        self._vectors.append(key, self._ready[key])

    def _detach(self, slot: int) -> None:
        self._vectors.clear(slot)
        super()._detach(slot)

    def _frozen(self) -> Callable[[], Columns]:
        slots, others, vectors = self._slots.in_order(), super()._frozen(), self._vectors.frozen()

        def columns() -> Columns:
            digests, rows = vectors(slots)
            return {**others(), "digests": digests, "vectors": rows.reshape(-1).view(np.uint8)}

        return columns

    def _rearrange(self, slots: NDArray[np.int64]) -> None:
        super()._rearrange(slots)
        self._vectors = Vectors(self._embedder.dimensions, *self._vectors.frozen()(slots))

    def _restore(self, columns: StoredColumns) -> None:
        super()._restore(columns)
        size, dimensions = len(self._slots), self._embedder.dimensions
        rows = columns.numbers("vectors", np.uint8, size=size * dimensions).view(np.int8).reshape(size, dimensions)
        self._vectors = Vectors(dimensions, columns.numbers("digests", np.int64, size=size), rows)

    def _scores(self, asked: QueryTerms) -> QueryScores:
        found = super()._scores(asked)
        return _DenseScores(**vars(found), likeness=self._likeness(asked))

    def _likeness(self, asked: QueryTerms) -> NDArray[np.float64]:
        """Return each slot's likeness to the query and its last clause, in standard deviations above the average."""
        if not asked.text.strip():
            return np.zeros(len(self._slots))
        texts = tuple(dict.fromkeys((asked.text, asked.last)))
        cosines = self._vectors.cosines(_query_rows(self._embedder, texts))
        # On a grid, sums are exact, in whichever slots the entries are.
        grid, used = np.rint(cosines * (1 << 20)).astype(np.int64), np.flatnonzero(self._vectors.used)
        size = max(1, len(used))
        mean = grid[used].sum(axis=0) / size
        spread = np.sqrt(np.maximum(0.0, (grid[used] ** 2).sum(axis=0) / size - mean**2))
        likeness: NDArray[np.float64] = ((grid - mean) / np.maximum(spread, _LEAST_SPREAD * (1 << 20))).mean(axis=1)
        return likeness

    def _signals(self, scores: QueryScores, chosen: Chosen) -> dict[str, NDArray[np.float64]]:
        assert isinstance(scores, _DenseScores)
        likeness, near = scores.likeness, chosen.near

        def beside(step: int) -> NDArray[np.float64]:
            return (_of(likeness, near[-step]) + _of(likeness, near[step])) / 2

        own = likeness[chosen.slots]
        return super()._signals(scores, chosen) | {
            "likeness": own,
            "likeness_in_source": place_in_source(chosen.numbers, own),
            "likeness_of_source": _mean_by(scores.numbers, likeness)[chosen.numbers],
            "nearby_likeness": beside(1),
            "further_likeness": beside(2),
        }


@dataclass(frozen=True)
class _DenseScores(QueryScores):
    """likeness: of all slots."""

    likeness: NDArray[np.float64]

    def proposed(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        most = max(1.0, float(self.likeness.max(initial=0.0)))
        return super().proposed(slots) + np.maximum(0.0, self.likeness[slots]) / most

    def contenders(self, limit: int) -> None:
        return None


@lru_cache(maxsize=32)
def _query_rows(embedder: Embedder, texts: tuple[str, ...]) -> NDArray[np.int8]:
    """Return the rows of a query's texts, embedded once for all sections."""
    return _rows(embedder.embed_queries(texts), embedder, len(texts))


register_memo(_query_rows.cache_clear)


def _rows(vectors: NDArray[np.float32], embedder: Embedder, size: int) -> NDArray[np.int8]:
    wanted = (size, embedder.dimensions)
    if vectors.shape != wanted or not np.isfinite(vectors).all():
        raise InvalidArgumentError(
            f"the embedder {embedder.name!r} gave an array of shape {vectors.shape} for {size} texts; "
            f"return finite numbers of shape {wanted}"
        )
    return rounded(vectors)


def _mean_by(numbers: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the values of each source, by number, 0 of no source."""
    # As for the cosines: on a grid, sums are exact.
    sums, sizes = np.bincount(numbers, np.rint(values * (1 << 20))), np.bincount(numbers)
    means: NDArray[np.float64] = sums / np.maximum(1, sizes) / (1 << 20)
    means[NONE] = 0.0
    return means


def _of(values: NDArray[np.float64], slots: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(slots >= 0, values[slots], 0.0)
