"""An index that adds embeddings to the signals of `LinearIndex`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.errors import InvalidArgumentError
from kaosmem.language.keys import key_words
from kaosmem.memos import register_memo
from kaosmem.retrieval.columns import Columns, StoredColumns
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.ranker import check_new
from kaosmem.retrieval.scores import Chosen, QueryScores, QueryTerms
from kaosmem.retrieval.signals import place_in_source
from kaosmem.retrieval.source_matcher import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.retrieval.rankers import Embedder, Weights
    from kaosmem.types.items import Item


MAX_DIMENSIONS = 1024
"""The sum of so many products of two bytes is exact in single precision, in any order."""
_MOST = 127
_BLOCK = 4096  # slots at a time are widened for a product, so that they stay in a processor's cache
_NO_DIGESTS = np.empty(0, np.int64)


class Vectors:
    """A row of whole numbers from -127 to 127 for each slot, found by the digest of its text.

    digests, rows: of the first slots, shapes (n,) and (n, dimensions); of an empty slot both are 0.
    """

    def __init__(
        self,
        dimensions: int,
        digests: NDArray[np.int64] = _NO_DIGESTS,
        rows: NDArray[np.int8] | None = None,
    ) -> None:
        self._digests = array("q", digests.tobytes())
        self._rows = np.zeros((0, dimensions), np.int8) if rows is None else rows
        self._squares = array("q", _squares(self._rows).tobytes())

    @property
    def used(self) -> NDArray[np.bool_]:
        """Return of each slot whether it has an entry."""
        used: NDArray[np.bool_] = np.frombuffer(self._digests, np.int64) != 0
        return used

    def append(self, digest: int, row: NDArray[np.int8]) -> None:
        """Put a row into the next slot."""
        slot = len(self._digests)
        if slot == len(self._rows):
            grown = np.zeros((slot + slot // 4 + 64, self._rows.shape[1]), np.int8)
            grown[:slot] = self._rows
            self._rows = grown
        self._rows[slot] = row
        self._digests.append(digest)
        self._squares.append(int(_squares(row[None])[0]))

    def clear(self, slot: int) -> None:
        """Forget the row of an entry that is gone."""
        if not self._rows.flags.owndata:
            self._rows = self._rows.copy()  # and keep no bytes of a dump alive
        self._rows[slot] = 0
        self._digests[slot] = self._squares[slot] = 0

    def found(self, digests: Iterable[int]) -> dict[int, NDArray[np.int8]]:
        """Return the rows of those digests that some slot has."""
        wanted = np.array(sorted(digests), np.int64)
        held = np.frombuffer(self._digests, np.int64)
        if not len(wanted):
            return {}
        places = np.minimum(np.searchsorted(wanted, held), len(wanted) - 1)
        slots = np.flatnonzero(wanted[places] == held)
        return dict(zip(held[slots].tolist(), self._rows[slots], strict=True))

    def cosines(self, queries: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return the cosine of each slot with the row of each query, 0 where one has no direction.

        Of shape (slots, len(queries)). All sums are of whole numbers: the same on every machine.
        """
        size = len(self._digests)
        across = queries.T.astype(np.float32)
        products = np.empty((size, len(queries)), np.float32)
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            np.matmul(self._rows[start:stop].astype(np.float32), across, out=products[start:stop])
        squares = np.frombuffer(self._squares, np.int64)[:, None] * _squares(queries)
        cosines: NDArray[np.float64] = np.divide(
            products, np.sqrt(squares), out=np.zeros(products.shape), where=squares > 0
        )
        return cosines

    def frozen(self) -> Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int8]]]:
        """Return a function that gives the digests and rows of some slots as they are now."""
        return partial(
            _picked, np.array(self._digests, np.int64), self._rows[: len(self._digests)].copy()
        )


def text_key(text: str) -> int:
    """Return a number of 8 bytes, never 0, that is the same for the same text in every process."""
    found = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found, "little", signed=True) or 1


def rounded(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return vectors in whole numbers from -127 to 127, in almost the same directions."""
    most = np.abs(vectors).max(axis=1, keepdims=True)
    shares: NDArray[np.float32] = np.divide(
        vectors, most, out=np.zeros_like(vectors), where=most > 0
    )
    return np.rint(shares * _MOST).astype(np.int8)


def _squares(rows: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the square of the length of each row."""
    squares = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.int32)
        squares[start : start + _BLOCK] = np.einsum("ij,ij->i", block, block)
    return squares


