"""Passages of files, and the report of what was ingested."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kaosmem.display import truncated
from kaosmem.ingest.files import (
    CANNOT_BE_READ,
    Skipped,
    SourceFile,
    UnreadableError,
    read_bytes,
    unreadable_error,
)
from kaosmem.ingest.kinds import kind_of
from kaosmem.ingest.pieces import DocumentPart, UnreadablePlace
from kaosmem.types import JSONDict

_SHOWN_SOURCES = 3
_COUNTED = ("new", "changed", "unchanged", "vanished", "skipped")


class FileChanges(NamedTuple):
    """The files of a place, by their change since they were read, and the sources that are gone."""

    new: tuple[SourceFile, ...]
    changed: tuple[SourceFile, ...]
    unchanged: tuple[SourceFile, ...]
    vanished: tuple[str, ...]


def file_changes(
    found: Iterable[SourceFile],
    known: Mapping[str, str],
    skipped: Iterable[Skipped] = (),
) -> FileChanges:
    """Return the changes since files were read.

    If the filesystem has no stamps, each file counts as changed. Nothing is known of the files in
    a folder that could not be listed: they have not vanished.

    Args:
        known: The stamp that each source had then.
        skipped: The files and folders that are not among those found.
    """
    unlisted = tuple(
        each.source
        for each in skipped
        if each.reason == CANNOT_BE_READ and each.source.endswith("/")
    )
    new = []
    changed = []
    unchanged = []
    vanished = dict(known)
    for file in found:
        stamp = vanished.pop(file.source, None)
        if stamp is None:
            new.append(file)
        elif stamp and stamp == file.stamp:
            unchanged.append(file)
        else:
            changed.append(file)
    gone = sorted(source for source in vanished if not source.startswith(unlisted))
    return FileChanges(tuple(new), tuple(changed), tuple(unchanged), tuple(gone))


@dataclass(frozen=True, slots=True, repr=False)
class IngestReport:
    """The result of ingesting a place: the sources of its files, and how many items came and went.

    Each file is in one of new, changed, unchanged, vanished and skipped. Of a file that was read in
    part, the parts that could not be read are in skipped.

    >>> binary = Skipped("c.bin", "binary")
    >>> report = IngestReport(new=("a.md", "b.md"), skipped=(binary,), items_added=7)
    >>> report
    IngestReport(2 new, 1 skipped; items: 7 added, 0 removed)
    >>> print(report)
    files: 2 new, 1 skipped; items: 7 added, 0 removed
      skipped 1, binary: c.bin
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    items_added: int = 0
    items_removed: int = 0

    @property
    def reasons(self) -> dict[str, tuple[Skipped, ...]]:
        """Return the skipped files by reason, the most frequent reason first."""
        alike: dict[str, list[Skipped]] = {}
        for skipped in self.skipped:
            alike.setdefault(skipped.reason, []).append(skipped)
        ordered = sorted(alike.items(), key=lambda each: (-len(each[1]), each[0]))
        return {reason: tuple(group) for reason, group in ordered}

    def counts(self, items: str = "items") -> str:
        """Return the numbers of files and items on one line.

        Args:
            items: The word for the items.
        """
        files = []
        for name in _COUNTED:
            number = len(getattr(self, name))
            if number:
                files.append(f"{number:,} {name}")
        counted = f"{self.items_added:,} added, {self.items_removed:,} removed"
        return f"{', '.join(files) or 'none'}; {items}: {counted}"

    def reason_lines(self) -> list[str]:
        """Return a line for each reason: how many files were skipped for it, and the first."""
        lines = []
        for reason, group in self.reasons.items():
            details = {skipped.detail for skipped in group}
            if len(details) == 1:
                why = group[0].why
            else:
                why = reason
            names = [truncated(skipped.source, 60, tail=40) for skipped in group[:_SHOWN_SOURCES]]
            if len(group) > _SHOWN_SOURCES:
                names.append("…")
            lines.append(f"skipped {len(group):,}, {why}: {', '.join(names)}")
        return lines

    def __repr__(self) -> str:
        return f"IngestReport({self.counts()})"

    def __str__(self) -> str:
        return "\n  ".join((f"files: {self.counts()}", *self.reason_lines()))


_MAX_SOURCE_CHARS = 200
_SHOWN_LOST = 5


@dataclass(frozen=True, slots=True)
class Passage:
    r"""A part of a file that can stand alone.

    Attributes:
        id: The same in any process for the same place. By lines it is `{source}#L{first}-{last}`,
            for a page, a record or another part of a file `{source}#{place}`. The n-th passage of
            one line or part ends in `.{n}`.
        text: With `\n` between lines and no blank line at its ends.
        metadata: source, file (its stamp) and, if known, lines (first and last, from 1), title,
            page, slide, sheet, cell, heading, timestamp, document and record.
    """

    id: str
    text: str
    source: str
    metadata: JSONDict
    role: str = ""


class FileReading(NamedTuple):
    """The passages of a file in order, and the parts of it that could not be read.

    Attributes:
        is_read: Whether the file could be read at all.
    """

    file: SourceFile
    passages: list[Passage]
    skipped: list[Skipped]
    is_read: bool = True


def read_passages(files: Iterable[SourceFile]) -> Iterator[FileReading]:
    """Yield a reading of each file, in the order given.

    If a file can't be read, `skipped` of its reading says why.
    """
    for file, content in read_bytes(files):
        try:
            if isinstance(content, Exception):
                raise unreadable_error(content)
            yield _reading(file, content)
        except UnreadableError as error:
            skipped = Skipped(file.source, error.reason, error.detail)
            yield FileReading(file, [], [skipped], is_read=False)


def _reading(file: SourceFile, content: bytes) -> FileReading:
    """Return the reading of a file. Raises UnreadableError."""
    name = posixpath.basename(file.source)
    passages: list[Passage] = []
    lost: list[UnreadablePlace] = []
    for part in kind_of(name, content).parts(content):
        if isinstance(part, UnreadablePlace):
            lost.append(part)
        else:
            passages += _passages(file, part)
    skipped = [
        Skipped(f"{file.source}#{place}", reason, detail)
        for place, reason, detail in lost[:_SHOWN_LOST]
    ]
    unnamed = len(lost) - _SHOWN_LOST
    if unnamed > 0:
        skipped.append(Skipped(file.source, f"{unnamed:,} more parts can't be read in full"))
    if not passages and not skipped:
        skipped = [Skipped(file.source, "no text")]
    return FileReading(file, passages, skipped)


def _passages(file: SourceFile, part: DocumentPart) -> Iterator[Passage]:
    """Yield the passages of a part, a piece each."""
    stem = _stem(file.source)
    pieces = list(part.pieces)
    for number, piece in enumerate(pieces, 1):
        metadata: JSONDict = {"source": file.source, "file": file.stamp, **part.metadata}
        if part.numbered:
            metadata["lines"] = [piece.first, piece.last]
            place = f"{part.place}L{piece.first}-{piece.last}"
            if piece.part:
                place += f".{piece.part}"
        else:
            place = part.place
            if len(pieces) > 1:
                place += f".{number}"
        if piece.title:
            metadata["title"] = piece.title
            if part.headed:
                metadata["heading"] = piece.title.rpartition(" > ")[2]
        yield Passage(f"{stem}#{place}", piece.text, file.source, metadata, part.role)


def _stem(source: str) -> str:
    """Return the prefix of the ids of a file's passages: its source, shortened if too long."""
    if len(source) <= _MAX_SOURCE_CHARS:
        return source
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    return f"{digest}~{source[17 - _MAX_SOURCE_CHARS :]}"
