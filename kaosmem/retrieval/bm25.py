"""The BM25 rankers: our incremental index, and the rank_bm25 package as its reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_name
from kaosmem.retrieval.analysis import analyze

if TYPE_CHECKING:
    from kaosmem.retrieval.bm25_index import BM25Index
    from kaosmem.retrieval.rank_bm25_index import RankBM25Index
    from kaosmem.retrieval.ranker import TokensOf


@dataclass(frozen=True)
class BM25Ranker:
    """Ranks by BM25 with an index that is updated, not rebuilt: the cost of a change does not grow with the section.

    idf: "lucene" is never negative and ranks better. "okapi" gives exactly the scores of `rank_bm25.BM25Okapi`.
    k1: above 0; a larger value lets repetitions of a term count for longer.
    b: 0 to 1; a larger value gives long texts less weight.
    epsilon: share of the average idf that "okapi" gives to terms in more than half of the entries.
    analyze: splits a text into terms. An index with another function than ours cannot be stored.
    Raises InvalidArgumentError for a parameter out of range.
    Source: Robertson & Zaragoza 2009; the idf of Lucene's BM25Similarity.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> spec = SectionSpec("documents", ranker=BM25Ranker(), retrieval_threshold=0)
    >>> memory = SessionMemory.test_mode(sections=(spec,))
    >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
    >>> [item.text for item, score in memory.search("rent")]
    ['The rent is 900 euros.']
    """

    idf: Literal["lucene", "okapi"] = "lucene"
    _: KW_ONLY
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    analyze: Callable[[str], list[str]] = analyze

    def __post_init__(self) -> None:
        if self.idf not in ("lucene", "okapi"):
            raise InvalidArgumentError(f"idf {shown_name(self.idf)} is not known; use 'lucene' or 'okapi'")
        _check_parameters(self.k1, self.b, self.epsilon)

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters."""
        return f"bm25-{self.idf}"

    def index(self, *, tokens_of: TokensOf | None = None) -> BM25Index:
        """Return a new, empty index."""
        from kaosmem.retrieval.bm25_index import BM25Index

        return BM25Index(
            idf=self.idf, k1=self.k1, b=self.b, epsilon=self.epsilon, analyze=self.analyze, tokens_of=tokens_of
        )

    def load(self, data: bytes | memoryview, *, tokens_of: TokensOf | None = None) -> BM25Index:
        """Return the index that was dumped. Raises CorruptionError."""
        index = self.index(tokens_of=tokens_of)
        index.load(data)
        return index


@dataclass(frozen=True)
class RankBM25Ranker:
    """Ranks with the rank_bm25 package: the reference for `BM25Ranker("okapi")`, rebuilt after every change.

    Parameters as there.
    """

    _: KW_ONLY
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    analyze: Callable[[str], list[str]] = analyze

    def __post_init__(self) -> None:
        _check_parameters(self.k1, self.b, self.epsilon)

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters."""
        return "rank-bm25"

    def index(self) -> RankBM25Index:
        """Return a new, empty index."""
        from kaosmem.retrieval.rank_bm25_index import RankBM25Index

        return RankBM25Index(k1=self.k1, b=self.b, epsilon=self.epsilon, analyze=self.analyze)


def _check_parameters(k1: float, b: float, epsilon: float) -> None:
    if not 0 < k1 < math.inf:
        raise InvalidArgumentError(f"k1 is {k1!r}; give a number above 0, such as 1.5")
    if not 0 <= b <= 1:
        raise InvalidArgumentError(f"b is {b!r}; give a number from 0 to 1, such as 0.75")
    if not 0 <= epsilon < math.inf:
        raise InvalidArgumentError(f"epsilon is {epsilon!r}; give a number from 0 up, such as 0.25")
