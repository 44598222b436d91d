"""Recall of evidence: a corpus in an engine beside a section with the same items and ranker.

    KAOSMEM_DATA=FOLDER python -m benchmarks.corpora_recall [--questions 14]

FOLDER has data sets (see evidence_recall.py). Of each data set, the first corpus that has enough questions is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kaosmem import SessionMemory
from kaosmem.corpora import CorpusSource, LanceCorpus
from kaosmem.evaluation import evaluate, read_corpora
from kaosmem.evaluation.assemblers import (
    Assembler,
    Packer,
    Selection,
    SessionAssembler,
)
from kaosmem.evaluation.evidence import Corpus, EvidenceItem

BUDGETS = (512, 2_048, 8_192)


class CorpusAssembler:
    """A session to which a corpus with all items is attached."""

    name = "corpus"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Add the items to a new corpus."""
        with ThreadPoolExecutor(1) as thread:
            memory = thread.submit(lambda: asyncio.run(self._attached(items))).result()

        async def pack(query: str, budget: int) -> Selection:
            context = await memory.assemble_context(query, budget=budget)
            ids = tuple(item.id.removeprefix("corpus/") for item in context.items)
            return Selection(ids, context.used)

        return pack

    async def _attached(self, items: Sequence[EvidenceItem]) -> SessionMemory:
        corpus = LanceCorpus(tempfile.mkdtemp(dir=self._folder), timeout_s=600)
        passages = []
        for item in items:
            metadata = {"timestamp": item.timestamp} if item.timestamp else {}
            source = item.session or "items"
            passages.append(
                {"id": item.id, "text": item.text, "source": source, "role": item.role}
                | {"metadata": metadata}
            )
        await corpus.add(passages)
        await corpus.compact()
        memory = SessionMemory.test_mode()
        await memory.attach(CorpusSource(corpus), timeout_s=600)
        return memory


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=14, help="of each data set")
    given = parser.parse_args()
    chosen: dict[str, Corpus] = {}
    for corpus in read_corpora(os.environ["KAOSMEM_DATA"]):
        asked = [each for each in corpus.questions if each.evidence_ids and not each.as_of]
        if len(asked) >= given.questions:
            step = len(asked) // given.questions
            some = tuple(asked[::step][: given.questions])
            chosen.setdefault(corpus.dataset, replace(corpus, questions=some))
    with tempfile.TemporaryDirectory() as folder:
        both: list[Assembler] = [SessionAssembler("section"), CorpusAssembler(Path(folder))]
        report = await evaluate(chosen.values(), budgets=BUDGETS, assemblers=both)
    for budget in BUDGETS:
        for name in report.assemblers:
            found: dict[str, list[float]] = {}
            for each in report.outcomes:
                if each.budget == budget and each.assembler == name and each.recall is not None:
                    found.setdefault(each.dataset, []).append(each.recall)
            means = {dataset: sum(recalls) / len(recalls) for dataset, recalls in found.items()}
            print(f"{budget:,} tokens, {name}: mean {sum(means.values()) / len(means):.3f}", means)


if __name__ == "__main__":
    asyncio.run(main())
