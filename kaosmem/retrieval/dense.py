"""A ranker by meaning as well as by words: the extra `dense`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from kaosmem.arguments import check_instance
from kaosmem.retrieval.analysis import analyze
from kaosmem.retrieval.embedder import Embedder
from kaosmem.retrieval.weights import Weights, default_weights

if TYPE_CHECKING:
    from kaosmem.retrieval.dense_index import DenseIndex
    from kaosmem.retrieval.ranker import TokensOf


_WEIGHTS = {"wordllama-l2-256": "weights_wordllama.json"}  # by embedder; others are like MiniLM, or have their own


@dataclass(frozen=True)
class DenseRanker:
    """Ranks as `LinearRanker` does, with similarity of meaning as further signals.

    An entry with a similar meaning is a candidate even without a word of the query. Each text is embedded once, before
    the first ranking that needs it, or by `SessionMemory.prepare`.
    embedder: the default is `MiniLMEmbedder`, best in English. `WordLlamaEmbedder` takes a fiftieth of its time.
    weights: as for `LinearRanker`. The default is weights learned with these two embedders; any other embedder uses
        those of `MiniLMEmbedder`.
    Raises MissingExtraError, and InvalidArgumentError for another kind of embedder or weights.
    """

    _: KW_ONLY
    embedder: Embedder | None = None
    weights: Weights | None = None
    analyze: Callable[[str], list[str]] = analyze

    def __post_init__(self) -> None:
        if self.embedder is None:
            from kaosmem.retrieval.minilm import MiniLMEmbedder

            object.__setattr__(self, "embedder", MiniLMEmbedder())
        check_instance(self.embedder, Embedder, "embedder")
        if self.weights is not None:
            check_instance(self.weights, Weights, "weights")

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters."""
        assert self.embedder is not None
        return f"dense-{self.embedder.name}"

    def index(self, *, tokens_of: TokensOf | None = None) -> DenseIndex:
        """Return a new, empty index."""
        from kaosmem.retrieval.dense_index import DenseIndex

        assert self.embedder is not None
        return DenseIndex(
            embedder=self.embedder,
            weights=self.weights or default_weights(_WEIGHTS.get(self.embedder.name, "weights_dense.json")),
            analyze=self.analyze,
            tokens_of=tokens_of,
        )

    def load(self, data: bytes | memoryview, *, tokens_of: TokensOf | None = None) -> DenseIndex:
        """Return the index that was dumped by a ranker with the same embedder. Raises CorruptionError."""
        index = self.index(tokens_of=tokens_of)
        index.load(data)
        return index
