"""The subcommands of `kaosmem`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import kaosmem
from kaosmem.arguments import check_share, check_text
from kaosmem.assembly import check_budget
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import FORMATS
from kaosmem.names import shown
from kaosmem.retrieval.rankers import RANKERS
from kaosmem.session.memory import SessionMemory
from kaosmem.types.items import Item

# A command imports the modules that it needs itself, so that `kaosmem --help` is quick.
if TYPE_CHECKING:
    from kaosmem.evaluation.report import Report

T = TypeVar("T")

app = typer.Typer(
    name="kaosmem",
    help="Decide what an LLM agent sees: pack the most valuable content into a token budget.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


FormatName = StrEnum("FormatName", {name.upper(): name for name in FORMATS})  # type: ignore[misc]
_TEXT = FormatName("text")
RankerName = StrEnum("RankerName", {name.upper(): name for name in RANKERS})  # type: ignore[misc]
_LINEAR = RankerName("linear")

Namespace = Annotated[str, typer.Option(help="The namespace of the session.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Counter = Annotated[
    str,
    typer.Option(help="The token counter: o200k_base, cl100k_base, an OpenAI model, or estimate."),
]
SessionUrl = Annotated[
    str, typer.Argument(metavar="URL", help="The session: <root>/<session id>.", show_default=False)
]

TurnNumber = Annotated[
    int,
    typer.Option(metavar="N", help="The turn, from 1. Negative numbers count from the end."),
]
Format = Annotated[FormatName, typer.Option(help="The format of contexts.")]
Include = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Read only files like this, such as '*.md' or docs/. Repeatable.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Leave out files and folders like this. Repeatable.",
        show_default=False,
    ),
]
Gitignore = Annotated[bool, typer.Option(help="Leave out what .gitignore files name.")]
AllSkipped = Annotated[
    bool, typer.Option("--skipped", help="List every skipped file with its reason.")
]
Budgets = Annotated[
    str, typer.Option("--budgets", "-b", metavar="TOKENS,...", help="The budgets to measure.")
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw recall, fill and time to a .png, .svg or .pdf; needs the extra plot.",
        show_default=False,
    ),
]


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
    """Decide what an LLM agent sees: pack the most valuable content into a token budget."""


@app.command(short_help="Print the context for a question, with reasons.")
def assemble(
    query: Annotated[
        str,
        typer.Option(
            "--query", "-q", help="The question that ranks the passages.", show_default=False
        ),
    ],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="A file or folder, or its URL. Leave it out to ask a stored --session.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", "-b", metavar="TOKENS", help="The maximum number of tokens in the context."
        ),
    ] = "4000",
    session: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Keep the passages in this session, or ask it without a PATH: <root>/<session id>.",
            show_default=False,
        ),
    ] = None,
    namespace: Namespace = "default",
    format: Format = _TEXT,
    counter: Counter = "o200k_base",
    ranker: Annotated[
        RankerName,
        typer.Option(help="The ranker; dense also compares meaning and needs the extra dense."),
    ] = _LINEAR,
    min_confidence: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Show no passage if the confidence is lower than this, 0 to 1."
        ),
    ] = 0.0,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = True,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole passages on a terminal.")
    ] = False,
    all_skipped: AllSkipped = False,
    as_json: AsJson = False,
) -> None:
    r"""Read files and print the context for a question within a budget.

    A terminal gets a summary with the reason for each passage, then the passages by rank,
    shortened. A pipe gets the exact context, and the sums go to stderr. In it, a passage begins
    with its label: the file and lines, such as [tasks.py:436-468], or below another passage of the
    file only the lines, [:470-504]. A backslash before a line that looks like a label or a heading,
    such as \[x], says that it belongs to the passage.

    Reads text in any form: prose, source code, HTML, tables, notebooks and e-mail, also compressed.
    PDF, Word, PowerPoint and Excel need the extra docs. Counts the files that it skips, by reason.
    With --session, the next question reads only changed files. Without PATH, it asks the stored
    session and changes nothing.
    """
    if path is None and session is None:
        raise typer.BadParameter(
            "give a file or folder, or a stored session with --session", param_hint="PATH"
        )
    tokens = check_budget(_whole_number(budget))
    check_text(query, "query")
    check_share(min_confidence, "min_confidence")
    from kaosmem.cli.report import context_json, print_context, print_notes
    from kaosmem.cli.sessions import ask_session
    from kaosmem.cli.terminal import write_json

    reading = {"include": include or (), "exclude": exclude or (), "gitignore": gitignore}
    asking = {"budget": tokens, "format": format.value, "min_confidence": min_confidence}
    memory, report, context = _run(
        ask_session(
            query,
            path=path,
            url=session,
            namespace=namespace,
            counter=counter,
            ranker=RANKERS[ranker](),
            reading=reading,
            asking=asking,
        )
    )
    print_notes(memory, report, all_skipped=all_skipped)
    if as_json:
        write_json(context_json(context))
    else:
        print_context(context, full=full)


@app.command(short_help="Read files into a corpus that sessions share.")
def ingest(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder, or its URL.")],
    corpus: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The corpus: a folder, s3://bucket/prefix or postgresql://host/database.",
        ),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant whose passages they are.")] = "default",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="The number of processes.", show_default="one a processor"
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Ray cluster that reads.", show_default=False),
    ] = None,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = True,
    all_skipped: AllSkipped = False,
    as_json: AsJson = False,
) -> None:
    """Read new and changed files of PATH into a corpus, and remove the sources whose files are gone.

    It may be stopped at any time: another run goes on where this one was. The settings of S3 come
    from the environment.

    A program asks the corpus: await memory.attach(CorpusSource(LanceCorpus(URL))), or PgCorpus(URL)
    for PostgreSQL. Then memory.assemble_context(question, budget=N) shows its passages.
    """
    from kaosmem.cli.corpora import ingest_path, print_ingested
    from kaosmem.ingest.listing import Choice
    from kaosmem.ingest.patterns import Patterns

    choice = Choice(Patterns(include or ()), Patterns(exclude or ()), gitignore)
    report = _run(ingest_path(path, corpus, tenant, choice=choice, workers=workers, ray=ray))
    print_ingested(report, all_skipped=all_skipped, as_json=as_json)


@app.command("list", short_help="List the sessions of a place.")
def list_(
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="The folder or URL that holds the sessions.")
    ],
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Number of sessions to list, the last saved first."),
    ] = 50,
    namespace: Annotated[
        str | None,
        typer.Option(
            help="List only the sessions of this namespace.", show_default="all namespaces"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a folder or URL, with their bytes and the time of the last save."""
    from kaosmem.cli.sessions import list_stored
    from kaosmem.cli.terminal import write_result

    write_result(_run(list_stored(root, namespace, limit=limit)), as_json=as_json)


