"""Passages: what a file is cut into, each with an id, where it is from and what it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kaosmem.ingest.files import Skipped, SourceFile, decoded, read_bytes, trouble
from kaosmem.ingest.kinds import Kind
from kaosmem.ingest.pieces import cut
from kaosmem.ingest.records import parsed
from kaosmem.types import JSONValue

MAX_RECORD_CHARS = 8_000
"""A record of JSONL has the size that its writer gave it; only a larger one is cut."""
_MAX_SOURCE_CHARS = 200
_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class Passage:
    r"""A part of a file that can stand alone.

    id: the same in any process for the same place: `{source}#L{first}-{last}`, or `{source}#L{line}` for a record
    of JSONL; with `.{n}` for the n-th part of a line that had to be cut.
    text: as in the file, with `\n` between lines and no blank line at its ends.
    lines: first and last, from 1.
    metadata: source, lines, file (its stamp) and title, where it has one; timestamp, document and record (its id)
    of a record that says so.
    """

    id: str
    text: str
    source: str
    lines: tuple[int, int]
    metadata: dict[str, JSONValue]
    role: str = ""


class Reading(NamedTuple):
    """What reading a file gave: its passages in order, and what could not be read of it."""

    file: SourceFile
    passages: list[Passage]
    skipped: list[Skipped]


def read_passages(files: Iterable[SourceFile]) -> Iterator[Reading]:
    """Yield a reading of each file, in the order given; a file that can't be read is in its `skipped`."""
    for file, content in read_bytes(files):
        try:
            if isinstance(content, Exception):
                raise ValueError(trouble(content))
            text = decoded(content)
        except ValueError as error:
            yield Reading(file, [], [Skipped(file.source, str(error))])
            continue
        if file.kind is Kind.JSONL:
            yield _records(file, text)
        else:
            yield Reading(file, list(_passages(file, text)), [])


def _passages(file: SourceFile, text: str) -> Iterator[Passage]:
    stem = _stem(file.source)
    for piece in cut(text, file.kind):
        passage_id = f"{stem}#L{piece.first}-{piece.last}" + (f".{piece.part}" if piece.part else "")
        metadata = _metadata(file, piece.first, piece.last)
        if piece.title:
            metadata["title"] = piece.title
        yield Passage(passage_id, piece.text, file.source, (piece.first, piece.last), metadata)


def _records(file: SourceFile, text: str) -> Reading:
    passages: list[Passage] = []
    broken: list[Skipped] = []
    stem = _stem(file.source)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parsed(line)
        except ValueError as error:
            broken.append(Skipped(f"{file.source}#L{number}", f"not JSON: {error}"))
            continue
        texts = {f"{stem}#L{number}": record.text} if record.text else {}
        if len(record.text) > MAX_RECORD_CHARS:
            pieces = enumerate(cut(record.text, Kind.MARKDOWN), 1)
            texts = {f"{stem}#L{number}.{part}": piece.text for part, piece in pieces}
        for passage_id, part in texts.items():
            metadata = _metadata(file, number, number) | record.fields
            passages.append(Passage(passage_id, part, file.source, (number, number), metadata, record.role))
    if len(broken) > _SHOWN_LINES:
        broken[_SHOWN_LINES:] = [Skipped(file.source, f"{len(broken) - _SHOWN_LINES:,} more lines are not JSON")]
    return Reading(file, passages, broken)


def _metadata(file: SourceFile, first: int, last: int) -> dict[str, JSONValue]:
    return {"source": file.source, "lines": [first, last], "file": file.stamp}


def _stem(source: str) -> str:
    """Return what the ids of a file's passages begin with: the source, shortened where an id could not hold it."""
    if len(source) <= _MAX_SOURCE_CHARS:
        return source
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    return f"{digest}~{source[17 - _MAX_SOURCE_CHARS :]}"
