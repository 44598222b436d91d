"""The contract of every GraphStore."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.errors import InvalidArgumentError, InvalidContentError, InvalidNameError
from kaosmem.stores.graph import GraphStore
from kaosmem.testing.store_contract import (
    IDS,
    LARGE,
    NO_IDS,
    TEXTS,
    StoreContract,
    StoreMachine,
    refuses,
    texts,
)

_ends = st.sampled_from(["a", "b", "c", "d", "e", "A"])
_types = st.sampled_from(["owns", "Owns", "owns:all"])
_relationships = st.builds(Relationship, _ends, _ends, _types, texts)


class GraphMachine(StoreMachine[GraphStore]):
    """A graph as dicts, searched by looking at every relationship in every step."""

    def __init__(self, contract: StoreContract[GraphStore]) -> None:
        super().__init__(contract)
        self.entities: dict[str, Entity] = {}
        self.relationships: dict[tuple[str, str, str], Relationship] = {}

    @rule(entities=st.lists(st.builds(Entity, _ends, texts, texts, texts, st.lists(texts, max_size=2)), max_size=3))
    def add_entities(self, entities: list[Entity]) -> None:
        self.ask(self.store.add_entities(entities))
        self.entities |= {each.id: each for each in entities}

    @rule(relationships=st.lists(_relationships, max_size=3))
    def add_relationships(self, relationships: list[Relationship]) -> None:
        self.ask(self.store.add_relationships(relationships))
        for each in relationships:
            self.relationships[each.source, each.target, each.type] = each
            self.entities = {each.source: Entity(each.source), each.target: Entity(each.target)} | self.entities

    @rule(entity=_ends)
    def delete_entity(self, entity: str) -> None:
        self.ask(self.store.delete_entity(entity))
        self.entities.pop(entity, None)
        self.relationships = {key: each for key, each in self.relationships.items() if entity not in key[:2]}

    @rule(relationship=_relationships)
    def delete_relationship(self, relationship: Relationship) -> None:
        self.ask(self.store.delete_relationship(relationship))
        self.relationships.pop((relationship.source, relationship.target, relationship.type), None)

    @rule(entity=_ends, depth=st.integers(1, 4), types=st.none() | st.lists(_types, max_size=2))
    def walk(self, entity: str, depth: int, types: list[str] | None) -> None:
        found = self.ask(self.store.get_neighbors(entity, depth=depth, relationship_types=types))
        hops = {entity: 0} if entity in self.entities else {}
        walked = {key: each for key, each in self.relationships.items() if types is None or key[2] in types}
        for hop in range(1, depth + 1):
            reached = {b for a, b, _ in walked if a in hops} | {a for a, b, _ in walked if b in hops}
            hops = dict.fromkeys(reached, hop) | hops
        nearer = {key: min(hops.get(end, depth) for end in key[:2]) for key in walked}
        assert found.entities == tuple(
            self.entities[each] for each in sorted(hops, key=lambda each: (hops[each], each))
        )
        expected = sorted((hop, key) for key, hop in nearer.items() if hop < depth)
        assert found.relationships == tuple(walked[key] for _, key in expected)


class GraphContract(StoreContract[GraphStore]):
    """Every GraphStore passes this: subclass it and provide `make`."""

    protocol = GraphStore
    machine = GraphMachine

    async def linked(self, store: GraphStore, *links: str) -> None:
        """Add relationships, each written `a owns b`."""
        parts = [link.split() for link in links]
        await store.add_relationships([Relationship(source, target, kind) for source, kind, target in parts])

    async def test_neighbours_come_breadth_first(self, store: GraphStore) -> None:
        """Nearest first, then by id, in whatever order they were added; relationships of nearer ones first."""
        await self.linked(store, "d owns e", "c owns d", "a owns c", "a owns b", "b owns d", "c owns b", "y owns z")
        one = await store.get_neighbors("a")
        assert [each.id for each in one.entities] == ["a", "b", "c"]
        assert [(each.source, each.target) for each in one.relationships] == [("a", "b"), ("a", "c")]
        two = await store.get_neighbors("a", depth=2)
        assert [each.id for each in two.entities] == ["a", "b", "c", "d"]
        ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "b"), ("c", "d")]
        assert [(each.source, each.target) for each in two.relationships] == ends
        assert [each.id for each in (await store.get_neighbors("a", depth=10**12)).entities] == [
            "a",
            "b",
            "c",
            "d",
            "e",
        ]

    async def test_relationships_are_walked_in_both_directions(self, store: GraphStore) -> None:
        """And come back as they were said."""
        await self.linked(store, "a owns b", "c owns b", "b owns b")
        found = await store.get_neighbors("b")
        assert [each.id for each in found.entities] == ["b", "a", "c"]
        assert [(each.source, each.target) for each in found.relationships] == [("a", "b"), ("b", "b"), ("c", "b")]

    async def test_types_narrow_the_walk(self, store: GraphStore) -> None:
        """Along and of the named types alone; of no type there is none; a type is not a pattern."""
        await self.linked(store, "a owns b", "b owns c", "a sued c", "c sued d", "c owns g", "a Owns e", "a owns:all f")
        found = await store.get_neighbors("a", depth=2, relationship_types=["owns"])
        assert [each.id for each in found.entities] == ["a", "b", "c"]
        assert [(each.source, each.target) for each in found.relationships] == [("a", "b"), ("b", "c")]
        both = await store.get_neighbors("a", depth=2, relationship_types={"owns", "sued"})
        assert [each.id for each in both.entities] == ["a", "b", "c", "d", "g"]
        for types in ([], ["own"], ["*"]):
            alone = await store.get_neighbors("a", relationship_types=types)
            assert alone == SubGraph((Entity("a"),))

    async def test_arguments_may_stand_in_order_or_under_short_names(self, store: GraphStore) -> None:
        """Depth and types may be given by position, and types as `types`, but not under both names."""
        await self.linked(store, "a owns b", "b owns c", "a sued c")
        expected = await store.get_neighbors("a", depth=2, relationship_types=["owns"])
        assert await store.get_neighbors("a", 2, ["owns"]) == expected
        assert await store.get_neighbors("a", depth=2, types=["owns"]) == expected
        await refuses(InvalidArgumentError, store.get_neighbors("a", relationship_types=["owns"], types=["owns"]))
        await refuses(InvalidArgumentError, store.get_neighbors("a", types="owns"))

    async def test_deleting_an_entity_detaches_it(self, store: GraphStore) -> None:
        """Its relationships go, in both directions; what they led to stays; added again it has none."""
        await self.linked(store, "a owns b", "c owns a", "b owns c", "a owns a")
        await store.delete_entity("a")
        assert await store.get_neighbors("a") == SubGraph()
        assert await store.get_neighbors("b") == SubGraph((Entity("b"), Entity("c")), (Relationship("b", "c", "owns"),))
        await store.add_entities([Entity("a", "Acme")])
        assert await store.get_neighbors("a") == SubGraph((Entity("a", "Acme"),))

    async def test_deleting_a_relationship_leaves_its_ends(self, store: GraphStore) -> None:
        """And those of another type or direction; its description does not matter."""
        await self.linked(store, "a owns b", "b owns a", "a sued b")
        await store.delete_relationship(Relationship("a", "b", "owns", "since 2019"))
        assert (await store.get_neighbors("a")).relationships == (
            Relationship("a", "b", "sued"),
            Relationship("b", "a", "owns"),
        )
        await store.delete_relationship({"source": "a", "target": "b", "type": "sued"})
        await store.delete_relationship(Relationship("b", "a", "owns"))
        assert await store.get_neighbors("b") == SubGraph((Entity("b"),))

    async def test_adding_again_replaces(self, store: GraphStore) -> None:
        """The last description of an entity or relationship is the one; of two in one call, too."""
        for name in ("Acme", "Acme Corp"):
            await store.add_entities([Entity("a", "old"), Entity("a", name, "company", aliases=("A",))])
            await store.add_relationships([Relationship("a", "b", "owns"), Relationship("a", "b", "owns", name)])
        assert await store.get_neighbors("a") == SubGraph(
            (Entity("a", "Acme Corp", "company", aliases=("A",)), Entity("b")),
            (Relationship("a", "b", "owns", "Acme Corp"),),
        )

    async def test_an_end_may_be_described_before_after_or_never(self, store: GraphStore) -> None:
        """A relationship makes ends that are not there, and leaves those that are as they are."""
        await store.add_entities([Entity("a", "Acme")])
        await self.linked(store, "a owns b", "a owns c")
        await store.add_entities([Entity("b", "Beta")])
        assert (await store.get_neighbors("a")).entities == (Entity("a", "Acme"), Entity("b", "Beta"), Entity("c"))

    async def test_what_was_never_added_has_nothing_around_it(self, store: GraphStore) -> None:
        """Reading and deleting it is no error, and deleting twice is like once."""
        await self.linked(store, "a owns b")
        assert await store.get_neighbors("x", depth=3) == SubGraph()
        for _ in range(2):
            await store.delete_entity("x")
            await store.delete_relationship(Relationship("a", "x", "owns"))
            await store.delete_relationship(Relationship("b", "a", "owns"))
            await store.delete_relationship(Relationship("a", "b", "sued"))
        assert len((await store.get_neighbors("a")).relationships) == 1

    async def test_neighbours_in_name_are_kept_apart(self, store: GraphStore) -> None:
        """Ids that resemble each other are different entities, and so are types."""
        await store.add_entities([Entity(each, f"name of {each}") for each in IDS])
        await store.add_relationships([Relationship("hub", "hub", each, each) for each in IDS])
        for done, each in enumerate(IDS):
            assert await store.get_neighbors(each) == SubGraph((Entity(each, f"name of {each}"),))
            await store.delete_entity(each)
            await store.delete_relationship(Relationship("hub", "hub", each))
            left = (await store.get_neighbors("hub")).relationships
            assert {relationship.type for relationship in left} == {*IDS[done + 1 :]}

    async def test_ids_that_are_none_are_refused(self, store: GraphStore) -> None:
        """Nothing is found or deleted under an empty id, or one that can't be."""
        bad: Any
        for bad in NO_IDS:
            await refuses(InvalidNameError, store.get_neighbors(bad))
            await refuses(InvalidNameError, store.delete_entity(bad))

    async def test_all_is_added_or_nothing(self, store: GraphStore) -> None:
        """One that can't be leaves the graph as it was."""
        bad: Any
        for bad in ("b", {"name": "b"}, {"id": "b", "size": 1}, Relationship("a", "b", "owns")):
            await refuses(InvalidContentError, store.add_entities([Entity("a"), bad]))
        for bad in ("b", {"source": "a"}, Entity("b")):
            await refuses(InvalidContentError, store.add_relationships([Relationship("a", "b", "owns"), bad]))
        await refuses(InvalidNameError, store.add_entities([Entity("a"), {"id": ""}]))
        await refuses(InvalidContentError, store.delete_relationship("a"))  # type: ignore[arg-type]
        assert await store.get_neighbors("a") == SubGraph()

    async def test_bad_arguments_are_refused(self, store: GraphStore) -> None:
        """A depth below 1, and types that are one text, which would be read letter by letter."""
        bad: Any
        for bad in (0, -1, 1.5, "1", True, None):
            await refuses(InvalidArgumentError, store.get_neighbors("a", depth=bad))
        await refuses(InvalidArgumentError, store.get_neighbors("a", relationship_types="owns"))

    async def test_texts_come_back_unchanged(self, store: GraphStore) -> None:
        """Names, types, descriptions and aliases in any script, and a very long one."""
        for text in (*TEXTS, LARGE):
            entity = Entity("a", text, text, text, (text, text))
            await store.add_entities([entity])
            await store.add_relationships([Relationship("a", "a", "owns", text)])
            assert await store.get_neighbors("a") == SubGraph((entity,), (Relationship("a", "a", "owns", text),))

    async def test_nothing_is_lost_among_many_writers(self, store: GraphStore) -> None:
        """Of a hundred relationships of one entity all are there."""
        await asyncio.gather(*(self.linked(store, f"hub owns {number:02}") for number in range(100)))
        assert len((await store.get_neighbors("hub")).relationships) == 100
