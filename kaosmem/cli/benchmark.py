"""The benchmark of budgets: measured with progress, printed as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kaosmem.cli.sessions import opened
from kaosmem.cli.terminal import Phases, write, write_table
from kaosmem.evaluation import Assembler, evaluate, read_corpora
from kaosmem.evaluation.assemblers import get_assembler
from kaosmem.evaluation.evidence import with_keys
from kaosmem.evaluation.own_questions import evaluate_session
from kaosmem.evaluation.report import (
    FIGURES_HEADER,
    RUN_HEADER,
    STALE_HEADER,
    Report,
    category_rows,
    dataset_rows,
    figures_rows,
    recall_header,
    stale_rows,
)
from kaosmem.retrieval.ranker import Ranker

_SHOWN_VIOLATIONS = 5


def named_assemblers(
    names: Iterable[str], *, counter: str = "o200k_base", format: str = "text"
) -> list[Assembler]:
    """Return assemblers by name, one's own from modules in the current folder too.

    Raises InvalidArgumentError.
    """
    if "" not in sys.path:
        sys.path.append("")
    return [get_assembler(name, counter=counter, format=format) for name in dict.fromkeys(names)]


async def measured(
    items: str | Path,
    questions: str | Path | None = None,
    *,
    datasets: Sequence[str] = (),
    assemblers: Sequence[Assembler],
    budgets: Iterable[int],
    unscored: Iterable[str],
    counter: str = "o200k_base",
    keys: bool = False,
) -> Report:
    """Return the assemblers' report on the questions of files or a folder.

    Args:
        keys: Ask only questions with superseded items, which have keys, as `with_keys` says.

    Raises:
        KaosmemError: If the files cannot be read, or an argument is not valid.
    """
    with Phases(per_second=1) as phases:  # drawing must not show in the times
        phases.begin("reading items and questions")
        corpora = read_corpora(items, questions, datasets=datasets)
        phases.begin("measuring contexts")
        return await evaluate(
            with_keys(corpora) if keys else corpora,
            budgets=budgets,
            assemblers=assemblers,
            counter=counter,
            unscored=unscored,
            progress=phases.show,
        )


async def session_measured(
    url: str,
    namespace: str,
    *,
    budgets: Iterable[int],
    rankers: Iterable[Ranker],
    limit: int,
) -> Report:
    """Return the report on a stored session's own questions.

    Raises:
        KaosmemError: As `opened` and `evaluate_session`.
    """
    with Phases(per_second=1) as phases:
        phases.begin("opening the session")
        async with opened(url, namespace) as memory:
            return await evaluate_session(
                memory, budgets=budgets, rankers=rankers, limit=limit, progress=phases.show
            )


def print_budgets(report: Report) -> None:
    """Print what each budget buys for a session's own questions."""
    (name,) = report.corpora
    ((_, label),) = report.categories
    scored = report.figures(report.assemblers[0], report.budgets[-1]).scored
    columns = "recall", "fill", "median ms"
    write(f"session {name}: {report.questions:,} questions\n")
    rows = figures_rows(report, columns)
    write_table("what each budget buys", (*RUN_HEADER, *columns), rows)
    write(
        f"recall: share of the evidence that is shown; {scored:,} questions have some. An item is "
        f"evidence if {label}\n"
    )


def print_report(report: Report, *, by_category: bool) -> None:
    """Print the figures, recall by data set, by category if asked for, and the violations."""
    corpora = f"{len(report.corpora):,} corpora" if len(report.corpora) > 1 else "1 corpus"
    several = len(report.datasets) > 1
    over = f" in {len(report.datasets):,} data sets" if several else ""
    write(
        f"{report.questions:,} questions on {sum(report.corpora.values()):,} items of "
        f"{corpora}{over}\n"
    )
    mean = " (recall: mean of the data sets)" if several else ""
    write_table(f"what each budget buys{mean}", FIGURES_HEADER, figures_rows(report))
    loads = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.load_seconds.items())
    write(f"\ntaking in the items: {loads}\n")
    if left_out := report.unscored.intersection(category for _, category in report.categories):
        write(f"not in the mean recall: {', '.join(sorted(left_out))}\n")
    if several:
        write_table("recall by data set", recall_header(report), dataset_rows(report))
    if by_category:
        write_table("recall by category", recall_header(report), category_rows(report))
    if stale := list(stale_rows(report)):
        write_table(
            "superseded items: shown, shown alone, with the evidence last",
            STALE_HEADER,
            stale,
        )
    for outcome in report.violations[:_SHOWN_VIOLATIONS]:
        where = f"{outcome.assembler} at {outcome.budget:,}, question {outcome.question_id} of {outcome.corpus}"
        write(f"violation: {where}: {'; '.join(outcome.violations)}\n")