@app.command(short_help="Print a session's sections, or one item.")
def show(
    url: SessionUrl,
    section: Annotated[
        str | None, typer.Option(help="Print only this section.", show_default=False)
    ] = None,
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Number of newest items to print of each section."),
    ] = 5,
    item: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Print only this item, in full. It may be archived.",
            show_default=False,
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print a session's sections with their figures and newest items, or one item in full.

    `--limit 0` prints the figures alone.
    """
    from kaosmem.cli.report import NEWEST, item_json, session_json
    from kaosmem.cli.terminal import write_result

    memory, found = _run(_stored(url, namespace, item))
    if found is not None:
        write_result(item_json(memory, found), as_json=as_json)
        return
    sections = [each for each in memory if len(each) or len(each.archive)]
    if section is not None:
        sections = [memory[section]]
    write_result(session_json(memory, sections, limit=limit), as_json=as_json, columns=NEWEST)


@app.command(short_help="Say why the model saw an item or not.")
def why(
    url: SessionUrl,
    words: Annotated[
        str,
        typer.Argument(
            metavar="WORDS",
            help="The id of an item, a part of its text, or most of its words.",
            show_default=False,
        ),
    ],
    turn: TurnNumber = -1,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Say in a sentence why an item was in or out of a turn, with the numbers that decided.

    The session needs stored turns: open it with `trace=True`.
    """
    from kaosmem.cli.report import why_json
    from kaosmem.cli.terminal import write, write_json

    memory, _ = _run(_stored(url, namespace))
    found = memory.why(words, turn=turn)
    if as_json:
        write_json(why_json(found))
    else:
        write(f"{found}\n")


