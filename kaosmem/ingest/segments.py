"""Segments of a text: paragraphs, headings and blocks of code, each with the headings above."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

MAX_CHARS = 2_000
"""A text of this size is not cut, and no piece is larger."""

HEADING = 600
"""A heading, less its level."""
PARAGRAPH = 400
"""The strength after a blank line, less twice the indentation.

It is one less if the segment before announces the line.
"""
LINE = 200
"""Any other line, less twice its indentation."""
GLUED = 0
"""The strength of a line that belongs to the segment before."""

_DEEPEST = 90

Path: TypeAlias = tuple[str, ...]
"""Headings, or definitions, from the outermost in."""


class Segment(NamedTuple):
    """One line or several, the first and the last of them not blank.

    Attributes:
        first, last: Lines, from 1.
        start, end: Positions in the text, without the last newline.
        path: The headings or definitions that it is under.
    """

    first: int
    last: int
    start: int
    end: int
    strength: int
    path: Path


def shared_path(one: Path, other: Path) -> Path:
    """Return the common beginning of two paths."""
    differing = (
        depth
        for depth, (name, other_name) in enumerate(zip(one, other, strict=False))
        if name != other_name
    )
    return one[: next(differing, min(len(one), len(other)))]


def indented(strength: int, indent: int) -> int:
    """Return the strength of a line by the width of its indentation."""
    return strength - 2 * min(indent, _DEEPEST)


# Between GLUED and LINE: a sentence's end is a better place than a row of a table, or a line of
# code in a fence.
_AFTER_SENTENCE = 60
_ANY_LINE = 40
_IN_FENCE_AFTER_BLANK = 30
_ROW = 20
_IN_FENCE = 10

_MAX_TITLE_CHARS = 120
_MAX_HEADING_CHARS = 500

_ATX = re.compile(r"(#{1,6})\s+(.*?)(?:\s+#+)?")
_SETEXT = re.compile(r"=+|-{2,}")
_FENCE = re.compile(r"`{3,}(?!.*`)|~{3,}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_ITEM = re.compile(r"(?:[-*+•]|\(?(?:\d{1,3}|[a-z]|[ivx]+)[.)])\s")
_CLAUSE = re.compile(
    r"(ARTICLE|Article|CHAPTER|Chapter|PART|Part|SECTION|Section|SCHEDULE|Schedule|EXHIBIT|Exhibit"
    r"|ANNEX|Annex|APPENDIX|Appendix)\s+(?:\d[\d.]*|[IVXLC]+|[A-Z])(?:\b|(?<=\.)).{0,80}"
)
_CAPITALS = re.compile(r"(?=.*[A-Z]{3})[^a-z]{4,80}")
_ANCHOR = re.compile(
    r"\.\. (?:_[^:]+:|index::|module::|currentmodule::|highlight::|only::)|<a (?:name|id)="
)


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
    """Return the lines of reStructuredText that are not blank, with the headings above them."""
    return _segments(_lines(text), _adorned_heading, {})


def text_segments(text: str) -> list[Segment]:
    """Return the lines of plain text that are not blank, with the headings that they are under.

    An underlined line, and a line alone in capitals or as a numbered clause, is a heading.
    """
    return _segments(_lines(text), _text_heading, {})


def _lines(text: str) -> list[_Line]:
    lines = []
    # the first line begins a paragraph
    start = 0
    last = -1
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
        strengths += [HEADING - level if headings_from is None else GLUED] + [GLUED] * (
            heading.lines - 1
        )
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
    """Put headings that stand directly above a heading under its path: they are no passage."""
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
            strengths[position - 1] = strengths[position]
            strengths[position] = GLUED
            paths[position - 1] = paths[position]


def _markdown_heading(lines: list[_Line], position: int) -> _Heading | None:
    line = lines[position]
    if line.indent > 3:
        return None
    if line.bare[0] == "#":
        heading = _ATX.fullmatch(line.bare)
        return _Heading(len(heading[1]), heading[2]) if heading else None
    underline = _line_under(lines, position)
    if (
        underline
        and _SETEXT.fullmatch(underline)
        and line.bare[0] not in "|>-"
        and not _ITEM.match(line.bare)
    ):
        return _Heading(1 if underline[0] == "=" else 2, line.bare, 2)
    return None


def _adorned_heading(lines: list[_Line], position: int) -> _Heading | None:
    """Return the underlined heading that begins here, as in reStructuredText.

    Any mark may underline it, and may stand above it too.
    """
    line = lines[position]
    underline = _line_under(lines, position)
    if not underline:
        return None
    if _ADORNMENT.fullmatch(line.bare):
        over = position + 2 < len(lines) and lines[position + 2].bare == line.bare
        return _Heading(line.bare[:2], underline, 3) if over else None
    if (
        line.indent
        or not _ADORNMENT.fullmatch(underline)
        or len(underline) < min(len(line.bare), 4)
    ):
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
    """Return the strengths of the lines inside fences and of the closing lines."""
    inside: dict[int, int] = {}
    fence = ""
    for position, line in enumerate(lines):
        if fence:
            closes = line.bare.startswith(fence) and not line.bare.strip(fence[0])
            inside[position] = (
                GLUED if closes else _IN_FENCE_AFTER_BLANK if line.after_blank else _IN_FENCE
            )
            fence = "" if closes else fence
        elif line.bare[0] in "`~" and (opening := _FENCE.match(line.bare)):
            fence = opening[0]
    return inside


_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)+")
_INDENT = re.compile(r"[^\S\n]*+")

# Comments and preprocessor lines: they belong to the lines that follow without a blank line
# between.
_COMMENTS = re.compile(r"(?:[^\S\n]*+(?:#|//|/\*|\*|--|;|%).*(?:\n|\Z))+")
_LEADS = re.compile(r"[^\S\n]*+(?:#|//|/\*|\*|--|;|%|@)")
# A line that closes or continues the block before it.
_FOLLOWS = re.compile(
    r"[^\S\n]*+(?:[)\]}]|</|\{[^\S\n]*+(?:\n|\Z)"
    r"|(?:else|elif|elsif|except|rescue|finally|catch|end|fi|done|esac|then|do)\b)"
)
_LABEL = re.compile(r"[A-Za-z_]\w*:[^\S\n]*+(?:\n|\Z)")

_DEFINITION = re.compile(
    r"\n([^\S\n]*+)(?:(?:export|default|declare|async|pub|public|private|protected|internal|static"
    r"|final|abstract|virtual|inline|extern|unsafe|const|sealed|open|data|local|partial|override)"
    r"(?:\([^)\n]*\))?[^\S\n]++)*+"
    r"(?:def|class|func|function|fn|fun|interface|struct|enum|union|trait|impl|type|module"
    r"|namespace|record|object|protocol|extension|defmodule|defp|sub|cdef|cpdef)\b[ *]+"
    r"(?:\([^)\n]*\)[^\S\n]*+)?"
    r"([A-Za-z_$][\w$]*(?:(?:::?|\.)[\w$]+)*)"
)
# Such as `static int area(struct box *b) {`, or with the brace on the next line.
_CALLABLE = re.compile(
    r"\n([^\S\n]*+)(?!(?:if|for|while|switch|catch|return|else|do|new|throw|await|case|sizeof"
    r"|defer|go|select|using|lock|typedef|assert|with|foreach|elseif|synchronized)\b)"
    r"(?:[\w<>\[\],.:~$@]++[ \t*&]++)*([A-Za-z_~$][\w:~$]*+)"
    r"[ \t]*\([^\n;]*(?:(?<=\{)|(?=\n\s*\{))(?=\n)"
)
_TRIPLE_QUOTES = re.compile("\"\"\"|'''")
_MAX_LOOK_BACK = 200
_BLOCK_COMMENT = re.compile(r"\n[^\S\n]*+(/\*)(?:[^*]|\*(?!/))*+")


class _Block(NamedTuple):
    """Lines without a blank one among them."""

    first: int
    start: int
    end: int


def code_segments(
    text: str, *, braces: bool = False, triple_quotes: bool = False
) -> Iterator[Segment]:
    """Yield the blocks between blank lines, each with the definitions around it.

    Of a large block, yield the lines.

    Args:
        braces: Functions may have no keyword and comments may span lines, as in C.
        triple_quotes: Strings may span lines, as in Python.
    """
    inside = _Inside(_strings(text) if triple_quotes else _comments(text) if braces else [])
    scopes = _Scopes(text, inside, braces=braces)
    announced = False
    for block in _blocks(text):
        indent: int | None = None
        if inside.has(block.start):
            strength = LINE
            announced = False
        elif _FOLLOWS.match(text, block.start, block.end):
            strength = GLUED
            announced = False
        else:
            comments = _COMMENTS.match(text, block.start, block.end)
            code = comments.end() if comments else block.start
            is_comment = code >= block.end
            # The line below a comment says where both belong: the comment may be indented
            # otherwise.
            indent = _indent(text, block.start if is_comment else code)
            strength = indented(PARAGRAPH, indent) - announced
            announced = is_comment
        if block.end - block.start <= MAX_CHARS:
            last = block.first + text.count("\n", block.start, block.end)
            yield Segment(
                block.first, last, block.start, block.end, strength, scopes.path(indent, block.end)
            )
        else:
            yield from _code_lines(text, block, strength, scopes, braces=braces)


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the blocks between blank lines."""
    if not text.strip():
        return
    start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
    stop = text.find("\n", len(text.rstrip()))
    stop = len(text) if stop < 0 else stop
    line = 1 + text.count("\n", 0, start)
    while start < stop:
        blank = _BLANK_LINES.search(text, start, stop)
        end, following = blank.span() if blank else (stop, stop)
        yield _Block(line, start, end)
        line += text.count("\n", start, following)
        start = following


