"""A proxy before an HTTP server that counts requests and bytes, and may be late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_CHUNK = 256 * 1024


@dataclass
class Counts:
    """The requests so far by kind, and the bytes of their answers."""

    target: str
    delay_s: float
    port: int = 0
    gets: int = 0
    puts: int = 0
    others: int = 0
    bytes: int = 0

    async def during(self, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Return the figures of some work, with the requests that it made."""
        before = self.gets, self.puts, self.others, self.bytes
        figures = dict(await work)
        after = self.gets, self.puts, self.others, self.bytes
        gets, puts, others, size = (new - old for new, old in zip(after, before, strict=True))
        return {**figures, "gets": gets, "puts": puts, "others": others, "megabytes": size / 1e6}

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Pass on one connection in both directions."""
        host, _, port = self.target.rpartition(":")
        server, forth = await asyncio.open_connection(host, int(port))
        ways = self._requests(client, forth), self._answers(server, back)
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            forth.transport.abort()
            back.transport.abort()

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Pass on requests. A client sends the head of a request as the begin of a chunk."""
        while data := await source.read(_CHUNK):
            method = data[:8].partition(b" ")[0]
            if method == b"GET":
                self.gets += 1
            elif method in (b"PUT", b"POST"):
                self.puts += 1
            elif method in (b"HEAD", b"DELETE"):
                self.others += 1
            if method in (b"GET", b"PUT", b"POST", b"HEAD", b"DELETE"):
                await asyncio.sleep(self.delay_s)
            sink.write(data)
            await sink.drain()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_CHUNK):
            self.bytes += len(data)
            sink.write(data)
            await sink.drain()


@contextmanager
def counted(target: str, *, delay_s: float = 0.0) -> Iterator[Counts]:
    """Run a proxy of the server at `host:port` in a thread of its own until the block ends."""
    counts = Counts(target, delay_s)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_server(counts.serve, "127.0.0.1", 0)
        counts.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    started.wait()
    try:
        yield counts
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
