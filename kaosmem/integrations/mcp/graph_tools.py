"""The tools of the reference `memory` server over the graph of a session, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from kaosmem.entities import Entity, Relationship
from kaosmem.errors import NotFoundError
from kaosmem.integrations.mcp.turns import SessionTurns, add_tools, json_of
from kaosmem.names import shown
from kaosmem.session.memory import SessionMemory
from kaosmem.session.tools import REMEMBERED, check_remembered
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import Trust

_NOTE_TOKENS = 60
"""Tokens that the note on omitted parts may take."""
_MAX_HITS = 50


class EntityNode(BaseModel):
    """An entity as the reference server shows it."""

    name: str = Field(description="The name of the entity.")
    entityType: str = Field(description="The type of the entity.")  # noqa: N815
    observations: list[str] = Field(description="Statements about the entity.")


class RelationEdge(BaseModel):
    """A relation as the reference server shows it."""

    start: str = Field(alias="from", description="The name of the entity where it starts.")
    to: str = Field(description="The name of the entity where it ends.")
    relationType: str = Field(description="The type of the relation, in active voice.")  # noqa: N815


class GraphPart(BaseModel):
    """Entities, and the relations that start or end at one of them."""

    entities: list[EntityNode]
    relations: list[RelationEdge]
    note: str | None = None


class AddedObservations(BaseModel):
    """Statements to add to an entity."""

    entityName: str = Field(description="The name of the entity.")  # noqa: N815
    contents: list[str] = Field(description="The statements to add.")


class DeletedObservations(BaseModel):
    """Statements to delete from an entity."""

    entityName: str = Field(description="The name of the entity.")  # noqa: N815
    observations: list[str] = Field(description="The statements to delete.")


class EntityList(BaseModel):
    """The result of `create_entities`."""

    entities: list[EntityNode]


class RelationList(BaseModel):
    """The result of `create_relations`."""

    relations: list[RelationEdge]


class NewObservations(BaseModel):
    """The statements that an entity got."""

    entityName: str  # noqa: N815
    addedObservations: list[str]  # noqa: N815


class ObservationResults(BaseModel):
    """The result of `add_observations`."""

    results: list[NewObservations]


class Done(BaseModel):
    """The result of a deletion."""

    success: bool
    message: str


class KnowledgeGraph:
    """The graph of a session in the terms of the reference server.

    An entity is known by its name. Its observations are in its properties, and in its description,
    by which it is found. A model changes only what it created by these tools.
    """

    def __init__(self, memory: SessionMemory, max_tokens: int) -> None:
        self._memory = memory
        self._graph = memory.graph
        self._max_tokens = max_tokens

    def create_entities(self, entities: list[EntityNode]) -> EntityList:
        """Create entities in the knowledge graph. Names that exist are left as they are."""
        created: list[EntityNode] = []
        for node in entities:
            if node.name not in self._graph:
                self._put(node)
                created.append(node)
        return EntityList(entities=created)

    def create_relations(self, relations: list[RelationEdge]) -> RelationList:
        """Create relations between entities of the knowledge graph."""
        for edge in relations:
            self._entity(edge.start)
            self._entity(edge.to)
        created: list[RelationEdge] = []
        for edge in relations:
            relationship = _relationship(edge)
            if relationship.item_id in self._memory:
                continue
            self._graph.add(relationships=[relationship], tags=(REMEMBERED,), trust=Trust.MODEL)
            created.append(edge)
        return RelationList(relations=created)

    def add_observations(self, observations: list[AddedObservations]) -> ObservationResults:
        """Add statements to entities of the knowledge graph."""
        added = []
        for each in observations:
            node = _node(self._changeable(each.entityName))
            new = []
            for text in each.contents:
                if text not in node.observations and text not in new:
                    new.append(text)
            if new:
                node.observations += new
                self._put(node)
            added.append(NewObservations(entityName=each.entityName, addedObservations=new))
        return ObservationResults(results=added)

    def delete_entities(self, entityNames: list[str]) -> Done:  # noqa: N803
        """Delete entities and their relations from the knowledge graph."""
        missing = [name for name in entityNames if name not in self._graph]
        found = [name for name in dict.fromkeys(entityNames) if name not in missing]
        for name in found:
            self._changeable(name)
        self._graph.remove(entities=found)
        if not missing:
            return _done("Entities deleted successfully")
        return _done(
            f"Deleted {len(found)} of {len(entityNames)} entities. Not found: {', '.join(missing)}"
        )

    def delete_observations(self, deletions: list[DeletedObservations]) -> Done:
        """Delete statements from entities of the knowledge graph."""
        requested = 0
        deleted = 0
        missing = []
        for each in deletions:
            requested += len(each.observations)
            if each.entityName not in self._graph:
                missing.append(each.entityName)
                continue
            node = _node(self._changeable(each.entityName))
            kept = [text for text in node.observations if text not in each.observations]
            deleted += len(node.observations) - len(kept)
            if len(kept) < len(node.observations):
                node.observations = kept
                self._put(node)
        if deleted == requested:
            return _done("Observations deleted successfully")
        note = f" Entities not found: {', '.join(missing)}" if missing else ""
        return _done(f"Deleted {deleted} of {requested} observations.{note}")

    def delete_relations(self, relations: list[RelationEdge]) -> Done:
        """Delete relations from the knowledge graph."""
        found = []
        for edge in relations:
            relationship = _relationship(edge)
            if relationship.item_id in self._memory and relationship not in found:
                check_remembered(self._memory["graph"].peek(relationship.item_id))
                found.append(relationship)
        self._graph.remove(relationships=found)
        if len(found) == len(relations):
            return _done("Relations deleted successfully")
        return _done(
            f"Deleted {len(found)} of {len(relations)} relations. The rest matched nothing."
        )

    def read_graph(self) -> GraphPart:
        """Read the knowledge graph, the newest entities first, as far as the budget allows."""
        entities = [part for part in self._graph if isinstance(part, Entity)]
        entities.reverse()
        return self._within(entities)

    def search_nodes(self, query: str) -> GraphPart:
        """Search the entities of the knowledge graph, best first, with their relations."""
        names: list[str] = []
        for hit in self._memory.search(query, "graph", limit=_MAX_HITS, archived=False):
            entity = hit.item.metadata.get("entity")
            if isinstance(entity, dict):
                names.append(str(entity["id"]))
        wanted = query.lower()
        entities = [part for part in self._graph if isinstance(part, Entity)]
        names += [each.id for each in entities if wanted in _searched(each)]
        return self.open_nodes(names)

    def open_nodes(self, names: list[str]) -> GraphPart:
        """Open entities of the knowledge graph by their names, with their relations."""
        found = [self._graph.entity(name) for name in dict.fromkeys(names)]
        return self._within([each for each in found if each is not None])

    def _within(self, entities: Sequence[Entity]) -> GraphPart:
        """Return leading entities and their relations within a budget."""
        relations = [part for part in self._graph if isinstance(part, Relationship)]
        part = GraphPart(entities=[_node(each) for each in entities], relations=[])
        names = {each.id for each in entities}
        for each in relations:
            if each.source in names or each.target in names:
                part.relations.append(_edge(each))
        return fitted(part, self._memory.admin.counter, self._max_tokens)

    def _put(self, node: EntityNode) -> None:
        entity = Entity(
            node.name,
            type=node.entityType,
            description="; ".join(node.observations),
            properties={"observations": [*node.observations]},
        )
        self._graph.add([entity], tags=(REMEMBERED,), trust=Trust.MODEL)

    def _entity(self, name: str) -> Entity:
        entity = self._graph.entity(name)
        if entity is None:
            raise NotFoundError(f"Entity with name {shown(name)} not found; create it first")
        return entity

    def _changeable(self, name: str) -> Entity:
        """Return an entity that a model created. Raises InvalidArgumentError for any other."""
        entity = self._entity(name)
        check_remembered(self._memory["graph"].peek(entity.item_id))
        return entity


_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_CREATES = ToolAnnotations(destructive_hint=False, open_world_hint=False)
_DELETES = ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)
_ANNOTATIONS = {
    "create_entities": _CREATES,
    "create_relations": _CREATES,
    "add_observations": _CREATES,
    "delete_entities": _DELETES,
    "delete_observations": _DELETES,
    "delete_relations": _DELETES,
    "read_graph": _READS,
    "search_nodes": _READS,
    "open_nodes": _READS,
}


def fitted(part: GraphPart, counter: TokenCounter, max_tokens: int) -> GraphPart:
    """Return as much of a graph as its JSON text may hold, and a note on the rest.

    Entities come in their order. A relation follows the first of its entities. An entity that does
    not fit is shown with its newest observations.
    """
    if counter(json_of(part)) <= max_tokens:
        return part
    kept = GraphPart(entities=[], relations=[], note="")
    room = max_tokens - _NOTE_TOKENS
    waiting = list(part.relations)
    for node in part.entities:
        shortened = _shortened(node, counter, room)
        if shortened is None:
            break
        kept.entities.append(shortened)
        room -= counter(json_of(shortened)) + 1
        rest = []
        for edge in waiting:
            cost = counter(json_of(edge)) + 1
            if node.name in (edge.start, edge.to) and cost <= room:
                kept.relations.append(edge)
                room -= cost
            else:
                rest.append(edge)
        waiting = rest
        if len(shortened.observations) < len(node.observations):
            break
    kept.note = _note(part, kept, max_tokens)
    while counter(json_of(kept)) > max_tokens and (kept.relations or kept.entities):
        (kept.relations or kept.entities).pop()
        kept.note = _note(part, kept, max_tokens)
    return kept


def add_graph_tools(server: MCPServer[Any], turns: SessionTurns) -> None:
    """Add the nine tools of the reference `memory` server, and its resource."""
    add_tools(server, turns, KnowledgeGraph, _ANNOTATIONS)

    async def read(memory: SessionMemory) -> GraphPart:
        return KnowledgeGraph(memory, turns.max_tokens).read_graph()

    @server.resource("memory://knowledge-graph", mime_type="application/json")
    async def knowledge_graph() -> str:
        """Read the knowledge graph, the newest entities first, as far as the budget allows."""
        return json_of(await turns.run(read))


def _shortened(node: EntityNode, counter: TokenCounter, room: int) -> EntityNode | None:
    """Return an entity with as many of its newest observations as fit, None if none fits."""
    if counter(json_of(node)) <= room:
        return node
    fits = 0
    beyond = len(node.observations)
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if counter(json_of(_newest(node, middle))) <= room:
            fits = middle
        else:
            beyond = middle
    return _newest(node, fits) if fits else None


def _newest(node: EntityNode, count: int) -> EntityNode:
    return node.model_copy(update={"observations": node.observations[-count:]})


def _note(whole: GraphPart, kept: GraphPart, max_tokens: int) -> str:
    shown_observations = sum(len(node.observations) for node in kept.entities)
    observations = sum(len(node.observations) for node in whole.entities)
    return (
        f"shown within {max_tokens:,} tokens: {len(kept.entities):,} of {len(whole.entities):,} "
        f"entities, {len(kept.relations):,} of {len(whole.relations):,} relations, "
        f"{shown_observations:,} of {observations:,} observations; search_nodes finds the rest"
    )


def _node(entity: Entity) -> EntityNode:
    stored = entity.properties.get("observations")
    if isinstance(stored, list):
        observations = [str(each) for each in stored]
    elif entity.description:
        observations = [entity.description]
    else:
        observations = []
    return EntityNode(name=entity.id, entityType=entity.type, observations=observations)


def _edge(relationship: Relationship) -> RelationEdge:
    return RelationEdge.model_validate(
        {
            "from": relationship.source,
            "to": relationship.target,
            "relationType": relationship.type,
        }
    )


def _relationship(edge: RelationEdge) -> Relationship:
    return Relationship(edge.start, edge.to, edge.relationType)


def _searched(entity: Entity) -> str:
    """Return the text of an entity in which a part is looked for, in small letters."""
    node = _node(entity)
    return "\n".join([node.name, entity.name, node.entityType, *node.observations]).lower()


def _done(message: str) -> Done:
    return Done(success=True, message=message)
