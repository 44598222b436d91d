"""`kaosmem diff` and `kaosmem top`: turns of a stored session in a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable

from kaosmem.assembly.difference import difference
from kaosmem.cli.report import print_report
from kaosmem.cli.sessions import open_stored, split_url
from kaosmem.cli.terminal import clear_screen, write, write_table
from kaosmem.display import counted, preview
from kaosmem.persistence.storage.places import fingerprint
from kaosmem.session.tracing import Replay

_COLUMNS = "change", "section", "item", "tokens"
_LISTED = 8
_PAUSE_S = 1.0


async def print_difference(
    url: str,
    namespace: str,
    numbers: tuple[int, int] | None,
) -> None:
    """Print the difference of two stored turns: its sums, and a line for each item.

    Args:
        numbers: The turns. None takes the last one, and the one before it in its window.

    Raises:
        NotFoundError: If a turn is not kept, or was erased.
    """
    async with open_stored(url, namespace) as memory:
        replay = Replay(memory._session)
    last = replay.turn(-1 if numbers is None else numbers[1])
    first = replay.before(last) if numbers is None else replay.turn(numbers[0])
    before = replay.seen(first.number)
    after = replay.seen(last.number)
    found = difference(before.items, after.items)
    tokens = f"{before.used:,} and {after.used:,} tokens"
    write(f"turn {first.number:,} to turn {last.number:,}: {found}; {tokens}\n")
    rows = []
    for change, item in found.changes:
        rows.append((change, item.section, preview(item.text), f"{item.tokens:,}"))
    write_table("changes", _COLUMNS, rows)


async def follow(url: str, namespace: str) -> None:
    """Print the newest turn of a session, on a terminal again after each save."""
    root, session_id = split_url(url)
    is_terminal = sys.stdout.isatty()
    seen: Hashable = None
    while True:
        files = await asyncio.to_thread(fingerprint, root, session_id, namespace)
        if files != seen:
            seen = files
            async with open_stored(url, namespace) as memory:
                replay = Replay(memory._session)
            if is_terminal:
                clear_screen()
            _print_newest(session_id, replay)
        if not is_terminal:
            return
        await asyncio.sleep(_PAUSE_S)


def _print_newest(session_id: str, replay: Replay) -> None:
    """Print the sums of all turns, then the newest turn with its best items and misses."""
    sent = sum(turn.sums["used"] for turn in replay.turns)
    cached = sum(turn.sums["prefix_tokens"] for turn in replay.turns)
    sums = f"{counted(len(replay.turns), 'turn')}, {sent:,} tokens sent, {cached:,} of them cached"
    write(f"session {session_id}: {sums}\n")
    if not replay.turns:
        write("no turn is stored; open the session with trace=True\n")
        return
    newest = replay.turns[-1]
    write(f"turn {newest.number:,} at {newest.at:%Y-%m-%d %H:%M:%S}\n")
    if newest.is_erased:
        write("it showed an item that was erased since, so only its sums are left\n")
        return
    print_report(replay.seen(newest.number), misses=_LISTED, most=_LISTED)
