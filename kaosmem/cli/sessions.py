"""`kaosmem list, show, repair, forget` and `verify`: stored sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from kaosmem.cli.options import AsJson, Namespace, SessionUrl, check_output
from kaosmem.cli.report import NEWEST, damage_json, item_json, session_json
from kaosmem.cli.terminal import ProgressLine, write, write_result
from kaosmem.errors import InvalidArgumentError, InvalidNameError, NotFoundError
from kaosmem.names import check_name, shown, shown_location
from kaosmem.persistence.storage.places import filesystem_of, unknown_session
from kaosmem.retrieval.ranker import Ranker
from kaosmem.session import ErasureReceipt, list_namespaces, stored_sessions
from kaosmem.session.directory import list_sessions
from kaosmem.session.memory import SessionMemory
from kaosmem.session.saving.repair import repair_session
from kaosmem.types import JSONDict


async def list_(
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="The folder or URL that holds the sessions.")
    ],
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Number of sessions to list, the last saved first."),
    ] = 50,
    namespace: Annotated[
        str | None,
        typer.Option(
            help="List only the sessions of this namespace.", show_default="all namespaces"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a folder or URL, with their bytes and the time of the last save."""
    if namespace is None:
        namespaces = await list_namespaces(root)
    else:
        namespaces = [namespace]
    found: list[JSONDict] = []
    for name in namespaces:
        for session in await stored_sessions(root, name):
            saved = session.saved.isoformat(" ", "seconds") if session.saved else None
            found.append(
                {
                    "last_saved": saved,
                    "bytes": session.size_bytes,
                    "namespace": name,
                    "session": session.session_id,  # last, as it may be longer than the screen
                }
            )
    if not found and not await asyncio.to_thread(filesystem_of(root).exists, ""):
        raise NotFoundError(
            f"no sessions in {shown_location(root)}: there is no such place; check the path, or "
            "make a session with "
            "`kaosmem assemble --session`"
        )
    if not found:
        typer.echo("note: no session there; ROOT is the folder that holds the namespaces", err=True)
    found.sort(key=lambda each: each["last_saved"] or "", reverse=True)
    result = {"root": root, "total": len(found), "sessions": found[:limit]}
    write_result(result, as_json=as_json)


async def show(
    url: SessionUrl,
    section: Annotated[
        str | None, typer.Option(help="Print only this section.", show_default=False)
    ] = None,
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Number of newest items to print of each section."),
    ] = 5,
    item: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Print only this item, in full. It may be archived.",
            show_default=False,
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Print a session's sections with their figures and newest items, or one item in full.

    `--limit 0` prints the figures alone.
    """
    with ProgressLine() as progress_line:
        progress_line.begin("opening the session")
        async with open_stored(url, namespace) as memory:
            progress_line.begin("looking for the item")
            found = None if item is None else await memory.fetch(item)
    if found is not None:
        write_result(item_json(memory, found, as_json=as_json), as_json=as_json)
        return
    sections = [each for each in memory if len(each) or len(each.archive)]
    if section is not None:
        sections = [memory[section]]
    result = session_json(memory, sections, limit=limit, as_json=as_json)
    write_result(result, as_json=as_json, columns=NEWEST)


async def repair(
    url: SessionUrl,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The new session's id.", show_default="<session id>-repaired"
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Copy the intact items of a damaged session into a new session beside it.

    The damaged session stays as it is.

    Prints the rescued items and the missing parts. For a sound session, nothing is written.
    """
    root, session_id = split_url(url)
    with ProgressLine() as progress_line:
        progress_line.begin("reading intact records")
        report = await repair_session(root, session_id, into, namespace)
    result = {
        "session": report.session_id,
        "state": "sound" if report.into is None else "damaged",
        "into": report.into,
        "items": dict(report.items),
        "archived": dict(report.archived),
        "damage": damage_json(report.damage),
        "outdated": [*report.outdated],
    }
    write_result(result, as_json=as_json)


async def forget(
    url: SessionUrl,
    items: Annotated[
        list[str], typer.Argument(metavar="ID", help="The items to erase.", show_default=False)
    ],
    receipt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the receipt as JSON, for verify.", show_default=False
        ),
    ] = None,
    namespace: Namespace = "default",
    as_json: AsJson = False,
) -> None:
    """Erase items, all their versions and everything derived from them, from every file of a session.

    A program has to forget items of which facts on a shelf of long-term memory were formed.

    Prints a receipt: the erased items, the windows that showed them, and the deleted files.
    """
    if receipt is not None:
        check_output(receipt, "--receipt")
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    async with SessionMemory.open(root, session_id, namespace=namespace, sections=None) as memory:
        result = (await memory.forget(*items)).to_dict()
    write_result(result, as_json=as_json)  # first, as the file may not be writable
    if receipt is not None:
        text = json.dumps(result, ensure_ascii=False, indent=2) + "\n"
        await asyncio.to_thread(receipt.write_text, text, encoding="utf-8")


async def verify(
    url: SessionUrl,
    receipt: Annotated[
        Path, typer.Argument(metavar="RECEIPT", help="The file of a receipt.", show_default=False)
    ],
    namespace: Namespace = "default",
) -> None:
    """Verify that the items of a receipt are in no file of the session.

    If one is, exit with code 1.
    """
    try:
        stored = json.loads(await asyncio.to_thread(receipt.read_bytes))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InvalidArgumentError(
            f"no receipt in {shown(str(receipt))}: {why}; give the file of --receipt"
        ) from None
    async with open_stored(url, namespace) as memory:
        reasons = await memory.admin.verify(ErasureReceipt.from_dict(stored))
    for reason in reasons:
        write(f"not erased: {reason}\n")
    if reasons:
        raise typer.Exit(1)
    write("erased: no file of the session holds the items\n")


@asynccontextmanager
async def open_stored(
    url: str | None,
    namespace: str,
    counter: str | None = None,
    ranker: Ranker | None = None,
) -> AsyncIterator[SessionMemory]:
    """Open a stored session for reading, with its own sections.

    Raises NotFoundError where there is none.
    """
    root, session_id = split_url(url or "")
    async with SessionMemory.open(
        root,
        session_id,
        namespace=namespace,
        sections=None,
        counter=counter,
        ranker=ranker,
        read_only=True,
    ) as memory:
        yield memory


async def check_stored(
    root: str,
    session_id: str,
    namespace: str,
) -> None:
    """Raise NotFoundError where there is no session."""
    if check_name(session_id, "session id") not in await list_sessions(root, namespace):
        raise await asyncio.to_thread(unknown_session, root, session_id, namespace)


def split_url(url: str) -> tuple[str, str]:
    """Return the root and the id of the session that a URL names. Raises InvalidNameError."""
    scheme, colon, place = url.rpartition("://")
    root, slash, session_id = place.rstrip("/").rpartition("/")
    if not session_id or not slash:
        raise InvalidNameError(
            f"{shown(url)} is not a session URL; "
            "give <root>/<session id>, such as ./.kaosmem/deal-42 or s3://bucket/deal-42"
        )
    return scheme + colon + (root or "/"), session_id
