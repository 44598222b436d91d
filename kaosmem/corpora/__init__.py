"""Corpora beyond one process: an engine proposes passages, and kaosmem ranks and packs them."""

from kaosmem.corpora.corpus import Corpus
from kaosmem.corpora.in_memory import InMemoryCorpus
from kaosmem.corpora.ingestion import ingest_files
from kaosmem.corpora.lance import LanceCorpus
from kaosmem.corpora.postgres import PgCorpus
from kaosmem.corpora.source import CorpusSource

__all__ = [
    "Corpus",
    "CorpusSource",
    "InMemoryCorpus",
    "LanceCorpus",
    "PgCorpus",
    "ingest_files",
]
