"""Output to a terminal, laid out in tables; plain in a pipe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kaosmem.display import aligned, visible
from kaosmem.types import JSONValue

_WITHIN_LINE = re.compile(r"[^\n\t]+")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        narrow: What becomes of its cells on a terminal that is too narrow for all columns.
        min_chars: The width that the column keeps there, at least.
    """

    name: str
    justify: Literal["left", "right"] = "left"
    narrow: Literal["fold", "ellipsis"] | None = None
    min_chars: int | None = None


def clear_screen() -> None:
    """Clear the terminal; in a pipe, do nothing."""
    Console().clear()


def write(text: str) -> None:
    r"""Write text to stdout: unchanged in a pipe; on a terminal, escapes such as `\u202e` for characters not seen."""
    _put(_visible(text) if sys.stdout.isatty() else text)


def write_json(value: JSONValue) -> None:
    """Write a JSON value to stdout, as `write` does."""
    write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_table(title: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Write a blank line, a title and, if it has rows, a table to stdout."""
    rows = list(rows)
    if sys.stdout.isatty():
        _write_framed(title, columns, rows)
    else:
        numbers = [column.name for column in columns if column.justify == "right"]
        lines = aligned([column.name for column in columns], rows, numbers) if rows else []
        _put("\n".join(["", title, *lines]) + "\n")


def screen_columns() -> int:
    """Return the width of the terminal."""
    return Console().width


def screen_lines(text: str, *, indent: int) -> list[str]:
    """Return the lines that a text takes on the terminal, below an indent of some characters."""
    console = Console()
    wrapped = Text(_visible(text)).wrap(console, max(1, console.width - indent))
    return [line.plain.rstrip() for line in wrapped]


def _put(text: str) -> None:
    """Write to stdout.

    If its reader has seen enough, such as `head`, end the command without an error.
    """
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise SystemExit(0) from None


def _write_framed(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    console = Console(highlight=False)
    console.print()
    console.print(Text(title, style="bold"))
    if not rows:
        return
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="dim",
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(
            column.name,
            justify=column.justify,
            no_wrap=column.narrow is None,
            min_width=column.min_chars,
        )
    for row in rows:
        table.add_row(*map(_framed, columns, row))
    console.print(table)


def _framed(column: Column, cell: str) -> Text:
    return Text(
        _visible(cell),
        overflow=column.narrow or "fold",
        no_wrap=column.narrow == "ellipsis" or None,
    )


def _visible(text: str) -> str:
    return _WITHIN_LINE.sub(lambda line: visible(line[0]), text)


class Phases:
    """A progress line on the terminal, gone when the work ends; nothing if stderr is no terminal.

    per_second: how often it is drawn, which takes time from the work.
    """

    def __init__(self, *, per_second: int = 10) -> None:
        console = Console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(20),
            TimeElapsedColumn(),
        )
        detail = TextColumn("{task.fields[detail]}", markup=False)
        self._progress = Progress(
            *columns,
            detail,
            console=console,
            refresh_per_second=per_second,
            transient=True,
            disable=not console.file.isatty(),
        )
        self._task = self._progress.add_task("", total=None, detail="")

    def __enter__(self) -> Phases:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, phase: str) -> None:
        """Show a phase of which it is not known how long it takes."""
        self._progress.reset(self._task, description=phase, total=None, detail="")

    def show(self, name: str, done: int, total: int) -> None:
        """Show how far a phase is, and the name of the file or session that it has come to."""
        detail = f"{done:,} of {total:,}  {name[-50:]}"
        self._progress.update(self._task, completed=done, total=total, detail=detail)
