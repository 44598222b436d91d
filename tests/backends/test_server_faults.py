"""Faults that only servers have, met by every backend of a server, through a network that a test can disturb."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from kaosmem import ChatMessage, DurabilityError
from kaosmem.backends import S3FileStore
from kaosmem.backends.postgres import PostgresDatabase, PostgresHistoryProvider
from kaosmem.backends.redis import RedisDatabase, RedisHistoryProvider
from kaosmem.errors import MissingFileError
from tests.faulty_network import Network, network
from tests.servers import own_postgres_server, own_redis_server

CONNECTIONS, TIMEOUT_S = 4, 2.0  # a busy machine answers within it
_numbers = count(1)


@dataclass
class Store:
    """A store behind a network.

    add: stores a name under itself. read: returns what is stored under a name, [] for nothing.
    """

    add: Callable[[str], Awaitable[object]]
    read: Callable[[str], Awaitable[list[str]]]

    async def adds(self, names):
        """Add names at once, and return those that were acknowledged.

        The others raise a typed error with a remedy.
        """
        answers = await asyncio.gather(*map(self.add, names), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                assert isinstance(answer, DurabilityError), repr(answer)
                assert "try again" in str(answer) or "check that" in str(answer), answer
        return [
            name
            for name, answer in zip(names, answers, strict=True)
            if not isinstance(answer, BaseException)
        ]

    async def check(self, names, acknowledged):
        """Check that acknowledged names are stored once, that others are stored once or not, each under itself."""
        known = {*acknowledged}
        for name, stored in zip(names, await asyncio.gather(*map(self.read, names)), strict=True):
            assert stored in ([[name]] if name in known else [[name], []])


@dataclass
class Service:
    """A server, and how its store is opened through a network.

    restart: kills it, and returns when it runs again. None: the network is closed for a while.
    left_open: the number of transactions that are open.
    """

    target: str
    store: Callable[[Network, float], Any]
    restart: Callable[[], None] | None = None
    left_open: Callable[[], int] = lambda: 0

    def start_again(self, way):
        if self.restart:
            return self.restart()
        way.close()
        time.sleep(0.3)
        return way.open()

    @asynccontextmanager
    async def opened(self, timeout_s=TIMEOUT_S, *, loops=1):
        with network(self.target) as way:
            async with self.store(way, timeout_s) as store:
                yield store, way
                await _soon(lambda: way.connections <= CONNECTIONS * loops)


async def _soon(condition):
    """Check that a condition comes true."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        gc.collect()  # psycopg's attempts to connect that timed out wait for it
        await asyncio.sleep(0.01)


def of_history(history):
    async def read(name):
        return [each.text for each in await history.get_messages("a", session_id=name)]

    return Store(lambda name: history.append("a", ChatMessage("user", name), session_id=name), read)


def of_files(files):
    async def read(name):
        try:
            return [(await files.download(name)).decode()]
        except MissingFileError:
            return []

    async def create(name):
        await files.upload(name, name.encode(), content_type="text/plain")

    return Store(create, read)


def postgres_service(running):
    local = running.enter_context(own_postgres_server())
    url = local.url
    target = f"127.0.0.1:{local.port}"

    @asynccontextmanager
    async def store(way, timeout_s):
        through = url.replace(target, f"127.0.0.1:{way.port}")
        schema = f"t{next(_numbers)}"
        async with PostgresDatabase(
            through, schema=schema, max_connections=CONNECTIONS, timeout_s=timeout_s
        ) as database:
            yield of_history(PostgresHistoryProvider(database))

    def left_open():
        with psycopg.connect(url) as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kaosmem' AND state <> 'idle'"
            (found,) = connection.execute(asked).fetchone() or (0,)
            return int(found)

    return Service(target, store, lambda: restart(local), left_open)


def restart(local):
    local.stop()  # by a kill, since its data are temporary
    local.start()


def redis_service(running):
    local = running.enter_context(own_redis_server(durable=True))
    target = f"127.0.0.1:{local.port}"

    @asynccontextmanager
    async def store(way, timeout_s):
        url = local.url.replace(target, f"127.0.0.1:{way.port}")
        tenant = f"t{next(_numbers)}"
        async with RedisDatabase(
            url, tenant=tenant, max_connections=CONNECTIONS, timeout_s=timeout_s
        ) as database:
            yield of_history(RedisHistoryProvider(database))

    return Service(target, store, lambda: restart(local))


def s3_service(s3):
    """Return the server of all tests: it keeps nothing for a connection."""
    s3.filesystem().mkdir("faults")
    s3.filesystem().pipe_file(
        "faults/first", b"1"
    )  # the first object of a bucket takes SeaweedFS seconds

    @asynccontextmanager
    async def store(way, timeout_s):
        settings = {
            "endpoint": f"http://127.0.0.1:{way.port}",
            "access_key_id": s3.key,
            "secret_access_key": s3.secret,
            "region": "us-east-1",
        }
        url = f"s3://faults/{next(_numbers)}"
        yield of_files(
            S3FileStore(url, max_connections=CONNECTIONS, timeout_s=timeout_s, **settings)
        )

    return Service(urlsplit(s3.url).netloc, store)


