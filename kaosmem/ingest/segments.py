"""Segments of a text: its lines that are not blank, each with the headings or definitions above."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import NamedTuple, TypeAlias

from kaosmem.language.scripts import UNSPACED

MAX_CHARS = 2_000
"""A text of this size is not cut, and no piece is larger. See `size_of`."""

_WIDE = re.compile(f"[{UNSPACED}]")
_WIDTH = 3
"""A character of a script without spaces says, and costs, as much as so many Latin ones."""

_DENSE = re.compile(r"[^\w\s]|\d")

MAX_HEAD_CHARS = 400
"""Longer names of a table's columns are not repeated."""

HEADING = 600
"""A heading, less its level."""
PARAGRAPH = 400
"""The strength after a blank line, less twice the indentation.

It is one less if the line before announces this one.
"""
LINE = 200
"""A line of code or an entry of a list, less twice its indentation."""
_AFTER_SENTENCE = 60
_ANY_LINE = 40
_ROW = 20
_IN_FENCE = 10
GLUED = 0
"""The strength of a line that belongs to the line before."""

_DEEPEST = 90
_MAX_TITLE_CHARS = 120
_MAX_HEADING_CHARS = 500

_ATX = re.compile(r"(#{1,6})\s+(.*?)(?:\s+#+)?")
_FENCE = re.compile(r"`{3,}(?!.*`)|~{3,}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{1,}")
_ITEM = re.compile(r"(?:[-*+•]|\(?(?:\d{1,3}|[a-z]|[ivx]+)[.)])\s")
_CLAUSE = re.compile(
    r"(ARTICLE|Article|CHAPTER|Chapter|PART|Part|SECTION|Section|SCHEDULE|Schedule|EXHIBIT|Exhibit"
    r"|ANNEX|Annex|APPENDIX|Appendix)\s+(?:\d[\d.]*|[IVXLC]+|[A-Z])(?:\b|(?<=\.)).{0,80}"
)
_CAPITALS = re.compile(r"(?=.*[A-Z]{3})[^a-z]{4,80}")

# Comments, decorators and preprocessor lines: they belong to the line below.
_LEADS = re.compile(r"#|//|/\*|\*|--|;|%|@")
# A line that closes or continues the block before it.
_FOLLOWS = re.compile(
    r"[)\]}]|</"
    r"|(?:else|elif|elsif|except|rescue|finally|catch|end|fi|done|esac|then|do)\b"
)
# A label of C, such as `public:`. A key of YAML looks the same.
_LABEL = re.compile(r"[A-Za-z_]\w*:\Z")
_DEFINITION = re.compile(
    r"(?:(?:export|default|declare|async|pub|public|private|protected|internal|static|final"
    r"|abstract|virtual|inline|extern|unsafe|const|sealed|open|data|local|partial|override)"
    r"(?:\([^)]*\))?\s++)*+"
    r"(?:def|class|func|function|fn|fun|interface|struct|enum|union|trait|impl|type|module"
    r"|namespace|record|object|protocol|extension|defmodule|defp|sub|cdef|cpdef)\b[ *]+"
    r"(?:\([^)]*\)\s*+)?"
    r"([A-Za-z_$][\w$]*(?:(?:::?|\.)[\w$]+)*)"
)
# Such as `static int area(struct box *b) {`, or with the brace on the next line.
_CALLABLE = re.compile(
    r"(?!(?:if|for|while|switch|catch|return|else|do|new|throw|await|case|sizeof|defer|go|select"
    r"|using|lock|typedef|assert|with|foreach|elseif|synchronized)\b)"
    r"(?:[\w<>\[\],.:~$@]++[ \t*&]++)*([A-Za-z_~$][\w:~$]*+)\s*\([^;]*"
)

Path: TypeAlias = tuple[str, ...]
"""Headings, or definitions, from the outermost in."""


