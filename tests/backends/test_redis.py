"""Stores in a real server of Valkey."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import redis

from kaosmem import ChatMessage, InvalidArgumentError
from kaosmem.backends.redis import (
    RedisDatabase,
    RedisHistoryProvider,
    RedisLongTermMemory,
    RedisSessionStore,
)
from kaosmem.errors import InvalidNameError
from tests.backends.hostile_values import HostileValues
from tests.formation.formers import check_shelf
from tests.servers import check_example, own_redis_server, redis_server
from tests.stores.compared import ComparedHistory, ComparedLongTerm, ComparedShortTerm

_tenants = count(1)


@pytest.fixture(scope="module")
def url():
    """The URL of a server."""
    with redis_server() as url:
        yield url


class OnRedis:
    """A store of a tenant of its own."""

    examples, steps = 5, 20
    kind: Callable[[RedisDatabase], Any]

    @pytest.fixture(autouse=True)
    def _server(self, url):
        self.url = url

    async def make(self):
        return type(self).kind(
            RedisDatabase(self.url, tenant=f"t{next(_tenants)}", max_connections=4)
        )

    async def reopen(self, store):
        await self.close(store)
        return type(self).kind(RedisDatabase(self.url, tenant=store._database._tenant))

    async def close(self, store):
        await store._database.close()


class TestRedisHistory(OnRedis, ComparedHistory):
    kind = RedisHistoryProvider


class TestRedisShortTerm(OnRedis, ComparedShortTerm):
    kind = RedisSessionStore


class TestRedisLongTerm(OnRedis, ComparedLongTerm):
    async def make(self):
        return self.over(RedisDatabase(self.url, tenant=f"t{next(_tenants)}", max_connections=4))

    async def reopen(self, store):
        await self.close(store)
        return self.over(RedisDatabase(self.url, tenant=store._database._tenant))

    def over(self, database):
        return RedisLongTermMemory(database, clock=self.clock)


class TestHostileValuesInRedis(HostileValues):
    @pytest.fixture(autouse=True)
    def _server(self, url):
        self.url = url

    @asynccontextmanager
    async def given(self):
        async with RedisDatabase(self.url, tenant=f"t{next(_tenants)}") as opened:
            yield {
                "history": RedisHistoryProvider(opened),
                "state": RedisSessionStore(opened),
                "facts": RedisLongTermMemory(opened),
            }


def said(*texts):
    return [ChatMessage("user", text) for text in texts]


async def test_a_thread_and_a_state_end_after_their_last_change(url):
    """The time to live begins anew with each change, and stays when a run is cleared."""
    async with RedisDatabase(url, tenant="brief") as database:
        history = RedisHistoryProvider(database, ttl_s=600)
        states = RedisSessionStore(database, ttl_s=600)
        with redis.Redis.from_url(url) as server:

            def left_s():
                """Return the seconds that the thread and the state have left, the thread first."""
                keys = sorted(server.scan_iter("*brief*"), key=server.type, reverse=True)
                return {
                    key: server.ttl(key) for key in keys if server.type(key) in (b"list", b"hash")
                }

            def let_pass(seconds):
                for key, left in left_s().items():
                    server.expire(key, left - seconds)

            await history.append_many("a", said("1", "2"), session_id="s")
            await history.append("a", *said("3"), session_id="s", run_id="r")
            await states.update_state("s", {"a": 1})
            let_pass(300)
            await history.clear_run("a", session_id="s", run_id="r")
            assert await history.count_messages("a", session_id="s") == 2
            assert [left <= 300 for left in left_s().values()] == [True, True]
            await states.update_state("s", {"b": 1})
            assert [left <= 300 for left in left_s().values()] == [True, False]
            await history.append("a", *said("4"), session_id="s")
            assert [left <= 300 for left in left_s().values()] == [False, False]
        assert await states.get_state("s") == {"a": 1, "b": 1}
        history = RedisHistoryProvider(database, ttl_s=0.05)
        states = RedisSessionStore(database, ttl_s=0.05)
        await history.append("a", *said("5"), session_id="s")
        await states.update_state("s", {"c": 1})
        until = time.monotonic() + 60
        while await history.count_messages("a", session_id="s") or await states.get_state("s"):
            assert time.monotonic() < until
            await asyncio.sleep(0.01)


async def test_facts_that_other_processes_change_are_found(url):
    """A search sees their saves, new versions and deletions, though facts stay in memory."""
    async with RedisDatabase(url, tenant="warm") as one, RedisDatabase(url, tenant="warm") as other:
        mine = RedisLongTermMemory(one)
        theirs = RedisLongTermMemory(other)

        async def found(**given):
            contents = [each.content for each in await mine.search("a", "rent notice", **given)]
            assert contents == [
                each.content for each in await theirs.search("a", "rent notice", **given)
            ]
            return contents

        first = await mine.save("a", "The rent is 900 euros.", key="rent")
        assert await found() == ["The rent is 900 euros."]
        await theirs.update("a", first, "The rent is 950 euros.")
        notice = await theirs.save("a", "The notice is thirty days.")
        assert {*await found()} == {"The rent is 950 euros.", "The notice is thirty days."}
        assert len(await found(superseded=True)) == 3
        await theirs.delete("a", notice)
        assert await found() == ["The rent is 950 euros."]
        await theirs.clear("a")
        assert await found() == []
        await theirs.save("a", "The rent is 1,000 euros.")
        assert await found() == ["The rent is 1,000 euros."]
        assert {
            len(key.split(b"}"))
            for key in await one.run(lambda client: client.keys("kaosmem:{warm/facts*"))
        } == {2}


async def test_a_cluster_serves_all_stores():
    """Keys that are changed together are in one slot.

    Closing the database closes its connections to every node.
    """
    with own_redis_server(cluster=True) as local, redis.Redis.from_url(local.url) as watcher:
        async with RedisDatabase(local.url, cluster=True, max_connections=4) as database:
            history = RedisHistoryProvider(database)
            states = RedisSessionStore(database)
            facts = RedisLongTermMemory(database)
            for name in ("{a}", "}b{", "日本"):
                await history.append_many(name, said("1", "2"), session_id="s", run_id="r")
                await history.append(name, *said("3"), session_id="s")
                await history.clear_run(name, session_id="s", run_id="r")
                assert [each.text for each in await history.get_messages(name, session_id="s")] == [
                    "3"
                ]
                await states.set_state(name, {"a": 1})
                assert await states.update_state(name, {"b": 2}) == {"a": 1, "b": 2}
                await facts.update(
                    name, await facts.save(name, "The rent is 900 euros."), "The rent is 950 euros."
                )
                assert [each.content for each in await facts.search(name, "rent")] == [
                    "The rent is 950 euros."
                ]
                await facts.clear(name)
                assert await facts.search(name, "rent") == []
            assert len(watcher.client_list()) > 1
        until = time.monotonic() + 60
        while len(watcher.client_list()) > 1:  # the server may learn of it a moment later
            assert time.monotonic() < until
            await asyncio.sleep(0.01)


def test_wrong_arguments_are_refused(url):
    """A URL of another kind, a tenant that is no name, and numbers out of range."""
    for bad in ("postgres://host", "host", "", None):
        with pytest.raises(InvalidNameError, match="give redis://host:6379/0"):
            RedisDatabase(bad)
    with pytest.raises(InvalidNameError):
        RedisDatabase(url, tenant="a b")
    for options in ({"max_connections": 0}, {"timeout_s": 0}):
        with pytest.raises(InvalidArgumentError):
            RedisDatabase(url, **options)
    with pytest.raises(InvalidArgumentError):
        RedisSessionStore(RedisDatabase(url), ttl_s=-1)


def test_the_example_of_the_docs_runs(url):
    """With the URL of this server it prints the text below it."""
    check_example("redis", "redis://localhost:6379", url)


async def test_one_database_serves_all_tenants(url):
    """120 tenants at once share four connections, and each sees its own keys."""
    async with RedisDatabase(url, tenant="first", max_connections=4) as shared:
        tenants = [shared.for_tenant(f"tenant-{number}") for number in range(120)]

        async def live(number):
            state = RedisSessionStore(tenants[number])
            for step in range(3):
                await state.update_state("s", {"own": number, str(step): step})
            assert await state.get_state("s") == {"own": number, "0": 0, "1": 1, "2": 2}
            assert await state.list_states() == ["s"]

        await asyncio.gather(*map(live, range(len(tenants))))
        async with shared.for_tenant("another") as other:  # leaving the block closes nothing
            assert await RedisSessionStore(other).list_states() == []
        assert await RedisSessionStore(shared).list_states() == []
        assert await RedisSessionStore(tenants[0]).list_states() == ["s"]


async def test_facts_that_are_changed_at_once_lose_no_version(url):
    """A transaction whose namespace another one changed is tried again."""
    async with RedisDatabase(url, tenant="race") as one, RedisDatabase(url, tenant="race") as other:
        stores = [RedisLongTermMemory(one), RedisLongTermMemory(other)]
        texts = [f"The rent is {n} euros." for n in range(24)]
        await asyncio.gather(
            *(stores[n % 2].save("a", text, key="rent") for n, text in enumerate(texts))
        )
        versions = await stores[0].versions("a", "rent")
        assert sorted(each.item.content for each in versions) == sorted(texts)
        assert [each.is_current for each in versions] == [False] * 23 + [True]


async def test_a_lost_answer_changes_nothing_twice(url):
    """The driver sends a command again when it does not know whether the server did it."""
    async with RedisDatabase(url, tenant="lost") as database:
        history = RedisHistoryProvider(database)
        facts = RedisLongTermMemory(database)
        run = database.run

        async def twice(work):
            await run(work)
            return await run(work)

        database.run = twice
        await history.append_many("a", said("1", "2"), session_id="s")
        assert [each.text for each in await history.get_messages("a", session_id="s")] == ["1", "2"]
        memory_id = await facts.save("a", "The rent is 900 euros.")
        assert [each.id for each in await facts.search("a", "rent")] == [memory_id]


async def test_formed_facts_stand_on_a_shelf(url):
    async with RedisDatabase(url, tenant="shelf") as opened:
        await check_shelf(RedisLongTermMemory(opened))
