"""HTML without its tags, as lines with the marks of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from kaosmem.ingest.files import decoded_text, storable
from kaosmem.ingest.pieces import Part, Syntax, cut

# Elements that begin a line, and those that begin a paragraph. All others are within a line.
_LINE_NAMES = "br li dt dd tr option summary figcaption caption"
_PARAGRAPH_NAMES = (
    "p div section article header footer main nav aside ul ol dl table thead tbody blockquote "
    "figure form fieldset "
    "hr details address body center h1 h2 h3 h4 h5 h6 pre textarea title"
)
_LINES = frozenset(_LINE_NAMES.split())
_PARAGRAPHS = frozenset(_PARAGRAPH_NAMES.split())
_ATTRIBUTES = r"(?:=\s*+\"[^\"]*+(?:\"|\Z)|=\s*+'[^']*+(?:'|\Z)|[^>])*+"
_TOKEN = re.compile(
    rf"<!--.*?(?:-->|\Z)|<(script|style)\b{_ATTRIBUTES}.*?(?:(?=</\1)|\Z)"
    rf"|<(/?)([a-z][a-z0-9]*){_ATTRIBUTES}>?|<[!?/][^>]*+>?",
    re.IGNORECASE | re.DOTALL,
)
"""A comment, a script, a tag or a declaration. As in a browser, one without an end has the rest.

So it takes linear time. HTMLParser of the standard library takes quadratic time for unclosed tags
and comments before Python 3.11.14.
"""
_BLANKS = re.compile(r"\s+")
_HEADING = re.compile(r"h([1-6])")
_MAX_TITLE_CHARS = 120


def read_html(data: bytes) -> Iterator[Part]:
    """Yield the text of a page."""
    yield html_part(decoded_text(data), "text")


def html_part(html: str, place: str) -> Part:
    """Return HTML as a part whose passages show the heading that they are under."""
    return Part(cut(html_text(html), Syntax.MARKDOWN), place, headed=True)


def html_text(html: str) -> str:
    """Return the text of HTML."""
    page = _Page()
    start = 0
    for token in _TOKEN.finditer(html):
        page.text(unescape(html[start : token.start()]))
        start = token.end()
        if token[3] and token[2]:
            page.end(token[3].lower())
        elif token[3]:
            page.begin(token[3].lower())
    page.text(unescape(html[start:]))
    page.end_line()
    if page.title and not page.has_main_heading:
        page.lines.insert(0, f"# {page.title}")
    return storable("\n".join(page.lines))


class _Page:
    """Gathers the lines of a page."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.title = ""
        self.has_main_heading = False
        self._words: list[str] = []
        self._mark = ""
        self._is_title = False
        self._is_preformatted = False
        self._is_cell = False
        self._has_ended_in_cell = False

    def begin(self, tag: str) -> None:
        """Begin an element."""
        self._break(tag)
        heading = _HEADING.fullmatch(tag)
        if heading:
            self._mark = "#" * int(heading[1]) + " "
            self.has_main_heading = self.has_main_heading or tag == "h1"
        elif tag in ("li", "tr"):
            self._mark = "- " if tag == "li" else "| "
        elif tag in ("td", "th"):
            self._is_cell = True
            self._has_ended_in_cell = False
            if self._words:
                self._words.append(" | ")
        elif tag == "pre" and not self._is_preformatted:
            self._is_preformatted = True
            self.lines.append("```")
        self._is_title = self._is_title or (tag == "title" and not self.title)

    def end(self, tag: str) -> None:
        """End an element."""
        self._is_cell = self._is_cell and tag not in ("td", "th", "tr", "table")
        if self._break(tag):
            self._mark = ""
        if tag == "pre" and self._is_preformatted:
            self._is_preformatted = False
            self.lines.append("```")
        self._is_title = self._is_title and tag != "title"

    def _break(self, tag: str) -> bool:
        """End the line at an element that is not within a line, and return whether it has ended.

        In a cell of a table, only a second paragraph begins a line.
        """
        if self._is_cell and tag == "p":
            self._has_ended_in_cell = bool(self._words) and self._words[-1] != " | "
            return False
        if tag in _PARAGRAPHS or tag in _LINES:
            self.end_line(paragraph=tag in _PARAGRAPHS)
            return True
        return False

    def text(self, text: str) -> None:
        """Take a text."""
        if not text:
            return
        if self._is_title:
            title = f"{self.title} {storable(text[:_MAX_TITLE_CHARS])}"
            self.title = " ".join(title.split())[:_MAX_TITLE_CHARS]
        elif self._is_preformatted:
            self.lines += storable(text).split("\n")
        elif text.strip():
            if self._is_cell and self._has_ended_in_cell:
                self.end_line()
            self._words.append(_BLANKS.sub(" ", text))
        elif self._words:
            self._words.append(" ")

    def end_line(self, *, paragraph: bool = True) -> None:
        """End the line, and the paragraph too unless only a line ends."""
        text = storable(_BLANKS.sub(" ", "".join(self._words)).strip())
        if text:
            # A text that looks like a heading or a fence of Markdown is none.
            mark = self._mark or ("    " if text.startswith(("#", "```", "~~~")) else "")
            self.lines.append(mark + text)
            self._mark = ""
        if paragraph and self.lines and self.lines[-1] and not self._is_preformatted:
            self.lines.append("")
        self._words = []
        self._has_ended_in_cell = False
