"""The contract of every GraphStore."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.stores.graph import GraphStore
from kaosmem.testing.contracts.store import (
    IDS,
    StoreContract,
)


def _part(key: str, text: str) -> SubGraph:
    """Return an entity that owns itself, with a text in all places."""
    entity = Entity(key, text, text, text, (text, text))
    return SubGraph((entity,), (Relationship(key, key, key, text),))


class GraphContract(StoreContract[GraphStore]):
    """Every GraphStore passes this: subclass it and provide `make`."""

    keys = IDS

    async def write(
        self,
        store,
        key,
        text,
    ):
        part = _part(key, text)
        await store.add_entities(part.entities)
        await store.add_relationships(part.relationships)

    async def read(self, store, key):
        found = await store.get_neighbors(key)
        if found == SubGraph():
            return None
        text = found.entities[0].name
        assert found == _part(key, text)
        return text

    async def drop(
        self,
        store,
        key,
        way,
    ):
        await store.delete_entity(key)

    async def listed(self, store):
        return await store.list_entities()

    async def linked(self, store: GraphStore, *links: str) -> None:
        """Add relationships, each written `a owns b`."""
        parts = [link.split() for link in links]
        await store.add_relationships(
            [Relationship(source, target, kind) for source, kind, target in parts]
        )

    async def test_entities_are_read_by_their_ids(self, store):
        """Several at once, with all their fields, each once and by id. Unknown ids are left out."""
        acme = Entity("a", "Acme", "company", "a firm", ("A", "the firm"), {"tags": ["b"]})
        await store.add_entities([Entity(each) for each in IDS if each != "a"])
        await store.add_entities([acme])
        await self.linked(store, "a owns end")
        store = await self.reopened(store)
        assert await store.get_entities(["end", "a", "unknown", "a"]) == [acme, Entity("end")]
        everything = await store.get_entities(await store.list_entities())
        assert [each.id for each in everything] == sorted({*IDS, "a", "end"})
        assert await store.get_entities([]) == []

    async def walked(self, store: GraphStore, start: str, **given: Any) -> str:
        """Return the ids that a walk finds, a colon, and the ends of its relationships."""
        found = await store.get_neighbors(start, **given)
        ids = [each.id for each in found.entities]
        ends = [each.source + each.target for each in found.relationships]
        return " ".join([*ids, ":", *ends])

    async def test_neighbours_come_breadth_first(self, store):
        """Nearest first, then by id, in whatever order they were added.

        Relationships of nearer ones come first. They are walked in both directions.
        """
        links = ("d owns e", "c owns d", "a owns c", "a owns b", "b owns d", "c owns b", "y owns z")
        await self.linked(store, *links)
        assert await self.walked(store, "a") == "a b c : ab ac"
        assert await self.walked(store, "a", depth=2) == "a b c d : ab ac bd cb cd"
        assert await self.walked(store, "a", depth=10**12) == "a b c d e : ab ac bd cb cd de"
        assert await self.walked(store, "d") == "d b c e : bd cd de"

    async def test_types_narrow_the_walk(self, store):
        """Along and of the named types alone; of no type there is none; a type is not a pattern."""
        links = ("a owns b", "b owns c", "a sued c", "c sued d", "c owns g", "a Owns e")
        await self.linked(store, *links, "a owns:all f")
        for types, found in (
            (["owns"], "a b c : ab bc"),
            ({"owns", "sued"}, "a b c d g : ab ac bc cd cg"),
            ([], "a :"),
            (["own"], "a :"),
            (["*"], "a :"),
        ):
            walked = await self.walked(store, "a", depth=2, relationship_types=types)
            assert walked == found, types

    async def test_deleting_an_entity_detaches_it(self, store):
        """A deleted entity loses its relationships in both directions. Its neighbours stay."""
        await self.linked(store, "a owns b", "c owns a", "b owns c", "a owns a")
        await store.delete_entity("a")
        assert await store.get_neighbors("a") == SubGraph()
        assert await store.get_neighbors("b") == SubGraph(
            (Entity("b"), Entity("c")), (Relationship("b", "c", "owns"),)
        )
        await store.add_entities([Entity("a", "Acme")])
        assert await store.get_neighbors("a") == SubGraph((Entity("a", "Acme"),))

    async def test_relationships_have_ids(self, store):
        """Two of the same ends and type are told apart by their ids.

        One that is added again may have other ends. Deleting one leaves its ends, and those of
        another type or direction.
        """
        first = Relationship("ann", "acme", "works at", "clerk", {"since": 2012}, id="job-1")
        again = Relationship("ann", "acme", "works at", "director", {"since": 2019}, id="job-2")
        plain = Relationship("ann", "acme", "works at")
        others = (Relationship("acme", "ann", "works at"), Relationship("ann", "acme", "left"))
        await store.add_relationships([again, first, plain, *others])
        for each in others:
            assert each in (await store.get_neighbors("acme")).relationships
            await store.delete_relationship(replace(each, description="since 2019"))
        assert (await store.get_neighbors("ann")).relationships == (plain, first, again)
        await store.add_relationships(
            [{"source": "ann", "target": "beta", "type": "works at", "id": "job-2"}]
        )
        moved = await store.get_neighbors("ann")
        assert [each.id for each in moved.entities] == ["ann", "acme", "beta"]
        assert moved.relationships == (
            plain,
            first,
            Relationship("ann", "beta", "works at", id="job-2"),
        )
        for given, left in (("job-1", (plain,)), (plain, ()), ("job-1", ()), (plain.id, ())):
            await store.delete_relationship(given)
            assert (await store.get_neighbors("acme")).relationships == left
        await store.delete_relationship({"source": "x", "target": "y", "type": "z", "id": "job-2"})
        assert await store.get_neighbors("ann") == SubGraph((Entity("ann"),))

    async def test_adding_again_replaces(self, store):
        """Adding again replaces all fields. Of two parts with one id in one call the last counts.

        Parts may be mappings. A relationship creates missing ends, and leaves existing ones
        unchanged.
        """
        given = {"share": 0.5, "tags": ["a", {"b": None}], "": True}
        link = {"source": "a", "target": "c", "type": "owns"}
        await store.add_entities([{"id": "a", "name": "old", "properties": given}])
        await store.add_relationships([{**link, "description": "old", "properties": given}])
        found = await store.get_neighbors("a")
        assert found.entities == (Entity("a", "old", properties=given), Entity("c"))
        assert found.relationships[0].properties == given
        new = Entity("a", "Acme Corp", "company", aliases=("A",))
        await store.add_entities([Entity("a", "older"), new, Entity("c", "Beta")])
        await store.add_relationships([link, {**link, "description": "new"}])
        assert await store.get_neighbors("a") == SubGraph(
            (new, Entity("c", "Beta")), (Relationship("a", "c", "owns", "new"),)
        )

    async def test_nothing_is_lost_among_many_writers(self, store):
        """Of a hundred relationships of one entity all are there."""
        await asyncio.gather(
            *(self.linked(store, f"hub owns {number:02}") for number in range(100))
        )
        assert len((await store.get_neighbors("hub")).relationships) == 100
