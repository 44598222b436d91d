"""Segments of text, Markdown and reStructuredText: lines, by headings, blocks and sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kaosmem.ingest.segments import GLUED, HEADING, LINE, PARAGRAPH, Path, Segment, indented

# Between GLUED and LINE: a sentence's end is a better place than a row of a table, or a line of code in a fence.
_AFTER_SENTENCE, _ANY_LINE, _IN_FENCE_AFTER_BLANK, _ROW, _IN_FENCE = 60, 40, 30, 20, 10

_MAX_TITLE_CHARS = 120
_MAX_HEADING_CHARS = 500

_ATX = re.compile(r"(#{1,6})\s+(.*?)(?:\s+#+)?")
_SETEXT = re.compile(r"=+|-{2,}")
_FENCE = re.compile(r"`{3,}(?!.*`)|~{3,}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_ITEM = re.compile(r"(?:[-*+•]|\(?(?:\d{1,3}|[a-z]|[ivx]+)[.)])\s")
_CLAUSE = re.compile(
    r"(ARTICLE|Article|CHAPTER|Chapter|PART|Part|SECTION|Section|SCHEDULE|Schedule|EXHIBIT|Exhibit|ANNEX|Annex"
    r"|APPENDIX|Appendix)\s+(?:\d[\d.]*|[IVXLC]+|[A-Z])(?:\b|(?<=\.)).{0,80}"
)
_CAPITALS = re.compile(r"(?=.*[A-Z]{3})[^a-z]{4,80}")
_ANCHOR = re.compile(r"\.\. (?:_[^:]+:|index::|module::|currentmodule::|highlight::|only::)|<a (?:name|id)=")


class _Line(NamedTuple):
    """A line that is not blank; `bare` is without the white space around it."""

    number: int
    start: int
    end: int
    bare: str
    indent: int
    after_blank: bool


class _Heading(NamedTuple):
    """A heading.

    style: common to headings of one level; an int is the level itself.
    lines: how many it takes.
    """

    style: int | str
    text: str
    lines: int = 1


_HeadingAt: TypeAlias = Callable[[list[_Line], int], _Heading | None]


def markdown_segments(text: str) -> list[Segment]:
    """Return the lines of Markdown that are not blank, with the headings that they are under."""
    lines = _lines(text)
    return _segments(lines, _markdown_heading, _fenced(lines))


def rst_segments(text: str) -> list[Segment]:
    """Return the lines of reStructuredText that are not blank, with the headings that they are under."""
    return _segments(_lines(text), _adorned_heading, {})


def text_segments(text: str) -> list[Segment]:
    """Return the lines of plain text that are not blank, with the headings that they are under.

    An underlined line, and a line alone in capitals or as a numbered clause, is a heading.
    """
    return _segments(_lines(text), _text_heading, {})


def _lines(text: str) -> list[_Line]:
    lines = []
    start, last = 0, -1  # the first line begins a paragraph
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare:
            indent = len(line) - len(line.lstrip())
            lines.append(_Line(number, start, start + len(line), bare, indent, number - last > 1))
            last = number
        start += len(line) + 1
    return lines


def _segments(lines: list[_Line], heading_at: _HeadingAt, fenced: dict[int, int]) -> list[Segment]:
    strengths: list[int] = []
    paths: list[Path] = []
    outline = _Outline()
    headings_from: int | None = None  # where the headings directly above begin
    position = 0
    while position < len(lines):
        may_be_heading = position not in fenced and len(lines[position].bare) <= _MAX_HEADING_CHARS
        heading = heading_at(lines, position) if may_be_heading else None
        if heading is None:
            if headings_from is not None:
                _share(paths, headings_from)
            strength = fenced[position] if position in fenced else _strength(lines, position)
            strengths.append(strength if headings_from is None else GLUED)
            paths.append(outline.path)
            headings_from = None
            position += 1
            continue
        level = outline.enter(heading)
        strengths += [HEADING - level if headings_from is None else GLUED] + [GLUED] * (heading.lines - 1)
        headings_from = position if headings_from is None else headings_from
        position += heading.lines
        paths += [outline.path] * heading.lines
    if headings_from is not None:
        _share(paths, headings_from)
    _begin_at_anchors(lines, strengths, paths)
    return [
        Segment(line.number, line.number, line.start, line.end, strength, path)
        for line, strength, path in zip(lines, strengths, paths, strict=True)
    ]


def _share(paths: list[Path], start: int) -> None:
    """Put headings that stand directly above another one under the path of that one: they are no passage."""
    paths[start:] = [paths[-1]] * (len(paths) - start)


class _Outline:
    """The headings that a line is under."""

    def __init__(self) -> None:
        self.path: Path = ()
        self._levels: list[int] = []
        self._styles: list[int | str] = []  # in order of first use, which makes them levels

    def enter(self, heading: _Heading) -> int:
        """Go under a heading and return its level."""
        if isinstance(heading.style, int):
            level = heading.style
        else:
            if heading.style not in self._styles:
                self._styles.append(heading.style)
            level = self._styles.index(heading.style) + 1
        while self._levels and self._levels[-1] >= level:
            self._levels.pop()
        self.path = (*self.path[: len(self._levels)], heading.text[:_MAX_TITLE_CHARS])
        self._levels.append(level)
        return level


def _strength(lines: list[_Line], position: int) -> int:
    line = lines[position]
    before = lines[position - 1].bare if position else ""
    if line.after_blank:
        return indented(PARAGRAPH, line.indent) - before.endswith(":")
    if line.bare.startswith("|"):
        return _ROW
    if _ITEM.match(line.bare):
        return indented(LINE, line.indent)
    return _AFTER_SENTENCE if before.rstrip("\"')]”’*_")[-1:] in tuple(".!?。") else _ANY_LINE


def _begin_at_anchors(lines: list[_Line], strengths: list[int], paths: list[Path]) -> None:
    """Let a section begin at the link targets above its heading."""
    for position in range(len(lines) - 1, 0, -1):
        if strengths[position] >= HEADING - 90 and _ANCHOR.match(lines[position - 1].bare):
            strengths[position - 1], strengths[position] = strengths[position], GLUED
            paths[position - 1] = paths[position]


def _markdown_heading(lines: list[_Line], position: int) -> _Heading | None:
    line = lines[position]
    if line.indent > 3:
        return None
    if line.bare[0] == "#":
        heading = _ATX.fullmatch(line.bare)
        return _Heading(len(heading[1]), heading[2]) if heading else None
    underline = _line_under(lines, position)
    if underline and _SETEXT.fullmatch(underline) and line.bare[0] not in "|>-" and not _ITEM.match(line.bare):
        return _Heading(1 if underline[0] == "=" else 2, line.bare, 2)
    return None


def _adorned_heading(lines: list[_Line], position: int) -> _Heading | None:
    """Return the underlined heading that begins here, as in reStructuredText: any one mark, over it too or not."""
    line, underline = lines[position], _line_under(lines, position)
    if not underline:
        return None
    if _ADORNMENT.fullmatch(line.bare):
        over = position + 2 < len(lines) and lines[position + 2].bare == line.bare
        return _Heading(line.bare[:2], underline, 3) if over else None
    if line.indent or not _ADORNMENT.fullmatch(underline) or len(underline) < min(len(line.bare), 4):
        return None
    return _Heading(underline[0], line.bare, 2)


def _text_heading(lines: list[_Line], position: int) -> _Heading | None:
    line = lines[position]
    alone = line.after_blank and position + 1 < len(lines) and lines[position + 1].after_blank
    if not alone or len(line.bare) > _MAX_TITLE_CHARS:
        return _adorned_heading(lines, position)
    clause = _CLAUSE.fullmatch(line.bare)
    if clause:
        return _Heading(clause[1].upper(), line.bare)
    return _Heading("CAPITALS", line.bare) if _CAPITALS.fullmatch(line.bare) else None


def _line_under(lines: list[_Line], position: int) -> str:
    """Return the line directly under one that may be a heading, "" where it can't be one."""
    begins_block = lines[position].after_blank
    if not begins_block or position + 1 == len(lines) or lines[position + 1].after_blank:
        return ""
    return lines[position + 1].bare


def _fenced(lines: list[_Line]) -> dict[int, int]:
    """Return the strengths of the lines inside fences, and of those that close them."""
    inside: dict[int, int] = {}
    fence = ""
    for position, line in enumerate(lines):
        if fence:
            closes = line.bare.startswith(fence) and not line.bare.strip(fence[0])
            inside[position] = GLUED if closes else _IN_FENCE_AFTER_BLANK if line.after_blank else _IN_FENCE
            fence = "" if closes else fence
        elif line.bare[0] in "`~" and (opening := _FENCE.match(line.bare)):
            fence = opening[0]
    return inside
