"""Output to a terminal, laid out in tables; plain in a pipe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kaosmem.display import aligned, preview, truncated, visible
from kaosmem.types import JSONDict, JSONValue

if TYPE_CHECKING:
    from rich.console import Console

_WITHIN_LINE = re.compile(r"[^\n\t]+")
_FIGURE = re.compile(r"-|[\d.,]+%?")
_CELL_COLUMNS = 200


def _console(*, stderr: bool = False) -> Console:
    """Return the terminal. Its package is loaded only where it is used: it takes long."""
    from rich.console import Console

    return Console(stderr=stderr)


def clear_screen() -> None:
    """Clear the terminal; in a pipe, do nothing."""
    _console().clear()


def write(text: str) -> None:
    r"""Write text to stdout.

    A pipe gets it unchanged. A terminal gets escapes such as `\u202e` for characters not seen.
    """
    if sys.stdout.isatty():
        text = _visible(text)
    _put(text)


def write_json(value: JSONValue) -> None:
    """Write a JSON value to stdout, as `write` does."""
    write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_result(
    result: JSONDict,
    *,
    as_json: bool,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write the result of a command: as JSON for a program, or laid out for a person.

    A person gets a line for each value, and a table for each list of objects, without the columns
    that have no value. Errors in a list are a line each.

    Args:
        columns: The columns of tables that have more fields than a person wants, by name.
    """
    if as_json:
        write_json(result)
        return
    tables = []
    for name, value in result.items():
        if name in ("damage", "notices") or not _is_table(value):
            _write_lines(name, value)
        else:
            tables.append((name, value))
    for name, rows in tables:
        header = (columns or {}).get(name) or [
            column for column in rows[0] if any(row[column] not in (None, "") for row in rows)
        ]
        cells = [[_in_words(row.get(column)) for column in header] for row in rows]
        write_table(name, header, [[preview(cell, _CELL_COLUMNS) for cell in row] for row in cells])


def _is_table(value: JSONValue) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _write_lines(name: str, value: JSONValue) -> None:
    """Write a line for a value, or for each value of a list; none for an empty value."""
    if isinstance(value, list):
        for each in value:
            _write_lines(name, each)
    elif isinstance(value, dict) and "message" in value:
        write(f"{name}: {value['message']}\n")
    elif value not in (None, "", {}):
        write(f"{name}: {_in_words(value)}\n")


def _in_words(value: JSONValue) -> str:
    """Return a value as a person reads it."""
    match value:
        case None:
            return "-"
        case str():
            return value
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case float():
            return f"{value:,.3f}"
        case dict() if all(isinstance(each, int | float) for each in value.values()):
            return ", ".join(f"{name} {_in_words(number)}" for name, number in value.items())
    return json.dumps(value, ensure_ascii=False)


def write_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> None:
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
    lines = ["", title]
    if cells:
        lines += aligned(header, cells, numbers)
    if is_terminal:
        lines = [truncated(line, screen_columns()) for line in lines]
    _put("\n".join(lines) + "\n")


def screen_columns() -> int:
    """Return the width of the terminal."""
    return _console().width


def screen_lines(text: str, *, indent: int) -> list[str]:
    """Return the lines that a text takes on the terminal, below an indent of some characters."""
    from rich.text import Text

    console = _console()
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


class ProgressLine:
    """A progress line on the terminal, gone when the work ends; nothing if stderr is no terminal.

    Args:
        per_second: How often it is drawn, which takes time from the work.
    """

    def __init__(self, *, per_second: int = 10) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = _console(stderr=True)
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

    def __enter__(self) -> ProgressLine:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, phase: str) -> None:
        """Show a phase of which it is not known how long it takes."""
        self._progress.reset(self._task, description=phase, total=None, detail="")

    def show(
        self,
        name: str,
        done: int,
        total: int,
    ) -> None:
        """Show how far a phase is, and the name of the file or session that it has come to."""
        detail = f"{done:,} of {total:,}  {name[-50:]}"
        self._progress.update(self._task, completed=done, total=total, detail=detail)
