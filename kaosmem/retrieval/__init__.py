"""Ranking items for a query: BM25, a linear model over signals, embeddings, and graphs."""

from kaosmem.language.analysis import analyze
from kaosmem.language.dates import PAST_CUES, PastCues, PastQuestion, PastWords, Period
from kaosmem.language.query import Query
from kaosmem.retrieval.ranker import Index, Ranker, Ranking, StorableIndex, StorableRanker
from kaosmem.retrieval.rankers import (
    RANKERS,
    BM25Ranker,
    DenseRanker,
    Embedder,
    GraphRanker,
    LinearRanker,
    RankBM25Ranker,
    Weights,
)

__all__ = [
    "PAST_CUES",
    "RANKERS",
    "BM25Ranker",
    "DenseRanker",
    "Embedder",
    "GraphRanker",
    "Index",
    "LinearRanker",
    "PastCues",
    "PastQuestion",
    "PastWords",
    "Period",
    "Query",
    "RankBM25Ranker",
    "Ranker",
    "Ranking",
    "StorableIndex",
    "StorableRanker",
    "Weights",
    "analyze",
]
