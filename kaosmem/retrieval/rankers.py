"""The rankers of kaosmem: BM25, a linear model over signals, embeddings, and graphs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kaosmem.arguments import check_count, check_instance
from kaosmem.errors import InvalidArgumentError
from kaosmem.language.analysis import Analyzer, analyze
from kaosmem.names import shown_number
from kaosmem.retrieval.ranker import Ranker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kaosmem.retrieval.dense_index import DenseIndex
    from kaosmem.retrieval.graph_index import GraphIndex
    from kaosmem.retrieval.linear_index import LinearIndex
    from kaosmem.retrieval.rank_bm25_index import RankBM25Index
    from kaosmem.retrieval.text_index import TextIndex


@dataclass(frozen=True)
class Weights:
    """Three linear models over signals by name; a signal that is not named weighs nothing.

    Attributes:
        conversation: Where items have several roles.
        documents: Elsewhere, for a query that names no source.
        named_documents: For a query that names a source.
    """

    conversation: Mapping[str, float]
    documents: Mapping[str, float]
    named_documents: Mapping[str, float]

    def to_json(self) -> str:
        """Return the weights as a JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Weights:
        """Return the weights that `to_json` made a text of. Raises InvalidArgumentError."""
        try:
            models = {
                name: {signal: float(weight) for signal, weight in model.items()}
                for name, model in json.loads(text).items()
            }
            return cls(**models)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(
                f"not the weights of a ranker: {type(error).__name__}; give the JSON that "
                "`Weights.to_json` makes"
            ) from None


@cache
def default_weights(file: str = "weights.json") -> Weights:
    """Return the weights that come with kaosmem: by default those without embeddings."""
    return Weights.from_json(files("kaosmem.retrieval").joinpath(file).read_text(encoding="utf-8"))


