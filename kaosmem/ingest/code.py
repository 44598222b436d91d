"""Segments of source code, markup and configuration: by indentation and blank lines, in any language."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kaosmem.ingest.segments import GLUED, LINE, MAX_CHARS, PARAGRAPH, Path, Segment, indented, shared_path

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)+")
_INDENT = re.compile(r"[^\S\n]*+")

# Comments and preprocessor lines: they belong to the lines that follow without a blank line between.
_COMMENTS = re.compile(r"(?:[^\S\n]*+(?:#|//|/\*|\*|--|;|%).*(?:\n|\Z))+")
_LEADS = re.compile(r"[^\S\n]*+(?:#|//|/\*|\*|--|;|%|@)")
# A line that closes or continues the block before it.
_FOLLOWS = re.compile(
    r"[^\S\n]*+(?:[)\]}]|</|\{[^\S\n]*+(?:\n|\Z)|(?:else|elif|elsif|except|rescue|finally|catch|end|fi|done|esac|then|do)\b)"
)
_LABEL = re.compile(r"[A-Za-z_]\w*:[^\S\n]*+(?:\n|\Z)")

_DEFINITION = re.compile(
    r"\n([^\S\n]*+)(?:(?:export|default|declare|async|pub|public|private|protected|internal|static|final|abstract"
    r"|virtual|inline|extern|unsafe|const|sealed|open|data|local|partial|override)(?:\([^)\n]*\))?[^\S\n]++)*+"
    r"(?:def|class|func|function|fn|fun|interface|struct|enum|union|trait|impl|type|module|namespace|record|object"
    r"|protocol|extension|defmodule|defp|sub|cdef|cpdef)\b[ *]+(?:\([^)\n]*\)[^\S\n]*+)?"
    r"([A-Za-z_$][\w$]*(?:(?:::?|\.)[\w$]+)*)"
)
# Such as `static int area(struct box *b) {`, or with the brace on the next line.
_CALLABLE = re.compile(
    r"\n([^\S\n]*+)(?!(?:if|for|while|switch|catch|return|else|do|new|throw|await|case|sizeof|defer|go|select|using"
    r"|lock|typedef|assert|with|foreach|elseif|synchronized)\b)(?:[\w<>\[\],.:~$@]++[ \t*&]++)*([A-Za-z_~$][\w:~$]*+)"
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


def code_segments(text: str, *, braces: bool = False, triple_quotes: bool = False) -> Iterator[Segment]:
    """Yield the blocks between blank lines, or the lines of a large one, each with the definitions around it.

    braces: functions may have no keyword and comments may span lines, as in C. triple_quotes: strings may span
    lines, as in Python.
    """
    inside = _Inside(_strings(text) if triple_quotes else _comments(text) if braces else [])
    scopes = _Scopes(text, inside, braces=braces)
    announced = False
    for block in _blocks(text):
        indent: int | None = None
        if inside.has(block.start):
            strength, announced = LINE, False
        elif _FOLLOWS.match(text, block.start, block.end):
            strength, announced = GLUED, False
        else:
            comments = _COMMENTS.match(text, block.start, block.end)
            code = comments.end() if comments else block.start
            is_comment = code >= block.end
            # The line below a comment says where both belong: the comment may be indented otherwise.
            indent = _indent(text, block.start if is_comment else code)
            strength = indented(PARAGRAPH, indent) - announced
            announced = is_comment
        if block.end - block.start <= MAX_CHARS:
            last = block.first + text.count("\n", block.start, block.end)
            yield Segment(block.first, last, block.start, block.end, strength, scopes.path(indent, block.end))
        else:
            yield from _lines(text, block, strength, scopes, braces=braces)


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


def _lines(text: str, block: _Block, strength: int, scopes: _Scopes, *, braces: bool) -> Iterator[Segment]:
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
        yield Segment(number, number, start, end, strength, scopes.path(None if follows or is_led else indent, end))
        start = end + 1


def _indent(text: str, start: int) -> int:
    indent = _INDENT.match(text, start)
    return indent.end() - start if indent else 0


class _Scopes:
    """The definitions that a position is in, on a way through the text from its start."""

    def __init__(self, text: str, inside: _Inside, *, braces: bool) -> None:
        lines = f"\n{text}\n"
        found = [*_DEFINITION.finditer(lines), *(_CALLABLE.finditer(lines) if braces else ())]
        # Popped from the end, so the last comes first. Group 1 begins where its line does, but for the newline.
        self._ahead = sorted(
            ((match.start(), len(match[1]), match[2]) for match in found if not inside.has(match.start())),
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
    quote, start = "", 0
    for match in _TRIPLE_QUOTES.finditer(text):
        if quote:
            if match[0] == quote:
                spans.append((start, match.end()))
                quote = ""
        elif "#" not in text[max(0, match.start() - _MAX_LOOK_BACK) : match.start()].rpartition("\n")[2]:
            quote, start = match[0], match.start()
    return spans


def _comments(text: str) -> list[tuple[int, int]]:
    """Return where comments between `/*` and `*/` are that begin a line."""
    return [(match.start(1) - 1, match.end() - 1) for match in _BLOCK_COMMENT.finditer("\n" + text)]
