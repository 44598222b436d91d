"""The default ranker: BM25 proposes, and a learned linear model over a few signals decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from kaosmem.arguments import check_instance
from kaosmem.retrieval.analysis import analyze
from kaosmem.retrieval.weights import Weights, default_weights

if TYPE_CHECKING:
    from kaosmem.retrieval.linear_index import LinearIndex
    from kaosmem.retrieval.ranker import TokensOf


@dataclass(frozen=True)
class LinearRanker:
    """Ranks by signals, each weighed and added up: an entry's score is e to the power of the sum.

    BM25 and the match of the whole source propose a few hundred entries; phrases, neighbours, what the entries say in
    other words and the rest of the signals look at these alone, so that a query costs little more than by BM25.
    weights: of the signals, see `kaosmem.evaluation.learn_weights`; None is those that come with kaosmem.
    analyze: as of `BM25Ranker`.
    Raises InvalidArgumentError for what are no weights.
    """

    _: KW_ONLY
    weights: Weights | None = None
    analyze: Callable[[str], list[str]] = analyze

    def __post_init__(self) -> None:
        if self.weights is not None:
            check_instance(self.weights, Weights, "weights")

    @property
    def name(self) -> str:
        """Return what ranks and how."""
        return "linear"

    def index(self, *, tokens_of: TokensOf | None = None) -> LinearIndex:
        """Return a new, empty index."""
        from kaosmem.retrieval.linear_index import LinearIndex

        return LinearIndex(weights=self.weights or default_weights(), analyze=self.analyze, tokens_of=tokens_of)

    def load(self, data: bytes | memoryview, *, tokens_of: TokensOf | None = None) -> LinearIndex:
        """Return the index that was dumped. Raises UnusableDumpError."""
        index = self.index(tokens_of=tokens_of)
        index.load(data)
        return index
