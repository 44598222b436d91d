"""A context explained for people: sums, shown items with reasons, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kaosmem.assembly.allocation import FRAME
from kaosmem.assembly.context import Reason
from kaosmem.assembly.difference import difference
from kaosmem.display import (
    Markup,
    bar,
    fitted,
    folded,
    padded,
    preview,
    scored,
    stacked_bar,
    table,
    visible,
    width,
)

if TYPE_CHECKING:
    from kaosmem.assembly.context import Context, Decision

COLUMNS = 80

_HEADER = ("section", "item", "rank", "score", "tokens", "reason")
_FREE = "(free)"
_HEADINGS = "section ", "nearest misses", "legend"
_MAX_SECTION = 16
_MAX_TWIN = 20
_MIN_ITEM = 8
_SHOWN_ITEMS = 30
_HTML_COLUMNS = 100
_SHOWN_SECTIONS = 30
_TEXT_CHARS = 4_000


MEANINGS = {
    Reason.MUST: "It must be shown: static, pinned, or the newest.",
    Reason.SHORTENED: "A shortened copy is shown.",
    Reason.TAIL: "It is in the unbroken run of newest messages.",
    Reason.RELEVANT: "It is worth its tokens to the query.",
    Reason.NEWEST: "It is among the newest of its section.",
    Reason.NEWER: "It gives another value than an earlier item.",
    Reason.RECALLED: "It was evicted, replaced or said before, and matches.",
    Reason.UNRELATED: "Nothing in the query speaks for it.",
    Reason.NO_ROOM: "It did not fit.",
    Reason.OUTDATED: "Later items give another value.",
    Reason.HELD_BACK: "Its tokens are kept for other sections' floors.",
    Reason.DUPLICATE: "An item that is in says the same.",
    Reason.BEFORE_TAIL: "It is a message before the cut of the history.",
    Reason.ORPHAN: "It is a tool result without its call.",
    Reason.LOW_CONFIDENCE: "The confidence is below the least asked for.",
    Reason.FILTERED: "It does not pass the filter.",
    Reason.VISIBLE: "An earlier turn of the window showed it.",
    Reason.LATER: "The window waits until the user speaks again.",
    Reason.OUTRANKED: "Its section offered better items.",
    Reason.NOT_SHOWN: "Its section was not asked for.",
    Reason.ARCHIVED: "It is in the archive.",
}
"""What each reason says, in a legend."""

_IN = frozenset({"must", "shortened", "tail", "relevant", "newest", "newer", "recalled", "visible"})
_OUTCOMES = {each.value: "in" if each.value in _IN else "out" for each in Reason}


def explanation(context: Context, *, misses: int, color: bool = False) -> str:
    """Return a report of lines at most 80 columns wide.

    Args:
        color: Mark headings, reasons and the legend with the colours of a terminal.
    """
    paint = _COLORS if color else _NO_COLORS
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
    if included or missed:
        lines += ["", *legend([*included, *missed])]
    return "\n".join(_painted(fitted(line, COLUMNS), paint) for line in lines)


_COLORS = {"head": "\x1b[1m", "in": "\x1b[32m", "out": "\x1b[31m", "quiet": "\x1b[2m"}
_NO_COLORS: Mapping[str, str] = {}
_RESET = "\x1b[0m"


def _painted(line: str, paint: Mapping[str, str]) -> str:
    """Return a line with its reason, if it is one of a decision, in the colour of its outcome."""
    if not paint or not line.strip():
        return line
    row, gap, reason = line.rpartition("  ")
    word = reason.split(" ")[0].split(":")[0]
    if word in _OUTCOMES:
        return f"{row}{gap}{paint[_OUTCOMES[word]]}{reason}{_RESET}"
    if line.startswith("  "):
        return f"{paint['quiet']}{line}{_RESET}"
    return f"{paint['head']}{line}{_RESET}" if line.startswith(_HEADINGS) else line


def is_including(why: str) -> bool:
    """Return whether a reason, or what begins with it, is one of an item that is in."""
    return why.split(" ")[0].split(":")[0] in _IN


def legend(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line for each reason that is shown, and one for the scores."""
    reasons = {decision.reason: decision.included for decision in decisions}
    wide = max(map(len, reasons), default=0)
    yield "legend"
    for reason, is_in in sorted(reasons.items(), key=lambda each: not each[1]):
        yield f"  {reason.value:<{wide}}  {'in' if is_in else 'out':<3}  {MEANINGS[reason]}"
    if any(decision.score is not None for decision in decisions):
        yield "  score: 0 to 100, the best match has the most; cutoff: the lowest that is in"


