"""Ranking items for a query: BM25, a linear model over signals, embeddings, and graphs."""

from kaosmem.retrieval.ranker import Index, Ranking, StorableIndex, StorableRanker
from kaosmem.retrieval.rankers import GraphRanker, RankBM25Ranker

__all__ = [
    "GraphRanker",
    "Index",
    "RankBM25Ranker",
    "Ranking",
    "StorableIndex",
    "StorableRanker",
]
