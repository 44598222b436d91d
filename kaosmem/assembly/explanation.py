"""A turn explained for people: sums, shown items with reasons, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.assembly.allocation import FRAME
from kaosmem.assembly.difference import difference
from kaosmem.assembly.why import REASON_MEANINGS
from kaosmem.display import (
    aligned,
    count_text,
    preview,
    prose,
    score_text,
    truncated,
    visible,
    width,
)

if TYPE_CHECKING:
    from kaosmem.assembly.assembled_turn import AssembledTurn
    from kaosmem.assembly.context import Decision
    from kaosmem.types.items import Item

COLUMNS = 80

_HEADER = ("section", "item", "rank", "score", "tokens", "reason")
_NUMBERS = ("rank", "score", "tokens")
_SUMS = ("section", "tokens", "items", "offered", "cutoff", "share")
_BAR_COLUMNS = 20
_FREE = "(free)"
_MAX_SECTION = 12
_MAX_TWIN = 16
_MAX_REASON = 20
_MIN_ITEM = 8
_SHOWN_ITEMS = 30
_HTML_COLUMNS = 100
_HTML_STYLE = "white-space:pre;font-family:monospace;padding-left:1.5em"
_TEXT_CHARS = 4_000
_COLORS = {"head": "\x1b[1m", "in": "\x1b[32m", "out": "\x1b[31m", "legend": "\x1b[2m"}
_RESET = "\x1b[0m"


class _Line(NamedTuple):
    """A line of a report. style: one of `_COLORS`. item: the item that the line is about."""

    text: str
    style: str = ""
    item: Item | None = None


def explanation(
    turn: AssembledTurn,
    *,
    misses: int,
    columns: int = COLUMNS,
    color: bool = False,
    most: int | None = None,
) -> str:
    """Return a report of lines at most so many columns wide.

    Args:
        color: Use the colours of a terminal.
        most: Number of shown items to list, the best ones first. None lists all, in their order.
    """
    report = []
    for line in _report(turn, misses, columns, most):
        text = truncated(line.text, columns)
        if color and line.style:
            text = f"{_COLORS[line.style]}{text}{_RESET}"
        report.append(text)
    return "\n".join(report)


def html(turn: AssembledTurn, *, misses: int = 10) -> str:
    """Return the report, and the difference from the turn before. Each item opens to its text."""
    parts = []
    for line in [*_report(turn, misses, _HTML_COLUMNS, _SHOWN_ITEMS), *_changes(turn)]:
        text = escape(truncated(line.text, _HTML_COLUMNS))
        if line.item is None:
            parts.append(f"{text}\n")
        else:
            body = prose(line.item.text, max_chars=_TEXT_CHARS).html
            summary = f'<summary style="list-style-position:outside">{text}</summary>'
            parts.append(f"<details>{summary}{body}</details>")
    return f'<div style="{_HTML_STYLE}">{"".join(parts)}</div>'


def _report(
    turn: AssembledTurn,
    misses: int,
    columns: int,
    most: int | None,
) -> Iterator[_Line]:
    """Yield the summary, the shown items, the nearest misses and the legend."""
    shown = [turn.decision(item.id) for item in turn.items]
    if most is not None:
        shown = best_first(shown)[:most]
    missed = turn.nearest_misses(misses)
    decisions = [*shown, *missed]
    yield from map(_Line, _summary(turn))
    head, *rows = _rows_of_text(turn, decisions, columns)
    lines = []
    for decision, row in zip(decisions, rows, strict=True):
        style = "in" if decision.included else "out"
        lines.append(_Line(row, style, decision.item))
    yield _Line("")
    yield _Line(head, "head")
    yield from lines[: len(shown)]
    if len(shown) < len(turn.items):
        yield _Line(f"… and {len(turn.items) - len(shown):,} more")
    if missed:
        left_out = sum(not decision.included for decision in turn.decisions)
        yield _Line("")
        yield _Line(f"nearest misses, {len(missed)} of {left_out:,} offered", "head")
        yield from lines[len(shown) :]
    if decisions:
        yield _Line("")
        yield _Line("legend", "head")
        for text in _legend(decisions):
            yield _Line(text, "legend")


def _changes(turn: AssembledTurn) -> Iterator[_Line]:
    """Yield the difference from the turn before, a line for each item."""
    if turn.before is None:
        return
    found = difference(turn.before, turn.items)
    yield _Line("")
    yield _Line(f"since the turn before: {found}", "head")
    for change, item in found.changes[:_SHOWN_ITEMS]:
        yield _Line(f"{change}  {preview(item.text, _HTML_COLUMNS)}", item=item)


def best_first(decisions: Sequence[Decision]) -> list[Decision]:
    """Return decisions in descending order of score and then of rank, those without one last."""

    def key(decision: Decision) -> tuple[bool, float, int]:
        return decision.score is None, -(decision.score or 0.0), decision.rank or 0

    return sorted(decisions, key=key)


def _legend(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line for each reason that is shown, and one for the scores."""
    reasons = {decision.reason.value: decision.included for decision in decisions}
    wide = max(map(len, reasons))
    for reason, is_in in sorted(reasons.items(), key=lambda each: not each[1]):
        yield f"  {reason:<{wide}}  {'in' if is_in else 'out':<3}  {REASON_MEANINGS[reason]}"
    if any(decision.score is not None for decision in decisions):
        yield "  score: 0 to 100, the best match has the most; cutoff: the lowest that is in"
    if any(" by " in decision.why for decision in decisions):
        yield "  by: the signal that adds most to the score"


