"""Tables: rows in passages that each begin with the names of the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kaosmem.ingest.files import decoded
from kaosmem.ingest.parts import Part
from kaosmem.ingest.pieces import TARGET_CHARS, Piece, Syntax, cut
from kaosmem.ingest.segments import MAX_CHARS

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20
_MAX_HEADER_CHARS = 400
"""A longer line of names is not repeated: each row then names its values."""


class Row(NamedTuple):
    """A row of a table: the lines that it takes, its text and its cells."""

    first: int
    last: int
    text: str
    cells: Sequence[str]


def read_csv(data: bytes) -> Iterator[Part]:
    """Yield the table of comma-separated values, or of values with another delimiter between them."""
    lines = decoded(data).split("\n")
    delimiter = _delimiter(lines[:_SAMPLE_ROWS])
    try:
        rows = list(_records(lines, delimiter))
    except csv.Error:  # a quote that is never closed, or a field of more than 131,072 characters
        rows = [Row(number, number, line, line.split(delimiter)) for number, line in enumerate(lines, 1)]
    yield Part(table_pieces(rows), numbered=True)


def table_pieces(rows: Iterable[Row]) -> Iterator[Piece]:
    """Yield rows in pieces. Each piece begins with the first row, if that holds the names of the columns.

    If the names are long, or a row is, each of its values follows its name instead: `name: value`.
    """
    filled = [row for row in rows if row.text.strip()]
    header = filled[0] if len(filled) > 1 and _is_header(filled[0].cells) else None
    body = filled[1:] if header else filled
    top = f"{header.text}\n" if header and len(header.text) <= _MAX_HEADER_CHARS else ""
    room = TARGET_CHARS - len(top)
    group: list[Row] = []
    size = 0
    for row in body:
        is_large = len(row.text) > MAX_CHARS - len(top) or (header is not None and not top)
        if group and (is_large or size + len(row.text) > room):
            yield _group(top, group)
            group, size = [], 0
        if is_large:
            yield from _large_row(row, header)
        else:
            group.append(row)
            size += len(row.text) + 1
    if group:
        yield _group(top, group)


def _group(top: str, rows: Sequence[Row]) -> Piece:
    return Piece(rows[0].first, rows[-1].last, 0, top + "\n".join(row.text for row in rows), "")


def _large_row(row: Row, header: Row | None) -> Iterator[Piece]:
    """Yield a row as lines of `name: value`, without values that are empty."""
    names = header.cells if header else ()
    named = (f"{names[at]}: {cell}" if at < len(names) else cell for at, cell in enumerate(row.cells) if cell.strip())
    pieces = list(cut("\n".join(named), Syntax.CODE))
    for part, piece in enumerate(pieces, 1):
        yield Piece(row.first, row.last, part if len(pieces) > 1 else 0, piece.text, "")


def _records(lines: Sequence[str], delimiter: str) -> Iterator[Row]:
    """Yield the rows of a file, a quoted cell of which may take several lines."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    first = 1
    for cells in reader:
        yield Row(first, reader.line_num, "\n".join(lines[first - 1 : reader.line_num]), cells)
        first = reader.line_num + 1


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that most lines have, and have equally often."""

    def fit(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines if line.strip()]
        return sum(count == counts[0] > 0 for count in counts), sum(counts)

    return max(_DELIMITERS, key=fit)


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether cells are names: different texts, none of them empty or a number."""
    names = [cell.strip() for cell in cells]
    are_names = all(name and not name.replace(".", "").replace(",", "").lstrip("-+").isdigit() for name in names)
    return len(names) > 1 and are_names and len({*names}) == len(names)
