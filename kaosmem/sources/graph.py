"""A graph store as a source: the neighbourhood of the entities that the query names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kaosmem.arguments import check_instance, json_text
from kaosmem.entities import Entity, Relationship, SubGraph, check_relationship_id
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import check_id
from kaosmem.retrieval import GraphRanker
from kaosmem.retrieval.graph_index import Mentions
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource, proposed, ranked
from kaosmem.stores import GraphStore
from kaosmem.types import JSONObject
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

RELATIONS = SectionSpec("relations", None, 45, eviction="none")

MAX_NAMED = 16
"""Around how many of the entities that a query names the store is asked."""
MAX_LINES = 512
"""How many entities, and how many relationships, around each are ranked."""
_ENTITY = "entity:"
_RELATIONSHIP = "relationship:"


class GraphSource(StoreSource):
    """Entities and relationships as lines, ranked like those of a session's own graph.

    A relationship with `valid_from` or `valid_until` among its properties shows its interval.
    `SessionMemory.at(as_of=...)` walks along the relationships that held then, and shows these
    alone. A query may name any entity of the store. For each context the source asks the store for
    the ids of its entities, and reads only the entities with new ids. It learns the new names of a
    known entity only from `add`. If the store fails, the source fails, and the context says so.
    Raises InvalidNameError for the id of an entity, InvalidArgumentError for the rest.

    Args:
        entities: The only entities that a query may name, beside those that `add` stores; they are
            stored already. The store is not asked for its entities. None: all entities.
        depth: Hops from a named entity to the furthest.
    """

    def __init__(
        self,
        store: GraphStore,
        entities: Iterable[Entity | JSONObject] | None = None,
        *,
        depth: int = 2,
        spec: SectionSpec = RELATIONS,
        trust: Trust = Trust.EXTERNAL,
    ) -> None:
        super().__init__(spec, trust=trust)
        self._store = check_instance(store, GraphStore, "store")
        self._depth = depth
        self._ranker = GraphRanker(depth)
        self._mentions = Mentions()
        self._names = dict[str, tuple[str, ...]]()
        self._reads_names = entities is None
        self._note(map(Entity.of, entities or ()))

    async def add(
        self,
        entities: Iterable[Entity | JSONObject],
        relationships: Iterable[Relationship | JSONObject] = (),
    ) -> None:
        """Store entities and relationships, of which a query may name the entities.

        Raises as the store.
        """
        checked = list(map(Entity.of, entities))
        related = list(map(Relationship.of, relationships))
        await self._store.add_entities(checked)
        await self._store.add_relationships(related)
        self._note(checked)

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the neighbourhood of the entities that the query names, nearest and best first."""
        if self._reads_names:
            await self._read_names()
        named = self._mentions.entities_in(query.text)[:MAX_NAMED]
        parts = await asyncio.gather(
            *(self._store.get_neighbors(each, depth=self._depth) for each in named)
        )
        if query.as_of is not None:
            parts = [part.as_of(query.as_of) for part in parts]
        lines: dict[str, Item] = {}
        for part in parts:
            for item in self._lines(part, most=MAX_LINES):
                lines[item.id] = item
        # An entity may lack the name by which it was found, and then nothing says how near its
        # lines are: they have no score.
        return proposed(ranked([*lines.values()], query, self._ranker), cap=cap, wanted=wanted)

    async def get(self, item_id: str) -> Item | None:
        """Return the line of an entity or a relationship, or None."""
        found = _found_at(self._local(item_id) or "")
        if found is None:
            return None
        around = await self._store.get_neighbors(found.entity_id)
        for item in self._lines(around):
            if item.id == item_id:
                return item
        return None

    async def forget(self, item_ids: Collection[str]) -> None:
        """Delete relationships, and entities with theirs, from the store, and unlearn names."""
        for item_id in item_ids:
            found = _found_at(self._local(item_id) or "")
            if found is None:
                continue
            if found.relationship_id:
                await self._store.delete_relationship(found.relationship_id)
            else:
                await self._store.delete_entity(found.entity_id)
                self._unlearn(found.entity_id)

    async def _read_names(self) -> None:
        """Learn the names of new entities in the store, and unlearn those of deleted ones."""
        known = set(self._names)  # an entity that is added meanwhile stays
        stored = set(await self._store.list_entities())
        for entity_id in known - stored:
            self._unlearn(entity_id)
        new = stored.difference(self._names)
        if new:
            read = await self._store.get_entities(sorted(new))
            self._note(each for each in read if each.id not in self._names)

    def _note(self, entities: Iterable[Entity]) -> None:
        for entity in entities:
            self._unlearn(entity.id)
            self._names[entity.id] = tuple(dict.fromkeys((*entity.names, entity.id)))
            for name in self._names[entity.id]:
                self._mentions.add(name, entity.id)

    def _unlearn(self, entity_id: str) -> None:
        for name in self._names.pop(entity_id, ()):
            self._mentions.discard(name, entity_id)

    def _lines(self, part: SubGraph, *, most: int | None = None) -> list[Item]:
        """Return a part of the graph as items: entities, then relationships, nearest first.

        Args:
            most: Of entities, and of relationships. None: all.
        """
        labels = {entity.id: entity.label for entity in part.entities}
        return [
            *(
                self._item(f"{_ENTITY}{each.id}", each.line, metadata=each.metadata)
                for each in part.entities[:most]
            ),
            *(
                self._item(
                    _RELATIONSHIP + json_text(_identity(each)),
                    each.line(
                        labels.get(each.source, each.source), labels.get(each.target, each.target)
                    ),
                    metadata=each.metadata,
                )
                for each in part.relationships[:most]
            ),
        ]


class _Place(NamedTuple):
    """The place of a line in a graph: an entity, or a relationship that starts there."""

    entity_id: str
    relationship_id: str = ""


def _found_at(local_id: str) -> _Place | None:
    """Return the place that an id names, None for another id."""
    try:
        if local_id.startswith(_ENTITY):
            return _Place(check_id(local_id.removeprefix(_ENTITY), "entity id"))
        if local_id.startswith(_RELATIONSHIP):
            source, *rest = json.loads(local_id.removeprefix(_RELATIONSHIP))
            if len(rest) == 1:
                relationship_id = rest[0]
            else:
                relationship_id = Relationship(source, rest[1], rest[0]).id
            return _Place(check_id(source, "entity id"), check_relationship_id(relationship_id))
    except (TypeError, ValueError, LookupError):
        pass
    return None


def _identity(relationship: Relationship) -> list[str]:
    """Return the source of a relationship with its id, or with its type and target."""
    source = relationship.source
    target = relationship.target
    kind = relationship.type
    is_named = relationship.id != Relationship(source, target, kind).id
    if is_named:
        return [source, relationship.id]
    return [source, kind, target]