def _picked(
    digests: NDArray[np.int64], rows: NDArray[np.int8], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    return digests[slots], rows[slots]


def _embedded_text(item: Item) -> str:
    """Return an item's text, after the words of its key."""
    about = key_words(item.key) if item.key is not None else ""
    return f"{about}: {item.text}" if about else item.text


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
                f"the embedder's vectors have {embedder.dimensions} dimensions; give one with 1 to "
                f"{MAX_DIMENSIONS}"
            )
        super().__init__(weights=weights, analyze=analyze, tokens_of=tokens_of)
        self._kind = f"dense by {embedder.name}"
        self._embedder = embedder
        self._vectors = Vectors(embedder.dimensions)
        self._ready: dict[int, NDArray[np.int8]] = {}  # rows of the entries being added, by digest

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item), embedded before anything is changed."""
        new = check_new(entries, self._slots)
        with self._embedded([_embedded_text(item) for _, item in new]):
            super().add(new)

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item in an entry's place, embedded only if its text is new.

        Raises KeyError.
        """
        self._slots.find(ordinal)
        with self._embedded([_embedded_text(item)]):
            super().update(ordinal, item)

    @contextmanager
    def _embedded(self, texts: Sequence[str]) -> Iterator[None]:
        """Have the rows of texts at hand meanwhile."""
        missing = {text_key(text): text for text in texts}
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
        key = text_key(_embedded_text(item))
        self._vectors.append(key, self._ready[key])

    def _detach(self, slot: int) -> None:
        self._vectors.clear(slot)
        super()._detach(slot)

    def _frozen(self) -> Callable[[], Columns]:
        slots = self._slots.in_order()
        others = super()._frozen()
        vectors = self._vectors.frozen()

        def columns() -> Columns:
            digests, rows = vectors(slots)
            return {**others(), "digests": digests, "vectors": rows.reshape(-1).view(np.uint8)}

        return columns

    def _rearrange(self, slots: NDArray[np.int64]) -> None:
        super()._rearrange(slots)
        self._vectors = Vectors(self._embedder.dimensions, *self._vectors.frozen()(slots))

    def _restore(self, columns: StoredColumns) -> None:
        super()._restore(columns)
        size = len(self._slots)
        dimensions = self._embedder.dimensions
        rows = (
            columns.numbers("vectors", np.uint8, size=size * dimensions)
            .view(np.int8)
            .reshape(size, dimensions)
        )
        self._vectors = Vectors(dimensions, columns.numbers("digests", np.int64, size=size), rows)

    def _scores(self, asked: QueryTerms) -> QueryScores:
        found = super()._scores(asked)
        return _DenseScores(**vars(found), likeness=self._likeness(asked))

    def _likeness(self, asked: QueryTerms) -> NDArray[np.float64]:
        """Return the likeness of each slot to the query and its last clause.

        The unit is a standard deviation above the average.
        """
        if not asked.text.strip():
            return np.zeros(len(self._slots))
        texts = tuple(dict.fromkeys((asked.text, asked.last)))
        cosines = self._vectors.cosines(_query_rows(self._embedder, texts))
        # On a grid, sums are exact, in whichever slots the entries are.
        grid = np.rint(cosines * (1 << 20)).astype(np.int64)
        used = np.flatnonzero(self._vectors.used)
        size = max(1, len(used))
        mean = grid[used].sum(axis=0) / size
        squares = (grid[used] * grid[used]).sum(axis=0) / size
        spread = np.sqrt(np.maximum(0.0, squares - mean * mean))
        by_text = (grid - mean) / np.maximum(spread, _LEAST_SPREAD * (1 << 20))
        # One column, or two: their sum has one order.
        likeness: NDArray[np.float64] = (by_text[:, 0] + by_text[:, -1]) / 2
        return likeness

    def _signals(self, scores: QueryScores, chosen: Chosen) -> dict[str, NDArray[np.float64]]:
        assert isinstance(scores, _DenseScores)
        likeness = scores.likeness
        near = chosen.near

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
            f"the embedder {embedder.name!r} gave an array of shape {vectors.shape} for {size} "
            "texts; "
            f"return finite numbers of shape {wanted}"
        )
    return rounded(vectors)


def _mean_by(numbers: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the values of each source, by number, 0 of no source."""
    # As for the cosines: on a grid, sums are exact.
    sums = np.bincount(numbers, np.rint(values * (1 << 20)))
    sizes = np.bincount(numbers)
    means: NDArray[np.float64] = sums / np.maximum(1, sizes) / (1 << 20)
    means[NONE] = 0.0
    return means


def _of(values: NDArray[np.float64], slots: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(slots >= 0, values[slots], 0.0)