@pytest.fixture(scope="module", params=[postgres_service, redis_service, s3_service])
def service(request):
    if request.param is s3_service:
        yield s3_service(request.getfixturevalue("s3_of_all"))
        return
    with ExitStack() as running:
        yield request.param(running)


@pytest.fixture(autouse=True)
def no_records_of_failed_attempts(caplog):
    """A record of the log keeps the error of psycopg's attempt to connect, and so the socket of that attempt."""
    caplog.set_level(logging.CRITICAL, logger="psycopg.pool")


def named(first, number):
    return [f"{first}{n}" for n in range(number)]


async def test_two_thousand_calls_to_a_server_that_stands_still_all_end(service):
    """Within the wait for a turn and one answer, each with a typed error; then the store works again."""
    async with service.opened() as (store, way):
        await store.add("before")
        names = named("held", 2_000)
        way.hold()
        began = time.monotonic()
        acknowledged = await store.adds(names)
        assert (
            time.monotonic() - began < 20 * TIMEOUT_S
        )  # 500 times, if each call waited for the one before
        assert acknowledged == []
        way.release()
        await store.add("after")
        await store.check(["before", "after", *names[:20], *names[-20:]], ["before", "after"])


async def test_an_answer_that_is_lost_is_no_loss_and_nothing_is_done_twice(
    service,
):
    """Whichever answer on the way it is."""
    async with service.opened(timeout_s=10) as (store, way):
        names = named("lost", 8)
        acknowledged = []
        for answers, name in enumerate(names):
            way.answers_until_cut = answers % 6
            acknowledged += await store.adds([name])
        way.answers_until_cut = None
        await store.check(names, acknowledged)
        assert len(acknowledged) > 1


async def test_connections_that_break_under_calls_lose_nothing(service):
    """Each call is done once, or raises a typed error; the number of connections stays in its limit."""
    async with service.opened(timeout_s=10) as (store, way):
        names = named("cut", 60)
        acknowledged = []
        for start in range(0, len(names), 12):
            calls = asyncio.create_task(store.adds(names[start : start + 12]))
            await asyncio.sleep(0.004)
            way.cut()
            acknowledged += await calls
        await store.add("after")
        await store.check([*names, "after"], [*acknowledged, "after"])
        assert len(acknowledged) > len(names) // 2


async def test_a_server_that_starts_again_in_mid_run_loses_nothing(service):
    """Calls wait for it, until their timeout; what was acknowledged before, during and after is there once."""
    async with service.opened(timeout_s=8) as (store, way):
        names = []
        acknowledged = []
        restarting = asyncio.create_task(asyncio.to_thread(service.start_again, way))
        for number in count():
            batch = named(f"run{number}-", 4)
            names += batch
            acknowledged += await store.adds(batch)
            if restarting.done():
                break
            await asyncio.sleep(0.05)
        await restarting
        await store.add("after")
        await store.check([*names, "after"], [*acknowledged, "after"])


async def test_a_cancelled_call_takes_no_answer_of_another(service):
    """Every later call gets its own answer, no transaction stays open, and no connection is lost."""
    rng = random.Random(1)
    async with service.opened(timeout_s=5) as (store, way):
        await store.adds(others := named("other", 12))
        way.delay_s = 0.003
        names = named("cancelled", 40)
        calls = [asyncio.create_task(_added(store, name)) for name in names]
        for call in rng.sample(calls, len(calls)):
            await asyncio.sleep(rng.random() / 200)
            call.cancel()
        acknowledged = []
        for name, call in zip(names, calls, strict=True):
            with suppress(asyncio.CancelledError):
                await call
                acknowledged.append(name)
        await store.check(others, others)
        way.delay_s = 0
        await store.check(names, acknowledged)
        await _soon(lambda: service.left_open() == 0)


async def _added(store, name):
    await store.add(name)


async def test_two_event_loops_share_a_store(service):
    """At once, each in a thread of its own; each call gets its own answer."""
    async with service.opened(timeout_s=10, loops=3) as (store, _):

        async def use(first):
            names = named(first, 40)
            await store.check(names, await store.adds(names))

        await asyncio.gather(
            *(asyncio.to_thread(asyncio.run, use(first)) for first in ("one", "two"))
        )
        await use("three")


async def test_a_closed_store_leaves_no_connection(service):
    """Its server has none of it, though calls were cut and cancelled."""
    with network(service.target) as way:
        async with service.store(way, 2) as store:
            await store.adds(named("open", 20))
            way.cut()
            await store.adds(named("again", 20))
        del store
        await _soon(lambda: way.connections == 0)