def _rows_of_text(
    turn: AssembledTurn,
    decisions: Sequence[Decision],
    columns: int,
) -> list[str]:
    """Return a header and a line for each decision. Items take the room that the rest leaves.

    A reason that names another item or a fault may be long, so it makes way for the items first.
    """
    narrow = []
    for decision in decisions:
        *cells, reason = _cells(turn, decision, _MIN_ITEM)
        if decision.same_as is not None or decision.fault:
            reason = truncated(reason, _MAX_REASON)
        narrow.append((*cells, reason))
    room = max(0, columns - max(map(width, aligned(_HEADER, narrow, _NUMBERS))))
    return aligned(_HEADER, [_cells(turn, each, _MIN_ITEM + room) for each in decisions], _NUMBERS)


def _cells(
    turn: AssembledTurn,
    decision: Decision,
    columns: int,
) -> tuple[str, ...]:
    """Return the cells of a decision, with an item at most so many columns wide."""
    reason = decision.why
    if decision.same_as is not None:
        same_as = turn.decision(decision.same_as).summary(_MAX_TWIN)
        reason = replace(decision, same_as=same_as).why
    return (
        truncated(decision.section, _MAX_SECTION, tail=6),
        decision.summary(columns),
        "-" if decision.rank is None else f"{decision.rank:,}",
        "-" if decision.score is None else _percent(decision.score),
        f"{decision.tokens:,}",
        reason,
    )


def _summary(turn: AssembledTurn) -> Iterator[str]:
    """Yield the title, the query, the sums, and notes on the window, sources and notices."""
    items = count_text(len(turn.items), "item")
    yield f"{turn.used:,} of {turn.budget:,} tokens used, {items}, format {turn.format}"
    yield f"query: {preview(turn.query, COLUMNS - 7)}"
    yield from _sums(turn)
    if turn.window:
        how = f"{turn.prefix_tokens:,} tokens as before"
        if turn.rebased:
            how = f"packed anew ({turn.rebased})"
        window = preview(turn.window, 30)
        yield f"window {window}, epoch {turn.epoch}: {how}, {turn.appended:,} written"
    if turn.confidence is not None:
        yield f"confidence: {turn.confidence:.2f}"
    for name, report in turn.sources.items():
        yield f"source {truncated(name, 40, tail=12)}: {report}"
    for notice in turn.notices:
        yield f"note: {visible(notice)}"


def _sums(turn: AssembledTurn) -> list[str]:
    """Return a line for each section, the layout and the free rest. They add up to the budget."""
    rows = []
    for name, use in turn.by_section.items():
        cutoff = turn.cutoffs.get(name)
        if cutoff is None:
            offered = "-"
        else:
            offered = f"{cutoff.offered:,}"
        lowest = "-"
        if cutoff is not None and cutoff.lowest is not None:
            lowest = _percent(cutoff.lowest)
        bar = _bar(use.used, turn.budget)
        shown = truncated(name, 2 * _MAX_SECTION, tail=_MAX_SECTION)
        rows.append((shown, f"{use.used:,}", f"{use.items:,}", offered, lowest, bar))
    rest = {FRAME: turn.frame, _FREE: turn.budget - turn.used, "budget": turn.budget}
    for name, tokens in rest.items():
        rows.append((name, f"{tokens:,}", "", "", "", _bar(tokens, turn.budget)))
    return aligned(_SUMS, rows, _SUMS[1:-1])


def _bar(part: int, whole: int) -> str:
    return "█" * round(_BAR_COLUMNS * part / max(1, whole))


def _percent(score: float) -> str:
    """Return a score as people read it: 0 to 100, with one decimal."""
    if abs(score) < 1_000:
        return f"{score:.1f}"
    return score_text(score)