class Segment(NamedTuple):
    """A line that is not blank.

    Attributes:
        number: Its number in the text, from 1.
        start, end: Positions in the text, without the last newline.
        path: The headings or definitions that it is under.
        head: Lines that a piece repeats if it begins here: the names of a table's columns.
        extra: What the text up to its end has in size beyond its characters.
    """

    number: int
    start: int
    end: int
    strength: int
    path: Path
    head: str = ""
    extra: int = 0


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

    Attributes:
        style: Common to headings of one level. A number is the level itself.
        lines: The number of lines that it takes.
    """

    style: int | str
    text: str
    lines: int = 1


_HeadingAt: TypeAlias = Callable[[list[_Line], int], _Heading | None]


def size_of(text: str) -> int:
    """Return the size of a text in Latin characters.

    >>> size_of("rent"), size_of("\u79df\u91d1")
    (4, 6)
    """
    size = len(text)
    if not text.isascii():
        size += (_WIDTH - 1) * len(_WIDE.findall(text))
    return size


def row_size(text: str) -> int:
    """Return the size of rows of a table: a digit or a mark costs as much as two letters.

    >>> row_size("| rent | 900 |")
    20
    """
    return size_of(text) + len(_DENSE.findall(text))


def markdown_segments(text: str) -> list[Segment]:
    """Return the lines of Markdown, with the headings that they are under."""
    lines = _lines(text)
    fenced = _fenced(lines)
    segments = _prose_segments(lines, _markdown_heading, fenced)
    return _under_table_heads(text, lines, segments, fenced)


def text_segments(text: str) -> list[Segment]:
    """Return the lines of plain text or reStructuredText, with the headings that they are under.

    An underlined line, and a line alone in capitals or as a numbered clause, is a heading.
    """
    return _prose_segments(_lines(text), _text_heading, {})


def code_segments(text: str) -> list[Segment]:
    """Return the lines of code, markup or configuration, with the definitions around them."""
    lines = _lines(text)
    segments = []
    scopes = _Scopes()
    for position, line in enumerate(lines):
        before = lines[position - 1].bare if position else ""
        follows = _follows(line.bare, before)
        if not follows and not _LEADS.match(line.bare):
            scopes.leave(line.indent)
        name = _defined(lines, position)
        if name:
            scopes.enter(line.indent, name)
        if follows or (_LEADS.match(before) and not line.after_blank):
            strength = GLUED
        elif line.after_blank:
            strength = _indented(PARAGRAPH, line.indent)
            if _LEADS.match(before):
                strength -= 1
        else:
            strength = _indented(LINE, line.indent)
        segments.append(_segment(line, strength, scopes.path))
    return _led(lines, segments)


def _follows(bare: str, before: str) -> bool:
    """Return whether a line of code closes or continues the block of the line before."""
    if bare == "{":  # of the definition before, not an object of JSON
        return not before.endswith((",", "[", "(", "{"))
    if _LABEL.match(bare):
        return before.endswith((";", "{", "}", ":"))
    return _FOLLOWS.match(bare) is not None


def _lines(text: str) -> list[_Line]:
    """Return the lines of a text that are not blank."""
    lines = []
    start = 0
    last = -1  # the first line begins a paragraph
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        end = start + len(line)
        if bare:
            indent = len(line) - len(line.lstrip())
            lines.append(_Line(number, start, end, bare, indent, number - last > 1))
            last = number
        start = end + 1
    return lines


def _segment(
    line: _Line,
    strength: int,
    path: Path,
) -> Segment:
    """Return a line as a segment."""
    return Segment(line.number, line.start, line.end, strength, path)


def _indented(strength: int, indent: int) -> int:
    """Return the strength of an indented line."""
    return strength - 2 * min(indent, _DEEPEST)


class _Scopes:
    """The headings, or definitions, that a line is in."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    @property
    def path(self) -> Path:
        return tuple(name for _, name in self._open)

    def leave(self, level: int) -> None:
        """Go out of all that is not above a level."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()

    def enter(self, level: int, name: str) -> None:
        """Go under a name at a level."""
        self.leave(level)
        self._open.append((level, name[:_MAX_TITLE_CHARS]))


def _defined(lines: list[_Line], position: int) -> str:
    """Return the name that a line of code defines, "" if it defines none."""
    bare = lines[position].bare[:_MAX_HEADING_CHARS]
    definition = _DEFINITION.match(bare)
    if definition is None:
        following = lines[position + 1 : position + 2]
        if bare.endswith("{") or (following and following[0].bare == "{"):
            definition = _CALLABLE.fullmatch(bare)
    if definition is None:
        return ""
    return definition[1]


def _led(lines: list[_Line], segments: list[Segment]) -> list[Segment]:
    """Return segments of code in which comments have the path of the line below them."""
    for position in range(len(lines) - 2, -1, -1):
        if _LEADS.match(lines[position].bare) and not lines[position + 1].after_blank:
            path = segments[position + 1].path
            segments[position] = segments[position]._replace(path=path)
    return segments


def _prose_segments(
    lines: list[_Line],
    heading_at: _HeadingAt,
    fenced: dict[int, int],
) -> list[Segment]:
    segments: list[Segment] = []
    scopes = _Scopes()
    styles: list[int | str] = []  # in the order of their first use, which makes them levels
    above = 0  # lines of headings directly above
    position = 0
    while position < len(lines):
        line = lines[position]
        heading = None
        if position not in fenced and len(line.bare) <= _MAX_HEADING_CHARS:
            heading = heading_at(lines, position)
        if heading is None:
            _put_under(scopes.path, segments, above)
            if position in fenced:
                strength = fenced[position]
            else:
                strength = _strength(lines, position)
            if above:
                strength = GLUED
            segments.append(_segment(line, strength, scopes.path))
            above = 0
            position += 1
            continue
        level = _level(heading, styles)
        scopes.enter(level, heading.text)
        for number, each in enumerate(lines[position : position + heading.lines]):
            if above or number:
                strength = GLUED
            else:
                strength = HEADING - level
            segments.append(_segment(each, strength, scopes.path))
        above += heading.lines
        position += heading.lines
    _put_under(scopes.path, segments, above)
    return segments


def _put_under(path: Path, segments: list[Segment], above: int) -> None:
    """Put the last segments under the path of the last of their headings.

    A heading directly above another one is no passage.

    Args:
        above: So many segments are headings without a text between them.
    """
    for place in range(len(segments) - above, len(segments)):
        segments[place] = segments[place]._replace(path=path)


def _under_table_heads(
    text: str,
    lines: list[_Line],
    segments: list[Segment],
    fenced: Container[int],
) -> list[Segment]:
    """Return segments of which each row of a table has the table's names of columns as its head."""
    head = ""
    for position, line in enumerate(lines):
        if position in fenced or line.after_blank or "|" not in line.bare:
            head = ""
        elif head:
            segments[position] = segments[position]._replace(head=head)
        elif _is_below_names(line.bare) and "|" in lines[position - 1].bare:
            names = text[lines[position - 1].start : line.end] + "\n"
            if len(names) <= MAX_HEAD_CHARS:
                head = names
            segments[position] = segments[position]._replace(strength=GLUED)
    return segments


