"""The benchmark of budgets, measured with progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kaosmem.cli.sessions import open_stored
from kaosmem.cli.terminal import Phases, write_result
from kaosmem.evaluation import Assembler, evaluate, read_corpora
from kaosmem.evaluation.assemblers import get_assembler
from kaosmem.evaluation.evidence import with_keys
from kaosmem.evaluation.own_questions import evaluate_session
from kaosmem.evaluation.report import Report
from kaosmem.retrieval.ranker import Ranker

_SHOWN_VIOLATIONS = 5


def named_assemblers(
    names: Iterable[str],
    *,
    counter: str = "o200k_base",
    format: str = "text",
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
        KaosmemError: As `open_stored` and `evaluate_session`.
    """
    with Phases(per_second=1) as phases:
        phases.begin("opening the session")
        async with open_stored(url, namespace) as memory:
            return await evaluate_session(
                memory, budgets=budgets, rankers=rankers, limit=limit, progress=phases.show
            )


def print_report(report: Report, *, as_json: bool = False) -> None:
    """Print the figures of a report, and the first violations."""
    result = report.to_dict() if as_json else report.summary()
    for outcome in report.violations[: 0 if as_json else _SHOWN_VIOLATIONS]:
        result.setdefault("violations", []).append(
            f"{outcome.assembler} at {outcome.budget:,}, question {outcome.question_id} of "
            f"{outcome.corpus}: {'; '.join(outcome.violations)}"
        )
    write_result(result, as_json=as_json)
