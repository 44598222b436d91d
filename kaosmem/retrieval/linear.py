"""The default ranker: BM25 chooses candidates, and a learned linear model over signals scores them."""

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
    """Ranks by a weighted sum of signals. This is the default ranker.

    BM25 and the match of the whole source choose a few hundred candidates. In a conversation, the newest standing rules
    ("from now on ...") join them. The other signals (phrases, neighbours, latent meaning and more) look at these
    candidates alone. The weights obey the axioms of retrieval: all else equal,
    no entry loses by one more match, a rarer term, terms side by side in order, an exact identifier or a quoted phrase.

    A score is above 0, and the best candidate of a query has 100. A candidate with 50 is half as likely to be an
    answer, by the model's reckoning. Scores of different queries or sections are not comparable.

    weights: see `kaosmem.evaluation.learn_weights`. The default is the weights that come with kaosmem.
    analyze: as for `BM25Ranker`.
    Raises InvalidArgumentError for any other kind of weights.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> spec = SectionSpec("documents", ranker=LinearRanker(), retrieval_threshold=0)
    >>> memory = SessionMemory.test_mode(sections=(spec,))
    >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
    >>> memory.search("How high is the rent?")[0][1]
    100.0
    """

    _: KW_ONLY
    weights: Weights | None = None
    analyze: Callable[[str], list[str]] = analyze

    def __post_init__(self) -> None:
        if self.weights is not None:
            check_instance(self.weights, Weights, "weights")

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters."""
        return "linear"

    def index(self, *, tokens_of: TokensOf | None = None) -> LinearIndex:
        """Return a new, empty index."""
        from kaosmem.retrieval.linear_index import LinearIndex

        return LinearIndex(weights=self.weights or default_weights(), analyze=self.analyze, tokens_of=tokens_of)

    def load(self, data: bytes | memoryview, *, tokens_of: TokensOf | None = None) -> LinearIndex:
        """Return the index that was dumped. Raises CorruptionError."""
        index = self.index(tokens_of=tokens_of)
        index.load(data)
        return index
