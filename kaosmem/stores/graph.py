"""Stores of entities and relationships."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from kaosmem.arguments import check_collection, check_count
from kaosmem.entities import Entity, Relationship, SubGraph, check_relationship_id
from kaosmem.names import check_id
from kaosmem.types import JSONObject

P = TypeVar("P", Entity, Relationship)

ORDER = attrgetter("source", "target", "type", "id")
"""The order of relationships that are as near."""


class GraphStore(ABC):
    """A graph: entities and relationships, each by its id.

    A relationship without an id of its own has one of its source, type and target.

    A store is a subclass with the abstract methods, which get checked values.
    """

    async def add_entities(self, entities: Iterable[Entity | JSONObject]) -> None:
        """Add entities, or replace those with the same ids. If the call raises, nothing is added.

        Entities and relationships may be mappings of their fields. Raises InvalidNameError and
        InvalidArgumentError.
        """
        added = {each.id: each for each in map(Entity.of, check_collection(entities, "entities"))}
        await self._add_entities(list(added.values()))

    async def add_relationships(self, relationships: Iterable[Relationship | JSONObject]) -> None:
        """Add relationships, or replace those with the same ids.

        If the call raises, nothing is added.

        Of several with one id the last counts. A missing end becomes an entity with only an id.
        Raises as `add_entities`.
        """
        given = map(Relationship.of, check_collection(relationships, "relationships"))
        added = {each.id: each for each in given}
        await self._add_relationships(list(added.values()))

    async def get_neighbors(
        self,
        entity_id: str,
        depth: int = 1,
        relationship_types: Collection[str] | None = None,
    ) -> SubGraph:
        """Return an entity and its neighbourhood, along relationships in either direction.

        entities: itself and the entities up to `depth` hops away, nearest first, then by id.
        relationships: all relationships of the entities less than `depth` hops away, those of
            nearer ones first, then by source, target, type and id.
        An unknown entity has an empty neighbourhood.
        Raises InvalidNameError for the id and the types, InvalidArgumentError for a depth below 1
        and for types given as one str.

        Args:
            relationship_types: Walk and return only these types. None: all types.
        """
        check_id(entity_id, "entity id")
        check_count(depth, "depth", least=1)
        if relationship_types is None:
            return await self._around(entity_id, depth, None)
        given = check_collection(relationship_types, "relationship_types")
        types = frozenset(check_id(each, "relationship type") for each in given)
        return await self._around(entity_id, depth, types)

    async def delete_entity(self, entity_id: str) -> None:
        """Delete an entity and all its relationships, if it exists. The other ends stay."""
        await self._delete_entity(check_id(entity_id, "entity id"))

    async def delete_relationship(self, relationship: str | Relationship | JSONObject) -> None:
        """Delete the relationship with this id, if it exists. The ends stay.

        Args:
            relationship: An id, or a relationship that has it. Raises InvalidNameError and
                InvalidArgumentError.
        """
        if isinstance(relationship, str):
            relationship_id = check_relationship_id(relationship)
        else:
            relationship_id = Relationship.of(relationship).id
        await self._delete_relationship(relationship_id)

    @abstractmethod
    async def list_entities(self) -> list[str]:
        """Return the ids of all entities, sorted."""

    async def get_entities(self, ids: Iterable[str]) -> list[Entity]:
        """Return the entities with these ids, each once and sorted by id. Unknown ids are left out.

        Raises InvalidNameError for an id, InvalidArgumentError for ids given as one str.
        """
        wanted = {check_id(each, "entity id") for each in check_collection(ids, "ids")}
        if wanted:
            return await self._read_entities(sorted(wanted))
        return []

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    @abstractmethod
    async def _add_entities(self, entities: list[Entity]) -> None:
        """Add or replace entities with different ids, in one step."""

    @abstractmethod
    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        """Add or replace relationships with different ids, and add missing ends, in one step."""

    @abstractmethod
    async def _read_entities(self, ids: list[str]) -> list[Entity]:
        """Return the entities among these different ids, at least one, in their order."""

    @abstractmethod
    async def _around(
        self,
        entity_id: str,
        depth: int,
        types: frozenset[str] | None,
    ) -> SubGraph:
        """Return the neighbourhood of an entity, in the order of `get_neighbors`."""

    @abstractmethod
    async def _delete_entity(self, entity_id: str) -> None:
        """Delete an entity and its relationships, in one step."""

    @abstractmethod
    async def _delete_relationship(self, relationship_id: str) -> None:
        """Delete a relationship."""


def walk(
    entity_id: str,
    depth: int,
    entities: Callable[[list[str]], list[Entity]],
    touching: Callable[[list[str]], Iterable[Relationship]],
) -> SubGraph:
    """Return the neighbourhood of an entity, in the order of `get_neighbors`.

    Each hop asks once, so that the walk also ends in a graph with cycles.

    Args:
        entities: Returns the stored entities among these ids, by id.
        touching: Returns the relationships that have an end among these ids. It is asked for the
            ids of each answer of `entities`.
    """
    reached = {entity_id}
    frontier = [entity_id]
    near = entities(frontier)
    relationships: dict[str, Relationship] = {}
    if not near:
        return SubGraph((), ())
    for _ in range(depth):
        new = [each for each in touching(frontier) if each.id not in relationships]
        ends = set()
        for each in sorted(new, key=ORDER):
            relationships[each.id] = each
            ends |= {each.source, each.target}
        frontier = sorted(ends - reached)
        if not frontier:
            break
        reached.update(frontier)
        near += entities(frontier)
    return SubGraph(tuple(near), tuple(relationships.values()))


class InMemoryGraphStore(GraphStore):
    """A GraphStore in this process.

    >>> store = InMemoryGraphStore()
    >>> await store.add_relationships([{"source": "acme", "target": "beta", "type": "supplies"}])
    >>> [entity.id for entity in (await store.get_neighbors("acme")).entities]
    ['acme', 'beta']
    """

    def __init__(self) -> None:
        self._entities: dict[str, Entity] = {}
        self._relationships: dict[str, Relationship] = {}
        self._touching: dict[str, dict[str, Relationship]] = {}
        """The relationships of each entity, by id."""

    async def list_entities(self) -> list[str]:
        return sorted(self._entities)

    async def delete_all(self) -> None:
        self._entities.clear()
        self._relationships.clear()
        self._touching.clear()

    async def _add_entities(self, entities: list[Entity]) -> None:
        for each in map(_copy, entities):
            self._entities[each.id] = each
            self._touching.setdefault(each.id, {})

    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        for each in map(_copy, relationships):
            self._remove(each.id)
            self._relationships[each.id] = each
            for end in (each.source, each.target):
                self._entities.setdefault(end, Entity(end))
                self._touching.setdefault(end, {})[each.id] = each

    async def _read_entities(self, ids: list[str]) -> list[Entity]:
        return [_copy(self._entities[each]) for each in ids if each in self._entities]

    async def _delete_entity(self, entity_id: str) -> None:
        for each in list(self._touching.get(entity_id, ())):
            self._remove(each)
        self._touching.pop(entity_id, None)
        self._entities.pop(entity_id, None)

    async def _delete_relationship(self, relationship_id: str) -> None:
        self._remove(relationship_id)

    async def _around(
        self,
        entity_id: str,
        depth: int,
        types: frozenset[str] | None,
    ) -> SubGraph:
        def entities(ids: list[str]) -> list[Entity]:
            return [self._entities[each] for each in ids if each in self._entities]

        def touching(ids: list[str]) -> Iterable[Relationship]:
            near: dict[str, Relationship] = {}
            for each in ids:
                near |= self._touching[each]
            if types is None:
                return near.values()
            return [each for each in near.values() if each.type in types]

        found = walk(entity_id, depth, entities, touching)
        return SubGraph(tuple(map(_copy, found.entities)), tuple(map(_copy, found.relationships)))

    def _remove(self, relationship_id: str) -> None:
        doomed = self._relationships.pop(relationship_id, None)
        if doomed is not None:
            self._touching[doomed.source].pop(relationship_id, None)
            self._touching[doomed.target].pop(relationship_id, None)


def _copy(part: P) -> P:
    """Return an entity or a relationship with properties of its own."""
    if part.properties:
        return replace(part, properties=part.properties)
    return part
