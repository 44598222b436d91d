"""A TCP proxy before a real server that can delay, hold back, lose and cut."""

import asyncio
import threading
from contextlib import contextmanager

_CHUNK = 64 * 1024


class Network:
    """The way between clients and a server. Every fault may be set at any time, from any thread.

    target: `host:port` of the server, or the path of its Unix socket.
    delay_s: seconds that each chunk of an answer is late.
    answers_until_cut: answers that still arrive; the next one is lost with its connection. None:
        all arrive.
    """

    def __init__(self, target):
        self._target = target
        self.delay_s = 0.0
        self.answers_until_cut = None
        self.port = 0
        self._is_closed = False
        self._open = set()
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()

    def hold(self):
        """Let nothing through, in either direction. New connections are accepted."""
        self._call(self._flows.clear)

    def release(self):
        """Let everything through again."""
        self._call(self._flows.set)

    def cut(self):
        """Reset all connections."""
        self._call(self._cut)

    def close(self):
        """Reset all connections, and each new one."""
        self._is_closed = True
        self.cut()

    def open(self):
        """Accept connections again."""
        self._is_closed = False

    @property
    def connections(self):
        """Return the number of open connections of clients."""
        return self._call(lambda: len(self._open))

    def _call(self, action):
        async def run():
            return action()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _cut(self):
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, client, back):
        self._open.add(back)
        try:
            if self._is_closed:
                return
            host, _, port = self._target.rpartition(":")
            if self._target.startswith("/"):
                server, forth = await asyncio.open_unix_connection(self._target)
            else:
                server, forth = await asyncio.open_connection(host, int(port))
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(client, forth, is_answer=False))
                    both.create_task(self._pass(server, back, is_answer=True))
            finally:
                forth.transport.abort()
        except (OSError, ExceptionGroup):
            pass
        finally:
            self._open.discard(back)
            back.transport.abort()

    async def _pass(self, source, sink, *, is_answer):
        while data := await source.read(_CHUNK):
            if is_answer:
                await asyncio.sleep(self.delay_s)
            await self._flows.wait()
            if is_answer and self.answers_until_cut is not None:
                self.answers_until_cut -= 1
                if self.answers_until_cut < 0:
                    self.answers_until_cut = None
                    break
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError  # which ends the other direction too


@contextmanager
def network(target):
    """Run a proxy of a server in a thread of its own until the block ends."""
    way = Network(target)
    stop = asyncio.Event()

    async def serve():
        server = await asyncio.start_server(way._serve, "127.0.0.1", 0)
        way.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        way._is_closed = True
        way._flows.set()
        way._cut()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        server.close()
        await asyncio.sleep(0.01)  # until all sockets are closed

    started = threading.Event()
    thread = threading.Thread(target=way._loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield way
    finally:
        way._loop.call_soon_threadsafe(stop.set)
        thread.join()
        way._loop.close()
