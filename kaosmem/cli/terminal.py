"""Output to a terminal, laid out in tables; plain in a pipe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from kaosmem.display import aligned, fitted, visible
from kaosmem.types import JSONValue

_WITHIN_LINE = re.compile(r"[^\n\t]+")
_FIGURE = re.compile(r"-|[\d.,]+%?")


def clear_screen() -> None:
    """Clear the terminal; in a pipe, do nothing."""
    Console().clear()


def write(text: str) -> None:
    r"""Write text to stdout.

    A pipe gets it unchanged. A terminal gets escapes such as `\u202e` for characters not seen.
    """
    _put(_visible(text) if sys.stdout.isatty() else text)


def write_json(value: JSONValue) -> None:
    """Write a JSON value to stdout, as `write` does."""
    write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a blank line, a title and, if it has rows, a table to stdout.

    Columns of figures stand right. A terminal gets lines of its width, and shows every character.
    """
    is_terminal = sys.stdout.isatty()
    shown = visible if is_terminal else str
    cells = [tuple(map(shown, row)) for row in rows]
    numbers = []
    for name, *column in zip(header, *cells, strict=True):
        if all(map(_FIGURE.fullmatch, column)):
            numbers.append(name)
    lines = ["", title, *(aligned(header, cells, numbers) if cells else ())]
    if is_terminal:
        lines = [fitted(line, screen_columns()) for line in lines]
    _put("\n".join(lines) + "\n")


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


def _visible(text: str) -> str:
    return _WITHIN_LINE.sub(lambda line: visible(line[0]), text)


class Phases:
    """A progress line on the terminal, gone when the work ends; nothing if stderr is no terminal.

    Args:
        per_second: How often it is drawn, which takes time from the work.
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
