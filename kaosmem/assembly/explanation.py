"""A context explained for people: sums, shown items with reasons, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kaosmem.assembly.allocation import FRAME
from kaosmem.display import bar, fitted, padded, preview, scored, table, visible, width

if TYPE_CHECKING:
    from kaosmem.assembly.context import Context, Decision

COLUMNS = 80

_HEADER = ("section", "item", "rank", "score", "tokens", "reason")
_MAX_SECTION, _MAX_TWIN, _MIN_ITEM = 16, 20, 8
_SHOWN_ITEMS = 30
_HTML_COLUMNS = 100
_SHOWN_SECTIONS = 30


def explanation(context: Context, *, misses: int) -> str:
    """Return a report of lines at most 80 columns wide."""
    lines = [
        f"{context.used:,} of {context.budget:,} tokens used, {_counted(len(context.items))}, "
        f"format {context.format}",
        f"query: {preview(context.query, COLUMNS - 7)}",
        *_window(context),
        *_confidence(context),
        *_sums(context),
        *_sources(context),
        *_notices(context),
    ]
    included = [context.decision(item.id) for item in context.items]
    missed = context.nearest_misses(misses)
    aligned = list(_aligned(context, [*included, *missed]))
    lines += ["", *aligned[: 1 + len(included)]]
    if missed:
        lines += [
            "",
            f"nearest misses, {len(missed)} of {_left_out(context):,} proposed",
            *aligned[1 + len(included) :],
        ]
    return "\n".join(fitted(line, COLUMNS) for line in lines)


def html(context: Context, *, misses: int = 10) -> str:
    """Return the sums as bars, and tables of the shown items and of the nearest misses."""
    shares = [
        (name, bar(use.used, context.budget), f"{use.items:,}")
        for name, use in context.by_section.items()
    ]
    hidden = len(shares) - _SHOWN_SECTIONS
    sums = table(
        f"{context.used:,} of {context.budget:,} tokens, {_counted(len(context.items))}, format "
        f"{context.format}",
        ("section", "tokens", "items"),
        [*shares[:_SHOWN_SECTIONS], (FRAME, bar(context.frame, context.budget), "")],
        numbers=("items",),
        after=[
            *([f"… and {hidden:,} more sections"] if hidden > 0 else []),
            *_window(context),
            *_confidence(context),
            *_sources(context),
            *_notices(context),
        ],
    )
    shown = [context.decision(item.id) for item in context.items[:_SHOWN_ITEMS]]
    rest = len(context.items) - _SHOWN_ITEMS
    included = _decisions(
        f"in, for the query: {preview(context.query)}",
        context,
        shown,
        after=[f"… and {rest:,} more"] if rest > 0 else [],
    )
    missed = context.nearest_misses(misses)
    nearest = f"nearest misses, {len(missed)} of {_left_out(context):,} proposed"
    return f"<div>{sums}{included}{_decisions(nearest, context, missed) if missed else ''}</div>"


def _decisions(
    title: str, context: Context, decisions: Iterable[Decision], *, after: Sequence[str] = ()
) -> str:
    """Return a table of decisions."""
    rows = [
        (each.section, each.summary(_HTML_COLUMNS), *_figures(each), _why(context, each))
        for each in decisions
    ]
    return table(title, _HEADER, rows, numbers=("rank", "score", "tokens"), after=after)


def _counted(items: int) -> str:
    return f"{items:,} item{'' if items == 1 else 's'}"


def _left_out(context: Context) -> int:
    return sum(not decision.included for decision in context.decisions)


def _window(context: Context) -> list[str]:
    if not context.window:
        return []
    turn = (
        f"packed anew ({context.rebased})"
        if context.rebased
        else f"{context.prefix_tokens:,} tokens as before"
    )
    return [
        f"window {preview(context.window, 30)}, epoch {context.epoch}: {turn}, "
        f"{context.appended:,} written"
    ]


def _confidence(context: Context) -> list[str]:
    return [] if context.confidence is None else [f"confidence: {context.confidence:.2f}"]


def _sums(context: Context) -> Iterable[str]:
    uses = [(name, use.used, _counted(use.items)) for name, use in context.by_section.items()]
    names = min(40, max((width(visible(name)) for name, _, _ in uses), default=0))
    for name, used, items in [*uses, (FRAME, context.frame, "")]:
        share = f"{used / context.budget:.0%}" if context.budget else "-"
        line = f"  {padded(name, max(names, len(FRAME)), tail=12)} {used:>7,} tokens {share:>5}  {items}"
        yield line.rstrip()


def _sources(context: Context) -> Iterable[str]:
    return (
        f"source {fitted(name, 40, tail=12)}: {report}" for name, report in context.sources.items()
    )


def _notices(context: Context) -> Iterable[str]:
    return (f"note: {visible(notice)}" for notice in context.notices)


def _figures(decision: Decision) -> tuple[str, str, str]:
    """Return the rank, the score and the tokens."""
    return (
        "-" if decision.rank is None else str(decision.rank),
        scored(decision.score),
        str(decision.tokens),
    )


def _why(context: Context, decision: Decision) -> str:
    if decision.same_as is None:
        return decision.why
    same_as = context.decision(decision.same_as).summary(_MAX_TWIN)
    return replace(decision, same_as=same_as).why


def _aligned(context: Context, decisions: Sequence[Decision]) -> Iterable[str]:
    """Yield the header and the decisions as lines. The item takes the room that the rest leaves."""
    reasons = [_why(context, each) for each in decisions]
    figures = [_HEADER[2:5], *map(_figures, decisions)]
    section_width = min(
        _MAX_SECTION,
        max(width(visible(name)) for name in (_HEADER[0], *(d.section for d in decisions))),
    )
    widths = [max(map(len, column)) for column in zip(*figures, strict=True)]
    room = (
        COLUMNS
        - section_width
        - sum(widths)
        - len(widths)
        - 3
        - max(map(width, (_HEADER[5], *reasons)))
    )
    item_width = max(
        _MIN_ITEM, min(room, max((width(each.summary(COLUMNS)) for each in decisions), default=0))
    )
    sections = [_HEADER[0], *(each.section for each in decisions)]
    items = [_HEADER[1], *(each.summary(item_width) for each in decisions)]
    for section, item, numbers, reason in zip(
        sections, items, figures, (_HEADER[5], *reasons), strict=True
    ):
        aligned = (figure.rjust(wide) for figure, wide in zip(numbers, widths, strict=True))
        yield (
            " ".join((padded(section, section_width, tail=6), padded(item, item_width), *aligned))
            + f"  {reason}"
        )
