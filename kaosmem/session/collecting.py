"""A reply that comes as a stream, stored as one message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kaosmem.types import JSONDict
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.formats.streams import Stream

INTERRUPTED: JSONDict = {"interrupted": True}
"""The metadata of a message whose stream ended early."""


class Collector:
    """Takes the events of one stream.

    Attributes:
        item: The stored message, None before the end of the block, or if nothing came.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.item: Item | None = None

    def add(self, event: object) -> None:
        """Take the next event, a dict or an object of the SDK. Raises InvalidArgumentError."""
        self._stream.add(event)


@asynccontextmanager
async def collecting(format: str, store: Callable[..., Item]) -> AsyncIterator[Collector]:
    """Collect a stream, and store its message at the end of the block, whatever ends it.

    Args:
        format: The provider's format.
        store: Stores a message, with `metadata`, as `SessionMemory.add_message` does.
    """
    from kaosmem.formats.streams import new_stream  # few programs stream into a session

    stream = new_stream(format)
    collector = Collector(stream)
    try:
        yield collector
    finally:
        message = stream.message()
        if message is not None:
            metadata = None if stream.is_complete else INTERRUPTED
            collector.item = store(message, metadata=metadata)