def html(context: Context, *, misses: int = 10) -> str:
    """Return the sums as bars, the difference from the turn before, and tables of decisions."""
    parts = [(name, use.used) for name, use in context.by_section.items() if use.used]
    stacked = stacked_bar([*parts, (FRAME, context.frame)], context.budget)
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
    tables = included + (_decisions(nearest, context, missed) if missed else "")
    return f"<div>{stacked.html}{sums}{_changes(context)}{tables}</div>"


def _changes(context: Context) -> str:
    """Return a table of the difference from the turn before, "" without one."""
    if context.before is None:
        return ""
    found = difference(context.before, context.items)
    changes = [("in", item) for item in found.came]
    changes += [("out", item) for item in found.went]
    changes += [("replaced", old) for old, _ in found.replaced]
    changes += [("in, replacing", new) for _, new in found.replaced]
    changes += [("moved", item) for item in found.moved]
    rows = []
    for change, item in changes[:_SHOWN_ITEMS]:
        line = folded(preview(item.text, _HTML_COLUMNS), item.text, max_chars=_TEXT_CHARS)
        rows.append((change, item.section, line))
    rest = len(changes) - len(rows)
    after = [f"… and {rest:,} more"] if rest else []
    title = f"since the turn before: {found}"
    return table(title, ("change", "section", "item"), rows, after=after)


def _decisions(
    title: str, context: Context, decisions: Iterable[Decision], *, after: Sequence[str] = ()
) -> str:
    """Return a table of decisions."""
    rows = [
        (each.section, _opening(each), *_figures(each), _why(context, each)) for each in decisions
    ]
    return table(title, _HEADER, rows, numbers=("rank", "score", "tokens"), after=after)


def _opening(decision: Decision) -> str | Markup:
    """Return the summary of an item, which opens to its text."""
    summary = decision.summary(_HTML_COLUMNS)
    if decision.item is None:
        return summary
    return folded(summary, decision.item.text, max_chars=_TEXT_CHARS)


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
    """Yield the tokens of each section, the layout and the free rest. They add up to the budget."""
    uses = [(name, use.used, _use(context, name)) for name, use in context.by_section.items()]
    uses += [(FRAME, context.frame, ""), (_FREE, context.budget - context.used, "")]
    shares = whole_shares([used for _, used, _ in uses], context.budget)
    wide = min(40, max(width(visible(name)) for name, _, _ in uses))
    for (name, used, items), share in zip(uses, shares, strict=True):
        yield f"  {padded(name, wide, tail=12)} {used:>7,} tokens {share:>4} %  {items}".rstrip()
    yield f"  {padded('budget', wide)} {context.budget:>7,} tokens {sum(shares):>4} %"


def _use(context: Context, name: str) -> str:
    """Return the items of a section and its cutoff, in words."""
    cutoff = context._cutoffs.by_section.get(name)
    said = _counted(context.by_section[name].items)
    if cutoff is not None and cutoff.offered:
        said += f" of {cutoff.offered:,} offered"
    if cutoff is not None and cutoff.lowest is not None:
        said += f", cutoff {percent(cutoff.lowest)}"
    return said


def whole_shares(parts: Sequence[int], whole: int) -> list[int]:
    """Return the shares of parts in whole percents that add up as the parts do.

    >>> whole_shares([1, 1, 1], 3)
    [34, 33, 33]
    """
    if not whole:
        return [0] * len(parts)
    exact = [100 * part / whole for part in parts]
    shares = [int(each) for each in exact]
    left = round(sum(exact)) - sum(shares)
    by_rest = sorted(range(len(parts)), key=lambda at: shares[at] - exact[at])
    for at in by_rest[:left]:
        shares[at] += 1
    return shares


def percent(score: float) -> str:
    """Return a score as people read it: 0 to 100, with one decimal."""
    return f"{score:.1f}" if abs(score) < 1_000 else scored(score)


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
        "-" if decision.score is None else percent(decision.score),
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
