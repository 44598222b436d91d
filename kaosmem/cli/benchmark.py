"""What a benchmark found, as people read it."""

from __future__ import annotations

from kaosmem.cli.terminal import Column, write, write_table
from kaosmem.evaluation import Report
from kaosmem.evaluation.table import FIGURES_HEADER, figures_rows, recall_header, recall_rows

_TEXTS = {"assembler", "category"}
_SHOWN_VIOLATIONS = 5


def print_report(report: Report, *, by_category: bool) -> None:
    """Print the figures, recall by category where it is asked for, and what was broken."""
    corpora = f"{len(report.corpora):,} corpora" if len(report.corpora) > 1 else "1 corpus"
    write(f"{report.questions:,} questions on {sum(report.corpora.values()):,} items of {corpora}\n")
    write_table("what each budget buys", _columns(FIGURES_HEADER), figures_rows(report))
    loads = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.load_seconds.items())
    write(f"\ntaking in the items: {loads}\n")
    if left_out := report.unscored.intersection(report.categories):
        write(f"not in the mean recall: {', '.join(sorted(left_out))}\n")
    if by_category:
        write_table("recall by category", _columns(recall_header(report)), recall_rows(report))
    for outcome in report.violations[:_SHOWN_VIOLATIONS]:
        where = f"{outcome.assembler} at {outcome.budget:,}, question {outcome.question_id} of {outcome.corpus}"
        write(f"violation: {where}: {'; '.join(outcome.violations)}\n")


def _columns(names: tuple[str, ...]) -> list[Column]:
    return [Column(name, "left" if name in _TEXTS else "right") for name in names]
