"""The options that several subcommands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats import FORMATS
from kaosmem.names import shown
from kaosmem.retrieval.rankers import RANKERS

FormatName = StrEnum("FormatName", {name.upper(): name for name in FORMATS})  # type: ignore[misc]
TEXT = FormatName("text")
RankerName = StrEnum("RankerName", {name.upper(): name for name in RANKERS})  # type: ignore[misc]
LINEAR = RankerName("linear")

Namespace = Annotated[str, typer.Option(help="The namespace of the session.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Counter = Annotated[
    str,
    typer.Option(help="The token counter: o200k_base, cl100k_base, an OpenAI model, or estimate."),
]
SessionUrl = Annotated[
    str, typer.Argument(metavar="URL", help="The session: <root>/<session id>.", show_default=False)
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
        help="Draw recall to a .png, .svg or .pdf; needs the extra plot.",
        show_default=False,
    ),
]


def check_output(file: Path, option: str) -> None:
    """Raise BadParameter for a file to write that is a folder, or whose folder is missing."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise typer.BadParameter(
            f"{str(file)!r} can't be written; give a file in a folder that is there. Nothing was "
            "done",
            param_hint=option,
        )


def whole_number(text: str) -> int:
    """Return a budget that is given as text. Raises InvalidArgumentError."""
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(
            f"budget is {shown(text)}; give a whole number of tokens from 0 up"
        ) from None
