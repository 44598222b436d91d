"""Files of any fsspec filesystem that can be ingested: what is known of one unopened, its bytes, its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.ingest.kinds import Kind

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_BATCH_FILES = 64
_BATCH_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that can be ingested.

    source: its path below the ingested folder, `/` between names; unique in it.
    path: where `fs` has it.
    stamp: another one when the content may be another; empty where the filesystem can't tell.
    """

    source: str
    path: str
    kind: Kind
    size: int
    stamp: str
    fs: AbstractFileSystem = field(repr=False, compare=False)


class Skipped(NamedTuple):
    """What is not ingested, and why.

    source: a file, a folder (ending in `/`), or a line of a file (ending in `#L` and its number).
    """

    source: str
    reason: str


def read_bytes(files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, bytes | Exception]]:
    """Yield each file with its bytes, or with the error that its filesystem raised.

    Files are fetched a batch at a time, so that an object store answers many at once.
    """
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        full = len(batch) == _BATCH_FILES or size + file.size > _BATCH_BYTES
        if batch and (full or file.fs is not batch[0].fs):
            yield from _fetched(batch)
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield from _fetched(batch)


def _fetched(batch: list[SourceFile]) -> Iterator[tuple[SourceFile, bytes | Exception]]:
    # cat() would take a name with a bracket in it for a pattern.
    contents = batch[0].fs.cat_ranges([file.path for file in batch], None, None, on_error="return")
    yield from zip(batch, contents, strict=True)


def decoded(data: bytes) -> str:
    r"""Return a file's text, with `\n` between its lines.

    UTF-8, with or without a byte order mark, or UTF-16 with one. Raises ValueError that says why it is neither.
    """
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise ValueError("binary") from None
        expected = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise ValueError(f"not {expected} at byte {error.start:,}; save it as UTF-8") from None
    if "\0" in text:
        raise ValueError("binary")
    return with_newlines(text)


def with_newlines(text: str) -> str:
    r"""Return a text with `\n` for every `\r\n` and `\r`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def trouble(error: Exception) -> str:
    """Return why a file or folder could not be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be read: {reason.lower() or type(error).__name__}"
