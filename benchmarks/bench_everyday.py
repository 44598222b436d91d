"""Whether a chat shows what a user needs who asks as people do: once more, or in words that nobody used.

    KAOSMEM_DATA=FOLDERS python -m benchmarks.bench_everyday

FOLDERS are folders as of `benchmarks.evidence_recall`, with `:` between them (`;` on Windows). Each line of
`everyday.tsv` has a question, the message that answers it, and the question which that message answered, if there was
one. They are put into the middle of the smallest conversation of each data set, one line at a time, and the question is
its newest message. A figure is the number of questions whose answer is in the context. This project's authors wrote
the lines, and chose the rules of the ranking with them in view.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import seeded_texts
from kaosmem import BM25Ranker, LinearRanker, SessionMemory
from kaosmem.cli.terminal import Phases
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.evidence import Corpus, EvidenceItem
from kaosmem.retrieval.ranker import Ranker

FILE = Path(__file__).parent / "everyday.tsv"
RANKERS: dict[str, Ranker] = {"default": LinearRanker(), "BM25Ranker": BM25Ranker()}
BUDGETS = (512, 2_048)


class Line(NamedTuple):
    """A question, and what was said long before it.

    Attributes:
        kind: How it is asked.
        messages: The message that answers it, after the question that it answered, if any.
    """

    kind: str
    question: str
    messages: Sequence[str]


def read() -> Iterator[Line]:
    """Yield all questions. One that was asked before is asked again in other words, and in the same."""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        question, answer, *before = line.split("\t")
        if before:
            yield Line("again, in other words", question, (*before, answer))
            yield Line("again, in the same words", before[0], (*before, answer))
        else:
            yield Line("in words that nobody used", question, (answer,))


def conversations(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Return the smallest conversation of each data set."""
    smallest: dict[str, Corpus] = {}
    for corpus in sorted(corpora, key=lambda each: len(each.items)):
        if len({item.role for item in corpus.items}) > 1:
            smallest.setdefault(corpus.dataset, corpus)
    return [*smallest.values()]


async def is_shown(corpus: Corpus, line: Line, ranker: Ranker) -> list[bool]:
    """Return whether the answer is in the context, for each budget."""
    memory = SessionMemory.test_mode(ranker=ranker)
    for place, item in enumerate(corpus.items):
        memory.add("messages", item.text, role=item.role or "user")
        if place == len(corpus.items) // 2:
            roles = ("user", "assistant")
            for role, text in zip(roles, line.messages, strict=False):
                memory.add("messages", text, role=role)
    memory.add("messages", line.question)
    found = []
    for budget in BUDGETS:
        context = await memory.assemble_context(budget=budget)
        found.append(line.messages[-1] in context.text)
    return found


async def measure(corpora: Sequence[Corpus], ranker: Ranker) -> dict[str, list[int]]:
    """Return by kind how many questions there are, and how many have their answer in each budget."""
    sums: dict[str, list[int]] = {}
    with Phases(per_second=1) as phases:
        for corpus in corpora:
            phases.begin(corpus.name)
            for line in read():
                counts = sums.setdefault(line.kind, [0] * (1 + len(BUDGETS)))
                counts[0] += 1
                for place, shown in enumerate(await is_shown(corpus, line, ranker), 1):
                    counts[place] += shown
    return sums


def test_answers_are_found_in_a_small_conversation() -> None:
    """The default ranking shows each answer to a question that is asked again."""
    talk = seeded_texts(200, words=20)
    items = [
        EvidenceItem(f"i{number}", text, role=("user", "assistant")[number % 2])
        for number, text in enumerate(talk)
    ]
    figures = asyncio.run(measure([Corpus("talk", tuple(items), ())], LinearRanker()))
    for kind in ("again, in other words", "again, in the same words"):
        assert figures[kind] == [12, 12, 12]
    questions, *shown = figures["in words that nobody used"]
    assert questions == 40
    assert min(shown) > 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table for each ranker."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_everyday", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", metavar="FOLDERS", default=os.environ.get("KAOSMEM_DATA"))
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("no data: give --data FOLDERS, or set KAOSMEM_DATA")
    folders = options.data.split(os.pathsep)
    corpora = conversations([corpus for folder in folders for corpus in read_corpora(folder)])
    budgets = ", ".join(f"{budget:,}" for budget in BUDGETS)
    for name, ranker in RANKERS.items():
        print(f"{name}: questions, answers shown in {budgets} tokens")
        for kind, counts in asyncio.run(measure(corpora, ranker)).items():
            print(f"  {kind}: {', '.join(map(str, counts))}")


if __name__ == "__main__":
    main()
