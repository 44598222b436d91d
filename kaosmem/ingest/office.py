"""Word, PowerPoint and Excel files, and tables of text."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import dropwhile, pairwise, takewhile, zip_longest
from typing import Any, NamedTuple

from kaosmem.ingest.files import UnreadableError, check_expansion, decoded_text, one_line, storable
from kaosmem.ingest.pieces import TARGET_CHARS, DocumentPart, Piece, Syntax, cut_into_pieces
from kaosmem.ingest.segments import MAX_CHARS, MAX_HEAD_CHARS, row_size, size_of
from kaosmem.ingest.web import html_part
from kaosmem.types import JSONDict

_DELIMITERS = ",;\t|"
_MAX_TITLES = 3
_YEAR = re.compile(r"(?:19|20)\d\d")
_SAMPLE_ROWS = 20


class Row(NamedTuple):
    """A row of a table: the lines that it takes, its text and its cells."""

    first: int
    last: int
    text: str
    cells: Sequence[str]


def read_csv(data: bytes) -> Iterator[DocumentPart]:
    """Yield the table of values between commas, semicolons, tabs or bars."""
    lines = decoded_text(data).split("\n")
    delimiter = _delimiter(lines[:_SAMPLE_ROWS])
    try:
        rows = list(_records(lines, delimiter))
    except csv.Error:  # a quote that is never closed, or a field of more than 131,072 characters
        rows = [
            Row(number, number, line, line.split(delimiter)) for number, line in enumerate(lines, 1)
        ]
    yield DocumentPart(table_pieces(rows), numbered=True)


def table_pieces(rows: Iterable[Row]) -> Iterator[Piece]:
    """Yield rows in pieces.

    Each piece begins with the names of the columns, if the first row holds them, or the first one
    below a title, and with the title.

    If the names are long, or a row is, each of its values follows its name instead: `name: value`.
    """
    filled = [row for row in rows if row.text.strip()]
    titles = list(takewhile(_is_title, filled[:_MAX_TITLES]))
    below = filled[len(titles) :]
    if len(below) < 2 or not _is_header(below[0].cells):
        yield from _grouped(filled, "", None)
        return
    header, *body = below
    top = "".join(f"{row.text}\n" for row in (*titles, header))
    if len(top) > MAX_HEAD_CHARS:
        top = ""
        if len(header.text) <= MAX_HEAD_CHARS:
            top = f"{header.text}\n"
        if titles:
            yield _group("", titles)
    yield from _grouped(body, top, header)


def _grouped(
    rows: Iterable[Row],
    top: str,
    header: Row | None,
) -> Iterator[Piece]:
    """Yield rows in pieces of about TARGET_CHARS.

    Args:
        top: Begins each piece.
        header: The row with the names of the columns, None without names.
    """
    room = TARGET_CHARS - row_size(top)
    max_chars = MAX_CHARS - size_of(top)
    if header is not None and not top:
        max_chars = 0  # the names are long: each value follows its name
    group: list[Row] = []
    size = 0
    for row in rows:
        size_here = row_size(row.text)
        is_large = size_of(row.text) > max_chars
        if group and (is_large or size + size_here > room):
            yield _group(top, group)
            group = []
            size = 0
        if is_large:
            yield from _large_row(row, header)
        else:
            group.append(row)
            size += size_here + 1
    if group:
        yield _group(top, group)


def _group(top: str, rows: Sequence[Row]) -> Piece:
    """Return rows as one piece."""
    lines = "\n".join(row.text for row in rows)
    return Piece(rows[0].first, rows[-1].last, 0, top + lines, "")


def _large_row(row: Row, header: Row | None) -> Iterator[Piece]:
    """Yield a row as lines of `name: value`, without values that are empty."""
    names = header.cells if header else ()
    lines = []
    for name, cell in zip_longest(names, row.cells, fillvalue=""):
        if cell.strip():
            if name:
                cell = f"{name}: {cell}"
            lines.append(cell)
    pieces = list(cut_into_pieces("\n".join(lines), Syntax.CODE))
    for part, piece in enumerate(pieces, 1):
        if len(pieces) == 1:
            part = 0
        yield Piece(row.first, row.last, part, piece.text, "")


def _records(lines: Sequence[str], delimiter: str) -> Iterator[Row]:
    """Yield the rows of a file, a quoted cell of which may take several lines."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    first = 1
    for cells in reader:
        last = reader.line_num
        yield Row(first, last, "\n".join(lines[first - 1 : last]), cells)
        first = last + 1


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that most lines have, and have equally often."""

    def fit(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines if line.strip()]
        like_first = sum(count == counts[0] > 0 for count in counts)
        return like_first, sum(counts)

    return max(_DELIMITERS, key=fit)


def _is_title(row: Row) -> bool:
    """Return whether a row is a text above a table."""
    filled = [cell for cell in row.cells if cell.strip()]
    return len(filled) == 1 and len(row.text) <= MAX_HEAD_CHARS


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether cells are names: different texts, none of them empty or a number.

    The first ones may be empty, as beside the columns of a table. Years in a row are names.
    """
    stripped = map(str.strip, cells)
    given = list(dropwhile(lambda name: not name, stripped))
    years = [int(name) for name in given if _YEAR.fullmatch(name)]
    names = given
    steps = {abs(later - year) for year, later in pairwise(years)}
    if steps == {1}:
        names = [name for name in given if not _YEAR.fullmatch(name)]
    are_names = all(
        name and not name.replace(".", "").replace(",", "").lstrip("-+").isdigit() for name in names
    )
    return len(given) > 1 and are_names and len(set(given)) == len(given)