@runtime_checkable
class Embedder(Protocol):
    """Embeds texts, without a network and in the same way every time; hashable.

    A text's vector depends on no other text that is given with it.
    """

    def __hash__(self) -> int:
        """Return a name that no other embedder of this process has."""

    @property
    def name(self) -> str:
        """Return a name that differs for each embedder and version."""

    @property
    def dimensions(self) -> int:
        """Return the size of a vector, at most 1,024."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts to rank: shape (len(texts), dimensions).

        Each has length 1, or 0 for a text without meaning.
        """

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, in the same shape.

        Some models embed questions differently.
        """


@dataclass(frozen=True)
class BM25Ranker:
    """Ranks by BM25 with an index that is updated, not rebuilt.

    The cost of a change does not grow with the section. Scores are whole numbers until they are
    returned: they are the same on every machine, and within a thousandth of the textbook's.
    Source: Robertson & Zaragoza 2009; the idf of Lucene's BM25Similarity, which is never negative.

    Args:
        k1: From 0.000001 to 1,000. With a larger value, repetitions of a term count for longer.
        b: 0 to 1. With a larger value, long texts have less weight.
        analyze: Splits a text into terms. An index with a function of the caller's cannot be
            stored.

    Raises:
        InvalidArgumentError: If a parameter is out of range.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> spec = SectionSpec("documents", ranker=BM25Ranker(), retrieval_threshold=0)
    >>> memory = SessionMemory.test_mode(sections=(spec,))
    >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
    >>> [item.text for item, score in memory.search("rent")]
    ['The rent is 900 euros.']
    """

    name = "bm25"
    _: KW_ONLY
    k1: float = 1.5
    b: float = 0.75
    analyze: Analyzer = analyze

    def __post_init__(self) -> None:
        _check_parameters(self.k1, self.b, 0.0)
        if not 1e-6 <= self.k1 <= 1_000:
            raise InvalidArgumentError(
                f"k1 is {shown_number(self.k1)}; give a number from 0.000001 to 1,000, such as 1.5"
            )

    def index(self) -> TextIndex:
        from kaosmem.retrieval.text_index import TextIndex

        return TextIndex(k1=self.k1, b=self.b, analyze=self.analyze)

    def load(self, data: bytes | memoryview) -> TextIndex:
        return self.index().load(data)


@dataclass(frozen=True)
class RankBM25Ranker:
    """Ranks with the package rank_bm25, whose model is rebuilt after every change.

    It is the reference that `BM25Ranker` is compared with. Its idf is negative for terms in more
    than half of the entries.

    Args:
        k1: As for `BM25Ranker`.
        b: As for `BM25Ranker`.
        analyze: As for `BM25Ranker`.
        epsilon: Share of the average idf that takes the place of a negative idf.
    """

    name = "rank-bm25"
    _: KW_ONLY
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    analyze: Analyzer = analyze

    def __post_init__(self) -> None:
        _check_parameters(self.k1, self.b, self.epsilon)

    def index(self) -> RankBM25Index:
        from kaosmem.retrieval.rank_bm25_index import RankBM25Index

        return RankBM25Index(k1=self.k1, b=self.b, epsilon=self.epsilon, analyze=self.analyze)


def _check_parameters(
    k1: float,
    b: float,
    epsilon: float,
) -> None:
    if not 0 < k1 < math.inf:
        raise InvalidArgumentError(f"k1 is {shown_number(k1)}; give a number above 0, such as 1.5")
    if not 0 <= b <= 1:
        raise InvalidArgumentError(
            f"b is {shown_number(b)}; give a number from 0 to 1, such as 0.75"
        )
    if not 0 <= epsilon < math.inf:
        raise InvalidArgumentError(
            f"epsilon is {shown_number(epsilon)}; give a number from 0 up, such as 0.25"
        )


@dataclass(frozen=True)
class LinearRanker:
    """Ranks by a weighted sum of signals. This is the default ranker.

    BM25 and the match of the whole source choose a few hundred candidates. In a conversation, the
    newest standing rules ("from now on ...") join them. The other signals (phrases, neighbours,
    relevance feedback and more) look at these candidates alone. The weights obey the axioms of
    retrieval: all else equal, no entry loses by one more match, a rarer term, terms side by side in
        order, an exact identifier or a quoted phrase.

    A score is above 0, and the best candidate of a query has 100. A candidate with 50 is half as
    likely to be an answer, by the model's reckoning. Scores of different queries or sections are
    not comparable.

    Args:
        weights: `benchmarks/train_ranker.py` learns them. The default is the weights that come with
            kaosmem.
        analyze: As for `BM25Ranker`.

    Raises:
        InvalidArgumentError: If the weights are of another kind.

    >>> from kaosmem import SectionSpec, SessionMemory
    >>> spec = SectionSpec("documents", ranker=LinearRanker(), retrieval_threshold=0)
    >>> memory = SessionMemory.test_mode(sections=(spec,))
    >>> added = memory.add_many("documents", ["Notice is thirty days.", "The rent is 900 euros."])
    >>> memory.search("How high is the rent?")[0][1]
    100.0
    """

    name = "linear"
    _: KW_ONLY
    weights: Weights | None = None
    analyze: Analyzer = analyze

    def __post_init__(self) -> None:
        if self.weights is not None:
            check_instance(self.weights, Weights, "weights")

    def index(self) -> LinearIndex:
        from kaosmem.retrieval.linear_index import LinearIndex

        return LinearIndex(weights=self.weights or default_weights(), analyze=self.analyze)

    def load(self, data: bytes | memoryview) -> LinearIndex:
        return self.index().load(data)


def _default_embedder() -> Embedder:
    from kaosmem.retrieval.embedders import MiniLMEmbedder

    return MiniLMEmbedder()


@dataclass(frozen=True)
class DenseRanker:
    """Ranks as `LinearRanker` does, with similarity of meaning as further signals.

    An entry with a similar meaning is a candidate even without a word of the query. Each text is
    embedded once, before the first ranking that needs it, or by `memory.admin.prepare`.

    Args:
        embedder: The default is `MiniLMEmbedder`, best in English. `WordVectorEmbedder` takes a
            thousandth of its time.
        weights: As for `LinearRanker`. The default is weights learned with `MiniLMEmbedder`.

    Raises:
        MissingExtraError: If the extra `dense` is not installed.
        InvalidArgumentError: If the embedder or the weights are of another kind.
    """

    _: KW_ONLY
    embedder: Embedder = field(default_factory=_default_embedder)
    weights: Weights | None = None
    analyze: Analyzer = analyze

    def __post_init__(self) -> None:
        check_instance(self.embedder, Embedder, "embedder")
        if self.weights is not None:
            check_instance(self.weights, Weights, "weights")

    @property
    def name(self) -> str:
        return f"dense-{self.embedder.name}"

    def index(self) -> DenseIndex:
        from kaosmem.retrieval.dense_index import DenseIndex

        return DenseIndex(
            embedder=self.embedder,
            weights=self.weights or default_weights("weights_dense.json"),
            analyze=self.analyze,
        )

    def load(self, data: bytes | memoryview) -> DenseIndex:
        """Return the index that was dumped by a ranker with the same embedder.

        Raises CorruptionError.
        """
        return self.index().load(data)


@dataclass(frozen=True)
class GraphRanker:
    """Ranks lines by their words, and higher if they are near an entity that the query names.

    A line near a named entity scores 3 * best / (1 + steps) more than by `words`. `best` is the
    score by `words` of the best line, or 1 if there is none. So a query that names nothing ranks as
    `words` does. A relationship is as many steps away as its two ends are hops from the nearest
    named entities. An entity is 2 * hops + 1/2 steps away. The order is: relationships between
    named entities (0), these entities (1/2), their relationships (1), relationships between their
    neighbours (2), the neighbours (2 1/2), and so on.

    Args:
        depth: Hops within which all relationships are walked, 1 or more. Further hops follow,
            nearest first, until 512 lines are near. They fill room that newer lines without any
            connection would take otherwise.
        hub: An entity with more neighbours is walked through only if it is named. The other
            relations of a country or a year say little about the question.
        max_relationships: Maximum number of relationships that are walked. Each hop before `depth`
            takes at most half of the rest. If there are more, relationships between entities
            already reached come first, then the best by words, then the newest.
        words: Ranks all lines.

    Raises:
        InvalidArgumentError: If a parameter is out of range.
    """

    depth: int = 2
    _: KW_ONLY
    hub: int = 100
    max_relationships: int = 1_000
    words: Ranker = field(default_factory=BM25Ranker)

    def __post_init__(self) -> None:
        for name in ("depth", "hub", "max_relationships"):
            check_count(getattr(self, name), name, least=1)

    @property
    def name(self) -> str:
        return f"graph-{self.depth}-{self.words.name}"

    def index(self) -> GraphIndex:
        from kaosmem.retrieval.graph_index import GraphIndex

        return GraphIndex(
            depth=self.depth,
            hub=self.hub,
            max_relationships=self.max_relationships,
            words=self.words.index(),
        )


RANKERS: Mapping[str, Callable[[], Ranker]] = MappingProxyType(
    {"linear": LinearRanker, "bm25": BM25Ranker, "dense": DenseRanker}
)
"""The rankers that the command offers, each by its name there."""
