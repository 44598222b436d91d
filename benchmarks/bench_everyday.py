"""Whether a chat shows what a user needs who asks as people do: once more, in words that nobody used, or by a detour.

    KAOSMEM_DATA=FOLDERS python -m benchmarks.bench_everyday

FOLDERS are folders as of `benchmarks.evidence_recall`, with `:` between them (`;` on Windows). Each line of
`everyday.tsv` has a question, the message that answers it, and the question which that message answered, if there was
one. They are put into the middle of the smallest conversation of each data set, one line at a time, and the question is
its newest message. Each line of `second_hops.tsv` has a question, a message that has its words, and the answer, which
shares only a name or an identifier with this message. These two stand half a conversation apart, the answer first in
every second line. A figure is the number of questions whose answer is in the context. This project's authors wrote the
lines, and chose the rules of the ranking with them in view.
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
from kaosmem.cli.terminal import ProgressLine
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.evidence import Corpus, EvidenceItem
from kaosmem.retrieval.ranker import Ranker

FOLDER = Path(__file__).parent
RANKERS: dict[str, Ranker] = {"default": LinearRanker(), "BM25Ranker": BM25Ranker()}
BUDGETS = (512, 2_048)


class Line(NamedTuple):
    """A question, and what was said long before it.

    Attributes:
        kind: How it is asked.
        answer: The message that answers it.
        messages: What was said: the role, the text, and after which share of the conversation.
    """

    kind: str
    question: str
    answer: str
    messages: Sequence[tuple[str, str, float]]


def read() -> Iterator[Line]:
    """Yield all questions. One that was asked before is asked again in other words, and in the same."""
    for question, answer, *before in _lines_of("everyday.tsv"):
        if before:
            said = [("user", before[0], 0.5), ("assistant", answer, 0.5)]
            yield Line("again, in other words", question, answer, said)
            yield Line("again, in the same words", before[0], answer, said)
        else:
            said = [("user", answer, 0.5)]
            yield Line("in words that nobody used", question, answer, said)
    for number, (question, bridge, answer) in enumerate(_lines_of("second_hops.tsv")):
        texts = (answer, bridge) if number % 2 else (bridge, answer)
        said = [("user", text, share) for text, share in zip(texts, (0.25, 0.75), strict=True)]
        yield Line("by a second hop", question, answer, said)


def _lines_of(name: str) -> Iterator[list[str]]:
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        yield line.split("\t")


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
        for role, text, share in line.messages:
            if place == int(share * len(corpus.items)):
                memory.add("messages", text, role=role)
    memory.add("messages", line.question)
    found = []
    for budget in BUDGETS:
        context = await memory.assemble_context(budget=budget)
        found.append(line.answer in context.text)
    return found


async def measure(corpora: Sequence[Corpus], ranker: Ranker) -> dict[str, list[int]]:
    """Return by kind how many questions there are, and how many have their answer in each budget."""
    sums: dict[str, list[int]] = {}
    with ProgressLine(per_second=1) as phases:
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
    questions, *shown = figures["by a second hop"]
    assert questions == 24
    assert min(shown) > 16


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
