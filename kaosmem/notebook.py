"""HTML for notebooks: self-contained tables, in the colours of the page, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from kaosmem.display import fitted, visible

_CELL_CHARS = 120
_BAR = "display:inline-block;width:9em;height:.7em;border:1px solid currentColor;opacity:.6;vertical-align:middle"


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is escaped already."""

    html: str


def bar(used: int, budget: int | None) -> Markup:
    """Return a bar that is filled as far as a budget is used, with the figures; without a budget only these."""
    if budget is None:
        return Markup(f"{used:,}")
    share = min(1.0, used / budget) if budget else float(used > 0)
    filled = f'<span style="display:block;width:{share:.1%};height:100%;background:currentColor"></span>'
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
    after: Iterable[str | Markup] = (),
) -> str:
    """Return a table under a title.

    columns: empty for a table without a head. numbers: the columns that stand right. after: lines below the table.
    """
    right = {columns.index(name) for name in numbers}

    def cells(tag: str, texts: Sequence[str | Markup]) -> str:
        return "".join(
            f'<{tag} style="text-align:{"right" if place in right else "left"}">{_html(text)}</{tag}>'
            for place, text in enumerate(texts)
        )

    head = f"<thead><tr>{cells('th', columns)}</tr></thead>" if columns else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    below = "".join(f"<p>{_html(line)}</p>" for line in after)
    return f"<div><p><b>{_html(title)}</b></p><table>{head}<tbody>{body}</tbody></table>{below}</div>"


def _html(text: str | Markup) -> str:
    return text.html if isinstance(text, Markup) else escape(fitted(text, _CELL_CHARS, tail=_CELL_CHARS // 3))
