"""Erasing items of a session, and verifying that they are gone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from kaosmem.cli.sessions import check_stored, opened, split_url
from kaosmem.cli.terminal import write
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown
from kaosmem.session import ErasureReceipt, SessionMemory


async def erased(url: str, namespace: str, item_ids: list[str]) -> ErasureReceipt:
    """Erase items of a stored session. Raises as `SessionMemory.forget`, and NotFoundError."""
    root, session_id = split_url(url)
    await check_stored(root, session_id, namespace)
    async with SessionMemory.open(root, session_id, namespace=namespace) as memory:
        return await memory.forget(*item_ids)


async def verified(url: str, namespace: str, receipt: Path) -> tuple[str, ...]:
    """Return why the erasure of a receipt's file does not hold, () if it holds. Raises InvalidArgumentError."""
    try:
        stored = json.loads(await asyncio.to_thread(receipt.read_bytes))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InvalidArgumentError(f"no receipt in {shown(str(receipt))}: {why}; give the file of --receipt") from None
    async with opened(url, namespace) as memory:
        return await memory.verify(ErasureReceipt.from_dict(stored))


def print_receipt(receipt: ErasureReceipt) -> None:
    """Print what was erased, a line for each kind."""
    write(f"erased from session {receipt.session_id} at record {receipt.record}\n")
    for name in ("items", "derived", "finished", "windows", "files"):
        if found := getattr(receipt, name):
            write(f"{name}: {', '.join(found)}\n")
