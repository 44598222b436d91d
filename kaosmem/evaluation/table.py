"""A report as rows of text, for any kind of table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaosmem.evaluation.report import Report

FIGURES_HEADER = ("budget", "assembler", "recall", "fill", "framing", "violations", "median ms", "p95 ms", "prefix")


def figures_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `FIGURES_HEADER`: for each budget a row for each assembler."""
    for budget in report.budgets:
        for assembler in report.assemblers:
            figures = report.figures(assembler, budget)
            yield (
                f"{budget:,}",
                assembler,
                _share(figures.recall),
                _share(figures.fill),
                _share(figures.framing),
                f"{figures.violations:,}",
                _milliseconds(figures.median_ms),
                _milliseconds(figures.p95_ms),
                _share(figures.prefix_share),
            )


def recall_header(report: Report) -> tuple[str, ...]:
    """Return the names over `dataset_rows` and `category_rows`."""
    return ("data set", "category", "questions", "budget", *report.assemblers)


def dataset_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield recall by data set: for each of them and each budget a row, the assemblers side by side."""
    for dataset in report.datasets:
        yield from _recall_rows(report, dataset, None, "all")


def category_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield recall by data set and category, as `dataset_rows` does."""
    for dataset, category in report.categories:
        mark = " (not in the mean)" if category in report.unscored else ""
        yield from _recall_rows(report, dataset, category, category + mark or "-")


STALE_HEADER = ("data set", "budget", "assembler", "questions", "stale", "stale alone", "last word")


def stale_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `STALE_HEADER`: a row for each data set with superseded items, budget and assembler."""
    for dataset, budget, assembler in product(report.datasets, report.budgets, report.assemblers):
        figures = report.figures(assembler, budget, dataset=dataset)
        if figures.may_be_stale:
            shares = map(_share, (figures.stale, figures.stale_alone, figures.last_word))
            yield (dataset or "-", f"{budget:,}", assembler, f"{figures.may_be_stale:,}", *shares)


def _recall_rows(report: Report, dataset: str, category: str | None, label: str) -> Iterator[tuple[str, ...]]:
    for budget in report.budgets:
        figures = [report.figures(each, budget, category, dataset=dataset) for each in report.assemblers]
        shares = (_share(each.recall) for each in figures)
        yield (dataset or "-", label, f"{figures[0].questions:,}", f"{budget:,}", *shares)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
