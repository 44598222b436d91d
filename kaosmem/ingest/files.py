"""Files of any fsspec filesystem: metadata from the listing, bytes, and decoding of text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


MAX_FILE_BYTES = 64 * 1024 * 1024

_BATCH_FILES = 64
_BATCH_BYTES = 16 * 1024 * 1024

# Up to this share of bytes outside UTF-8, a text is taken for English with names in Windows-1252.
_MAX_STRAY = 0.01
# As in Python, HTML, XML, Emacs and gettext.
_DECLARED = re.compile(rb"(?:coding[:=][^\S\n]*|charset=[\"']?|encoding=[\"'])([\w.-]+)")
_DECLARED_WITHIN = 2_000
# One byte or a few for a character: of the others, Python decodes some in quadratic time.
_CHARSETS = re.compile(
    r"(?:ascii|big5|cp\d|euc|gb|hp-|hz|iso|johab|koi8|kz|latin|mac-?|ptcp|shift|tis)"
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that may be ingested.

    Attributes:
        source: Path below the ingested folder, with `/` between names. It is unique there.
        path: Path on `fs`.
        stamp: It changes when the content may have changed. It is empty if the filesystem can't
            tell.
    """

    source: str
    path: str
    size: int
    stamp: str
    fs: AbstractFileSystem = field(repr=False, compare=False)


class Skipped(NamedTuple):
    """A file that is not ingested, and why.

    Attributes:
        source: A file, a folder (ending in `/`), or a part of a file (ending in `#` and its place,
            such as `#L12`).
        reason: The same text for all files that are skipped for this reason.
        detail: What is wrong with this file, and the remedy.
    """

    source: str
    reason: str
    detail: str = ""

    @property
    def why(self) -> str:
        """Return the reason with its detail."""
        if self.detail:
            return f"{self.reason}: {self.detail}"
        return self.reason


class UnreadableError(Exception):
    """A file can't be read; it becomes a `Skipped`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def read_bytes(files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, bytes | Exception]]:
    """Yield each file with its bytes, or with the error that its filesystem raised.

    Files are fetched a batch at a time, so that an object store answers many at once.
    """
    for batch in batches(files, _BATCH_FILES, _BATCH_BYTES):
        # cat() would take a name with a bracket in it for a pattern.
        paths = [file.path for file in batch]
        contents = batch[0].fs.cat_ranges(paths, None, None, on_error="return")
        yield from zip(batch, contents, strict=True)


def batches(
    files: Iterable[SourceFile],
    number: int,
    size: int,
) -> Iterator[list[SourceFile]]:
    """Yield files in batches of at most `number` files, and of `size` bytes or a single file."""
    batch: list[SourceFile] = []
    left = size
    for file in files:
        if batch and (len(batch) == number or file.size > left):
            yield batch
            batch = []
            left = size
        batch.append(file)
        left -= file.size
    if batch:
        yield batch


def decoded_text(data: bytes) -> str:
    r"""Return the text of a file, with `\n` between its lines.

    The encoding is UTF-8, UTF-16 with a byte order mark, or the encoding that the text declares, as
    `# coding: latin-1` does. A text with few other bytes is read as Windows-1252, line by line.

    Raises:
        UnreadableError: If the text has another encoding, or is binary.
    """
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise UnreadableError("binary") from None
        where = f"at byte {error.start:,}; save it as UTF-8"
        if is_utf_16:
            raise UnreadableError("not UTF-16", where) from None
        text = _decoded_otherwise(data)
        if not text:
            raise UnreadableError("not UTF-8", where) from None
    if "\0" in text:
        raise UnreadableError("binary")
    return with_newlines(text)


def _decoded_otherwise(data: bytes) -> str:
    """Return the text of bytes that are not all UTF-8, or "" if there is no safe guess."""
    declared = _DECLARED.search(data, 0, _DECLARED_WITHIN)
    if declared:
        try:
            charset = codecs.lookup(declared[1].decode()).name
            if _CHARSETS.match(charset):
                return decoded_as(charset, data)
        except (LookupError, ValueError):
            pass  # the charset is unknown, or the bytes are not of it
    stray = len(data) - len(data.decode("utf-8", "ignore").encode())
    if stray > len(data) * _MAX_STRAY:
        return ""
    return "\n".join(map(_decoded_line, data.split(b"\n")))


def decoded_as(charset: str, data: bytes) -> str:
    """Return bytes as text of a declared charset. Latin-1 is read as Windows-1252, as browsers do.

    Raises LookupError for an unknown charset, and ValueError for bytes that are not of it.
    """
    if codecs.lookup(charset).name == "iso8859-1":
        return data.decode("cp1252", "replace")
    return data.decode(charset)


def _decoded_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def with_newlines(text: str) -> str:
    r"""Return a text with `\n` for every `\r\n` and `\r`."""
    if "\r" in text:
        return text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def storable(text: str) -> str:
    r"""Return a text that can be stored.

    It has `\n` between lines, no blank ends, and U+FFFD in place of lone surrogates.
    """
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = with_newlines(text)
    # Without blank lines at its ends, but with the indentation of its first line.
    indent_end = len(text) - len(text.lstrip())
    begin = text.rfind("\n", 0, indent_end) + 1
    return text[begin:].rstrip()


def one_line(text: str, max_chars: int = 500) -> str:
    """Return a text on one line, cut, as a value of metadata."""
    return " ".join(storable(text[: 4 * max_chars]).split())[:max_chars]


CANNOT_BE_READ = "cannot be read"
"""Why a file or a folder is skipped if its filesystem raises an error."""


def unreadable_error(error: Exception) -> UnreadableError:
    """Return an error that says why a file or folder could not be read."""
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    else:
        reason = str(error)
    return UnreadableError(CANNOT_BE_READ, reason.lower() or type(error).__name__)


_MAX_RATIO = 200
_ALWAYS_BYTES = 1024 * 1024
"""A small file may expand to this size, whatever the ratio."""


def check_expansion(expanded_size: int, size: int) -> None:
    """Raise UnreadableError if a file of `size` bytes expands to too much."""
    limit = min(MAX_FILE_BYTES, max(_ALWAYS_BYTES, _MAX_RATIO * size))
    if expanded_size > limit:
        raise UnreadableError(
            "too large", f"expands to more than {limit:,} bytes; expand it and split it"
        )
