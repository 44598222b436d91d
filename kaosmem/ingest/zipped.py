"""Documents that are zip archives: Word, PowerPoint and Excel, and EPUB. Their content says which of them they are."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias
from urllib.parse import unquote
from xml.etree import ElementTree

from kaosmem.ingest.compressed import check_expansion
from kaosmem.ingest.files import UnreadableError, decoded
from kaosmem.ingest.office import read_docx, read_pptx, read_xlsx
from kaosmem.ingest.parts import Part
from kaosmem.ingest.web import html_pieces

_ZipReader: TypeAlias = Callable[[zipfile.ZipFile], Iterable[Part]]


def read_zipped(data: bytes) -> Iterable[Part]:
    """Return the parts of a document. Raises UnreadableError for any other archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        # No member can be read beyond the size that the archive states for it.
        check_expansion(sum(member.file_size for member in members), len(data))
        if any(member.flag_bits & 1 for member in members):
            raise UnreadableError("password-protected", "save it without a password")
        names = {member.filename for member in members}
        reader = next((reader for member, reader in _READERS.items() if member in names), None)
        if reader is None:
            raise UnreadableError("an archive", "unpack it")
        return list(reader(archive))


def _read_epub(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Yield the documents of a book, in the order of reading."""
    container = ElementTree.fromstring(archive.read("META-INF/container.xml"))
    path = next(element.attrib["full-path"] for element in container.iter() if "full-path" in element.attrib)
    package = ElementTree.fromstring(archive.read(path))
    items = {element.get("id"): element for element in package.iter() if "href" in element.attrib}
    for number, reference in enumerate(element.get("idref") for element in package.iter() if "idref" in element.attrib):
        item = items[reference]
        if "html" not in item.get("media-type", "") or "nav" in item.get("properties", "").split():
            continue
        href = unquote(item.attrib["href"].partition("#")[0])
        html = decoded(archive.read(posixpath.normpath(posixpath.join(posixpath.dirname(path), href))))
        yield Part(html_pieces(html), f"text{number + 1}", headed=True)


def _of_bytes(read: Callable[[bytes], Iterable[Part]]) -> _ZipReader:
    """Return a reader that gives the whole file to a library."""

    def reader(archive: zipfile.ZipFile) -> Iterable[Part]:
        assert archive.fp is not None
        archive.fp.seek(0)
        return read(archive.fp.read())

    return reader


_READERS: dict[str, _ZipReader] = {
    "META-INF/container.xml": _read_epub,
    "word/document.xml": _of_bytes(read_docx),
    "ppt/presentation.xml": _of_bytes(read_pptx),
    "xl/workbook.xml": _of_bytes(read_xlsx),
}
"""Readers of documents by a member that all of their kind have."""
