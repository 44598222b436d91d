"""Questions on kaosmem's own pages, which name no page: for how many the context shows a page that answers.

    pytest benchmarks/bench_documentation.py -m timed -s

Every question of the data sets of documents names its document. These do not, as most questions on documentation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kaosmem import BM25Ranker, LinearRanker, SectionSpec, SessionMemory
from kaosmem.retrieval.ranker import Ranker

PAGES = Path(__file__).parent.parent / "docs"
BUDGETS = (1_000, 2_048, 8_192)
QUESTIONS = {
    "How do I call kaosmem without async?": "synchronous",
    "How do I delete a user's data for good?": "erasing durability tenants shelves sessions",
    "How do I use kaosmem with LangChain?": "frameworks coming-from",
    "Which embedding model can I use?": "meaning retrieval",
    "How can two workers write the same session?": "sessions durability scale",
    "What happens when a process is killed during a save?": "durability",
    "How do I keep the prompt cache warm?": "windows",
    "What is an epoch of a window?": "windows glossary",
    "How do I add a budget to a section?": "sections sessions a-section",
    "How is a summary of old messages made?": "histories",
    "How do I write my own ranker?": "retrieval",
    "How are tokens counted for Gemini?": "formats sessions",
    "How do I run an MCP server?": "mcp",
    "How can I see why an item was left out?": "seen",
    "How do I form facts from a conversation?": "formation",
    "What is a shelf?": "shelves formation",
    "How do I store sessions on S3?": "stores-that-last sessions durability services",
    "How do I search a corpus in PostgreSQL?": "scale services",
    "How is a fact replaced by a newer one?": "facts-that-change",
    "How do I filter by metadata?": "filters sessions",
    "What does OpenTelemetry get?": "telemetry",
    "How are speakers and dates shown?": "labels",
    "How do I ingest a folder of PDFs?": "files",
    "What does a turn cost?": "performance",
    "How do I erase what was said in a message?": "erasing durability shelves sessions",
    "Which names may a session have?": "sessions durability",
    "How do I test my agent offline?": "testing sessions",
    "What is the difference from mem0?": "coming-from formation",
    "How do I read a session without changing it?": "sessions synchronous",
    "How does a summary keep numbers and file names?": "histories",
    "What does kaosmem do with thinking blocks?": "windows formats",
    "How do I know that a file is damaged?": "durability",
    "How large can a session be?": "scale performance",
    "How are tool results shortened?": "histories windows",
    "When are old items archived or erased?": "retention sections sessions",
    "How do I give the model instructions for one call only?": "formats windows sessions",
}
"""The names of the pages that answer, by question."""


async def shown_pages(ranker: Ranker, budget: int) -> int:
    """Return for how many questions a page that answers is in the context."""
    section = SectionSpec("documents", eviction="none", ranker=ranker)
    memory = SessionMemory.test_mode(sections=[section], counter="estimate")
    await memory.ingest(PAGES, include=["*.md"], exclude=["reference/*"])
    count = 0
    for question, answering in QUESTIONS.items():
        context = await memory.assemble_context(question, budget=budget)
        names = {str(item.metadata["source"]).removesuffix(".md") for item in context.items}
        count += not names.isdisjoint(answering.split())
    return count


def test_the_default_is_not_behind_plain_bm25():
    """Where a question names no page, the default shows as many pages that answer, but for one or two."""
    plain = asyncio.run(shown_pages(BM25Ranker(), 2_048))
    assert plain >= 0.8 * len(QUESTIONS)
    assert asyncio.run(shown_pages(LinearRanker(), 2_048)) >= plain - 2


@pytest.mark.timed
def test_pages_shown(capsys):
    for name, ranker in (("default", LinearRanker()), ("BM25Ranker", BM25Ranker())):
        shown = [asyncio.run(shown_pages(ranker, budget)) for budget in BUDGETS]
        with capsys.disabled():
            print(f"\n{name}: of {len(QUESTIONS)} questions, in {BUDGETS} tokens: {shown}")
