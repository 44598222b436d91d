"""The results of an evaluation: one outcome for each question, and figures over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaosmem.types import JSONValue


@dataclass(frozen=True, slots=True)
class Staleness:
    """How one context treats the items that are superseded for its question.

    shown: a superseded item is shown; None if the question has none. alone: it is shown without any evidence.
    last_word: the newest evidence is shown too, after every superseded item; None if no superseded item is shown.
    """

    shown: bool | None = None
    alone: bool | None = None
    last_word: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one assembler for one question at one budget.

    recall: share of the question's evidence that is in, 0 to 1; 0 where its context can't be counted; None for a
    question without an answer.
    used, content: tokens, of the context and of the texts of its items alone. seconds: of the assembly.
    violations: faults of the context, none in a sound one.
    prefix_share: of the tokens of the question before on the same corpus, the share that this context repeats at its
    front, which is what a provider's prompt cache can reuse; None for the first question.
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
    prefix_share: float | None
    violations: tuple[str, ...] = ()
    dataset: str = ""
    stale: Staleness = Staleness()


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over outcomes; None where there is nothing to take one of.

    scored: how many of the questions count in `recall`, the unweighted mean of the data sets' means over questions.
    fill: share of the budget that is used. framing: share of the used tokens that is not the texts of items.
    violations: how many contexts have one. median_ms, p95_ms: of an assembly.
    may_be_stale: how many questions have superseded items. stale, stale_alone: share of these with a superseded item
    shown, and shown without evidence. last_word: of those with one shown, the share in which the evidence comes last.
    """

    questions: int
    scored: int
    recall: float | None
    fill: float | None
    framing: float | None
    violations: int
    median_ms: float | None
    p95_ms: float | None
    prefix_share: float | None
    may_be_stale: int
    stale: float | None
    stale_alone: float | None
    last_word: float | None


@dataclass(frozen=True)
class Report:
    """All outcomes of an evaluation.

    corpora: items of each. assemblers, budgets: in the order of the tables. load_seconds: by assembler, to take in
    the items of all corpora. unscored: categories that are reported, but count in no mean recall over several.
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
        """Return each data set with each category of its questions; data sets in their order, categories sorted."""
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
        self, assembler: str, budget: int, category: str | None = None, *, dataset: str | None = None
    ) -> Figures:
        """Return the figures of an assembler at a budget, over one category, one data set or, None, over all."""
        outcomes = self._by_run.get((assembler, budget), [])
        if dataset is not None:
            outcomes = [outcome for outcome in outcomes if outcome.dataset == dataset]
        if category is not None:
            return _figures([outcome for outcome in outcomes if outcome.category == category], frozenset())
        return _figures(outcomes, self.unscored)

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the report as JSON values, figures first."""
        return {
            "corpora": dict(self.corpora),
            "questions": self.questions,
            "unscored": sorted(self.unscored),
            "load_seconds": dict(self.load_seconds),
            "figures": [
                {"assembler": assembler, "budget": budget, "dataset": dataset, "category": category}
                | asdict(self.figures(assembler, budget, category, dataset=dataset))
                for dataset, category in ((None, None), *((name, None) for name in self.datasets), *self.categories)
                for budget in self.budgets
                for assembler in self.assemblers
            ],
            "outcomes": [asdict(outcome) | {"violations": list(outcome.violations)} for outcome in self.outcomes],
        }

    @cached_property
    def _by_run(self) -> dict[tuple[str, int], list[Outcome]]:
        runs: dict[tuple[str, int], list[Outcome]] = {}
        for outcome in self.outcomes:
            runs.setdefault((outcome.assembler, outcome.budget), []).append(outcome)
        return runs


def _figures(outcomes: list[Outcome], unscored: frozenset[str]) -> Figures:
    scored = [each for each in outcomes if each.category not in unscored and each.recall is not None]
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
        prefix_share=_mean(outcome.prefix_share for outcome in outcomes),
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
