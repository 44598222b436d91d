"""Learn the weights of `Context.confidence`, and measure it on data sets that they were not learned from.

    KAOSMEM_DATA=FOLDERS python -m benchmarks.calibrate_confidence --save kaosmem/assembly/confidence.json

FOLDERS are folders as of `benchmarks.evidence_recall`, with `:` between them (`;` on Windows). Without `--save` the
weights are printed. Each question is asked at each budget in three ways:

as is     The confidence should be the share of its evidence that is shown.
removed   A filter hides its evidence. The confidence should be 0.
foreign   A question on another corpus is asked in its place. The confidence should be 0.

All data sets count the same. In each, 7 of 10 questions are as they are, 1 is removed and 2 are foreign. Questions that
the data set calls unanswerable, and those of the category `adversarial`, are measured and not learned from.

The table leaves each data set out in turn. `error` is the expected calibration error: the mean difference between the
confidence and the share, over ten bins of confidence. The last four columns are areas under the ROC curve, 0.5 for
chance, each the mean over the budgets. `shown` separates the questions with at least half of their evidence shown from
the other questions as they are. The others separate the questions as they are from those without an answer: removed,
foreign, or given as such by the data set.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kaosmem import SessionMemory
from kaosmem.assembly.confidence import BIAS, figures
from kaosmem.cli.terminal import ProgressLine
from kaosmem.evaluation import read_corpora
from kaosmem.evaluation.assemblers import SessionAssembler
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question
from kaosmem.evaluation.measurement import DEFAULT_BUDGETS
from kaosmem.evaluation.report import UNSCORED
from kaosmem.language.dates import without_periods
from kaosmem.language.query import excerpt
from kaosmem.sections.proposal import CandidatePool

FIGURES = "covered", "at_once", "pairs", "shown"
NOTHING = {"covered": 0.0, "at_once": -2.4, "pairs": 0.0, "shown": -15.0}
COUNTS = {"as is": 0.7, "removed": 0.1, "foreign": 0.2, "given": 0.0}
BINS, RIDGE = 10, 1e-3
SECTION = SessionAssembler().spec.name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """A question at a budget.

    way: a key of COUNTS. share: of its evidence that is shown. figures: as in FIGURES.
    """

    dataset: str
    way: str
    budget: int
    share: float
    figures: tuple[float, ...]


class Asker:
    """Asks questions on the items of a corpus that exist at one moment."""

    def __init__(self, dataset: str, items: Sequence[EvidenceItem]) -> None:
        self._dataset = dataset
        self._memory = SessionMemory.test_mode(
            sections=(replace(SessionAssembler().spec, persistence="none"),)
        )
        for item in items:
            metadata = {"source": item.session, "timestamp": item.timestamp, "id": item.id}
            known = {name: value for name, value in metadata.items() if value}
            self._memory.add(SECTION, item.text, id=item.id, role=item.role, metadata=known)

    def ways(self, question: Question, stranger: Question | None, budget: int) -> Iterator[Asked]:
        """Ask a question in each way; `stranger` is one on another corpus."""
        if question.evidence_ids and question.category != UNSCORED:
            yield self._ask(question.query, budget, "as is", evidence=question.evidence_ids)
            yield self._ask(question.query, budget, "removed", hidden=question.evidence_ids)
        else:
            yield self._ask(question.query, budget, "given")
        if stranger is not None:
            yield self._ask(stranger.query, budget, "foreign")

    def _ask(
        self,
        query: str,
        budget: int,
        way: str,
        *,
        evidence: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> Asked:
        passing = {"$not": {"id": {"$in": sorted(hidden)}}} if hidden else None
        context = asyncio.run(self._memory.assemble_context(query, budget=budget, filter=passing))
        shown = {item.id for item in context.items}
        with self._memory[SECTION].index.asked() as index:
            frequencies = index.frequencies(without_periods(excerpt(query)))
        pool = CandidatePool(len(self._memory[SECTION]), self._memory.admin.used, frequencies)
        found = figures(query, context.items, pool) if shown else None
        share = len(shown.intersection(evidence)) / len(evidence) if evidence else 0.0
        values = found or NOTHING
        return Asked(self._dataset, way, budget, share, tuple(values[name] for name in FIGURES))


def ask_all(
    corpora: Sequence[Corpus], budgets: Sequence[int] = DEFAULT_BUDGETS, *, every: int = 1
) -> Iterator[list[Asked]]:
    """Yield what becomes of the questions of each corpus.

    every: asks only each so manieth question.
    """
    for corpus in corpora:
        own = [each for each in corpora if each.dataset == corpus.dataset]
        among = own if len(own) > 1 else list(corpora)
        strangers = (
            among[(among.index(corpus) + 1) % len(among)].questions if len(among) > 1 else (None,)
        )
        asked: list[Asked] = []
        for items, questions in replace(corpus, questions=corpus.questions[::every]).moments():
            asker = Asker(corpus.dataset or corpus.name, items)
            for question in questions:
                stranger = strangers[len(asked) % len(strangers)]
                asked += (
                    each for budget in budgets for each in asker.ways(question, stranger, budget)
                )
        yield asked


def counts_of(asked: Sequence[Asked]) -> Floats:
    """Return how much each question counts: all data sets the same, and in each its ways by COUNTS."""
    counts = np.zeros(len(asked))
    for dataset in {each.dataset for each in asked}:
        for way, count in COUNTS.items():
            chosen = np.array([(each.dataset, each.way) == (dataset, way) for each in asked])
            counts[chosen] = count / max(1, chosen.sum())
    return counts


def learn(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the weights of a logistic model of the shares. No figure weighs less than 0.

    They minimise the cross-entropy plus RIDGE times half the squares of the weights, by Newton's
    method within bounds.
    """
    inputs = np.array([(1.0, *each.figures) for each in asked])
    shares = np.array([each.share for each in asked])
    counts = counts_of(asked)
    counts /= counts.sum()
    weights = np.zeros(inputs.shape[1])
    penalty = RIDGE * np.array([1e-6, *[1.0] * len(FIGURES)])
    for _ in range(100):
        found = logistic(inputs @ weights)
        slope = inputs.T @ (counts * (found - shares)) + penalty * weights
        curve = (inputs * (counts * found * (1 - found))[:, None]).T @ inputs + np.diag(penalty)
        is_free = (weights > 0) | (slope < 0)
        is_free[0] = True
        step = np.zeros_like(weights)
        step[is_free] = np.linalg.solve(curve[np.ix_(is_free, is_free)], slope[is_free])
        before = weights
        weights = weights - step
        weights[1:] = np.maximum(0.0, weights[1:])
        if np.abs(weights - before).max() < 1e-9:
            break
    return dict(zip((BIAS, *FIGURES), weights.round(4).tolist(), strict=True))


