"""HTML as Markdown, as far as a browser shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kaosmem.ingest.files import decoded_text, one_line, storable
from kaosmem.ingest.pieces import TARGET_CHARS, DocumentPart, Syntax, cut_into_pieces

if TYPE_CHECKING:
    from turbohtml import Element, Markdown

_HIDDEN = (
    'body [hidden]:not([hidden="until-found"], [role="tabpanel"]), '
    "template, script, style, noscript, a.headerlink, a.permalink"
)
"""A tab panel is shown by a click, and a whole page may be hidden until its scripts have run.

The links of headings to themselves, a sign such as ¶, are shown under the mouse alone.
"""
_NOT_DISPLAYED = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_BREAK = re.compile(r"(?<! ) +\n")
_MAX_TITLE_CHARS = 120
_OpenCells = dict[int, tuple[int, str]]
"""By column, a cell that goes on below its row: in how many rows, and its text."""


def read_html(data: bytes) -> Iterator[DocumentPart]:
    """Yield the text of a page."""
    yield html_part(decoded_text(data))


def html_part(html: str) -> DocumentPart:
    """Return HTML as a part whose passages show the heading that they are under."""
    return DocumentPart(cut_into_pieces(html_text(html), Syntax.MARKDOWN), "text", headed=True)


def html_text(html: str) -> str:
    """Return the text of HTML that a browser shows, as far as its elements tell."""
    import turbohtml

    page = turbohtml.parse(html)
    page.remove(_HIDDEN)
    for element in page.select('body [style*="display" i]'):
        if _NOT_DISPLAYED.search(str(element.attrs["style"])):
            element.decompose()
    text = page.to_markdown(_options(_Tables(len(html))))
    title = page.select_one("head > title")
    if title is not None and page.select_one("h1") is None:
        text = f"# {one_line(title.text, _MAX_TITLE_CHARS)}\n\n{text}"
    return storable(_BREAK.sub("\n", text.replace("\xa0", " ")))


def _options(tables: _Tables) -> Markdown:
    """Return how elements are written: without links, images, emphasis and backslashes."""
    from turbohtml import Markdown

    return Markdown(
        inline=Markdown.Inline(ignore_emphasis=True),
        links=Markdown.Links(ignore=True),
        images=Markdown.Images(mode="ignore"),
        escaping=Markdown.Escaping(mode="none", asterisks=False, underscores=False),
        strip=("code", "del", "kbd", "mark", "q", "s", "samp"),
        converters={
            "option": lambda option, text: f" {text} ",
            "tr": lambda row, text: f"{text}\n\n",
            "table": tables.write,
        },
    )


class _Tables:
    """Writes the tables of a page, a row a line.

    No value stands under the name of another column. A cell that spans rows is repeated in each, so
    that each row tells all that holds for it. The name of several columns is repeated, too. Any
    other cell that spans columns is followed by empty ones: its text would fill a passage.

    Args:
        room: So many characters are repeated at most.
    """

    def __init__(self, room: int) -> None:
        self._room = room

    def write(self, table: Element, text: str) -> str:
        """Return the rows of a table; a first row of `th` is marked as the names of the columns.

        Args:
            text: What is within the table. It stays as it is in a table that only places things.
        """
        if _only_places(table):
            return text
        lines = [one_line(each.to_text()) for each in table.select(":scope > caption")]
        open_cells: _OpenCells = {}
        has_rows = False
        for row in table.select(":scope > tr, :scope > * > tr"):
            cells = self._cells(row, open_cells)
            if not any(cells):
                continue
            lines.append(f"| {' | '.join(cells)}".rstrip())
            if len(cells) > 1 and not has_rows and not row.select(":scope > td"):
                lines.append("|" + " --- |" * len(cells))
            has_rows = True
        return "\n".join(lines)

    def _cells(self, row: Element, open_cells: _OpenCells) -> list[str]:
        """Return the texts of a row, and note which of its cells go on below it."""
        cells: list[str] = []
        elements = row.select(":scope > td, :scope > th")
        for cell in elements:
            self._add_from_above(cells, open_cells)
            text = " ".join(cell.to_text().split())
            names_columns = cell.tag == "th" and len(elements) > 1
            rows = _spanned(cell, "rowspan")
            for column in range(_spanned(cell, "colspan")):
                if column and not names_columns:
                    text = ""
                if column and not self._has_room(text):
                    break
                if rows > 1:
                    open_cells[len(cells)] = rows - 1, text
                cells.append(text)
        self._add_from_above(cells, open_cells)
        return cells

    def _add_from_above(self, cells: list[str], open_cells: _OpenCells) -> None:
        """Add the cells from rows above that take the next columns of a row."""
        while len(cells) in open_cells:
            rows, text = open_cells.pop(len(cells))
            if not self._has_room(text):
                open_cells.clear()
                return
            if rows > 1:
                open_cells[len(cells)] = rows - 1, text
            cells.append(text)

    def _has_room(self, text: str) -> bool:
        """Return whether a text may be repeated, and take the room for it."""
        self._room -= len(text) + 3
        return self._room >= 0


def _only_places(table: Element) -> bool:
    """Return whether a table only places things, as those of mails and old pages do."""
    if table.select_one("table, h1, h2, h3, h4, h5, h6") is not None:
        return True
    cells = table.select("td, th")
    if len(cells) == 1:
        return True
    return any(len(cell.text) > TARGET_CHARS for cell in cells)


def _spanned(cell: Element, attribute: str) -> int:
    """Return how many columns or rows a cell takes."""
    stated = str(cell.attrs.get(attribute, ""))
    if stated.isdecimal():
        return max(1, int(stated))
    return 1
