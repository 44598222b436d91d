"""How values are shown: on one line, in a width, without control characters, and as HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_JOINERS = "\u200c\u200d"  # of letters in Indic scripts and Persian, and of emoji
_WIDE = 2
_EMOJI_FORM = "\ufe0f"  # asks for the wide form of the character before it
_CUT = "…"
_WIDE_SINCE_UNICODE_16 = re.compile(
    r"[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d356\U0001d360-\U0001d376]"
)
"""Characters whose width terminals and Python's tables disagree on."""

# Python calls these printable, but they show nothing: blank letters, and selectors of forms but for
# that of emoji.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0e\uffa0"
    "\U000e0100-\U000e01ef"
)
_IS_BLANK = re.compile(f"[{_BLANK}]")
_UNDRAWABLE = re.compile(rf"[^ -~{_JOINERS}]")


def visible(text: str) -> str:
    r"""Return text with an escape such as `\x1b` for each character that shows nothing itself."""
    if text.isprintable() and not _IS_BLANK.search(text):
        return text
    return _UNDRAWABLE.sub(
        lambda match: match[0] if _is_drawn(match[0]) else _escape(match[0]), text
    )


def _is_drawn(char: str) -> bool:
    return char.isprintable() and not _IS_BLANK.match(char)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def width(text: str) -> int:
    """Return how many columns a visible text takes on a terminal; where these differ, at most."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if char in _JOINERS or (unicodedata.category(char) in ("Mn", "Me") and char != _EMOJI_FORM):
        return 0
    is_wide = unicodedata.east_asian_width(char) in "WF" or _WIDE_SINCE_UNICODE_16.match(char)
    if is_wide:
        return _WIDE
    return 1


def truncated(
    text: str,
    columns: int,
    *,
    tail: int = 0,
) -> str:
    """Return visible text at most `columns` wide, with `…` for the part that is cut out.

    Args:
        tail: Number of columns to keep of its end.
    """
    shown = visible(
        text if len(text) <= 8 * columns else text[: 4 * columns] + text[-4 * columns :]
    )
    # Marks that take no column may pile up, so characters are counted too.
    if width(shown) <= columns and len(shown) <= 2 * columns:
        return shown
    end = _begin(shown[::-1], tail)[::-1].lstrip(_JOINERS)
    while end and not _columns(end[0]):
        end = end[1:]
    return _begin(shown, columns - tail - 1) + _CUT + end


def _begin(text: str, columns: int) -> str:
    """Return the longest beginning of a visible text that is at most `columns` wide."""
    left = columns
    for place, char in enumerate(text[: 2 * columns]):
        left -= _columns(char)
        if left < 0:
            return text[:place]
    if columns > 0:
        return text[: 2 * columns]
    return ""


def preview(text: str, columns: int = 60) -> str:
    """Return the beginning of a text on one line, its gaps as single blanks."""
    begin = text[: 8 * columns]
    line = " ".join(begin.split())
    if len(begin) == len(text) or width(visible(line)) > columns:
        return truncated(line, columns) or "(empty)"
    return truncated(line, columns - 1) + _CUT


def score_text(score: float | None) -> str:
    """Return a score in few columns, "-" for none."""
    if score is None:
        return "-"
    if abs(score) < 1_000:
        return f"{score:.3f}"
    if abs(score) < 1e7:
        return f"{score:,.0f}"
    return f"{score:.2e}"


def aligned(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[str] = (),
) -> list[str]:
    """Return a header and rows as lines, their cells below each other.

    Args:
        numbers: The columns that stand right.
    """
    lines = [header, *rows]
    right = {header.index(name) for name in numbers}
    widths = [max(map(width, cells)) for cells in zip(*lines, strict=True)]
    found = []
    for cells in lines:
        padded_cells = []
        for place, (cell, columns) in enumerate(zip(cells, widths, strict=True)):
            blanks = " " * (columns - width(cell))
            padded_cells.append(blanks + cell if place in right else cell + blanks)
        found.append("  ".join(padded_cells).rstrip())
    return found


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_text(1, "turn"), count_text(2_000, "turn")
    ('1 turn', '2,000 turns')
    """
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"


def comma_list(texts: Sequence[str], most: int) -> str:
    """Return texts with commas between them, the first `most` and how many more there are."""
    more = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    return ", ".join([*(truncated(text, 40, tail=12) for text in texts[:most]), *more])


_CELL_CHARS = 120
_BAR = (
    "display:inline-block;width:9em;height:.7em;border:1px solid currentColor;opacity:.6;"
    "vertical-align:middle"
)


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is escaped already."""

    html: str


def bar(used: int, budget: int | None) -> Markup:
    """Return a bar that is filled as far as a budget is used, with the figures.

    Without a budget, return only the figures.
    """
    if budget is None:
        return Markup(f"{used:,}")
    share = min(1.0, used / budget) if budget else float(used > 0)
    filled = (
        f'<span style="display:block;width:{share:.1%};height:100%;background:currentColor"></span>'
    )
    return Markup(f'<span style="{_BAR}">{filled}</span> {used:,} of {budget:,}')


def prose(text: str, *, max_chars: int) -> Markup:
    """Return the beginning of a text with its lines as they are."""
    lines = "\n".join(visible(line.replace("\t", "    ")) for line in text[:max_chars].splitlines())
    more = f"\n… and {len(text) - max_chars:,} more characters" if len(text) > max_chars else ""
    style = "white-space:pre-wrap;text-align:left;margin:0;background:none"
    return Markup(f'<pre style="{style}">{escape(lines + more)}</pre>')


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Markup]],
    *,
    numbers: Iterable[str] = (),
    left_out: int = 0,
    after: Iterable[str | Markup] = (),
) -> str:
    """Return a table under a title.

    Args:
        columns: Names of the columns. Without any, the table has no head.
        numbers: The columns that stand right.
        left_out: Number of rows that are not there. A line below the table says so.
        after: More lines below the table.
    """
    right = {columns.index(name) for name in numbers}

    def cells(tag: str, texts: Sequence[str | Markup]) -> str:
        found = []
        for place, text in enumerate(texts):
            side = "right" if place in right else "left"
            found.append(f'<{tag} style="text-align:{side}">{_html(text)}</{tag}>')
        return "".join(found)

    head = f"<thead><tr>{cells('th', columns)}</tr></thead>" if columns else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    more = [f"… and {left_out:,} more"] if left_out else []
    below = "".join(f"<p>{_html(line)}</p>" for line in [*more, *after])
    return (
        f"<div><p><b>{_html(title)}</b></p><table>{head}<tbody>{body}</tbody></table>{below}</div>"
    )


def _html(text: str | Markup) -> str:
    if isinstance(text, Markup):
        return text.html
    return escape(truncated(text, _CELL_CHARS, tail=_CELL_CHARS // 3))
