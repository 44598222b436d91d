"""The subcommands of `kaosmem`, each an asynchronous function in a file of its own noun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer

import kaosmem
from kaosmem.cli.asking import assemble
from kaosmem.cli.corpora import ingest
from kaosmem.cli.mcp import mcp
from kaosmem.cli.measuring import bench, budget
from kaosmem.cli.sessions import forget, list_, repair, show, verify
from kaosmem.cli.turns import diff, top, view, why

P = ParamSpec("P")

app = typer.Typer(
    name="kaosmem",
    help="Decide what an LLM agent sees: pack the most valuable content into a token budget.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_COMMANDS: dict[Callable[..., Coroutine[Any, Any, None]], str] = {
    assemble: "Print the context for a question, with reasons.",
    ingest: "Read files into a corpus that sessions share.",
    list_: "List the sessions of a place.",
    show: "Print a session's sections, or one item.",
    why: "Say why the model saw an item or not.",
    diff: "Print the difference between two turns.",
    top: "Follow a session's turns on the terminal.",
    budget: "Print what a budget buys for a session's own questions.",
    view: "Show a session's turns as a page.",
    repair: "Copy the intact items of a damaged session into a new one.",
    forget: "Erase items of a session for good.",
    verify: "Verify that erased items are gone.",
    mcp: "Serve a session to MCP clients.",
    bench: "Measure how much evidence each budget holds.",
}
"""The commands in the order of the help, with a line about each."""


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


def _run(answer: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Return a command that runs an asynchronous function to its end."""

    @wraps(answer)
    def command(*given: P.args, **named: P.kwargs) -> None:
        try:
            asyncio.run(answer(*given, **named))
        except KeyboardInterrupt:
            typer.echo("kaosmem: interrupted; what was saved before is kept", err=True)
            raise typer.Exit(130) from None

    return command


for _answer, _summary in _COMMANDS.items():
    app.command(_answer.__name__.strip("_"), short_help=_summary)(_run(_answer))
