"""Measure how much recall each signal of the default ranker brings, with the weights that come with kaosmem.

    KAOSMEM_DATA=FOLDERS python -m benchmarks.signal_worth

FOLDERS are folders as of `benchmarks.evidence_recall`, with `:` between them (`;` on Windows). The candidates of each
question are ranked once with all signals, and once without each signal in turn: its weight is 0, and nothing is learned
again. The best candidates are packed into a budget by their tokens. So the figures are of simulated packing, which
leaves out headers and the rules of sections.

A row tells the recall that a signal brings: the mean over data sets of the difference, which all count the same, with
its standard error over questions. The last table tells for how much of the evidence an item is among the candidates.
"""

from __future__ import annotations

import argparse
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kaosmem import LinearRanker, SectionSpec
from kaosmem.cli.terminal import ProgressLine
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.evaluation.evidence import Corpus, Question
from kaosmem.evaluation.report import UNSCORED
from kaosmem.retrieval.candidate_signals import SignalCandidates
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.scores import top

ALL = "all signals"
SPEC = SectionSpec("items", eviction="none", ranker=LinearRanker())


@dataclass(frozen=True)
class Answered:
    """What became of a question.

    Attributes:
        recalls: Recall with all signals, and without each signal, by name.
        proposed: Share of its evidence that is among the candidates.
    """

    dataset: str
    is_conversation: bool
    recalls: Mapping[str, float]
    proposed: float


def answers(corpora: Sequence[Corpus], budget: int, every: int) -> Iterator[list[Answered]]:
    """Yield what becomes of the questions of each corpus.

    Args:
        every: Only each so manieth question is asked.
    """
    for corpus in corpora:
        found = []
        for items, questions in replace(corpus, questions=corpus.questions[::every]).moments():
            section = SessionAssembler(spec=SPEC).session(items)[SPEC.name]
            place_of = {item.id: place for place, item in enumerate(items)}
            with section.index.asked() as index:
                assert isinstance(index, LinearIndex)
                for question in questions:
                    wanted = wanted_of(question, place_of)
                    if wanted:
                        found.append(
                            answered(index, corpus.dataset, question.query, wanted, budget)
                        )
        yield found


def wanted_of(question: Question, place_of: Mapping[str, int]) -> set[int]:
    """Return the ordinals of the evidence of a question."""
    if question.category == UNSCORED:
        return set()
    return {place_of[each] for each in question.evidence_ids if each in place_of}


def answered(
    index: LinearIndex, dataset: str, query: str, wanted: set[int], budget: int
) -> Answered:
    """Return the recall of a question with all signals, and without each."""
    found = index.candidates(query)
    if found is None:
        return Answered(dataset, index.is_conversation, {ALL: 0.0}, 0.0)
    costs = index.facts.values["tokens"][index.slots.find_all(found.ordinals)]
    is_wanted = np.isin(found.ordinals, list(wanted))
    recalls = {}
    for name, scores in scores_of(index, found):
        order = top(scores - scores.min() + 1, found.ordinals, len(scores))
        shown = packed(costs[order], budget)
        recalls[name] = np.count_nonzero(is_wanted[order[shown]]) / len(wanted)
    proposed = np.count_nonzero(is_wanted) / len(wanted)
    return Answered(dataset, index.is_conversation, recalls, proposed)


def scores_of(
    index: LinearIndex, found: SignalCandidates
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield the scores of candidates with all signals, and without each of them."""
    added = index.weighted(found)
    total = total_of(added)
    yield ALL, total
    for name in added:
        if name not in found.signals:  # made from the sums of the others
            yield name, total - added[name]
            continue
        lacking = copy(found)
        lacking.signals = {**found.signals, name: np.zeros_like(found.signals[name])}
        yield name, total_of(index.weighted(lacking))


def total_of(added: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the sums of weighted signals."""
    total: NDArray[np.int64] = np.sum(list(added.values()), axis=0)
    return total


def packed(costs: NDArray[np.int64], budget: int) -> list[int]:
    """Return the places of the candidates that fit into a budget, taken one after another."""
    shown = []
    left = budget
    for place, cost in enumerate(costs.tolist()):
        if cost <= left:
            left -= cost
            shown.append(place)
    return shown


def worth(found: Sequence[Answered], name: str) -> tuple[float, float]:
    """Return how much recall a signal brings in the mean of data sets, and its standard error."""
    by_dataset = defaultdict(list)
    for each in found:
        whole = each.recalls[ALL]
        by_dataset[each.dataset].append(whole - each.recalls.get(name, whole))
    means = [np.mean(own) for own in by_dataset.values()]
    variances = [np.var(own) / len(own) for own in by_dataset.values()]
    return float(np.mean(means)), math.sqrt(sum(variances)) / len(means)


def print_worth(found: Sequence[Answered]) -> None:
    """Print a row for each signal."""
    kinds = [[each for each in found if each.is_conversation == kind] for kind in (True, False)]
    names = {name: None for each in found for name in each.recalls if name != ALL}
    print("| signal | conversations | documents |\n|---|---:|---:|")
    for name in names:
        cells = []
        for of_kind in kinds:
            if any(name in each.recalls for each in of_kind):
                mean, error = worth(of_kind, name)
                cells.append(f"{mean:.3f} ± {error:.3f}")
            else:
                cells.append("")
        print(f"| `{name}` | {cells[0]} | {cells[1]} |")


def print_proposed(found: Sequence[Answered]) -> None:
    """Print recall, and the share of evidence among the candidates, for each data set."""
    print("\n| data set | questions | recall | among the candidates |\n|---|---:|---:|---:|")
    for dataset in dict.fromkeys(each.dataset for each in found):
        own = [each for each in found if each.dataset == dataset]
        recall = np.mean([each.recalls[ALL] for each in own])
        proposed = np.mean([each.proposed for each in own])
        print(f"| {dataset} | {len(own)} | {recall:.3f} | {proposed:.3f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.signal_worth", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", metavar="FOLDERS", default=os.environ.get("KAOSMEM_DATA"))
    parser.add_argument("--budget", metavar="TOKENS", type=int, default=2_048)
    parser.add_argument("--every", metavar="N", type=int, default=1, help="ask each Nth question")
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("no data: give --data FOLDERS, or set KAOSMEM_DATA")
    folders = options.data.split(os.pathsep)
    corpora = [corpus for folder in folders for corpus in read_corpora(folder)]
    found: list[Answered] = []
    with ProgressLine(per_second=1) as phases:
        for done, each in enumerate(answers(corpora, options.budget, options.every), 1):
            found += each
            phases.show(corpora[done - 1].name, done, len(corpora))
    print_worth(found)
    print_proposed(found)


if __name__ == "__main__":
    main()
