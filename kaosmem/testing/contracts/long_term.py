"""The contract of every LongTermMemory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from kaosmem.errors import NotFoundError
from kaosmem.stores.facts import LongTermMemory, StoredFact
from kaosmem.testing.contracts.store import (
    IDS,
    PAIRS,
    TEXTS,
    StoreContract,
    refuses,
)

FACTS = (
    "The tenant prefers quiet neighbours.",
    "Deliveries of steel arrive on Tuesdays.",
    "Kant was born in Königsberg.",
    "Invoices are paid within thirty days.",
)


class LongTermContract(StoreContract[LongTermMemory]):
    """Every LongTermMemory passes this: subclass it and provide `make`."""

    async def write(
        self,
        store,
        key,
        text,
    ):
        await store.save(key[0], text, namespace=key[1], key="k")

    async def read(self, store, key):
        agent, namespace = key
        held = [each.item for each in await store.versions(agent, "k", namespace)]
        assert len(held) <= 1
        for asked in (f"of {key}", *(each.content[:99] for each in held)):
            found = await store.search(agent, asked, namespace, superseded=True)
            assert [each.content for each in found] in ([], [each.content for each in held])
        return held[0].content if held else None

    async def drop(
        self,
        store,
        key,
        way,
    ):
        agent, namespace = key
        held = await store.versions(agent, "k", namespace)
        memory_id = held[0].item.id if held else "no such id"
        if way == 0:
            await store.clear(agent, namespace=namespace)
        else:
            await store.delete(agent, memory_id, namespace=namespace)
        assert await store.get(agent, memory_id, namespace=namespace) is None

    async def listed(self, store):
        return await store.list_namespaces()

    async def test_a_memory_is_found_by_what_it_says(self, store):
        """It comes first for its own words, with its id, a score and the time when it was saved."""
        saved = {fact: await store.save("a", fact) for fact in FACTS}
        for fact, memory_id in saved.items():
            found = await store.search("a", fact)
            assert (found[0].content, found[0].id) == (fact, memory_id)
            [version] = await store.versions("a", memory_id)
            assert (
                datetime.fromisoformat(found[0].metadata["timestamp"])
                == version.known_from
                == version.valid_from
            )
            assert version.known_from.utcoffset() == timedelta()
            assert [memory.score for memory in found] == sorted(
                (m.score for m in found), reverse=True
            )

    async def test_a_search_returns_at_most_the_limit(self, store):
        """Five unless it is said; none for 0."""
        for number in range(8):
            await store.save("a", f"Invoice {number} is paid within thirty days.")
        assert len(await store.search("a", "When is an invoice paid?")) == 5
        for limit in (0, 1, 8, 20):
            assert len(await store.search("a", "When is an invoice paid?", limit=limit)) == min(
                limit, 8
            )

    async def test_versions_follow_their_own_times(self, store):
        """The version that began last is live, and the others are found on request.

        Each ends where the next begins, also if it is told late.
        """
        metadata = {"timestamp": "2024-05-07", "source": "session_5", "speaker": "Emi"}
        old = await store.save("a", "Emi lives in Oslo.", key="address", metadata=metadata)
        begins = {"timestamp": "2026-01-01"}
        new = await store.update("a", old, "Emi lives in Bergen.", metadata=begins)
        earlier = {"timestamp": "2025-01-01"}
        late = await store.save("a", "Emi lives in Rome.", key="address", metadata=earlier)
        versions = await store.versions("a", "address")
        assert [each.item.id for each in versions] == [old, late, new]
        assert versions[0].item == StoredFact("Emi lives in Oslo.", 0.0, old, metadata, "address")
        assert versions[2].item.metadata == begins
        times = [each.valid_from for each in versions]
        assert times[0] == datetime(2024, 5, 7, tzinfo=UTC)
        assert [each.valid_until for each in versions] == [*times[1:], None]
        assert await store.get("a", late) == versions[1].item
        asked = "Where does Emi live?"
        assert [each.id for each in await store.search("a", asked)] == [new]
        every = await store.search("a", asked, superseded=True)
        assert {each.id for each in every} == {old, late, new}
        assert len(await store.search("a", asked, limit=1, superseded=True)) == 1

    async def test_a_version_that_is_gone_brings_none_back(self, store):
        """After a version is expired or deleted, the earlier one stays superseded."""
        first = await store.save("a", FACTS[0])
        expired = await store.update("a", first, FACTS[0], ttl=self.ttl_s)
        before, _ = await store.versions("a", first)
        await self.wait(self.ttl_s)
        assert await store.versions("a", first) == [before]
        deleted = await store.update("a", first, FACTS[0])
        await store.delete("a", deleted)
        assert await store.versions("a", first) == [before]
        assert await store.search("a", FACTS[0]) == []
        for agent, unknown, namespace in (
            ("a", expired, "default"),
            ("a", first, "elsewhere"),
            ("b", first, "default"),
        ):
            await refuses(NotFoundError, store.update(agent, unknown, FACTS[0], namespace))
        await store.clear("a")
        await store.save("a", FACTS[0], key=first)
        assert [each.is_current for each in await store.versions("a", first)] == [True]

    async def test_a_fact_is_found_by_the_words_of_its_key(self, store):
        """So is a later version, which comes first, until it is deleted."""
        for fact in FACTS:
            await store.save("a", fact)
        await store.save("a", "Elm Street 5.", key="home_address")
        newer = await store.save("a", "The home is in Oak Street.", key="home_address")
        found = await store.search("a", "What is the address?")
        assert found[0].id == newer
        await store.delete("a", newer)
        assert newer not in [each.id for each in await store.search("a", "address")]

    async def test_keys_are_kept_apart(self, store):
        """A key supersedes nothing of another key, namespace or agent."""
        for agent, namespace in PAIRS:
            for key in IDS:
                await store.save(agent, FACTS[0], namespace=namespace, key=key)
        for agent, namespace in PAIRS:
            found = await store.search(agent, FACTS[0], namespace=namespace, limit=99)
            assert {each.key for each in found} == {*IDS}
            for key in IDS:
                assert len(await store.versions(agent, key, namespace=namespace)) == 1
            assert await store.versions(agent, "another", namespace=namespace) == []

    async def test_one_of_many_writers_of_a_key_is_live(self, store):
        """Of a hundred versions that are saved at once, each ends where the next begins."""
        saved = await asyncio.gather(
            *(store.save("a", f"Invoice {number}.", key="k") for number in range(100))
        )
        versions = await store.versions("a", "k")
        assert {each.item.id for each in versions} == {*saved}
        assert [each.valid_until for each in versions] == [
            *(each.valid_from for each in versions[1:]),
            None,
        ]
        assert [each.id for each in await store.search("a", "invoice", limit=200)] == [
            versions[-1].item.id
        ]

    async def test_a_memory_is_gone_when_its_time_has_come(self, store):
        """Found until then, and afterwards neither found nor read; others stay."""
        lives = (self.ttl_s, 3 * self.ttl_s, None)
        ids = [await store.save("a", FACTS[0], ttl=each) for each in lives]
        for seconds, gone in ((self.ttl_s / 2, 0), (self.ttl_s / 2, 1), (2 * self.ttl_s, 2)):
            await self.wait(seconds)
            found = await store.search("a", FACTS[0], limit=3 - gone)
            assert {each.id for each in found} == {*ids[gone:]}
            for memory_id in ids[:gone]:
                assert await store.get("a", memory_id) is None

    async def test_any_query_may_be_asked(self, store):
        """Nothing in it is an operator, and one that says nothing is no error."""
        await store.save("a", FACTS[0])
        for query in (*TEXTS, "quiet AND NOT tenant*", "(", '"', "quiet:*", "a' OR '1'='1"):
            assert len(await store.search("a", query)) <= 1
