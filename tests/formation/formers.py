"""Formers for tests: one that reads a small language, and one that waits."""

import asyncio

from kaosmem import SessionMemory
from kaosmem.formation import Draft, FactShelf, FormsFrom, ProposedChange


class LineFormer:
    """Forms each message `KEY: TEXT` as a version of the key, and `KEY!` as the end of the key."""

    def __init__(self, name="lines", covered=None):
        self.name = name
        self.covered = covered
        self.said = []

    async def propose(self, said, known):
        await asyncio.sleep(0)
        self.said += [item.text for item in said]
        changes = []
        for item in said:
            key, colon, _ = item.text.partition(":")
            if colon:
                changes.append(ProposedChange(item.text, item.text, (item.id,), key=key))
            elif item.text.endswith("!"):
                key = item.text.split()[0]
                changes.append(
                    ProposedChange(item.text, item.text, (item.id,), action="retire", key=key)
                )
        return Draft(changes, self.covered, has_exact_keys=True)


class WaitingFormer(LineFormer):
    """Waits for an event before it proposes."""

    def __init__(self):
        super().__init__("waiting")
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def propose(self, said, known):
        self.has_begun.set()
        await self.may_end.wait()
        return await super().propose(said, known)


async def check_shelf(store):
    """Check that a long-term memory gets formed facts as versions, and loses what is forgotten."""
    shelf = FactShelf(store, "ann", "tenant-7")
    memory = SessionMemory.test_mode()
    for text in ("home: I live in Oslo.", "home: I live in Bergen.", "pet: I have a cat."):
        said = memory.add("messages", text)
        memory.add("messages", 'It\'s (a) long & "odd" text | !x* <b> 100% ' * 400)
        await memory.form(FormsFrom(LineFormer(), shelf=shelf))
    found = await store.search("ann", "home pet live", "tenant-7")
    assert {fact.content for fact in found} == {"home: I live in Bergen.", "pet: I have a cat."}
    assert len(await store.versions("ann", "home", "tenant-7")) == 2
    assert not await store.search("ann", "home pet live", "tenant-8")
    receipt = await memory.forget(said.id)
    assert await memory.admin.verify(receipt) == ()
    left = await store.search("ann", "home pet live", "tenant-7")
    assert [fact.content for fact in left] == ["home: I live in Bergen."]
    assert [*receipt.sources] == ["tenant-7/ann"]
