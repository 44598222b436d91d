"""The tools of the reference `memory` server over the graph of a session, within a budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from typing_extensions import TypedDict

from kaosmem.arguments import json_text
from kaosmem.entities import Entity, Relationship, graph_part_of
from kaosmem.errors import NotFoundError
from kaosmem.names import shown
from kaosmem.session.memory import SessionMemory
from kaosmem.session.tools import REMEMBERED, check_remembered
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import Trust

_MAX_HITS = 50


class EntityNode(TypedDict):
    """An entity as the reference server shows it."""

    name: str
    entityType: str
    observations: list[str]


RelationEdge = TypedDict("RelationEdge", {"from": str, "to": str, "relationType": str})
"""A relation as the reference server shows it."""


class NewContents(TypedDict):
    """Statements to add to an entity."""

    entityName: str
    contents: list[str]


class OldObservations(TypedDict):
    """Statements to delete from an entity."""

    entityName: str
    observations: list[str]


class KnowledgeGraph:
    """The graph of a session in the terms of the reference server.

    An entity is known by its name. Its observations are in its properties, and in its description,
    by which it is found. A model changes only what it created by these tools.
    """

    def __init__(self, memory: SessionMemory, max_tokens: int) -> None:
        self._memory = memory
        self._graph = memory.graph
        self._max_tokens = max_tokens

    def create_entities(self, entities: list[EntityNode]) -> JSONDict:
        """Create entities in the knowledge graph. Names that exist are left as they are."""
        created = []
        for node in entities:
            if node["name"] not in self._graph:
                self._put(node)
                created.append(node)
        return {"entities": created}

    def create_relations(self, relations: list[RelationEdge]) -> JSONDict:
        """Create relations, in active voice, between entities named in `from` and `to`."""
        for edge in relations:
            self._entity(edge["from"])
            self._entity(edge["to"])
        created = []
        for edge in relations:
            relationship = _relationship(edge)
            if relationship.item_id not in self._memory:
                self._graph.add(relationships=[relationship], tags=(REMEMBERED,), trust=Trust.MODEL)
                created.append(edge)
        return {"relations": created}

    def add_observations(self, observations: list[NewContents]) -> JSONDict:
        """Add statements to entities of the knowledge graph."""
        results = []
        for each in observations:
            node = self._changeable(each["entityName"])
            known = node["observations"]
            added = [text for text in dict.fromkeys(each["contents"]) if text not in known]
            self._put({**node, "observations": known + added})
            results.append({"entityName": each["entityName"], "addedObservations": added})
        return {"results": results}

    def delete_entities(self, entityNames: list[str]) -> JSONDict:  # noqa: N803
        """Delete entities and their relations from the knowledge graph."""
        names = dict.fromkeys(entityNames)
        found = [self._changeable(name)["name"] for name in names if name in self._graph]
        self._graph.remove(entities=found)
        return _deleted(len(found), len(names), "entities")

    def delete_observations(self, deletions: list[OldObservations]) -> JSONDict:
        """Delete statements from entities of the knowledge graph."""
        requested = 0
        deleted = 0
        for each in deletions:
            requested += len(each["observations"])
            if each["entityName"] in self._graph:
                node = self._changeable(each["entityName"])
                kept = [text for text in node["observations"] if text not in each["observations"]]
                deleted += len(node["observations"]) - len(kept)
                self._put({**node, "observations": kept})
        return _deleted(deleted, requested, "observations")

    def delete_relations(self, relations: list[RelationEdge]) -> JSONDict:
        """Delete relations from the knowledge graph."""
        found = {}
        for edge in relations:
            relationship = _relationship(edge)
            if relationship.item_id in self._memory:
                check_remembered(self._memory["graph"].peek(relationship.item_id))
                found[relationship.item_id] = relationship
        self._graph.remove(relationships=[each.id for each in found.values()])
        return _deleted(len(found), len(relations), "relations")

    def read_graph(self) -> JSONDict:
        """Read the knowledge graph, the newest entities first, as far as the budget allows."""
        return self._within(reversed(self._entities()))

    def search_nodes(self, query: str) -> JSONDict:
        """Search the entities of the knowledge graph, best first, with their relations."""
        hits = self._memory.search(query, "graph", limit=_MAX_HITS, archived=False)
        found = [graph_part_of(hit.item.metadata) for hit in hits]
        names = [part.id for part in found if isinstance(part, Entity)]
        wanted = query.lower()
        names += [each.id for each in self._entities() if wanted in _searched(each)]
        return self.open_nodes(names)

    def open_nodes(self, names: list[str]) -> JSONDict:
        """Open entities of the knowledge graph by their names, with their relations."""
        found = map(self._graph.entity, dict.fromkeys(names))
        return self._within(entity for entity in found if entity is not None)

    def _entities(self) -> list[Entity]:
        return [part for part in self._graph if isinstance(part, Entity)]

    def _within(self, entities: Iterable[Entity]) -> JSONDict:
        """Return as many leading observations of entities as the budget holds, with relations.

        Of the last entity, the newest observations are shown. A note tells of the rest.
        """
        nodes = list(map(_node, entities))
        relations = [part for part in self._graph if isinstance(part, Relationship)]
        whole = _part(nodes, relations)
        if self._fits(whole):
            return whole

        def leading(count: int) -> JSONDict:
            shown_nodes = _leading(nodes, count)
            note = (
                f"{len(shown_nodes):,} of {len(nodes):,} entities fit, the last one with its "
                "newest observations; search_nodes finds the rest"
            )
            return {**_part(shown_nodes, relations), "note": note}

        number = sum(1 + len(node["observations"]) for node in nodes)
        fitting = bisect_left(
            range(1, number), True, key=lambda count: not self._fits(leading(count))
        )
        return leading(fitting)

    def _fits(self, part: JSONObject) -> bool:
        return self._memory.admin.counter(json_text(part)) <= self._max_tokens

    def _put(self, node: EntityNode) -> None:
        entity = Entity(
            node["name"],
            type=node["entityType"],
            description="; ".join(node["observations"]),
            properties={"observations": [*node["observations"]]},
        )
        self._graph.add([entity], tags=(REMEMBERED,), trust=Trust.MODEL)

    def _entity(self, name: str) -> Entity:
        entity = self._graph.entity(name)
        if entity is None:
            raise NotFoundError(f"Entity with name {shown(name)} not found; create it first")
        return entity

    def _changeable(self, name: str) -> EntityNode:
        """Return an entity that a model created. Raises InvalidArgumentError for any other."""
        entity = self._entity(name)
        check_remembered(self._memory["graph"].peek(entity.item_id))
        return _node(entity)


def _leading(nodes: list[EntityNode], count: int) -> list[EntityNode]:
    """Return the first of some entities and of their observations, as many as `count` in all."""
    shown_nodes: list[EntityNode] = []
    for node in nodes:
        if count < 1:
            break
        count -= 1
        observations = node["observations"]
        newest = observations[max(0, len(observations) - count) :]
        shown_nodes.append({**node, "observations": newest})
        count -= len(newest)
    return shown_nodes


def _part(nodes: list[EntityNode], relations: Iterable[Relationship]) -> JSONDict:
    """Return entities with the relations that start or end at one of them."""
    names = {node["name"] for node in nodes}
    edges = [
        {"from": each.source, "to": each.target, "relationType": each.type}
        for each in relations
        if each.source in names or each.target in names
    ]
    return {"entities": nodes, "relations": edges}


def _node(entity: Entity) -> EntityNode:
    described = [entity.description] if entity.description else []
    stored = entity.properties.get("observations")
    observations = list(map(str, stored)) if isinstance(stored, list) else described
    return {"name": entity.id, "entityType": entity.type, "observations": observations}


def _relationship(edge: RelationEdge) -> Relationship:
    return Relationship(edge["from"], edge["to"], edge["relationType"])


def _searched(entity: Entity) -> str:
    """Return the text of an entity in which a part is looked for, in small letters."""
    node = _node(entity)
    texts = [node["name"], entity.name, node["entityType"], *node["observations"]]
    return "\n".join(texts).lower()


def _deleted(found: int, asked: int, what: str) -> JSONDict:
    return {"success": True, "message": f"Deleted {found} of {asked} {what}"}
