"""A turn explained for people: sums, shown items with reasons, and the nearest misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kaosmem.assembly.allocation import FRAME
from kaosmem.assembly.difference import difference
from kaosmem.assembly.why import IN, MEANINGS
from kaosmem.display import (
    Markup,
    aligned,
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
    from kaosmem.assembly.context import Decision
    from kaosmem.assembly.seen import Seen

COLUMNS = 80

_HEADER = ("section", "item", "rank", "score", "tokens", "reason")
_NUMBERS = ("rank", "score", "tokens")
_FREE = "(free)"
_HEADINGS = "section ", "nearest misses", "legend"
_MAX_SECTION = 12
_MAX_TWIN = 16
_MIN_ITEM = 8
_SHOWN_ITEMS = 30
_HTML_COLUMNS = 100
_SHOWN_SECTIONS = 30
_TEXT_CHARS = 4_000


def explanation(turn: Seen, *, misses: int, color: bool = False, most: int | None = None) -> str:
    """Return a report of lines at most 80 columns wide.

    Args:
        color: Mark headings, reasons and the legend with the colours of a terminal.
        most: Number of shown items to list, the best ones. None lists all, in their order.
    """
    included = [turn.decision(item.id) for item in turn.items]
    if most is not None:
        included.sort(key=lambda each: -(each.score or 0.0))
        included = included[:most]
    missed = turn.nearest_misses(misses)
    head, *rows = _lines(turn, [*included, *missed])
    lines = [
        _title(turn),
        f"query: {preview(turn.query, COLUMNS - 7)}",
        *_sums(turn),
        *_notes(turn),
        "",
        head,
        *rows[: len(included)],
    ]
    if len(included) < len(turn.items):
        lines.append(f"… and {len(turn.items) - len(included):,} more")
    if missed:
        lines += ["", _missed(turn, missed), *rows[len(included) :]]
    lines += ["", *legend([*included, *missed])] if rows else []
    return "\n".join(_painted(fitted(line, COLUMNS), color=color) for line in lines)


_COLORS: dict[object, str] = {
    "head": "\x1b[1m",
    True: "\x1b[32m",
    False: "\x1b[31m",
    "quiet": "\x1b[2m",
}
_RESET = "\x1b[0m"


def _painted(line: str, *, color: bool) -> str:
    """Return a line with its reason, if it is one of a decision, in the colour of its outcome."""
    if not color or not line.strip():
        return line
    row, gap, reason = line.rpartition("  ")
    if _first_word(reason) in MEANINGS:
        return f"{row}{gap}{_COLORS[is_including(reason)]}{reason}{_RESET}"
    if line.startswith("  "):
        return f"{_COLORS['quiet']}{line}{_RESET}"
    return f"{_COLORS['head']}{line}{_RESET}" if line.startswith(_HEADINGS) else line


def is_including(why: str) -> bool:
    """Return whether a reason, or what begins with it, is one of an item that is in."""
    return _first_word(why) in IN


def _first_word(why: str) -> str:
    return why.split(" ")[0].split(":")[0]


def legend(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line for each reason that is shown, and one for the scores."""
    reasons = {decision.reason.value: decision.included for decision in decisions}
    wide = max(map(len, reasons), default=0)
    yield "legend"
    for reason, is_in in sorted(reasons.items(), key=lambda each: not each[1]):
        yield f"  {reason:<{wide}}  {'in' if is_in else 'out':<3}  {MEANINGS[reason]}"
    if any(decision.score is not None for decision in decisions):
        yield "  score: 0 to 100, the best match has the most; cutoff: the lowest that is in"


def html(turn: Seen, *, misses: int = 10) -> str:
    """Return the sums as bars, the difference from the turn before, and tables of decisions."""
    uses = turn.by_section
    parts = [(name, use.used) for name, use in uses.items() if use.used]
    stacked = stacked_bar([*parts, (FRAME, turn.frame)], turn.budget)
    shares = [(name, bar(use.used, turn.budget), _use(turn, name)) for name, use in uses.items()]
    sums = table(
        _title(turn),
        ("section", "tokens", "items"),
        [*shares[:_SHOWN_SECTIONS], (FRAME, bar(turn.frame, turn.budget), "")],
        after=[*_rest(shares, _SHOWN_SECTIONS), *_notes(turn)],
    )
    shown = [turn.decision(item.id) for item in turn.items[:_SHOWN_ITEMS]]
    title = f"in, for the query: {preview(turn.query)}"
    tables = _decisions(title, turn, shown, _rest(turn.items, _SHOWN_ITEMS))
    missed = turn.nearest_misses(misses)
    if missed:
        tables += _decisions(_missed(turn, missed), turn, missed)
    return f"<div>{stacked.html}{sums}{_changes(turn)}{tables}</div>"


def _rest(entries: Sequence[object], most: int) -> list[str]:
    rest = len(entries) - most
    return [f"… and {rest:,} more"] if rest > 0 else []


