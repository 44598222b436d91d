"""The report of an evaluation, as figures and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaosmem.types import JSONDict


@dataclass(frozen=True, slots=True)
class Staleness:
    """How one context treats the items that are superseded for its question.

    Attributes:
        shown: A superseded item is shown; None if the question has none.
        alone: It is shown without any evidence.
        last_word: The newest evidence is shown too, after every superseded item; None if no
            superseded item is shown.
    """

    shown: bool | None = None
    alone: bool | None = None
    last_word: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one assembler for one question at one budget.

    Attributes:
        recall: Share of the question's evidence that is in, 0 to 1; 0 where its context can't be
            counted; None for a question without an answer.
        used, content: Tokens, of the context and of the texts of its items alone.
        seconds: Of the assembly.
        violations: Faults of the context, none in a sound one.
    """

    corpus: str
    question_id: str
    category: str
    assembler: str
    budget: int
    recall: float | None
    used: int
    content: int
    seconds: float
    violations: tuple[str, ...] = ()
    dataset: str = ""
    stale: Staleness = Staleness()


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over outcomes; None where there is nothing to take one of.

    Attributes:
        scored: How many of the questions count in `recall`, the unweighted mean of the data sets'
            means over questions.
        fill: Share of the budget that is used.
        framing: Share of the used tokens that is not the texts of items.
        violations: How many contexts have one. median_ms, p95_ms: of an assembly.
        may_be_stale: How many questions have superseded items.
        stale, stale_alone: Share of these with a superseded item shown, and shown without evidence.
        last_word: Of those with one shown, the share in which the evidence comes last.
    """

    questions: int
    scored: int
    recall: float | None
    fill: float | None
    framing: float | None
    violations: int
    median_ms: float | None
    p95_ms: float | None
    may_be_stale: int
    stale: float | None
    stale_alone: float | None
    last_word: float | None


@dataclass(frozen=True)
class Report:
    """All outcomes of an evaluation.

    Attributes:
        corpora: Items of each.
        assemblers, budgets: In the order of the tables.
        load_seconds: By assembler, to take in the items of all corpora.
        unscored: Categories that are reported, but count in no mean recall over several.
    """

    corpora: Mapping[str, int]
    assemblers: tuple[str, ...]
    budgets: tuple[int, ...]
    outcomes: tuple[Outcome, ...] = field(repr=False)
    load_seconds: Mapping[str, float]
    unscored: frozenset[str] = frozenset()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Return the names of the data sets, in their order."""
        return tuple(dict.fromkeys(outcome.dataset for outcome in self.outcomes))

    @property
    def categories(self) -> tuple[tuple[str, str], ...]:
        """Return each data set, in order, with each category of its questions, sorted."""
        found = sorted({(outcome.dataset, outcome.category) for outcome in self.outcomes})
        return tuple(sorted(found, key=lambda each: self.datasets.index(each[0])))

    @property
    def questions(self) -> int:
        """Return how many questions were asked, each of every assembler at every budget."""
        return len(self.outcomes) // max(1, len(self.assemblers) * len(self.budgets))

    @property
    def violations(self) -> tuple[Outcome, ...]:
        """Return the outcomes that have something wrong with them."""
        return tuple(outcome for outcome in self.outcomes if outcome.violations)

    def figures(
        self,
        assembler: str,
        budget: int,
        category: str | None = None,
        *,
        dataset: str | None = None,
    ) -> Figures:
        """Return the figures of an assembler at a budget.

        Args:
            category, dataset: Count only these questions. None counts all.
        """
        outcomes = self._by_run.get((assembler, budget), [])
        if dataset is not None:
            outcomes = [outcome for outcome in outcomes if outcome.dataset == dataset]
        if category is not None:
            return _figures(
                [outcome for outcome in outcomes if outcome.category == category], frozenset()
            )
        return _figures(outcomes, self.unscored)

    def to_dict(self) -> JSONDict:
        """Return the report as JSON values, figures first."""
        outcomes = [
            asdict(outcome) | {"violations": list(outcome.violations)} for outcome in self.outcomes
        ]
        return {**self.summary(), "corpora": dict(self.corpora), "outcomes": outcomes}

    def summary(self) -> JSONDict:
        """Return the sums of the report and its figures as JSON values."""
        return {
            "questions": self.questions,
            "items": sum(self.corpora.values()),
            "corpora": len(self.corpora),
            "unscored": sorted(self.unscored),
            "load_seconds": dict(self.load_seconds),
            "figures": list(self._figures_by_group()),
        }

    def _figures_by_group(self) -> Iterator[JSONDict]:
        """Yield the figures over all questions, by data set, and by data set and category."""
        named = filter(None, self.datasets)  # questions without a set are in the first group
        groups = [(None, None), *((name, None) for name in named), *self.categories]
        for (dataset, category), budget, assembler in product(
            groups, self.budgets, self.assemblers
        ):
            names = {
                "assembler": assembler,
                "budget": budget,
                "dataset": dataset,
                "category": category,
            }
            yield names | asdict(self.figures(assembler, budget, category, dataset=dataset))

    @cached_property
    def _by_run(self) -> dict[tuple[str, int], list[Outcome]]:
        runs: dict[tuple[str, int], list[Outcome]] = {}
        for outcome in self.outcomes:
            runs.setdefault((outcome.assembler, outcome.budget), []).append(outcome)
        return runs


def _figures(outcomes: list[Outcome], unscored: frozenset[str]) -> Figures:
    scored = [
        each for each in outcomes if each.category not in unscored and each.recall is not None
    ]
    stale = [outcome.stale for outcome in outcomes]
    times = sorted(1_000 * outcome.seconds for outcome in outcomes)
    return Figures(
        questions=len(outcomes),
        scored=len(scored),
        recall=_recall(scored),
        fill=_mean(outcome.used / outcome.budget for outcome in outcomes),
        framing=_mean(1 - outcome.content / outcome.used for outcome in outcomes if outcome.used),
        violations=sum(bool(outcome.violations) for outcome in outcomes),
        median_ms=median(times) if times else None,
        p95_ms=times[ceil(0.95 * len(times)) - 1] if times else None,
        may_be_stale=sum(each.shown is not None for each in stale),
        stale=_mean(each.shown for each in stale),
        stale_alone=_mean(each.alone for each in stale),
        last_word=_mean(each.last_word for each in stale),
    )


def _recall(scored: list[Outcome]) -> float | None:
    by_dataset: dict[str, list[float | None]] = {}
    for outcome in scored:
        by_dataset.setdefault(outcome.dataset, []).append(outcome.recall)
    return _mean(map(_mean, by_dataset.values()))


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, if there are any."""
    given = [value for value in values if value is not None]
    return fmean(given) if given else None
