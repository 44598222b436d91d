"""`kaosmem budget` and `bench`: how much evidence each budget holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaosmem.arguments import JSONDict
from kaosmem.cli.options import (
    TEXT,
    AsJson,
    Budgets,
    Counter,
    Format,
    Namespace,
    Plot,
    RankerName,
    SessionUrl,
    check_output,
    whole_number,
)
from kaosmem.cli.sessions import open_stored
from kaosmem.cli.terminal import ProgressLine, write_result
from kaosmem.retrieval.rankers import RANKERS

# The evaluation is imported by the commands that need it: it takes longer than other modules.
if TYPE_CHECKING:
    from kaosmem.evaluation.report import Report

_SHOWN_VIOLATIONS = 5


async def budget(
    url: SessionUrl,
    budgets: Budgets = "512,2048,8192",
    ranker: Annotated[
        list[RankerName] | None,
        typer.Option(
            help="Compare this ranker with the session's own. Repeatable.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of questions, the last ones.")
    ] = 100,
    plot: Plot = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print what a budget buys for the questions that a session was asked, and change nothing.

    The questions are those of its stored turns, or its user messages if no turn is stored. Recall
    is the share of the items that a budget shows, of those that the recorded reply used. Without
    replies, it is the share of the best matches at the largest budget.
    """
    from kaosmem.evaluation.own_questions import evaluate_session

    sizes = _sizes(budgets, plot)
    with ProgressLine(per_second=1) as progress_line:
        progress_line.begin("opening the session")
        async with open_stored(url, namespace) as memory:
            report = await evaluate_session(
                memory,
                budgets=sizes,
                rankers=[RANKERS[name]() for name in ranker or ()],
                limit=limit,
                progress=progress_line.show,
            )
    print_report(report, as_json=as_json, plot=plot)


async def bench(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS",
            help="A file of items, a folder of *.items.jsonl, or a folder of such folders, each a "
            "data set.",
            show_default=False,
        ),
    ],
    questions: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTIONS",
            help="A file of questions. The default is <name>.questions.jsonl beside each "
            "<name>.items.jsonl.",
            show_default=False,
        ),
    ] = None,
    budgets: Budgets = "512,2048,8192",
    assembler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Measure only this one: kaosmem, recency, rank-bm25, kaosmem-bm25 or "
            "kaosmem-dense. Repeatable.",
            show_default="kaosmem, recency, rank-bm25",
        ),
    ] = None,
    plot: Plot = None,
    format: Format = TEXT,
    counter: Counter = "o200k_base",
    as_json: AsJson = False,
) -> None:
    """Measure how much evidence each budget holds, on your own items and questions with known answers.

    Items are JSON lines {id, session, timestamp, role, text}, oldest first. Questions are JSON
    lines {id, query, evidence_ids, category}. Recall is the mean share of a question's evidence in
    its context. Fill is the used share of the budget. Questions of the category `adversarial` count in
    no mean over several.
    """
    from kaosmem.evaluation import evaluate, read_corpora
    from kaosmem.evaluation.assemblers import ASSEMBLERS, get_assembler

    sizes = _sizes(budgets, plot)
    names = dict.fromkeys(assembler or ASSEMBLERS)
    assemblers = [get_assembler(name, counter=counter, format=format.value) for name in names]
    with ProgressLine(per_second=1) as progress_line:  # drawing must not show in the times
        progress_line.begin("reading items and questions")
        corpora = read_corpora(items, questions)
        progress_line.begin("measuring contexts")
        report = await evaluate(
            corpora,
            budgets=sizes,
            assemblers=assemblers,
            counter=counter,
            progress=progress_line.show,
        )
    print_report(report, as_json=as_json, plot=plot)


def _sizes(budgets: str, plot: Path | None) -> tuple[int, ...]:
    """Return the budgets to measure, once it is known that the report can be drawn."""
    from kaosmem.evaluation.measurement import check_budgets
    from kaosmem.evaluation.report import check_plot

    sizes = check_budgets(map(whole_number, budgets.split(",")))
    if plot is not None:
        check_output(check_plot(plot), "--plot")
    return sizes


def _shown_summary(report: Report) -> JSONDict:
    """Return the summary of a report with its first violations, as sentences."""
    result = report.summary()
    if len(report.categories) == 1:  # its figures are those over all
        result["figures"] = [row for row in result["figures"] if row["category"] is not None]
    for outcome in report.violations[:_SHOWN_VIOLATIONS]:
        result.setdefault("violations", []).append(
            f"{outcome.assembler} at {outcome.budget:,}, question {outcome.question_id} of "
            f"{outcome.corpus}: {'; '.join(outcome.violations)}"
        )
    return result


def print_report(
    report: Report,
    *,
    as_json: bool = False,
    plot: Path | None = None,
) -> None:
    """Print the figures of a report and the first violations, and draw it to a file."""
    from kaosmem.evaluation.report import save_plot

    if as_json:
        result = report.to_dict()
    else:
        result = _shown_summary(report)
    write_result(result, as_json=as_json)
    if plot is not None:
        save_plot(report, plot)
        typer.echo(f"plot: {plot}", err=True)
