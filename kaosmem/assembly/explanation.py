"""A context explained for people: the sums, the shown items with reasons, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kaosmem.assembly.allocation import FRAME
from kaosmem.display import fitted, padded, preview, scored, visible, width
from kaosmem.notebook import bar, table

if TYPE_CHECKING:
    from kaosmem.assembly.context import Context, Decision

COLUMNS = 80

_HEADER = ("section", "item", "rank", "score", "tokens", "reason")
_MAX_SECTION, _MAX_TWIN = 16, 20
_SHOWN_ITEMS = 30
_SHOWN_SECTIONS = 30


def explanation(context: Context, *, misses: int) -> str:
    """Return a report of lines at most 80 columns wide."""
    lines = [
        f"{context.used:,} of {context.budget:,} tokens used, {_counted(len(context.items))}, format {context.format}",
        f"query: {preview(context.query, COLUMNS - 7)}",
        *_sums(context),
        *_sources(context),
    ]
    included = [context.decision(item.id) for item in context.items]
    missed = context.nearest_misses(misses)
    rows = [_HEADER, *map(_cells, included), *map(_cells, missed)]
    aligned = list(_aligned(rows))
    lines += ["", *aligned[: 1 + len(included)]]
    if missed:
        lines += [
            "",
            f"nearest misses, {len(missed)} of {_left_out(context):,} proposed",
            *aligned[1 + len(included) :],
        ]
    return "\n".join(fitted(line, COLUMNS) for line in lines)


def html(context: Context, *, misses: int = 10) -> str:
    """Return the sums as bars, and tables of what is in and of the nearest misses."""
    shares = [(name, bar(use.used, context.budget), f"{use.items:,}") for name, use in context.by_section.items()]
    hidden = len(shares) - _SHOWN_SECTIONS
    sums = table(
        f"{context.used:,} of {context.budget:,} tokens, {_counted(len(context.items))}, format {context.format}",
        ("section", "tokens", "items"),
        [*shares[:_SHOWN_SECTIONS], (FRAME, bar(context.frame, context.budget), "")],
        numbers=("items",),
        after=[*([f"… and {hidden:,} more sections"] if hidden > 0 else []), *_sources(context)],
    )
    previews = {item.id: preview(item.text) for item in context.items[:_SHOWN_ITEMS]}
    rest = len(context.items) - _SHOWN_ITEMS
    included = _decisions(
        f"in, for the query: {preview(context.query)}",
        map(context.decision, previews),
        previews,
        after=[f"… and {rest:,} more"] if rest > 0 else [],
    )
    missed = context.nearest_misses(misses)
    nearest = f"nearest misses, {len(missed)} of {_left_out(context):,} proposed"
    return f"<div>{sums}{included}{_decisions(nearest, missed, None) if missed else ''}</div>"


def _decisions(
    title: str, decisions: Iterable[Decision], previews: Mapping[str, str] | None, *, after: Sequence[str] = ()
) -> str:
    """Return a table of decisions, with the beginnings of their items where there are `previews`."""
    rows = [(*_cells(decision), *([] if previews is None else [previews[decision.item_id]])) for decision in decisions]
    columns = _HEADER if previews is None else (*_HEADER, "content")
    return table(title, columns, rows, numbers=("rank", "score", "tokens"), after=after)


def _counted(items: int) -> str:
    return f"{items:,} item{'' if items == 1 else 's'}"


def _left_out(context: Context) -> int:
    return sum(not decision.included for decision in context.decisions)


def _sums(context: Context) -> Iterable[str]:
    uses = [(name, use.used, _counted(use.items)) for name, use in context.by_section.items()]
    names = min(40, max((width(visible(name)) for name, _, _ in uses), default=0))
    for name, used, items in [*uses, (FRAME, context.frame, "")]:
        share = f"{used / context.budget:.0%}" if context.budget else "-"
        line = f"  {padded(name, max(names, len(FRAME)), tail=12)} {used:>7,} tokens {share:>5}  {items}"
        yield line.rstrip()


def _sources(context: Context) -> Iterable[str]:
    return (f"source {fitted(name, 40, tail=12)}: {report}" for name, report in context.sources.items())


def _cells(decision: Decision) -> tuple[str, ...]:
    return (
        decision.section,
        decision.item_id,
        "-" if decision.rank is None else str(decision.rank),
        scored(decision.score),
        str(decision.tokens),
        _why(decision),
    )


def _why(decision: Decision) -> str:
    if decision.same_as is None:
        return decision.why
    return replace(decision, same_as=fitted(decision.same_as, _MAX_TWIN, tail=2 * _MAX_TWIN // 3)).why


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield rows as lines: the item's id gives way, in its middle, to what the rest needs."""
    sections, _, *rest = zip(*rows, strict=True)
    section_width = min(_MAX_SECTION, max(map(_shown_width, sections)))
    widths = [max(map(len, column)) for column in rest]
    room = COLUMNS - section_width - sum(widths) - len(rest) - 2
    item_width = max(8, min(room, max(_shown_width(row[1]) for row in rows)))
    for section, item_id, *figures, reason in rows:
        numbers = (figure.rjust(wide) for figure, wide in zip(figures, widths, strict=False))
        cells = (padded(section, section_width, tail=6), padded(item_id, item_width, tail=2 * item_width // 3))
        yield " ".join((*cells, *numbers)) + f"  {reason}"


def _shown_width(text: str) -> int:
    return width(visible(text))
