"""What the `kaosmem` command can do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated

import typer

import kaosmem
from kaosmem.cli.report import context_json, print_context, print_session, print_stats, stats_of, watched
from kaosmem.errors import InvalidNameError, UnknownItemError
from kaosmem.session import SessionMemory, list_sessions

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
    budget: Annotated[int, typer.Option("--budget", "-b", help="Tokens that the context may take.")] = 4000,
    session: Annotated[
        str | None, typer.Option(help="Keep what was read in a session, <root>/<session id>.", show_default=False)
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

    async def answer() -> None:
        async with _corpus(session, namespace, counter) as memory:
            with watched() as progress:
                report = await memory.ingest(path, progress=progress)
            context = await memory.assemble_context(query, budget=budget, format=format.value)
            for notice in memory.notices:
                typer.echo(f"kaosmem: {notice}", err=True)
            typer.echo(str(report), err=True)
            if as_json:
                typer.echo(json.dumps(context_json(context), ensure_ascii=False, indent=2))
            else:
                print_context(context)

    asyncio.run(answer())


@app.command()
def show(
    url: SessionUrl,
    section: Annotated[str | None, typer.Option(help="Only this section.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="How many of each section's newest items.")] = 5,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print what a session holds: its sections and their newest items."""

    async def answer() -> None:
        async with _stored(url, namespace) as memory:
            names = [section] if section else [spec.name for spec in memory.sections if len(memory[spec.name])]
            print_session(memory, [memory[name] for name in names], limit=limit, as_json=as_json)

    asyncio.run(answer())


@app.command()
def stats(url: SessionUrl, namespace: Namespace = "default", as_json: AsJson = False) -> None:
    """Print a session's figures by section: items, tokens, archived, share of its budget."""

    async def answer() -> None:
        async with _stored(url, namespace) as memory:
            figures = stats_of(memory)
            if as_json:
                typer.echo(json.dumps(figures, indent=2))
            else:
                print_stats(memory, figures)

    asyncio.run(answer())


@asynccontextmanager
async def _corpus(url: str | None, namespace: str, counter: str) -> AsyncIterator[SessionMemory]:
    """Open the session at `url`, or a memory that is gone afterwards."""
    if url is None:
        yield SessionMemory.test_mode(counter=counter)
        return
    root, session_id = _split(url)
    async with SessionMemory.open(root, session_id, namespace=namespace, counter=counter) as memory:
        yield memory


@asynccontextmanager
async def _stored(url: str, namespace: str) -> AsyncIterator[SessionMemory]:
    root, session_id = _split(url)
    stored = await list_sessions(root, namespace)
    if session_id not in stored:
        there = f"there are {', '.join(map(repr, stored[:10]))}" if stored else "there are none"
        raise UnknownItemError(f"no session {session_id!r} in {root!r}, namespace {namespace!r}; {there}")
    async with SessionMemory.open(root, session_id, namespace=namespace, read_only=True) as memory:
        yield memory


def _split(url: str) -> tuple[str, str]:
    root, slash, session_id = url.rstrip("/").rpartition("/")
    if not session_id or not slash:
        raise InvalidNameError(
            f"{url!r} is not a session URL; give <root>/<session id>, such as ./.kaosmem/deal-42 or s3://bucket/deal-42"
        )
    return root or "/", session_id