def _code_lines(
    text: str, block: _Block, strength: int, scopes: _Scopes, *, braces: bool
) -> Iterator[Segment]:
    """Yield the lines of a block; a comment or decorator is joined with the line below it."""
    start = block.start
    is_led = False
    for number, line in enumerate(text[block.start : block.end].split("\n"), block.first):
        indent = len(line) - len(line.lstrip())
        follows = _FOLLOWS.match(line) or (braces and _LABEL.match(line))
        if number > block.first:
            strength = GLUED if is_led or follows else indented(LINE, indent)
        end = start + len(line)
        is_led = bool(_LEADS.match(line))
        yield Segment(
            number,
            number,
            start,
            end,
            strength,
            scopes.path(None if follows or is_led else indent, end),
        )
        start = end + 1


def _indent(text: str, start: int) -> int:
    indent = _INDENT.match(text, start)
    return indent.end() - start if indent else 0


class _Scopes:
    """The definitions that a position is in, on a way through the text from its start."""

    def __init__(self, text: str, inside: _Inside, *, braces: bool) -> None:
        lines = f"\n{text}\n"
        found = [*_DEFINITION.finditer(lines), *(_CALLABLE.finditer(lines) if braces else ())]
        # Popped from the end, so the last comes first. Group 1 begins where its line does, but for
        # the newline.
        self._ahead = sorted(
            (
                (match.start(), len(match[1]), match[2])
                for match in found
                if not inside.has(match.start())
            ),
            reverse=True,
        )
        self._open: list[tuple[int, Path]] = []

    def path(self, indent: int | None, end: int) -> Path:
        """Return the path of a block of this indentation that ends at `end`, and go there.

        indent: None for a line that closes a scope or continues it.
        """
        if indent is not None:
            self._leave(indent)
        path = self._open[-1][1] if self._open else ()
        entered: Path | None = None
        while self._ahead and self._ahead[-1][0] < end:
            _, indent, name = self._ahead.pop()
            self._leave(indent)
            inner = (*(self._open[-1][1] if self._open else ()), name)
            self._open.append((indent, inner))
            entered = inner if entered is None else shared_path(entered, inner)
        if entered is None:
            return path
        return entered if entered[: len(path)] == path else shared_path(path, entered)

    def _leave(self, indent: int) -> None:
        while self._open and indent <= self._open[-1][0]:
            self._open.pop()


class _Inside:
    """Strings and comments that span lines."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def has(self, position: int) -> bool:
        """Tell whether a position is in one of them, behind where it begins."""
        before = bisect_right(self._starts, position - 1) - 1
        return before >= 0 and position < self._ends[before]


def _strings(text: str) -> list[tuple[int, int]]:
    """Return where triple-quoted strings are."""
    spans = []
    quote = ""
    start = 0
    for match in _TRIPLE_QUOTES.finditer(text):
        if quote:
            if match[0] == quote:
                spans.append((start, match.end()))
                quote = ""
        elif (
            "#"
            not in text[max(0, match.start() - _MAX_LOOK_BACK) : match.start()].rpartition("\n")[2]
        ):
            quote = match[0]
            start = match.start()
    return spans


def _comments(text: str) -> list[tuple[int, int]]:
    """Return where comments between `/*` and `*/` are that begin a line."""
    return [(match.start(1) - 1, match.end() - 1) for match in _BLOCK_COMMENT.finditer("\n" + text)]