@app.command(short_help="Print the difference between two turns.")
def diff(
    url: SessionUrl,
    turns: Annotated[
        tuple[int, int] | None,
        typer.Option(
            metavar="A B",
            help="The turns, from 1. Negative numbers count from the end.",
            show_default="the last one, and the one before it in its window",
        ),
    ] = None,
    namespace: Namespace = "default",
) -> None:
    """Print which items came, went, were replaced or moved between two stored turns."""
    from kaosmem.cli.turns import print_difference

    _run(print_difference(url, namespace, turns))


@app.command(short_help="Follow a session's turns on the terminal.")
def top(
    url: SessionUrl,
    namespace: Namespace = "default",
) -> None:
    """Show the newest turn of a session, again after each save, until Ctrl+C. A pipe gets it once.

    It prints the tokens by section, the cached prefix, the best items that are in and the nearest
    ones that are out.
    """
    from kaosmem.cli.turns import follow

    _run(follow(url, namespace))


@app.command(short_help="Print what a budget buys for a session's own questions.")
def budget(
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
    # Imported here, since it takes longer than most of the other commands do.
    from kaosmem.cli.benchmark import session_measured
    from kaosmem.evaluation.measurement import check_budgets

    sizes = check_budgets(map(_whole_number, budgets.split(",")))
    _check_plot(plot)
    report = _run(
        session_measured(
            url,
            namespace,
            budgets=sizes,
            rankers=[RANKERS[name]() for name in ranker or ()],
            limit=limit,
        )
    )
    _print_report(report, as_json=as_json, plot=plot)


@app.command(short_help="Show a session's turns as a page.")
def view(
    url: SessionUrl,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the page to this file, such as turns.html.",
            show_default=False,
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page live; needs the extra view.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65_535, help="The port of --serve; 0 takes a free one."
        ),
    ] = 0,
    host: Annotated[
        str, typer.Option(help="The address of --serve. The default is this machine alone.")
    ] = "127.0.0.1",
    namespace: Namespace = "default",
) -> None:
    """Show a session's turns as a page: the window as sent, reasons, scores, and what changed.

    The file holds all turns and texts, and asks no network. --serve shows a running agent's session
    as it grows, at an address with a random token.
    """
    from kaosmem.cli import view as viewing

    if (output is None) is not serve:
        raise typer.BadParameter("give either --output FILE or --serve", param_hint="--output")
    if output is not None:
        _run(viewing.write_page(url, namespace, output))
    else:
        _run(viewing.serve(url, namespace, host=host, port=port))


@app.command(short_help="Copy the intact items of a damaged session into a new one.")
def repair(
    url: SessionUrl,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The new session's id.", show_default="<session id>-repaired"
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Copy the intact items of a damaged session into a new session beside it.

    The damaged session stays as it is.

    Prints the rescued items and the missing parts. For a sound session, nothing is written.
    """
    from kaosmem.cli.sessions import repair_copy, repair_json
    from kaosmem.cli.terminal import write_result

    write_result(repair_json(_run(repair_copy(url, into, namespace))), as_json=as_json)


@app.command(short_help="Erase items of a session for good.")
def forget(
    url: SessionUrl,
    items: Annotated[
        list[str], typer.Argument(metavar="ID", help="The items to erase.", show_default=False)
    ],
    receipt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the receipt as JSON, for verify.", show_default=False
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Erase items, all their versions and everything derived from them, from every file of a session.

    Prints a receipt: the erased items, the windows that showed them, and the deleted files.
    """
    from kaosmem.cli.sessions import erase_items
    from kaosmem.cli.terminal import write_result

    found = _run(erase_items(url, namespace, items))
    if receipt is not None:
        receipt.write_text(
            json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
        )
    write_result(found.to_dict(), as_json=as_json)


@app.command(short_help="Verify that erased items are gone.")
def verify(
    url: SessionUrl,
    receipt: Annotated[
        Path, typer.Argument(metavar="RECEIPT", help="The file of a receipt.", show_default=False)
    ],
    namespace: Namespace = "default",
) -> None:
    """Verify that the items of a receipt are in no file of the session.

    If one is, exit with code 1.
    """
    from kaosmem.cli.sessions import erasure_faults
    from kaosmem.cli.terminal import write

    reasons = _run(erasure_faults(url, namespace, receipt))
    for reason in reasons:
        write(f"not erased: {reason}\n")
    if reasons:
        raise typer.Exit(1)
    write("erased: no file of the session holds the items\n")


@app.command(short_help="Serve a session to MCP clients.")
def mcp(
    url: SessionUrl,
    namespace: Namespace = "default",
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve streamable HTTP at this address. KAOSMEM_MCP_TOKEN holds the token of "
            "clients. The default is stdio.",
            show_default=False,
        ),
    ] = None,
    section: Annotated[
        str, typer.Option(help="The section that gets what a model remembers.")
    ] = "findings",
    max_tokens: Annotated[
        int, typer.Option(help="The size of a result, in tokens, at least 1.")
    ] = 4_000,
    counter: Counter = "o200k_base",
) -> None:
    """Serve a session by the Model Context Protocol: over stdio, or over HTTP with a token.

    The first call that changes a session creates it. Each call is saved when it returns. Several
    clients may use one session at once.
    """
    from kaosmem.cli.mcp import serve

    _run(
        serve(
            url,
            namespace,
            http=http,
            section=section,
            max_tokens=max_tokens,
            counter=counter,
        )
    )


