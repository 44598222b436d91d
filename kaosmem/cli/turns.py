"""`kaosmem why, diff, top` and `view`: turns of a stored session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated

import typer

from kaosmem.assembly.difference import difference
from kaosmem.cli.options import Namespace, SessionUrl, check_output
from kaosmem.cli.report import print_report
from kaosmem.cli.sessions import check_stored, open_stored, split_url
from kaosmem.cli.terminal import ProgressLine, clear_screen, write, write_table
from kaosmem.display import count_text, preview
from kaosmem.persistence.storage.places import fingerprint
from kaosmem.session.tracing import Replay

_COLUMNS = "change", "section", "item", "tokens"
_LISTED = 8
_PAUSE_S = 1.0


async def why(
    url: SessionUrl,
    words: Annotated[
        str,
        typer.Argument(
            metavar="WORDS",
            help="The id or the key of an item, a part of its source or text, or most of its words.",
            show_default=False,
        ),
    ],
    turn: Annotated[
        int,
        typer.Option(metavar="N", help="The turn, from 1. Negative numbers count from the end."),
    ] = -1,
    namespace: Namespace = "default",
) -> None:
    """Say in a sentence why an item was in or out of a turn, with the numbers that decided.

    The session needs stored turns: open it with `trace=True`.
    """
    with ProgressLine() as progress_line:
        progress_line.begin("opening the session")
        async with open_stored(url, namespace) as memory:
            found = memory.why(words, turn=turn)
    write(f"{found}\n")


async def diff(
    url: SessionUrl,
    turns: Annotated[
        tuple[int, int],
        typer.Option(metavar="A B", help="The turns, from 1. Negative numbers count from the end."),
    ] = (-2, -1),
    namespace: Namespace = "default",
) -> None:
    """Print which items came, went, were replaced or moved between two stored turns."""
    async with open_stored(url, namespace) as memory:
        replay = Replay(memory._session)
    first, last = map(replay.turn, turns)
    before = replay.assembled(first.number)
    after = replay.assembled(last.number)
    found = difference(before.items, after.items)
    tokens = f"{before.used:,} and {after.used:,} tokens"
    write(f"turn {first.number:,} to turn {last.number:,}: {found}; {tokens}\n")
    rows = []
    for change, item in found.changes:
        rows.append((change, item.section, preview(item.text), f"{item.tokens:,}"))
    write_table("changes", _COLUMNS, rows)


async def top(url: SessionUrl, namespace: Namespace = "default") -> None:
    """Show the newest turn of a session, again after each save, until Ctrl+C. A pipe gets it once.

    It prints the tokens by section, the cached prefix, the best items that are in and the nearest
    ones that are out.
    """
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
    sent = 0
    cached = 0
    for turn in replay.turns:
        sent += turn.sums["used"]
        cached += turn.sums["prefix_tokens"]
    sums = (
        f"{count_text(len(replay.turns), 'turn')}, {sent:,} tokens sent, {cached:,} of them cached"
    )
    write(f"session {session_id}: {sums}\n")
    if not replay.turns:
        write("no turn is stored; open the session with trace=True\n")
        return
    newest = replay.turns[-1]
    write(f"turn {newest.number:,} at {newest.at:%Y-%m-%d %H:%M:%S}\n")
    if newest.is_erased:
        write("it showed an item that was erased since, so only its sums are left\n")
        return
    print_report(replay.assembled(newest.number), misses=_LISTED, most=_LISTED)


async def view(
    url: SessionUrl,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the page to this file, such as turns.html.",
            show_default=False,
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page live; needs the extra view.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65_535, help="The port of --serve; 0 takes a free one."
        ),
    ] = 0,
    host: Annotated[
        str, typer.Option(help="The address of --serve. The default is this machine alone.")
    ] = "127.0.0.1",
    namespace: Namespace = "default",
) -> None:
    """Show a session's turns as a page: the window as sent, reasons, scores, and what changed.

    The file holds all turns and texts, and asks no network. --serve shows a running agent's session
    as it grows, at an address with a random token.
    """
    from kaosmem.view.serve import LivePage, serve_page

    if (output is None) is not serve:
        raise typer.BadParameter("give either --output FILE or --serve", param_hint="--output")
    if output is not None:
        await _write_page(url, namespace, output)
        return
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    page = LivePage(root, session_id, namespace)
    await serve_page(page, host, port, lambda address: write(f"open {address}\n"))


async def _write_page(
    url: str,
    namespace: str,
    output: Path,
) -> None:
    """Write the page of a session to a file. Raises BadParameter without its folder."""
    from kaosmem.view.page import html_page, page_data

    check_output(output, "--output")
    async with open_stored(url, namespace) as memory:
        data = page_data(memory._session)
    with output.open("w", encoding="utf-8") as file:
        file.writelines(html_page(data))
    turns = len(data.turns)
    write(f"{output}: {count_text(turns, 'turn')}, {count_text(len(data.items), 'item')}\n")
    if not turns:
        write("note: no turn is stored; open the session with trace=True\n")