def _is_below_names(bare: str) -> bool:
    """Return whether a line is the one below the names of a table's columns, as `|---|:-:|`."""
    return "-" in bare and not bare.strip("|-: \t")


def _level(heading: _Heading, styles: list[int | str]) -> int:
    if isinstance(heading.style, int):
        return heading.style
    if heading.style not in styles:
        styles.append(heading.style)
    return styles.index(heading.style) + 1


def _strength(lines: list[_Line], position: int) -> int:
    """Return the strength of a line of prose."""
    line = lines[position]
    before = lines[position - 1].bare if position else ""
    if line.after_blank:
        strength = _indented(PARAGRAPH, line.indent)
        if before.endswith(":"):
            strength -= 1
        return strength
    if line.bare.startswith("|"):
        return _ROW
    if _ITEM.match(line.bare):
        return _indented(LINE, line.indent)
    if before.rstrip("\"')]”’*_")[-1:] in tuple(".!?。"):
        return _AFTER_SENTENCE
    return _ANY_LINE


def _markdown_heading(lines: list[_Line], position: int) -> _Heading | None:
    line = lines[position]
    if line.indent > 3:
        return None
    if line.bare[0] == "#":
        heading = _ATX.fullmatch(line.bare)
        if heading:
            return _Heading(len(heading[1]), heading[2])
        return None
    underline = _line_under(lines, position)
    if underline[:1] not in ("=", "-") or not _ADORNMENT.fullmatch(underline):
        return None
    if line.bare[0] in "|>-" or _ITEM.match(line.bare):
        return None
    level = 1 if underline[0] == "=" else 2
    return _Heading(level, line.bare, 2)


def _text_heading(lines: list[_Line], position: int) -> _Heading | None:
    """Return the underlined heading that begins here, or a line alone that is one.

    Any mark may underline a heading, and may stand above it too.
    """
    line = lines[position]
    underline = _line_under(lines, position)
    if not underline:
        return _heading_alone(lines, position)
    if _ADORNMENT.fullmatch(line.bare):
        below = lines[position + 2 : position + 3]
        if below and below[0].bare == line.bare:
            return _Heading(line.bare[:2], underline, 3)
        return None
    is_long = len(underline) >= max(3, min(len(line.bare), 4))
    if line.indent or not is_long or not _ADORNMENT.fullmatch(underline):
        return None
    return _Heading(underline[0], line.bare, 2)


def _heading_alone(lines: list[_Line], position: int) -> _Heading | None:
    line = lines[position]
    is_alone = line.after_blank and position + 1 < len(lines)
    if not is_alone or len(line.bare) > _MAX_TITLE_CHARS:
        return None
    clause = _CLAUSE.fullmatch(line.bare)
    if clause:
        return _Heading(clause[1].upper(), line.bare)
    if _CAPITALS.fullmatch(line.bare):
        return _Heading("CAPITALS", line.bare)
    return None


def _line_under(lines: list[_Line], position: int) -> str:
    """Return the line directly under one that may be a heading, "" where it can't be one."""
    begins_block = lines[position].after_blank
    if not begins_block or position + 1 == len(lines) or lines[position + 1].after_blank:
        return ""
    return lines[position + 1].bare


def _fenced(lines: list[_Line]) -> dict[int, int]:
    """Return the strengths of the lines inside fences and of the closing lines."""
    inside: dict[int, int] = {}
    fence = ""
    for position, line in enumerate(lines):
        if fence:
            if line.bare.startswith(fence) and not line.bare.strip(fence[0]):
                inside[position] = GLUED
                fence = ""
            else:
                inside[position] = _IN_FENCE + _ROW * line.after_blank
        elif opening := _FENCE.match(line.bare):
            fence = opening[0]
    return inside