def logistic(values: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-values))
    return found


def confidences(asked: Sequence[Asked], weights: dict[str, float]) -> Floats:
    inputs = np.array([(1.0, *each.figures) for each in asked])
    return logistic(inputs @ np.array([weights[name] for name in (BIAS, *FIGURES)]))


def calibration_error(found: Floats, asked: Sequence[Asked]) -> float:
    """Return the expected calibration error over bins of the same width."""
    shares = np.array([each.share for each in asked])
    counts = counts_of(asked)
    bins = np.minimum(BINS - 1, (found * BINS).astype(int))
    return float(np.abs(np.bincount(bins, counts * (found - shares))).sum() / counts.sum())


def area(better: Floats, worse: Floats) -> float:
    """Return the area under the ROC curve: how often the one is above the other, ties by half.

    NaN without either.
    """
    if not len(better) or not len(worse):
        return math.nan
    worse = np.sort(worse)
    below = np.searchsorted(worse, better, "left") + np.searchsorted(worse, better, "right")
    return float(below.mean() / 2 / len(worse))


def areas(found: Floats, asked: Sequence[Asked]) -> list[float]:
    """Return the areas of the last four columns."""
    ways = np.array([each.way for each in asked])
    shares = np.array([each.share for each in asked])
    budgets = np.array([each.budget for each in asked])
    as_is = ways == "as is"
    pairs = [(as_is & (shares >= 0.5), as_is & (shares < 0.5))]
    pairs += [(as_is, ways == way) for way in ("removed", "foreign", "given")]
    means = []
    for better, worse in pairs:
        at = [
            area(found[better & (budgets == each)], found[worse & (budgets == each)])
            for each in np.unique(budgets)
        ]
        means.append(mean(at))
    return means


def validate(asked: Sequence[Asked]) -> Iterator[str]:
    """Yield a table: each data set with weights that were learned from the others, and their mean."""
    yield f"{'data set':<20}{'asked':>7}{'confidence':>12}{'share':>8}{'error':>8}" + "".join(
        f"{name:>9}" for name in ("shown", "removed", "foreign", "given")
    )
    rows = []
    for dataset in sorted({each.dataset for each in asked}):
        own = [each for each in asked if each.dataset == dataset]
        others = [each for each in asked if each.dataset != dataset]
        found = confidences(own, learn(others or own))
        counts = counts_of(own)
        shares = np.array([each.share for each in own])
        means = [float(np.average(each, weights=counts)) for each in (found, shares)]
        rows.append([*means, calibration_error(found, own), *areas(found, own)])
        yield row(dataset, len(own), rows[-1])
    yield row("mean", len(asked), [mean(column) for column in zip(*rows, strict=True)])
    together = confidences(asked, learn(asked))
    yield f"calibration error with weights of all data sets, over all: {calibration_error(together, asked):.3f}"


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are known, NaN without any."""
    known = [each for each in values if not math.isnan(each)]
    return sum(known) / len(known) if known else math.nan


def row(name: str, asked: int, values: Sequence[float]) -> str:
    confidence, share, error, *rest = (
        "-" if math.isnan(value) else f"{value:.3f}" for value in values
    )
    return f"{name:<20}{asked:>7,}{confidence:>12}{share:>8}{error:>8}" + "".join(
        f"{each:>9}" for each in rest
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, print or save what was learned, and print how well it does."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibrate_confidence", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", metavar="FOLDERS", default=os.environ.get("KAOSMEM_DATA"))
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="of JSON; without it the weights are printed"
    )
    parser.add_argument(
        "--every", metavar="N", type=int, default=1, help="ask only each Nth question of a corpus"
    )
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("no data: give --data FOLDERS, or set KAOSMEM_DATA")
    corpora = [
        corpus for folder in options.data.split(os.pathsep) for corpus in read_corpora(folder)
    ]
    asked: list[Asked] = []
    with ProgressLine(per_second=1) as phases:
        for done, of_corpus in enumerate(ask_all(corpora, every=options.every), 1):
            asked += of_corpus
            phases.show(corpora[done - 1].name, done, len(corpora))
    learned = json.dumps(learn(asked), indent=2) + "\n"
    if options.save:
        options.save.write_text(learned, encoding="utf-8")
    else:
        print(learned, end="")
    for line in validate(asked):
        print(line)


if __name__ == "__main__":
    main()
