"""A report as rows of text, for any kind of table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaosmem.evaluation.report import Report

FIGURES_HEADER = ("budget", "assembler", "recall", "fill", "violations", "median ms", "p95 ms", "prefix")


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
                f"{figures.violations:,}",
                _milliseconds(figures.median_ms),
                _milliseconds(figures.p95_ms),
                _share(figures.prefix_share),
            )


def recall_header(report: Report) -> tuple[str, ...]:
    """Return the names over `recall_rows`."""
    return ("category", "questions", "budget", *report.assemblers)


def recall_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield recall by category: for each category and budget a row, the assemblers side by side."""
    for category in report.categories:
        mark = " (not in the mean)" if category in report.unscored else ""
        for budget in report.budgets:
            figures = [report.figures(assembler, budget, category) for assembler in report.assemblers]
            shares = (_share(each.recall) for each in figures)
            yield (category + mark or "-", f"{figures[0].questions:,}", f"{budget:,}", *shares)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
