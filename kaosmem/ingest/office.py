"""Documents of Word, PowerPoint and Excel, by mammoth, python-pptx and openpyxl of the extra `docs`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from kaosmem.ingest.files import one_line, storable
from kaosmem.ingest.parts import Part
from kaosmem.ingest.pieces import Syntax, cut
from kaosmem.ingest.tables import Row, table_pieces
from kaosmem.ingest.web import html_pieces
from kaosmem.types import JSONValue


def read_docx(data: bytes) -> Iterator[Part]:
    """Yield the text of a Word document, with insertions that are tracked, footnotes and tables."""
    import mammoth

    html = mammoth.convert_to_html(io.BytesIO(data), convert_image=lambda image: [])
    yield Part(html_pieces(html.value), "text", headed=True)


def read_pptx(data: bytes) -> Iterator[Part]:
    """Yield the slides of a presentation: title, texts, tables and notes."""
    import pptx

    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        texts = list(_texts(slide.shapes))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text
            texts += [f"Notes: {notes}"] if notes.strip() else []
        metadata: dict[str, JSONValue] = {"slide": number}
        title = slide.shapes.title
        if title is not None and title.text_frame.text.strip():
            metadata["title"] = one_line(title.text_frame.text)
        pieces = cut(storable("\n\n".join(texts)), Syntax.TEXT)
        yield Part((piece._replace(title="") for piece in pieces), f"slide{number}", metadata=metadata)


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of shapes, of those in groups too."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            yield "\n".join(f"| {' | '.join(cell.text for cell in row.cells)}" for row in shape.table.rows)


def read_xlsx(data: bytes) -> Iterator[Part]:
    """Yield the sheets of a workbook, with the values that formulas had when it was saved."""
    import openpyxl

    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    for number, sheet in enumerate(workbook.worksheets, 1):
        rows = list(_rows(sheet.iter_rows(values_only=True)))
        metadata: dict[str, JSONValue] = {"sheet": one_line(sheet.title)}
        yield Part(table_pieces(rows), f"sheet{number}!", numbered=True, metadata=metadata)


def _rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    for number, values in enumerate(rows, 1):
        cells = ["" if value is None else storable(" ".join(str(value).split())) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield Row(number, number, " | ".join(cells), cells)
