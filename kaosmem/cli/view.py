"""`kaosmem view`: a session's turns as a page, in a file or served live."""

from __future__ import annotations

from pathlib import Path

from kaosmem.cli.sessions import check_stored, open_stored, split_url
from kaosmem.cli.terminal import write
from kaosmem.display import counted
from kaosmem.errors import InvalidArgumentError
from kaosmem.view.data import page_data
from kaosmem.view.page import html_page
from kaosmem.view.serve import LivePage, serve_page


async def write_page(
    url: str,
    namespace: str,
    output: Path,
) -> None:
    """Write the page of a session to a file.

    Raises:
        InvalidArgumentError: If there is no such folder.
        KaosmemError: If the session cannot be read.
    """
    if not output.absolute().parent.is_dir():
        raise InvalidArgumentError(f"there is no folder {str(output.parent)!r}; make it first")
    async with open_stored(url, namespace) as memory:
        data = page_data(memory._session)
    with output.open("w", encoding="utf-8") as file:
        file.writelines(html_page(data))
    turns = len(data.turns)
    write(f"{output}: {counted(turns, 'turn')}, {counted(len(data.items), 'item')}\n")
    if not turns:
        write("note: no turn is stored; open the session with trace=True\n")


async def serve(
    url: str,
    namespace: str,
    *,
    host: str,
    port: int,
) -> None:
    """Serve the page of a session until the process is told to stop.

    Raises:
        InvalidArgumentError: If the address is not valid.
        MissingExtraError: If the extra `view` is not installed.
        KaosmemError: If the session cannot be read.
    """
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    page = LivePage(root, session_id, namespace)
    await serve_page(page, host, port, lambda address: write(f"open {address}\n"))
