"""Ranking items for a query: BM25 and a linear model over terms in any script, and graphs by distance."""

from kaosmem.retrieval.analysis import analyze
from kaosmem.retrieval.bm25 import BM25Ranker, RankBM25Ranker
from kaosmem.retrieval.dates import Period
from kaosmem.retrieval.dense import DenseRanker
from kaosmem.retrieval.embedder import Embedder
from kaosmem.retrieval.graph import GraphRanker
from kaosmem.retrieval.linear import LinearRanker
from kaosmem.retrieval.past_cues import PAST_CUES, PastCues, PastQuestion, PastWords
from kaosmem.retrieval.query import Query
from kaosmem.retrieval.ranker import Index, Ranker, Ranking, StorableIndex, StorableRanker
from kaosmem.retrieval.weights import Weights

__all__ = [
    "PAST_CUES",
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
