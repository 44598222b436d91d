"""Pieces of texts, of about equal length, and the parts of documents that they are cut from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from kaosmem.ingest.segments import (
    GLUED,
    MAX_CHARS,
    PARAGRAPH,
    Path,
    Segment,
    code_segments,
    markdown_segments,
    row_size,
    size_of,
    text_segments,
)
from kaosmem.types import JSONObject

_Spans: TypeAlias = list[tuple[int, int]]
"""The places of the first segment of each piece, and after its last one."""

TARGET_CHARS = 1_200
"""Neighbours are put together up to this size."""
SMALL_CHARS = 300
"""A smaller piece is put with its neighbour even across a heading, or past the target."""


class Syntax(StrEnum):
    """How a text is cut into pieces."""

    TEXT = "text"  # reStructuredText, too
    MARKDOWN = "markdown"
    CODE = "code"  # also markup and configuration: by indentation and blank lines


_SEGMENTS: dict[Syntax, Callable[[str], Iterable[Segment]]] = {
    Syntax.TEXT: text_segments,
    Syntax.MARKDOWN: markdown_segments,
    Syntax.CODE: code_segments,
}

_SENTENCE = re.compile(r"(?s:.*)(?:[.!?][\"')\]”’]*\s|[。！？])")
_WORD = re.compile(r"(?s:.*)[\s;,}>]")


class Piece(NamedTuple):
    """A part of a text, between blank lines at its ends.

    Attributes:
        first, last: Its lines, from 1.
        part: The number of this part of one line, from 1. It is 0 for whole lines.
        title: The headings or definitions that all of it is under.
    """

    first: int
    last: int
    part: int
    text: str
    title: str


def cut_into_pieces(text: str, syntax: Syntax, *, titled: bool = True) -> Iterator[Piece]:
    """Yield the pieces of a text in order, of at most MAX_CHARS.

    Each line that is not blank is in one of them. A piece that begins among the rows of a table
    repeats the names of its columns.

    Args:
        titled: Whether the headings that a piece is under are its title. If not, it has none.
    """
    segments = _with_extra(text, list(_SEGMENTS[syntax](text)))
    if not segments:
        return
    separator = "." if syntax is Syntax.CODE else " > "
    for begin, end in _spans(segments):
        first = segments[begin]
        last = segments[end - 1]
        lines = text[first.start : last.end]
        title = ""
        if titled:
            paths = [segment.path for segment in segments[begin:end] if segment.path]
            title = separator.join(_common_beginning(paths))
        whole = first.head + lines
        if size_of(whole) <= MAX_CHARS:
            yield Piece(first.number, last.number, 0, whole, title)
            continue
        for part, sentences in enumerate(_parts(lines), 1):
            yield Piece(first.number, last.number, part, sentences, title)


def _with_extra(text: str, segments: list[Segment]) -> list[Segment]:
    """Return segments that know their sizes."""
    if text.isascii() and "|" not in text:
        return segments
    found = []
    extra = 0
    for segment in segments:
        line = text[segment.start : segment.end]
        if line.lstrip().startswith("|"):
            size = row_size(line)
        else:
            size = size_of(line)
        extra += size - len(line)
        found.append(segment._replace(extra=extra))
    return found


def _spans(segments: list[Segment]) -> _Spans:
    """Return where pieces begin and end among the segments.

    A piece is larger than MAX_CHARS only if it is a single segment.
    """
    strengths = [segment.strength for segment in segments]
    spans: _Spans = []
    to_cut = [(0, len(segments))]
    while to_cut:
        begin, end = to_cut.pop()
        if end - begin == 1 or _chars(segments, begin, end) <= MAX_CHARS:
            spans.append((begin, end))
            continue
        strongest = max(strengths[begin + 1 : end])
        inner = [at for at in range(begin + 1, end) if strengths[at] == strongest]
        edges = [begin, *inner, end]
        to_cut += reversed(_joined(segments, strengths, edges))
    return spans


def _joined(
    segments: list[Segment],
    strengths: list[int],
    edges: list[int],
) -> _Spans:
    """Return the spans between edges, which are of one strength, with small neighbours joined.

    A small span within a function, list or paragraph, beside one that will have to be cut, becomes
    its beginning or its end: the boundary between them is removed.
    """
    strength = strengths[edges[1]]
    limit = SMALL_CHARS if strength > PARAGRAPH else TARGET_CHARS
    is_inside = GLUED < strength < PARAGRAPH
    spans: _Spans = []
    for begin, end in pairwise(edges):
        if spans:
            first, last = spans[-1]
            is_small = _chars(segments, first, last) < SMALL_CHARS
            max_chars = MAX_CHARS if is_small else limit
            joins = _chars(segments, first, end) <= max_chars
            if not joins and is_small and not _join_back(spans, segments, strengths, is_inside):
                joins = is_inside and _chars(segments, begin, end) > MAX_CHARS
            if joins:
                strengths[first + 1 : begin + 1] = [GLUED] * (begin - first)
                spans[-1] = (first, end)
                continue
        spans.append((begin, end))
    _join_back(spans, segments, strengths, is_inside)
    return spans


def _chars(
    segments: list[Segment],
    begin: int,
    end: int,
) -> int:
    """Return the size of a piece with what it repeats."""
    first = segments[begin]
    last = segments[end - 1]
    extra = last.extra
    if begin:
        extra -= segments[begin - 1].extra
    return row_size(first.head) + last.end - first.start + extra


def _join_back(
    spans: _Spans,
    segments: list[Segment],
    strengths: list[int],
    is_inside: bool,
) -> bool:
    """Join the last span to the one before, if it is small and that can be."""
    if len(spans) < 2 or _chars(segments, *spans[-1]) >= SMALL_CHARS:
        return False
    before, begin = spans[-2]
    end = spans[-1][1]
    is_cut = is_inside and _chars(segments, before, begin) > MAX_CHARS
    if is_cut:
        strengths[begin] = GLUED
    if not is_cut and _chars(segments, before, end) > MAX_CHARS:
        return False
    spans[-2:] = [(before, end)]
    return True


def _common_beginning(paths: list[Path]) -> list[str]:
    """Return the names with which all paths begin."""
    common = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return common


def _parts(line: str) -> Iterator[str]:
    """Yield the parts of one enormous line: sentences, else words, else TARGET_CHARS each."""
    chars = len(line)
    size = size_of(line)
    most = MAX_CHARS * chars // size
    target = TARGET_CHARS * chars // size
    least = SMALL_CHARS * chars // size
    begin = 0
    while chars - begin > most:
        window = line[begin : begin + target]
        end = begin + _end(window, least)
        yield line[begin:end]
        begin = end
    yield line[begin:]


def _end(window: str, least: int) -> int:
    """Return the end of the last sentence in a window, else of the last word, else of the window.

    Args:
        least: An end before this place is too early.
    """
    for last in (_SENTENCE, _WORD):
        found = last.match(window)
        if found and found.end() > least:
            return found.end()
    return len(window)


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A stretch of a file, cut into pieces of storable text.

    Attributes:
        place: Names the part in the ids of its passages, after `#`, such as `p12`. It is "" if
            lines are enough.
        numbered: Whether the numbers of the pieces are lines, or rows, of the file.
        metadata: Metadata of each passage, such as `{"page": 12}`.
        headed: Whether the labels of its passages show the heading that they are under.
    """

    pieces: Iterable[Piece]
    place: str = ""
    numbered: bool = False
    metadata: JSONObject = field(default_factory=dict)
    role: str = ""
    headed: bool = False


class UnreadablePlace(NamedTuple):
    """A place in a file that can't be read, such as `L12`, and why."""

    place: str
    reason: str
    detail: str = ""


Reader: TypeAlias = Callable[[bytes], Iterable[DocumentPart | UnreadablePlace]]
"""Reads a file of some kind.

Raises UnreadableError; any other error means that the file is damaged.
"""
