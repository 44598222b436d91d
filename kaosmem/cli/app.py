"""What the `kaosmem` command can do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer

import kaosmem
from kaosmem.assembly import Context, check_budget
from kaosmem.cli.progress import Phases
from kaosmem.cli.report import (
    context_json,
    ingest_summary,
    print_context,
    print_session,
    print_stats,
    session_json,
    stats_json,
)
from kaosmem.cli.sessions import opened, opened_corpus
from kaosmem.cli.terminal import write_json
from kaosmem.errors import InvalidBudgetError
from kaosmem.ingest import IngestReport
from kaosmem.names import shown
from kaosmem.session import SessionMemory
from kaosmem.types import check_text

T = TypeVar("T")

app = typer.Typer(
    name="kaosmem",
    help="Decide what an LLM agent sees: pack what is worth most into a token budget.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class FormatName(StrEnum):
    """The formats that a context can be printed in."""

    TEXT = "text"
    OPENAI = "openai"


Namespace = Annotated[str, typer.Option(help="The namespace that the session is in.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
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


@app.command()
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
    counter: Annotated[str, typer.Option(help="What counts: o200k_base, cl100k_base or estimate.")] = "o200k_base",
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
            async with opened_corpus(session, namespace, counter) as memory:
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


@app.command()
def show(
    url: SessionUrl,
    section: Annotated[str | None, typer.Option(help="Only this section.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many of each section's newest items.")] = 5,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print what a session holds: its sections and their newest items."""
    memory = _run(_stored(url, namespace))
    held = [spec.name for spec in memory.sections if len(memory[spec.name])] if section is None else [section]
    sections = [memory[name] for name in held]
    if as_json:
        write_json(session_json(memory, sections, limit=limit))
    else:
        print_session(memory, sections, limit=limit)


@app.command()
def stats(url: SessionUrl, namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Print a session's figures by section: items, tokens, archived, share of its budget."""
    memory = _run(_stored(url, namespace))
    if as_json:
        write_json(stats_json(memory))
    else:
        print_stats(memory)


async def _stored(url: str, namespace: str) -> SessionMemory:
    """Return a stored session, read and closed again."""
    with Phases() as phases:
        phases.begin("opening the session")
        async with opened(url, namespace) as memory:
            return memory


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
