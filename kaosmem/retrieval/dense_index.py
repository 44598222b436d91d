"""An index that adds the likeness of embeddings to the signals of `LinearIndex`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.errors import InvalidArgumentError
from kaosmem.language.keys import key_words
from kaosmem.memos import memoized
from kaosmem.retrieval.candidate_signals import (
    QueryMatches,
    SignalCandidates,
    Signals,
    place_in_source,
)
from kaosmem.retrieval.columns import GrowingArray
from kaosmem.retrieval.dumps import Columns, StoredColumns
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.query_terms import NO_SOURCE
from kaosmem.retrieval.scores import ONE, share_of_best
from kaosmem.retrieval.text_index import Embedded

if TYPE_CHECKING:
    from kaosmem.language.analysis import Analyzer
    from kaosmem.retrieval.columns import Float32s, Int8s, Int64s
    from kaosmem.retrieval.query_terms import QueryTerms
    from kaosmem.retrieval.rankers import Embedder, Weights
    from kaosmem.types.items import Item


MAX_DIMENSIONS = 1024
"""The sum of so many products of two bytes is exact in single precision, in any order."""
_MOST = 127
_BLOCK = 4096  # slots at a time are widened for a product, so that they stay in a processor's cache
_BATCH = 256  # texts embedded at a time
GRID = 1 << 20
"""Cosines are whole numbers of 1 / GRID."""
_LEAST_SPREAD = GRID // 50  # a smaller spread does not tell a few similar entries apart


def text_key(text: str) -> int:
    """Return a number of 8 bytes, never 0, that is the same for the same text in every process."""
    found = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found, "little", signed=True) or 1


def rounded(vectors: Float32s) -> Int8s:
    """Return vectors in whole numbers from -127 to 127, in almost the same directions."""
    most = np.abs(vectors).max(axis=1, keepdims=True)
    shares: Float32s = np.divide(vectors, most, out=np.zeros_like(vectors), where=most > 0)
    return np.rint(shares * _MOST).astype(np.int8)


def cosines(rows: Int8s, queries: Int8s) -> Int64s:
    """Return the cosine of each row with each query, 0 where one has no direction.

    The shape is (rows, queries), the unit 1 / GRID. All sums are of whole numbers: the same on
    every machine.
    """
    across = queries.T.astype(np.float32)
    squares = _squares(queries)
    found = np.zeros((len(rows), len(queries)), np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        products = (block.astype(np.float32) @ across).astype(np.float64)
        of_lengths = _squares(block)[:, None] * squares
        lengths = np.sqrt(of_lengths.astype(np.float64))
        shares = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
        found[start : start + _BLOCK] = np.rint(shares * GRID)
    return found


def _squares(rows: Int8s) -> Int64s:
    """Return the square of the length of each row."""
    wide = rows.astype(np.int32)
    found: Int64s = np.einsum("ij,ij->i", wide, wide).astype(np.int64)
    return found


def _embedded_text(item: Item) -> str:
    """Return an item's text, after the words of its key."""
    if item.key is not None:
        about = key_words(item.key)
        if about:
            return f"{about}: {item.text}"
    return item.text