def _changes(turn: Seen) -> str:
    """Return a table of the difference from the turn before, "" without one."""
    if turn.before is None:
        return ""
    found = difference(turn.before, turn.items)
    changes = [*found.changes()]
    rows = []
    for change, item in changes[:_SHOWN_ITEMS]:
        line = folded(preview(item.text, _HTML_COLUMNS), item.text, max_chars=_TEXT_CHARS)
        rows.append((change, item.section, line))
    title = f"since the turn before: {found}"
    header = ("change", "section", "item")
    return table(title, header, rows, after=_rest(changes, _SHOWN_ITEMS))


def _decisions(
    title: str, turn: Seen, decisions: Sequence[Decision], after: Sequence[str] = ()
) -> str:
    """Return a table of decisions, in which each item opens to its text."""
    rows: list[list[str | Markup]] = []
    for decision, cells in zip(decisions, _rows(turn, decisions, _HTML_COLUMNS), strict=True):
        row: list[str | Markup] = [*cells]
        if decision.item is not None:
            row[1] = folded(cells[1], decision.item.text, max_chars=_TEXT_CHARS)
        rows.append(row)
    return table(title, _HEADER, rows, numbers=_NUMBERS, after=after)


def _lines(turn: Seen, decisions: Sequence[Decision]) -> list[str]:
    """Return a header and a line for each decision. Items take the room that the rest leaves."""
    narrow = aligned(_HEADER, _rows(turn, decisions, _MIN_ITEM), _NUMBERS)
    room = COLUMNS - max(map(width, narrow))
    return aligned(_HEADER, _rows(turn, decisions, _MIN_ITEM + max(0, room)), _NUMBERS)


def _rows(turn: Seen, decisions: Iterable[Decision], columns: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of decisions, with items at most so many columns wide."""
    for decision in decisions:
        yield (
            fitted(decision.section, _MAX_SECTION, tail=6),
            decision.summary(columns),
            *figures(decision),
            _why(turn, decision),
        )


def _title(turn: Seen) -> str:
    return (
        f"{turn.used:,} of {turn.budget:,} tokens used, {_counted(len(turn.items))}, format "
        f"{turn.format}"
    )


def _missed(turn: Seen, missed: Sequence[Decision]) -> str:
    left_out = sum(not decision.included for decision in turn.decisions)
    return f"nearest misses, {len(missed)} of {left_out:,} proposed"


def _notes(turn: Seen) -> Iterator[str]:
    """Yield the window, the confidence, the sources and the notices, a line each."""
    if turn.window:
        how = f"{turn.prefix_tokens:,} tokens as before"
        if turn.rebased:
            how = f"packed anew ({turn.rebased})"
        window = preview(turn.window, 30)
        yield f"window {window}, epoch {turn.epoch}: {how}, {turn.appended:,} written"
    if turn.confidence is not None:
        yield f"confidence: {turn.confidence:.2f}"
    for name, report in turn.sources.items():
        yield f"source {fitted(name, 40, tail=12)}: {report}"
    for notice in turn.notices:
        yield f"note: {visible(notice)}"


def _sums(turn: Seen) -> Iterator[str]:
    """Yield the tokens of each section, the layout and the free rest. They add up to the budget."""
    uses = [(name, use.used, _use(turn, name)) for name, use in turn.by_section.items()]
    uses += [(FRAME, turn.frame, ""), (_FREE, turn.budget - turn.used, "")]
    shares = whole_shares([used for _, used, _ in uses], turn.budget)
    wide = min(40, max(width(visible(name)) for name, _, _ in uses))
    for (name, used, items), share in zip(uses, shares, strict=True):
        yield f"  {padded(name, wide, tail=12)} {used:>7,} tokens {share:>4} %  {items}".rstrip()
    yield f"  {padded('budget', wide)} {turn.budget:>7,} tokens {sum(shares):>4} %"


def _use(turn: Seen, name: str) -> str:
    """Return the items of a section and its cutoff, in words."""
    cutoff = turn._cutoffs.by_section.get(name)
    said = _counted(turn.by_section[name].items)
    if cutoff is not None and cutoff.offered:
        # A window shows items of earlier turns, which are offered no more.
        of = " of" if cutoff.offered >= turn.by_section[name].items else ","
        said += f"{of} {cutoff.offered:,} offered"
    if cutoff is not None and cutoff.lowest is not None:
        said += f", cutoff {percent(cutoff.lowest)}"
    return said


def _counted(items: int) -> str:
    return f"{items:,} item{'' if items == 1 else 's'}"


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


def figures(decision: Decision) -> tuple[str, str, str]:
    """Return the rank, the score and the tokens of a decision, as tables show them."""
    return (
        "-" if decision.rank is None else f"{decision.rank:,}",
        "-" if decision.score is None else percent(decision.score),
        f"{decision.tokens:,}",
    )


def _why(turn: Seen, decision: Decision) -> str:
    if decision.same_as is None:
        return decision.why
    same_as = turn.decision(decision.same_as).summary(_MAX_TWIN)
    return replace(decision, same_as=same_as).why