@app.command(short_help="Measure how much evidence each budget holds.")
def bench(
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
    datasets: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Measure only these data sets of the folder.",
            show_default=False,
        ),
    ] = "",
    assembler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Measure only this one: kaosmem, recency, rank-bm25, kaosmem-dense, or yours as "
            "module:attribute. "
            "Repeatable.",
            show_default="kaosmem, recency, rank-bm25",
        ),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Ask only questions with superseded items, which get a key as versions of a fact.",
        ),
    ] = False,
    unscored: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CATEGORY",
            help="A category to leave out of the mean recall. Repeatable; '' leaves out none.",
            show_default="adversarial",
        ),
    ] = None,
    plot: Plot = None,
    format: Format = _TEXT,
    counter: Counter = "o200k_base",
    as_json: AsJson = False,
) -> None:
    """Measure how much evidence each budget holds, on your own items and questions with known answers.

    Items are JSON lines {id, session, timestamp, role, text}, oldest first. Questions are JSON
    lines {id, query, evidence_ids, category}. Recall is the mean share of a question's evidence in
    its context. Fill is the used share of the budget. Prefix is the share of a context that the
    next one repeats at its front: a prompt cache can reuse it.
    """
    # Imported here, since it takes longer than most of the other commands do.
    from kaosmem.cli.benchmark import measured, named_assemblers
    from kaosmem.evaluation.assemblers import ASSEMBLERS
    from kaosmem.evaluation.measurement import UNSCORED, check_budgets

    sizes = check_budgets(map(_whole_number, budgets.split(",")))
    _check_plot(plot)
    report = _run(
        measured(
            items,
            questions,
            datasets=[name for name in datasets.split(",") if name],
            assemblers=named_assemblers(
                assembler or ASSEMBLERS, counter=counter, format=format.value
            ),
            budgets=sizes,
            unscored=UNSCORED if unscored is None else filter(None, unscored),
            counter=counter,
            keys=keys,
        )
    )
    _print_report(report, as_json=as_json, plot=plot)


async def _stored(
    url: str,
    namespace: str,
    item_id: str | None = None,
) -> tuple[SessionMemory, Item | None]:
    """Return a stored session, read and closed again, and one item of it where that is asked for."""
    from kaosmem.cli.sessions import open_stored
    from kaosmem.cli.terminal import Phases

    with Phases() as phases:
        phases.begin("opening the session")
        async with open_stored(url, namespace) as memory:
            if item_id is None:
                return memory, None
            phases.begin("looking for the item")
            return memory, await memory.fetch(item_id)


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(
            f"budget is {shown(text)}; give a whole number of tokens from 0 up"
        ) from None


def _check_plot(plot: Path | None) -> None:
    from kaosmem.evaluation.report import check_plot

    if plot is not None and not check_plot(plot).absolute().parent.is_dir():
        raise typer.BadParameter(
            f"there is no folder {str(plot.parent)!r}; make it first", param_hint="--plot"
        )


def _print_report(
    report: Report,
    *,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print a report, and draw it to a file."""
    from kaosmem.cli.benchmark import print_report
    from kaosmem.evaluation.report import save_plot

    print_report(report, as_json=as_json)
    if plot is not None:
        save_plot(report, plot)
        typer.echo(f"plot: {plot}", err=True)


def _run(answer: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(answer)
    except KeyboardInterrupt:
        typer.echo("kaosmem: interrupted; what was saved before is kept", err=True)
        raise typer.Exit(130) from None
