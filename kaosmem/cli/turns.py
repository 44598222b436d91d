"""`kaosmem diff` and `kaosmem top`: turns of a stored session in a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable
from typing import Any

from kaosmem.assembly.difference import Difference, difference
from kaosmem.assembly.explanation import explanation
from kaosmem.assembly.seen import Seen
from kaosmem.cli.sessions import check_stored, opened, split_url
from kaosmem.cli.terminal import Column, clear_screen, write, write_table
from kaosmem.display import preview
from kaosmem.persistence.storage.places import fingerprint
from kaosmem.session.tracing import Replay

_CHANGE_STYLES = {"in": "green", "out": "red", "replaced": "yellow", "moved": "dim"}
_CHANGES = (
    Column("change", style=lambda cell: _CHANGE_STYLES.get(cell, "")),
    Column("section"),
    Column("item", narrow="fold", min_chars=20),
    Column("tokens", "right"),
)
_LISTED = 8
_PAUSE_S = 1.0


async def two_turns(url: str, namespace: str, numbers: tuple[int, int]) -> list[tuple[int, Seen]]:
    """Return two turns of a stored session with their numbers.

    Raises:
        NotFoundError: If a turn is not kept, or was erased.
    """
    async with opened(url, namespace) as memory:
        replay = Replay(memory._session)
        return [(replay.turn(number).number, replay.seen(number)) for number in numbers]


def print_difference(turns: list[tuple[int, Seen]]) -> None:
    """Print the difference of two turns: its sums, and a line for each item."""
    (first, before), (second, after) = turns
    found = difference(before.items, after.items)
    write(f"turn {first} to turn {second}: {found}; {before.used:,} and {after.used:,} tokens\n")
    rows = []
    for change, item in found.changes():
        rows.append((change, item.section, preview(item.text), f"{item.tokens:,}"))
    write_table("changes", _CHANGES, rows)


def difference_json(turns: list[tuple[int, Seen]]) -> dict[str, Any]:
    """Return the difference of two turns as JSON values."""
    found: Difference = difference(turns[0][1].items, turns[1][1].items)
    return {
        "turns": [number for number, _ in turns],
        "used": [turn.used for _, turn in turns],
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
    is_once = once or not sys.stdout.isatty()
    seen: Hashable = None
    while True:
        files = await asyncio.to_thread(fingerprint, root, session_id, namespace)
        if files != seen:
            seen = files
            async with opened(url, namespace) as memory:
                replay = Replay(memory._session)
            if not is_once:
                clear_screen()
            print_newest(session_id, replay)
        if is_once:
            return
        await asyncio.sleep(_PAUSE_S)


def print_newest(session_id: str, replay: Replay) -> None:
    """Print the sums of all turns, then the newest turn with its best items and misses."""
    sent = sum(turn.data["used"] for turn in replay.turns)
    cached = sum(turn.data["prefix_tokens"] for turn in replay.turns)
    sums = f"{len(replay.turns):,} turns, {sent:,} tokens sent, {cached:,} of them cached"
    write(f"session {session_id}: {sums}\n")
    if not replay.turns:
        write("no turn is stored; open the session with trace=True\n")
        return
    newest = replay.turns[-1]
    write(f"turn {newest.number:,} at {newest.at:%Y-%m-%d %H:%M:%S}\n")
    if newest.is_erased:
        write("it showed an item that was erased since, so only its sums are left\n")
        return
    is_terminal = sys.stdout.isatty()
    report = explanation(
        replay.seen(newest.number), misses=_LISTED, most=_LISTED, color=is_terminal
    )
    sys.stdout.write(f"{report}\n")
