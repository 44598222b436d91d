"""What the `kaosmem` command can do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

import kaosmem
from kaosmem.assembly import Context, check_budget
from kaosmem.cli.benchmark import measured, named_assemblers, print_report
from kaosmem.cli.progress import Phases
from kaosmem.cli.repair import print_repair, repair_json
from kaosmem.cli.report import (
    context_json,
    ingest_summary,
    item_json,
    print_context,
    print_item,
    print_session,
    print_stats,
    session_json,
    stats_json,
)
from kaosmem.cli.sessions import check_stored, opened, opened_corpus, split_url
from kaosmem.cli.terminal import write_json
from kaosmem.errors import InvalidBudgetError
from kaosmem.evaluation import ASSEMBLERS, DENSE, STANDARD, UNSCORED, check_budgets, check_plot
from kaosmem.ingest import IngestReport
from kaosmem.names import shown
from kaosmem.retrieval import BM25Ranker, DenseRanker, Ranker
from kaosmem.session import RepairReport, SessionMemory, repair_session
from kaosmem.types import Item, check_text

T = TypeVar("T")

app = typer.Typer(
    name="kaosmem",
    help="Decide what an LLM agent sees: pack what is worth most into a token budget.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class FormatName(StrEnum):
    """The formats that a context can be printed in."""

    TEXT = "text"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class RankerName(StrEnum):
    """What can order passages by a question."""

    LINEAR = "linear"
    BM25 = "bm25"
    DENSE = "dense"


Namespace = Annotated[str, typer.Option(help="The namespace that the session is in.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Counter = Annotated[str, typer.Option(help="What counts: o200k_base, cl100k_base or estimate.")]
SessionUrl = Annotated[str, typer.Argument(metavar="URL", help="The session: <root>/<session id>.", show_default=False)]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kaosmem {kaosmem.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Decide what an LLM agent sees: pack what is worth most into a token budget."""


@app.command(short_help="Print the context that answers a question, and why.")
def assemble(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder, or its URL.", show_default=False)],
    query: Annotated[str, typer.Option("--query", "-q", help="The question that ranks.", show_default=False)],
    budget: Annotated[
        str, typer.Option("--budget", "-b", metavar="TOKENS", help="Tokens that the context may take.")
    ] = "4000",
    session: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Keep what was read in a session: <root>/<session id>.", show_default=False),
    ] = None,
    namespace: Namespace = "default",
    format: Annotated[FormatName, typer.Option(help="What the context is laid out for.")] = FormatName.TEXT,  # noqa: A002
    counter: Counter = "o200k_base",
    ranker: Annotated[
        RankerName, typer.Option(help="What ranks; dense goes by meaning too, and takes the extra dense.")
    ] = RankerName.LINEAR,
    as_json: AsJson = False,
) -> None:
    """Read documents and print the context that answers a question within a budget, and why it is so.

    Text, Markdown, reStructuredText, source code and JSONL are read; other files are named and skipped. With
    --session, a second question reads only what has changed.
    """
    tokens = check_budget(_whole_number(budget))
    check_text(query, "query")

    async def answer() -> tuple[SessionMemory, IngestReport, Context]:
        with Phases() as phases:
            phases.begin("opening the session")
            async with opened_corpus(session, namespace, counter, _ranker(ranker, phases)) as memory:
                phases.begin("looking for files")
                report = await memory.ingest(path, progress=phases.reading)
                if session is not None:
                    phases.begin("saving")
                    await memory.save()
                phases.begin("ranking and packing")
                context = await memory.assemble_context(query, budget=tokens, format=format.value)
                phases.begin("closing")
            return memory, report, context

    memory, report, context = _run(answer())
    for line in (*(f"note: {notice}" for notice in memory.notices), *ingest_summary(report)):
        typer.echo(line, err=True)
    if as_json:
        write_json(context_json(context))
    else:
        print_context(context)


