"""A program loads what it uses: no part of kaosmem brings a package that only another part needs."""

from __future__ import annotations

import subprocess
import sys

# Each step of one process loads more than the one before.
PROGRAM = """
import asyncio, sys


def absent(*names):
    loaded = [each for each in sys.modules if each.startswith(names)]
    assert not loaded, loaded


import kaosmem

absent("numpy", "pydantic", "fsspec", "tiktoken", "rank_bm25", "Stemmer", "networkx", "typer", "rich")
absent("sqlite3", "kaosmem.stores", "kaosmem.sources", "kaosmem.backends")

from kaosmem.retrieval.rankers import BM25Ranker, RankBM25Ranker

BM25Ranker()
RankBM25Ranker()
absent("numpy", "rank_bm25", "Stemmer")

import kaosmem.testing
from kaosmem.stores import InMemoryTaskStore, InMemoryVectorStore

InMemoryVectorStore()
InMemoryTaskStore()
absent("numpy", "networkx", "sqlite3", "pytest", "hypothesis", "kaosmem.backends")

import kaosmem.sources

absent("sqlite3", "kaosmem.backends", "kaosmem.integrations")
absent("agents", "agent_framework", "google.adk", "haystack")
absent("langchain", "litellm", "llama_index", "smolagents")

memory = kaosmem.SessionMemory.test_mode(counter="estimate")
memory.add("messages", "Hello")
memory.add("graph", "a note")
asyncio.run(memory.assemble_context(budget=100))
memory.search("note")
absent("networkx", "opentelemetry")
memory.graph.add([{"id": "a"}])
memory.search("note")
assert "networkx" in sys.modules

import kaosmem.cli.app

absent("kaosmem.evaluation", "hypothesis")
kaosmem.testing.RankerContract
assert "hypothesis" in sys.modules
"""


def test_each_part_loads_what_it_needs_alone():
    """Neither numpy, networkx, a database, a framework nor a test tool is loaded before it is used."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
