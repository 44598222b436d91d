"""`kaosmem diff` and `kaosmem top`: turns of a stored session in a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kaosmem.assembly.difference import Difference, difference
from kaosmem.assembly.explanation import percent, whole_shares
from kaosmem.cli.report import REASON_COLUMN
from kaosmem.cli.sessions import check_stored, opened, split_url
from kaosmem.cli.terminal import Column, clear_screen, write, write_table
from kaosmem.display import padded, preview
from kaosmem.errors import NotFoundError
from kaosmem.session.tracing import Replay
from kaosmem.trace.turn import Turn, number_of
from kaosmem.types.items import Item
from kaosmem.view.data import PageData
from kaosmem.view.serve import LivePage

_CHANGE_STYLES = {"in": "green", "out": "red", "replaced": "yellow", "moved": "dim"}
_CHANGES = (
    Column("change", style=lambda cell: _CHANGE_STYLES.get(cell, "")),
    Column("section"),
    Column("item", narrow="fold", min_chars=20),
    Column("tokens", "right"),
)
_ITEMS = (
    Column("section"),
    Column("item", narrow="fold", min_chars=20),
    Column("score", "right"),
    Column("tokens", "right"),
    REASON_COLUMN,
)
_BAR_COLUMNS = 40
_LISTED = 8
_PAUSE_S = 1.0


async def turns_difference(
    url: str, namespace: str, numbers: tuple[int, int]
) -> tuple[Turn, Turn, Difference]:
    """Return two turns of a stored session, and the difference of their items.

    Raises:
        NotFoundError: If a turn is not kept, or was erased.
    """
    async with opened(url, namespace) as memory:
        replay = Replay(memory._session)
        total = memory._session.trace.total
        found = [replay.turn(number_of(number, total)) for number in numbers]
        for turn in found:
            if turn.is_erased:
                raise NotFoundError(
                    f"turn {turn.number} showed an item that was erased since; only its sums are "
                    "left"
                )
        before, after = (_shown(turn, replay) for turn in found)
    return found[0], found[1], difference(before, after)


def _shown(turn: Turn, replay: Replay) -> list[Item]:
    """Return the items that a turn showed, as far as they are there."""
    found = []
    for item_id, digest in turn.data["shown"]:
        item = replay.version(item_id, digest)
        if item is not None:
            found.append(item)
    return found


def print_difference(before: Turn, after: Turn, found: Difference) -> None:
    """Print the difference of two turns: its sums, and a line for each item."""
    used = f"{before.data['used']:,} and {after.data['used']:,} tokens"
    write(f"turn {before.number} to turn {after.number}: {found}; {used}\n")
    rows = [("in", item) for item in found.came]
    rows += [("out", item) for item in found.went]
    for old, new in found.replaced:
        rows += [("replaced", old), ("in", new)]
    rows += [("moved", item) for item in found.moved]
    lines = [
        (change, each.section, preview(each.text), f"{each.tokens:,}") for change, each in rows
    ]
    write_table("changes", _CHANGES, lines)


def difference_json(before: Turn, after: Turn, found: Difference) -> dict[str, Any]:
    """Return the difference of two turns as JSON values."""
    return {
        "turns": [before.number, after.number],
        "used": [before.data["used"], after.data["used"]],
        "in": [item.id for item in found.came],
        "out": [item.id for item in found.went],
        "replaced": [[old.id, new.id] for old, new in found.replaced],
        "moved": [item.id for item in found.moved],
        "same": found.same,
    }


async def follow(url: str, namespace: str, *, once: bool) -> None:
    """Print the newest turn of a session, again after each save.

    Args:
        once: Print it once. A pipe gets it once, too.
    """
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    page = LivePage(root, session_id, namespace)
    seen: PageData | None = None
    while True:
        data = await page.data()
        if data is not seen:
            seen = data
            if not once:
                clear_screen()
            print_newest(data)
        if once or not sys.stdout.isatty():
            return
        await asyncio.sleep(_PAUSE_S)


def print_newest(data: PageData) -> None:
    """Print the newest turn: its sums, its shown items, the nearest left out, and the last turns."""
    lines: Any = data.session["turns"]
    sent = sum(line["used"] for line in lines)
    cached = sum(line["prefix"] for line in lines)
    sums = f"{len(lines):,} turns, {sent:,} tokens sent, {cached:,} of them cached"
    write(f"session {data.session['id']}: {sums}\n")
    if not lines:
        write("no turn is stored; open the session with trace=True\n")
        return
    line = lines[-1]
    turn: Mapping[str, Any] = data.turns[line["n"]]
    write(f"turn {line['n']:,} at {line['at'][:19]}: {preview(line['query'] or '(no query)')}\n")
    for row in _sums(line):
        write(f"{row}\n")
    shown = {item_id for item_id, _ in turn.get("shown", ())}
    rows = sorted(_rows(data, turn), key=lambda row: (row[2] is None, -(row[2] or 0.0)))
    included = [_cells(row) for row in rows if row[0] in shown][:_LISTED]
    missed = [_cells(row) for row in rows if row[0] not in shown][:_LISTED]
    write_table(f"shown, the best {len(included)} of {line['shown']:,}", _ITEMS, included)
    write_table(f"left out, the nearest {len(missed)} of {line['out']:,}", _ITEMS, missed)


def _sums(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tokens of each section as a bar, and the cached prefix."""
    parts = [*line["sections"].items(), ("(frame)", line["frame"])]
    parts.append(("(free)", max(0, line["budget"] - line["used"])))
    shares = whole_shares([used for _, used in parts], line["budget"])
    wide = max(len(name) for name, _ in parts)
    for (name, used), share in zip(parts, shares, strict=True):
        bar = "█" * round(_BAR_COLUMNS * share / 100)
        yield f"  {padded(name, wide)} {used:>7,} {share:>4} %  {bar}".rstrip()
    cached = f"  {padded('cached', wide)} {line['prefix']:>7,}"
    yield f"{cached}  packed anew: {line['rebased']}" if line["rebased"] else cached


def _rows(data: PageData, turn: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for section, rows in turn.get("decisions", {}).items():
        for item_id, reason, _, score, tokens, *_ in rows:
            text: Any = data.items.get(item_id, {}).get("text", item_id)
            yield item_id, section, score, text, tokens, reason


def _cells(row: Sequence[Any]) -> tuple[str, ...]:
    _, section, score, text, tokens, reason = row
    return section, preview(text), "-" if score is None else percent(score), f"{tokens:,}", reason
