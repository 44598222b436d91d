"""Ranking of items by their worth to a query: BM25 over terms that an analysis of English and code finds."""

from kaosmem.retrieval.analysis import analyze
from kaosmem.retrieval.bm25 import BM25Ranker, RankBM25Ranker
from kaosmem.retrieval.ranker import Index, Ranker

__all__ = ["BM25Ranker", "Index", "RankBM25Ranker", "Ranker", "analyze"]