class DenseIndex(LinearIndex):
    """Items by ordinal, each with the vector of its text, which is embedded once."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        weights: Weights,
        analyze: Analyzer,
    ) -> None:
        if not 1 <= embedder.dimensions <= MAX_DIMENSIONS:
            raise InvalidArgumentError(
                f"the embedder's vectors have {embedder.dimensions} dimensions; give one with 1 to "
                f"{MAX_DIMENSIONS}"
            )
        self._embedder = embedder
        super().__init__(weights=weights, analyze=analyze)
        self.is_quick = False  # a model is asked for each text
        self._kind = f"dense by {embedder.name}"

    def _clear(self, terms: Iterable[str] = ()) -> None:
        super()._clear(terms)
        self._digests = GrowingArray(np.int64)  # of texts, 0 for an empty slot
        self._rows = GrowingArray(np.int8, (self._embedder.dimensions,))

    def _embedded(self, items: Sequence[Item]) -> Embedded:
        """Return the vectors of new entries. A text that some entry has is not embedded again."""
        texts = [_embedded_text(item) for item in items]
        digests = list(map(text_key, texts))
        rows = self._known_rows(digests)
        by_digest = dict(zip(digests, texts, strict=True))
        missing = {digest: text for digest, text in by_digest.items() if digest not in rows}
        for start in range(0, len(missing), _BATCH):
            batch = list(missing)[start : start + _BATCH]
            vectors = self._embedder.embed([missing[each] for each in batch])
            new = _rows(vectors, self._embedder, len(batch))
            rows |= zip(batch, new, strict=True)
        found = np.array([rows[digest] for digest in digests], np.int8)
        return Embedded(np.array(digests, np.int64), found)

    def _known_rows(self, digests: Iterable[int]) -> dict[int, Int8s]:
        """Return the rows of those digests that some slot has."""
        held = self._digests.values
        wanted = np.array([*digests], np.int64)
        (slots,) = np.nonzero(np.isin(held, wanted))
        known = held[slots].tolist()
        return dict(zip(known, self._rows.values[slots], strict=True))

    def _append(
        self,
        ordinals: list[int],
        items: list[Item],
        embedded: Embedded | None,
    ) -> None:
        super()._append(ordinals, items, embedded)
        assert embedded is not None
        self._digests.extend(embedded.digests)
        self._rows.extend(embedded.rows)

    def _detach(self, slot: int) -> None:
        super()._detach(slot)
        self._digests.put(slot, 0)
        self._rows.put(slot, 0)

    def _frozen(self) -> Callable[[], Columns]:
        slots = self.slots.in_order()
        others = super()._frozen()
        digests = self._digests.values[slots]
        rows = self._rows.values[slots].reshape(-1)

        def columns() -> Columns:
            return {**others(), "digests": digests, "vectors": rows}

        return columns

    def _restore(self, columns: StoredColumns) -> None:
        super()._restore(columns)
        size = len(self.slots)
        dimensions = self._embedder.dimensions
        rows = columns.numbers("vectors", np.int8)
        self._rows.take_over(rows.reshape(size, dimensions))
        self._digests.take_over(columns.numbers("digests", np.int64))

    def _matched(self, asked: QueryTerms) -> QueryMatches:
        matches = super()._matched(asked)
        likeness = self._likeness(asked)
        likeness[matches.echoes.slots] = 0
        return replace(matches, likeness=likeness)

    def _likeness(self, asked: QueryTerms) -> Int64s:
        """Return the likeness of each slot to the query and its last clause.

        It is by how many spreads the cosine is above the average, in units of 1 / ONE.
        """
        likeness = np.zeros(self.size, np.int64)
        if not asked.text.strip():
            return likeness
        texts = tuple(dict.fromkeys((asked.text, asked.last)))
        found = cosines(self._rows.values, _query_rows(self._embedder, texts))
        used = self.slots.in_order()
        size = max(1, len(used))
        for column in (0, -1):  # of the query and of its clause, which may be the same
            of_text = found[:, column]
            rest = of_text - int(of_text[used].sum()) // size
            square = int((rest[used] * rest[used]).sum()) // size
            spread = max(isqrt(square), _LEAST_SPREAD)
            likeness += rest * ONE // (2 * spread)
        return likeness

    def _proposing(self, matches: QueryMatches) -> Int64s:
        likeness = np.maximum(0, matches.likeness) * self.slots.are_full
        most = max(ONE, int(likeness.max(initial=0)))
        return super()._proposing(matches) + 10 * share_of_best(likeness, most)

    def likenesses(self, candidates: SignalCandidates) -> Signals:
        likeness = candidates.matches.likeness
        own = likeness[candidates.slots]
        return {
            "likeness": own,
            "likeness_in_source": place_in_source(candidates.sources, own),
            "likeness_of_source": self._means_of_sources(likeness)[candidates.sources],
            "nearby_likeness": candidates.nearby(likeness, 1),
            "further_likeness": candidates.nearby(likeness, 2),
        }

    def _means_of_sources(self, values: Int64s) -> Int64s:
        """Return the mean of the values of each source, by number, 0 of no source."""
        numbers = self.sources.numbers
        sums = np.zeros(len(self.sources.names), np.int64)
        np.add.at(sums, numbers, values)
        sums[NO_SOURCE] = 0
        sizes = np.bincount(numbers, minlength=len(sums))
        return sums // np.maximum(1, sizes)


@memoized(32)
def _query_rows(embedder: Embedder, texts: tuple[str, ...]) -> Int8s:
    """Return the rows of a query's texts, embedded once for all sections."""
    return _rows(embedder.embed_queries(texts), embedder, len(texts))


def _rows(
    vectors: Float32s,
    embedder: Embedder,
    size: int,
) -> Int8s:
    wanted = (size, embedder.dimensions)
    if vectors.shape != wanted or not np.isfinite(vectors).all():
        raise InvalidArgumentError(
            f"the embedder {embedder.name!r} gave an array of shape {vectors.shape} for {size} "
            f"texts; return finite numbers of shape {wanted}"
        )
    return rounded(vectors)
