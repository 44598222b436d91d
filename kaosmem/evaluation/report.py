"""The report of an evaluation, as figures, a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import cycle, product
from math import ceil
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from kaosmem.errors import InvalidArgumentError, MissingExtraError, NotFoundError
from kaosmem.names import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kaosmem.evaluation.evidence import PathLike
    from kaosmem.types import JSONDict


UNSCORED = "adversarial"
"""The category that counts in no mean: its questions have no answer, and their items are traps."""


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

    recall: float | None
    fill: float | None
    questions: int
    scored: int
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
    """

    corpora: Mapping[str, int]
    assemblers: tuple[str, ...]
    budgets: tuple[int, ...]
    outcomes: tuple[Outcome, ...] = field(repr=False)
    load_seconds: Mapping[str, float]

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
        runs_of_each = len(self.assemblers) * len(self.budgets)
        return len(self.outcomes) // max(1, runs_of_each)

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
            category: Count only questions of this category. None counts all.
            dataset: Count only questions of this data set. None counts all.

        Raises:
            NotFoundError: If the assembler or the budget was not measured.
        """
        if assembler not in self.assemblers or budget not in self.budgets:
            raise NotFoundError(
                f"nothing was measured of {shown(assembler)} at {budget}; measured are "
                f"{', '.join(self.assemblers)} at {', '.join(map(str, self.budgets))}"
            )
        outcomes = self._by_run.get((assembler, budget), [])
        if dataset is not None:
            outcomes = [outcome for outcome in outcomes if outcome.dataset == dataset]
        if category is not None:
            of_category = [outcome for outcome in outcomes if outcome.category == category]
            return _figures(of_category, of_category)
        scored = [outcome for outcome in outcomes if outcome.category != UNSCORED]
        return _figures(outcomes, scored)

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


def _figures(outcomes: list[Outcome], may_score: list[Outcome]) -> Figures:
    scored = [outcome for outcome in may_score if outcome.recall is not None]
    stale = [outcome.stale for outcome in outcomes]
    times = sorted(1_000 * outcome.seconds for outcome in outcomes)
    p95_ms = None
    if times:
        p95_ms = times[ceil(0.95 * len(times)) - 1]
    return Figures(
        recall=_recall(scored),
        fill=_mean(outcome.used / outcome.budget for outcome in outcomes),
        questions=len(outcomes),
        scored=len(scored),
        framing=_mean(1 - outcome.content / outcome.used for outcome in outcomes if outcome.used),
        violations=sum(bool(outcome.violations) for outcome in outcomes),
        median_ms=median(times) if times else None,
        p95_ms=p95_ms,
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


SUFFIXES = (".png", ".svg", ".pdf")

# Okabe & Ito's colours, told apart by people of any colour vision; the markers tell lines apart in
# grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"


def check_plot(path: PathLike) -> Path:
    """Return the path of a picture that can be drawn.

    Raises InvalidArgumentError or MissingExtraError.
    """
    checked = Path(path)
    if checked.suffix.lower() not in SUFFIXES:
        raise InvalidArgumentError(
            f"no picture format {shown(checked.suffix)}; end the name in {', '.join(SUFFIXES)}"
        )
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(
            "a plot needs the extra 'plot': pip install 'kaosmem[plot]'"
        ) from None
    return checked


def save_plot(report: Report, path: PathLike) -> None:
    """Draw the recall of a report against the budget, as a PNG, SVG or PDF.

    Raises InvalidArgumentError, MissingExtraError, and OSError where the file can't be written.
    """
    checked = check_plot(path)
    from matplotlib import rc_context

    # Without a date or random ids, so that the same report gives the same file.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "kaosmem"}):
        draw(report).savefig(checked, dpi=160, metadata=undated.get(checked.suffix.lower(), {}))


def draw(report: Report) -> Figure:
    """Return the picture as a figure that belongs to no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for assembler, colour, marker in zip(
        report.assemblers, cycle(_COLOURS), cycle(_MARKERS), strict=False
    ):
        recalls: list[Any] = [report.figures(assembler, budget).recall for budget in report.budgets]
        name = assembler.replace("$", r"\$")
        axes.plot(report.budgets, recalls, label=name, color=colour, marker=marker)
    asked = f"{report.questions:,} questions on {sum(report.corpora.values()):,} items"
    over = f", mean of {len(report.datasets):,} data sets" if len(report.datasets) > 1 else ""
    axes.set_title(asked + over, fontsize="medium")
    axes.set_xlabel("budget, tokens (logarithmic)")
    axes.set_xscale("log", base=2)
    axes.set_xticks(report.budgets, [f"{budget:,}" for budget in report.budgets], minor=False)
    axes.minorticks_off()
    axes.set_ylabel("recall: share of the evidence in the context")
    axes.set_ylim(-0.02, 1.05)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure
