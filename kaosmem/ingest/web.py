"""HTML without its tags, as lines with the marks of Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape

from kaosmem.ingest.files import decoded_text, storable
from kaosmem.ingest.pieces import Part, Syntax, cut

# Elements that begin a line, and those that begin a paragraph. All others are within a line.
_LINE_NAMES = "br li dt dd tr thead tbody tfoot option summary figcaption caption"
_PARAGRAPH_NAMES = (
    "p div section article header footer main nav aside ul ol dl table blockquote "
    "figure form fieldset "
    "hr details address body center h1 h2 h3 h4 h5 h6 pre textarea title"
)
_LINES = frozenset(_LINE_NAMES.split())
_PARAGRAPHS = frozenset(_PARAGRAPH_NAMES.split())
_ROW_ENDS = ("tr", "thead", "tbody", "tfoot")
# Elements without an end tag, and those whose content is no element.
_CHILDLESS_NAMES = "area base br col embed hr img input link meta source track wbr script style"
_CHILDLESS = frozenset(_CHILDLESS_NAMES.split())
# Elements whose end tag may be left out, with the tags that end them.
_ENDED_BY = {
    "p": _PARAGRAPHS,
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "tr": _ROW_ENDS,
    "td": {"td", "th", *_ROW_ENDS},
    "th": {"td", "th", *_ROW_ENDS},
    "option": {"option", "optgroup"},
}
_NESTING = ("ul", "ol", "dl", "table", "select")
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
_ATTRIBUTE = re.compile(r"([^\s=>\"'/]++)(?:\s*+=\s*+(\"[^\"]*+|'[^']*+|[^\s>]++))?")
_NOT_DISPLAYED = re.compile(r"display\s*+:\s*+none")
_MAX_TITLE_CHARS = 120


def read_html(data: bytes) -> Iterator[Part]:
    """Yield the text of a page."""
    yield html_part(decoded_text(data), "text")


def html_part(html: str, place: str) -> Part:
    """Return HTML as a part whose passages show the heading that they are under."""
    return Part(cut(html_text(html), Syntax.MARKDOWN), place, headed=True)


def html_text(html: str) -> str:
    """Return the text of HTML that a browser shows, as far as its elements tell."""
    page = _Page()
    hidden = _HiddenElement()
    start = 0
    for token in _TOKEN.finditer(html):
        if not hidden.is_open:
            page.text(unescape(html[start : token.start()]))
        start = token.end()
        tag = (token[3] or "").lower()
        if not tag or hidden.takes(tag, token[0].lower()):
            continue
        if token[2]:
            page.end(tag)
        else:
            page.begin(tag)
    if not hidden.is_open:
        page.text(unescape(html[start:]))
    page.end_line()
    if page.title and not page.has_main_heading:
        page.lines.insert(0, f"# {page.title}")
    return storable("\n".join(page.lines))


def _is_hidden(tag: str, text: str) -> bool:
    """Return whether an element is not shown. A reader shows a tab panel by a click.

    A page as a whole may be hidden until its scripts have run.
    """
    if tag in _CHILDLESS or tag in ("html", "body"):
        return False
    if "hidden" not in text and "display" not in text:
        return tag == "template"
    attributes = {name: value.strip("\"' ") for name, value in _ATTRIBUTE.findall(text)}
    if attributes.get("role") == "tabpanel":
        return False
    has_attribute = attributes.get("hidden", "until-found") != "until-found"
    is_styled = _NOT_DISPLAYED.search(attributes.get("style", "")) is not None
    return tag == "template" or has_attribute or is_styled


class _HiddenElement:
    """The element of a page that is not shown, while one is open.

    Where the end of it is not certain, the page goes on too early rather than too late.
    """

    def __init__(self) -> None:
        self._name = ""
        self._open: Counter[str] = Counter()

    @property
    def is_open(self) -> bool:
        """Return whether what follows is not shown."""
        return bool(self._name)

    def takes(self, tag: str, text: str) -> bool:
        """Take a tag of the page, and return whether it is of a hidden element.

        Args:
            tag: The name of the element.
            text: The whole tag.
        """
        is_end = text.startswith("</")
        if self._name and tag in _CHILDLESS:
            return True
        if self._name and self._ends_before(tag, is_end):
            self._name = ""
        if not self._name:
            if is_end or not _is_hidden(tag, text):
                return False
            self._name = tag
            self._open.clear()
        self._open[tag] += -1 if is_end else 1
        if not self._open[self._name]:
            self._name = ""
        return True

    def _ends_before(self, tag: str, is_end: bool) -> bool:
        """Return whether a tag is beyond the element, which has no end tag then."""
        if is_end:
            return self._open[tag] == 0
        is_nested = any(self._open[name] for name in _NESTING)
        return not is_nested and tag in _ENDED_BY.get(self._name, ())


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
        self._cells: list[str] = []
        """The elements of the cells of the row, `td` or `th`."""
        self._has_rows = False

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
            self._cells.append(tag)
            self._has_ended_in_cell = False
            if len(self._cells) > 1:
                self._words.append(" | ")
        elif tag == "pre" and not self._is_preformatted:
            self._is_preformatted = True
            self.lines.append("```")
        elif tag == "table":
            self._has_rows = False
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

        In a cell of a table, only a second paragraph begins a line. The name of a column is one
        line.
        """
        if self._is_cell and self._cells[-1:] == ["th"] and tag in ("p", "div", "br"):
            self._words.append(" ")
            return False
        if self._is_cell and tag == "p":
            self._has_ended_in_cell = bool(self._words) and self._words[-1] != " | "
            return False
        if tag in _PARAGRAPHS or tag in _LINES:
            self.end_line(paragraph=tag in _PARAGRAPHS)
            if tag in _ROW_ENDS:
                self._end_row()
            return True
        return False

    def _end_row(self) -> None:
        """End a row of a table, and mark it if it holds the names of the columns."""
        if len(self._cells) > 1 and not self._has_rows and "td" not in self._cells:
            self.lines.append("|" + " --- |" * len(self._cells))
        self._has_rows = self._has_rows or bool(self._cells)
        self._cells = []

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
        is_empty_row = bool(self._cells) and not text.strip("| ")
        if text and not is_empty_row:
            # A text that looks like a heading or a fence of Markdown is none.
            mark = self._mark or ("    " if text.startswith(("#", "```", "~~~")) else "")
            self.lines.append(mark + text)
            self._mark = ""
        if paragraph and self.lines and self.lines[-1] and not self._is_preformatted:
            self.lines.append("")
        self._words = []
        self._has_ended_in_cell = False