def read_docx(data: bytes) -> Iterator[DocumentPart]:
    """Yield the text of a Word document, with insertions that are tracked, footnotes and tables."""
    import mammoth

    html = mammoth.convert_to_html(io.BytesIO(data), convert_image=lambda image: [])
    check_expansion(len(html.value), len(data))  # a footnote is repeated at each of its marks
    yield html_part(html.value)


def read_pptx(data: bytes) -> Iterator[DocumentPart]:
    """Yield the slides of a presentation: title, texts, tables and notes."""
    import pptx

    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        texts = list(_texts(slide.shapes))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text
            if notes.strip():
                texts.append(f"Notes: {notes}")
        metadata: JSONDict = {"slide": number}
        title = slide.shapes.title
        if title is not None and title.text_frame.text.strip():
            metadata["title"] = one_line(title.text_frame.text)
        pieces = cut_into_pieces(storable("\n\n".join(texts)), Syntax.TEXT, titled=False)
        yield DocumentPart(pieces, f"slide{number}", metadata=metadata)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of shapes, of those in groups too."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            lines = []
            for row in shape.table.rows:
                cells = " | ".join(cell.text for cell in row.cells)
                lines.append(f"| {cells}")
            yield "\n".join(lines)


def read_xlsx(data: bytes) -> Iterator[DocumentPart]:
    """Yield the sheets of a workbook, with the values that formulas had when it was saved.

    A formula without one is shown itself: a program wrote it, and nothing has computed it yet.
    """
    import openpyxl

    load = partial(openpyxl.load_workbook, read_only=True, keep_links=False)
    workbook = load(io.BytesIO(data), data_only=True)
    books = [workbook]
    if getattr(workbook.calculation, "fullCalcOnLoad", False):  # many programs write no settings
        books.append(load(io.BytesIO(data)))
    size = 0
    for number, sheets in enumerate(zip(*[book.worksheets for book in books], strict=True), 1):
        for sheet in sheets:
            sheet.reset_dimensions()  # what a program states may be less, or a million empty rows
        values = zip(*[sheet.iter_rows(values_only=True) for sheet in sheets], strict=True)
        rows = []
        for row in _rows(values):
            size += len(row.text)
            check_expansion(size, len(data))  # many cells may share one long text
            rows.append(row)
        metadata: JSONDict = {"sheet": one_line(sheets[0].title)}
        yield DocumentPart(table_pieces(rows), f"sheet{number}!", numbered=True, metadata=metadata)


def _rows(rows: Iterable[Sequence[tuple[Any, ...]]]) -> Iterator[Row]:
    """Yield the rows of a sheet. Each is given once with values, and perhaps with formulas."""
    for number, given in enumerate(rows, 1):
        cells = [_cell_text(values) for values in zip(*given, strict=True)]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield Row(number, number, " | ".join(cells), cells)


def _cell_text(values: Sequence[object]) -> str:
    """Return the value of a cell, or the formula for one that is empty or 0.

    A program may write 0 for what it has not computed. A date has no time of the day.
    """
    value = next(filter(None, values), values[0])
    if value is None:
        return ""
    text = str(getattr(value, "text", value))  # the formula of an array is an object
    return storable(" ".join(text.split())).removesuffix(" 00:00:00")


# One library for all of these and PDF, kreuzberg 4.10.4, reads them several times as fast. But it
# loses each `&` and `<` of a Word document, shows notes under another slide, counts the rows of a
# sheet from the first row with a value, and knows no outline of a PDF.
def read_zipped(data: bytes) -> Iterable[DocumentPart]:
    """Return the parts of a document. Raises UnreadableError for any other archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        # No member can be read beyond the size that the archive states for it.
        check_expansion(sum(member.file_size for member in members), len(data))
        if any(member.flag_bits & 1 for member in members):
            raise UnreadableError("password-protected", "save it without a password")
        names = {member.filename for member in members}
    for member, reader in _READERS.items():
        if member in names:
            return reader(data)
    raise UnreadableError("an archive", "unpack it")


_READERS: dict[str, Callable[[bytes], Iterable[DocumentPart]]] = {
    "word/document.xml": read_docx,
    "ppt/presentation.xml": read_pptx,
    "xl/workbook.xml": read_xlsx,
}
"""Readers of documents by a member that all of their kind have."""
