"""The ranker of graphs: entities named in the query bring their neighbourhood."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidArgumentError
from kaosmem.retrieval.bm25 import BM25Ranker
from kaosmem.retrieval.ranker import Ranker

if TYPE_CHECKING:
    from kaosmem.retrieval.graph_index import GraphIndex


@dataclass(frozen=True)
class GraphRanker:
    """Ranks lines by their words, and those about entities near the ones that the query names above them.

    A line's score is its score by `words` and, near a named entity, 3 * best / (1 + steps) more: `best` is what
    `words` gives the best line (1 if none), so that a query that names nothing ranks as `words` does. A relationship
    is as many steps away as its two ends are hops from the nearest named entities, an entity 2 * hops + 1/2: first
    come relationships between named entities (0), then these themselves (1/2), their relationships (1), those
    between their neighbours (2), the neighbours (2 1/2), and so on.

    depth: hops within which all relationships are walked, 1 or more. Further hops follow, nearest first, until 512
        lines are near. They fill room that newer lines without any connection would take otherwise.
    hub: an entity with more neighbours than this is walked through only if it is named: the other relations of a
        country or a year say little about the question.
    max_relationships: so many at most are walked in all, up to half of the rest in each hop before `depth`; of
        more, those between entities already reached, then those that the words rank first, then the newest.
    words: ranks all lines.
    Raises InvalidArgumentError for a parameter out of range.
    """

    depth: int = 2
    _: KW_ONLY
    hub: int = 100
    max_relationships: int = 1_000
    words: Ranker = field(default_factory=BM25Ranker)

    def __post_init__(self) -> None:
        for name in ("depth", "hub", "max_relationships"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(f"{name} is {value!r}; give a whole number from 1 up")

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters."""
        return f"graph-{self.depth}-{self.words.name}"

    def index(self) -> GraphIndex:
        """Return a new, empty index."""
        from kaosmem.retrieval.graph_index import GraphIndex

        return GraphIndex(
            depth=self.depth, hub=self.hub, max_relationships=self.max_relationships, words=self.words.index()
        )