@app.command(short_help="Print what a session holds, or one item of it.")
def show(
    url: SessionUrl,
    section: Annotated[str | None, typer.Option(help="Only this section.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many of each section's newest items.")] = 5,
    item: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only this item, in full, from the archive too.", show_default=False),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print what a session holds: its sections and their newest items, or one item in full."""
    memory, found = _run(_stored(url, namespace, item))
    if found is not None:
        if as_json:
            write_json(item_json(memory, found))
        else:
            print_item(memory, found)
        return
    held = [spec.name for spec in memory.sections if len(memory[spec.name])] if section is None else [section]
    sections = [memory[name] for name in held]
    if as_json:
        write_json(session_json(memory, sections, limit=limit))
    else:
        print_session(memory, sections, limit=limit)


@app.command(short_help="Print a session's figures by section.")
def stats(url: SessionUrl, namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Print a session's figures by section: items, tokens, archived, share of its budget."""
    memory, _ = _run(_stored(url, namespace))
    if as_json:
        write_json(stats_json(memory))
    else:
        print_stats(memory)


@app.command(short_help="Rescue a damaged session into a new one.")
def repair(
    url: SessionUrl,
    into: Annotated[
        str | None, typer.Option(metavar="ID", help="The new session's id.", show_default="<session id>-repaired")
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Rescue a damaged session: put all that is intact into a new one beside it, and leave it as it is.

    Prints what was rescued and what is missing. A sound session is left alone, and nothing is written.
    """
    root, session_id = split_url(url)

    async def repaired() -> RepairReport:
        with Phases() as phases:
            phases.begin("reading what is intact")
            await check_stored(root, session_id, namespace)
            return await repair_session(root, session_id, into, namespace)

    report = _run(repaired())
    if as_json:
        write_json(repair_json(report))
    else:
        print_repair(report)


@app.command(short_help="Measure what each budget buys.")
def bench(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS",
            help="A file of items, a folder of *.items.jsonl, or a folder of such folders, each a data set.",
            show_default=False,
        ),
    ],
    questions: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTIONS",
            help="A file of questions; without, <name>.questions.jsonl beside each <name>.items.jsonl.",
            show_default=False,
        ),
    ] = None,
    budgets: Annotated[
        str, typer.Option("--budgets", "-b", metavar="TOKENS,...", help="Budgets to measure at.")
    ] = "512,2048,8192",
    datasets: Annotated[
        str, typer.Option(metavar="NAME,...", help="Only these data sets of the folder.", show_default=False)
    ] = "",
    assembler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Only this one: {', '.join((*ASSEMBLERS, DENSE))}, or your own as module:attribute; can be repeated.",
            show_default=", ".join(STANDARD),
        ),
    ] = None,
    by_category: Annotated[bool, typer.Option("--by-category", help="Print recall by category too.")] = False,
    unscored: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CATEGORY",
            help="A category that is reported, but not in the mean recall; can be repeated; '' for none.",
            show_default="adversarial",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw recall, fill and time to a .png, .svg or .pdf.", show_default=False),
    ] = None,
    format: Annotated[FormatName, typer.Option(help="What kaosmem's contexts are laid out for.")] = FormatName.TEXT,  # noqa: A002
    counter: Counter = "o200k_base",
    as_json: AsJson = False,
) -> None:
    """Measure what each budget buys, on your own items and questions whose answers are known.

    Items are JSON lines {id, session, timestamp, role, text}, oldest first; questions {id, query, evidence_ids,
    category}. Recall is the mean share of a question's evidence that is in its context; fill the share of the budget
    that is used; prefix the share of a context that the next one repeats at its front, which a prompt cache can reuse.
    """
    sizes = check_budgets(map(_whole_number, budgets.split(",")))
    if plot is not None and not check_plot(plot).absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(plot.parent)!r}; make it first", param_hint="--plot")
    report = _run(
        measured(
            items,
            questions,
            datasets=[name for name in datasets.split(",") if name],
            assemblers=named_assemblers(assembler or STANDARD, counter=counter, format=format.value),
            budgets=sizes,
            unscored=UNSCORED if unscored is None else filter(None, unscored),
            counter=counter,
            plot=plot,
        )
    )
    if as_json:
        write_json(report.to_dict())
    else:
        print_report(report, by_category=by_category)
    if plot is not None:
        typer.echo(f"plot: {plot}", err=True)


async def _stored(url: str, namespace: str, item_id: str | None = None) -> tuple[SessionMemory, Item | None]:
    """Return a stored session, read and closed again, and one item of it where that is asked for."""
    with Phases() as phases:
        phases.begin("opening the session")
        async with opened(url, namespace) as memory:
            if item_id is None:
                return memory, None
            phases.begin("looking for the item")
            return memory, await memory.fetch(item_id)


def _ranker(name: RankerName, phases: Phases) -> Ranker | None:
    match name:
        case RankerName.BM25:
            return BM25Ranker()
        case RankerName.DENSE:
            return DenseRanker(progress=phases.embedding)
    return None


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidBudgetError(f"budget is {shown(text)}; give a whole number of tokens from 0 up") from None


def _run(answer: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(answer)
    except KeyboardInterrupt:
        typer.echo("kaosmem: interrupted; what was saved before is kept", err=True)
        raise typer.Exit(130) from None
