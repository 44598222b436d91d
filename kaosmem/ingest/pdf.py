"""PDF, page by page, by pypdf of the extra `docs`."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError

from kaosmem.ingest.files import UnreadableError, check_expansion, one_line, storable
from kaosmem.ingest.pieces import DocumentPart, Syntax, UnreadablePlace, cut_into_pieces
from kaosmem.types import JSONDict

_LEADERS = re.compile(r"(?<![ \t])(?:[ \t]*\.){5,}[ \t]*")
"""The dots between a title and its page in a table of contents."""


def read_pdf(data: bytes) -> Iterator[DocumentPart | UnreadablePlace]:
    """Yield the pages of a document that have text, titled by its outline.

    A page that is damaged is lost.
    """
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not _is_open_to_all(reader):
        raise UnreadableError("password-protected", "save it without a password")
    titles = _titles(reader)
    title = ""
    has_text = False
    size = 0
    for number, page in enumerate(reader.pages, 1):
        try:
            contents = page.get_contents()
            if contents is not None:
                size += len(contents.get_data())
            check_expansion(size, len(data))
            text = storable(_LEADERS.sub(" … ", page.extract_text()))
        except UnreadableError:
            raise
        except Exception as error:  # pypdf raises many kinds
            yield UnreadablePlace(
                f"p{number}", "damaged", f"{type(error).__name__} as PDF; save it anew"
            )
            continue
        title = titles.get(number, title)
        has_text = has_text or bool(text)
        metadata: JSONDict = {"page": number}
        if title:
            metadata["title"] = title
        pieces = cut_into_pieces(text, Syntax.TEXT, titled=not title)
        yield DocumentPart(pieces, f"p{number}", metadata=metadata)
    if not has_text:
        raise UnreadableError("no text", "it needs OCR first")


def _is_open_to_all(reader: PdfReader) -> bool:
    """Return whether a document is encrypted only to restrict its use, with an empty password."""
    try:
        return reader.decrypt("") != PasswordType.NOT_DECRYPTED
    except DependencyError:
        return False


def _titles(reader: PdfReader) -> dict[int, str]:
    """Return the last entry of the outline on each page that has one, with the entries above it."""
    titles: dict[int, str] = {}

    def note(entries: Iterable[Any], above: tuple[str, ...]) -> None:
        path = above
        for entry in entries:
            if isinstance(entry, list):
                note(entry, path)
                continue
            page = reader.get_destination_page_number(entry)
            path = (*above, one_line(str(entry.title), 120))
            if page is not None and page >= 0:
                titles[page + 1] = " > ".join(path)

    try:
        note(reader.outline, ())
    except Exception:  # an outline that is damaged is none
        return {}
    return titles
