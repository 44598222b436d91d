"""The contract of every LongTermMemory."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from kaosmem.errors import InvalidArgumentError, InvalidContentError, InvalidNameError
from kaosmem.stores.memory import LongTermMemory, Memory
from kaosmem.testing.store_contract import (
    IDS,
    NO_IDS,
    PAIRS,
    TEXTS,
    StoreContract,
    StoreMachine,
    refuses,
    texts,
)

_FACTS = (
    "The tenant prefers quiet neighbours.",
    "Deliveries of steel arrive on Tuesdays.",
    "Kant was born in Königsberg.",
    "Invoices are paid within thirty days.",
)
_shelves = st.sampled_from([("a", "b:a"), ("a:b", "a"), ("A", "b:a")])


class LongTermMachine(StoreMachine[LongTermMemory]):
    """Memories as dicts of texts and the time when they are gone."""

    def __init__(self, contract: StoreContract[LongTermMemory]) -> None:
        super().__init__(contract)
        self.memories: dict[str, tuple[tuple[str, str], str, float]] = {}
        self.now = 0.0

    @rule(shelf=_shelves, content=texts | st.sampled_from(_FACTS), lives=st.sampled_from([None, None, 1, 2]))
    def save(self, shelf: tuple[str, str], content: str, lives: int | None) -> None:
        ttl = None if lives is None else lives * self.contract.ttl_s
        memory_id = self.ask(self.store.save(shelf[0], content, namespace=shelf[1], ttl=ttl))
        assert memory_id not in self.memories
        self.memories[memory_id] = shelf, content, self.now + (lives or float("inf"))

    @precondition(lambda self: any(gone < float("inf") for _, _, gone in self.memories.values()))
    @rule()
    def wait(self) -> None:
        self.now += 1
        self.ask(self.contract.wait(self.contract.ttl_s))

    @precondition(lambda self: self.memories)
    @rule(which=st.integers(0, 99), shelf=_shelves)
    def look_elsewhere(self, which: int, shelf: tuple[str, str]) -> None:
        memory_id = [*self.memories][which % len(self.memories)]
        if self.memories[memory_id][0] != shelf:
            assert self.ask(self.store.get(shelf[0], memory_id, namespace=shelf[1])) is None

    @precondition(lambda self: self.memories)
    @rule(which=st.integers(0, 99), shelf=_shelves, own=st.booleans())
    def delete(self, which: int, shelf: tuple[str, str], own: bool) -> None:
        memory_id = [*self.memories][which % len(self.memories)]
        shelf = self.memories[memory_id][0] if own else shelf
        self.ask(self.store.delete(shelf[0], memory_id, namespace=shelf[1]))
        if self.memories[memory_id][0] == shelf:
            self.memories[memory_id] = shelf, "", -1.0

    @rule(shelf=_shelves)
    def clear(self, shelf: tuple[str, str]) -> None:
        self.ask(self.store.clear(shelf[0], namespace=shelf[1]))
        self.memories |= {each: (at, "", -1.0) for each, (at, _, _) in self.memories.items() if at == shelf}

    @rule(shelf=_shelves, fact=st.sampled_from(_FACTS), limit=st.integers(0, 4))
    def search(self, shelf: tuple[str, str], fact: str, limit: int) -> None:
        found = self.ask(self.store.search(shelf[0], fact, namespace=shelf[1], limit=limit))
        known = {each: text for each, (at, text, gone) in self.memories.items() if at == shelf and gone > self.now}
        assert all(known[memory.id] == memory.content for memory in found)
        assert [memory.score for memory in found] == sorted((memory.score for memory in found), reverse=True)
        assert len({memory.id for memory in found}) == len(found) <= limit
        exact = sum(text == fact for text in known.values())
        assert [memory.content for memory in found[:exact]] == [fact] * min(exact, limit)

    @invariant()
    def memories_are_what_was_saved(self) -> None:
        for memory_id, (at, text, gone) in self.memories.items():
            memory = self.ask(self.store.get(at[0], memory_id, namespace=at[1]))
            assert (memory and memory.content) == (text if gone > self.now else None)


class LongTermContract(StoreContract[LongTermMemory]):
    """Every LongTermMemory passes this: subclass it and provide `make`."""

    protocol = LongTermMemory
    machine = LongTermMachine

    async def test_arguments_may_stand_in_order(self, store: LongTermMemory) -> None:
        """Agent, content, namespace and time to live may be given by position, and so may a namespace elsewhere."""
        memory_id = await store.save("agent", _FACTS[0], "space", 3_600.0)
        assert [memory.id for memory in await store.search("agent", _FACTS[0], "space", 1)] == [memory_id]
        assert await store.get("agent", memory_id, "space") == await store.get("agent", memory_id, namespace="space")
        await store.delete("agent", memory_id, "elsewhere")
        assert await store.get("agent", memory_id, "space") is not None
        await store.clear("agent", "space")
        assert await store.get("agent", memory_id, "space") is None

    async def test_a_memory_is_found_by_what_it_says(self, store: LongTermMemory) -> None:
        """It comes first for its own words, with its id, a score and the time when it was saved."""
        saved = {fact: await store.save("a", fact) for fact in _FACTS}
        for fact, memory_id in saved.items():
            found = await store.search("a", fact)
            assert (found[0].content, found[0].id) == (fact, memory_id)
            assert datetime.fromisoformat(found[0].metadata["timestamp"]).tzinfo
            assert [memory.score for memory in found] == sorted((m.score for m in found), reverse=True)

    async def test_a_search_returns_at_most_the_limit(self, store: LongTermMemory) -> None:
        """Five unless it is said; none for 0."""
        for number in range(8):
            await store.save("a", f"Invoice {number} is paid within thirty days.")
        assert len(await store.search("a", "When is an invoice paid?")) == 5
        for limit in (0, 1, 8, 20):
            assert len(await store.search("a", "When is an invoice paid?", limit=limit)) == min(limit, 8)
        bad: Any
        for bad in (-1, 1.5, "5", True, None):
            await refuses(InvalidArgumentError, store.search("a", "invoice", limit=bad))

    async def test_the_same_text_twice_is_two_memories(self, store: LongTermMemory) -> None:
        """Deleting one leaves the other."""
        first, second = await store.save("a", _FACTS[0]), await store.save("a", _FACTS[0])
        assert first != second
        await store.delete("a", first)
        assert [memory.id for memory in await store.search("a", _FACTS[0])] == [second]
        assert await store.get("a", first) is None

    async def test_what_was_never_saved_is_nothing(self, store: LongTermMemory) -> None:
        """Reading and deleting it is no error, and deleting twice is like once."""
        assert await store.search("a", "anything") == []
        assert await store.get("a", "no such id") is None
        memory_id = await store.save("a", _FACTS[0])
        for _ in range(2):
            await store.delete("a", "no such id")
            await store.delete("a", memory_id)
            await store.clear("nobody")
        assert await store.search("a", _FACTS[0]) == []

    async def test_a_memory_is_gone_when_its_time_has_come(self, store: LongTermMemory) -> None:
        """Found until then, and afterwards neither found nor read; others stay."""
        brief = await store.save("a", _FACTS[0], ttl=self.ttl_s)
        longer = await store.save("a", _FACTS[0], ttl=3 * self.ttl_s)
        lasting = await store.save("a", _FACTS[0])
        await self.wait(self.ttl_s / 2)
        assert {memory.id for memory in await store.search("a", _FACTS[0])} == {brief, longer, lasting}
        await self.wait(self.ttl_s / 2)
        assert {memory.id for memory in await store.search("a", _FACTS[0])} == {longer, lasting}
        assert await store.get("a", brief) is None
        await self.wait(2 * self.ttl_s)
        assert await store.get("a", longer) is None
        assert [memory.id for memory in await store.search("a", _FACTS[0], limit=1)] == [lasting]

    async def test_a_time_to_live_that_is_none_is_refused(self, store: LongTermMemory) -> None:
        """And nothing is saved."""
        bad: Any
        for bad in (0, -1, float("nan"), float("inf"), "60", True):
            await refuses(InvalidArgumentError, store.save("a", _FACTS[0], ttl=bad))
        assert await store.search("a", _FACTS[0]) == []

    async def test_neighbours_are_kept_apart(self, store: LongTermMemory) -> None:
        """Ids that resemble each other, or would if they were joined, are different shelves."""
        shelves = [*PAIRS, *((each, "default") for each in IDS), *(("s", each) for each in IDS)]
        saved = [await store.save(agent, _FACTS[0], namespace=namespace) for agent, namespace in shelves]
        assert len({*saved}) == len(saved)
        for (agent, namespace), memory_id in zip(shelves, saved, strict=True):
            assert [each.id for each in await store.search(agent, _FACTS[0], namespace=namespace)] == [memory_id]
            for other, elsewhere in shelves:
                if (other, elsewhere) != (agent, namespace):
                    await store.delete(other, memory_id, namespace=elsewhere)
                    assert await store.get(other, memory_id, namespace=elsewhere) is None
            assert await store.get(agent, memory_id, namespace=namespace) is not None
        for done, (agent, namespace) in enumerate(shelves):
            await store.clear(agent, namespace=namespace)
            left = [len(await store.search(each, _FACTS[0], namespace=other)) for each, other in shelves]
            assert left == [0] * (done + 1) + [1] * (len(shelves) - done - 1)

    async def test_ids_that_are_none_are_refused(self, store: LongTermMemory) -> None:
        """Nothing is saved, found or deleted under an empty id, or one that can't be."""
        bad: Any
        for bad in NO_IDS:
            for agent, namespace in ((bad, "default"), ("a", bad)):
                await refuses(InvalidNameError, store.save(agent, _FACTS[0], namespace=namespace))
                await refuses(InvalidNameError, store.search(agent, _FACTS[0], namespace=namespace))
                await refuses(InvalidNameError, store.get(agent, "id", namespace=namespace))
                await refuses(InvalidNameError, store.delete(agent, "id", namespace=namespace))
                await refuses(InvalidNameError, store.clear(agent, namespace=namespace))
            await refuses(InvalidNameError, store.get("a", bad))
            await refuses(InvalidNameError, store.delete("a", bad))

    async def test_texts_come_back_unchanged(self, store: LongTermMemory) -> None:
        """In any script, empty, and very long."""
        for text in (*TEXTS, "größe ☃ of the lease " * 20_000):
            memory = await store.get("a", await store.save("a", text))
            assert isinstance(memory, Memory)
            assert memory.content == text

    async def test_any_query_may_be_asked(self, store: LongTermMemory) -> None:
        """Nothing in it is an operator, and one that says nothing is no error."""
        await store.save("a", _FACTS[0])
        for query in (*TEXTS, "quiet AND NOT tenant*", "(", '"', "quiet:*", "a' OR '1'='1"):
            assert len(await store.search("a", query)) <= 1

    async def test_what_is_no_text_is_refused(self, store: LongTermMemory) -> None:
        """As content and as query."""
        bad: Any
        for bad in ("\ud800", b"text", None, ["text"]):
            await refuses(InvalidContentError, store.save("a", bad))
            await refuses(InvalidContentError, store.search("a", bad))

    async def test_no_memory_is_lost_among_many_writers(self, store: LongTermMemory) -> None:
        """Each of a hundred has an id of its own."""
        saved = await asyncio.gather(*(store.save("a", f"Invoice {number} is paid.") for number in range(100)))
        assert len({*saved}) == 100
        assert {each.id for each in await store.search("a", "invoice paid", limit=200)} == {*saved}

    async def test_what_is_returned_is_not_the_store(self, store: LongTermMemory) -> None:
        """Changing the metadata of what was found changes nothing that is stored."""
        memory_id = await store.save("a", _FACTS[0])
        for memory in [await store.get("a", memory_id), *await store.search("a", _FACTS[0])]:
            assert isinstance(memory, Memory)
            memory.metadata["forged"] = True  # type: ignore[index]
        again = await store.get("a", memory_id)
        assert again is not None
        assert "forged" not in again.metadata
