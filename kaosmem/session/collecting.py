"""A reply that comes as a stream, stored as one message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kaosmem.formats.streams import Stream, new_stream
from kaosmem.types import JSONDict
from kaosmem.types.items import Item

INTERRUPTED: JSONDict = {"interrupted": True}
"""The metadata of a message whose stream ended early."""


@asynccontextmanager
async def collecting(format: str, store: Callable[..., Item]) -> AsyncIterator[Stream]:
    """Collect a stream, and store its message at the end of the block, whatever ends it.

    Args:
        format: The provider's format.
        store: Stores a message, with `metadata`, as `SessionMemory.add_message` does.
    """
    stream = new_stream(format)
    try:
        yield stream
    finally:
        message = stream.message()
        if message is not None:
            metadata = None if stream.is_complete else INTERRUPTED
            stream.item = store(message, metadata=metadata)
