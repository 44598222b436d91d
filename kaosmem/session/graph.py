"""A section as a graph: entities and relationships, each an item that is one readable line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaosmem.arguments import check_collection, check_count
from kaosmem.entities import (
    Entity,
    GraphPart,
    Relationship,
    SubGraph,
    entity_item_id,
    graph_part_of,
    relationship_item_id,
    safe_line,
)
from kaosmem.errors import NotFoundError
from kaosmem.names import shown
from kaosmem.retrieval.rankers import GraphRanker
from kaosmem.session.open_session import OpenSession
from kaosmem.tokens import count_content
from kaosmem.types import JSONObject
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

if TYPE_CHECKING:
    from kaosmem.sections.section import Section


class Graph:
    """The entities and relationships of a section with a GraphRanker. `memory.graph` is one.

    Each entity and relationship is an item of one readable line. Its id is `entity:<id>` or
    `relationship:<id>`. An entity or relationship that is added again replaces the earlier one. A
    long id ends in a hash.
    Raises NotFoundError for a section with another ranker.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> items = memory.graph.add(relationships=[{"source": "Acme", "target": "Beta", "type": "supplies"}])
    >>> [item.text for item in items]
    ['Acme -[supplies]-> Beta']
    """

    def __init__(
        self,
        session: OpenSession,
        name: str,
    ) -> None:
        section = session.section(name)
        if not isinstance(section.spec.ranker, GraphRanker):
            raise NotFoundError(
                f"section {section.spec.name!r} is no graph; give its SectionSpec "
                "ranker=GraphRanker()"
            )
        self._section = section
        self._session = session
        self._make = session.factory.make

    def __iter__(self) -> Iterator[GraphPart]:
        """Yield the entities and relationships in stored order."""
        for item in self._section:
            part = graph_part_of(item.metadata)
            if part is not None:
                yield part

    def __contains__(self, entity_id: object) -> bool:
        return isinstance(entity_id, str) and self.entity(entity_id) is not None

    def entity(self, entity_id: str) -> Entity | None:
        """Return an entity by its id."""
        item_id = entity_item_id(entity_id)
        if item_id not in self._section:
            return None
        part = graph_part_of(self._section.peek(item_id).metadata)
        if isinstance(part, Entity) and part.id == entity_id:
            return part
        return None

    def neighbors(self, entity_id: str, *, depth: int = 1) -> SubGraph:
        """Return the entities up to `depth` hops away, nearest first, and their relationships.

        Raises NotFoundError for an id without an entity or a relationship.
        """
        check_count(depth, "depth", least=1)
        described, related = self._around(entity_id, depth)
        if not described and not related:
            raise _unknown_entity(entity_id)
        return SubGraph(
            tuple(Entity.of(item.metadata["entity"]) for item in described),
            tuple(Relationship.of(item.metadata["relationship"]) for item in related),
        )

    def add(
        self,
        entities: Iterable[Entity | JSONObject] = (),
        relationships: Iterable[Relationship | JSONObject] = (),
        *,
        priority: int = 0,
        pinned: bool = False,
        tags: Iterable[str] = (),
        sources: Iterable[str] = (),
        trust: Trust | None = None,
    ) -> list[Item]:
        """Add entities and relationships, and return their items.

        Each takes the place of an earlier one with the same identity. An end of a relationship may
        be an entity that is added later or never. Until then its id stands for its name. The line
        of a relationship is derived from the names of its ends. So their items are among its
        sources, its trust is no higher than theirs, and the line is written anew if one of them
        gets another name.

        Args:
            priority: Priority of all the items, as in `SessionMemory.add`.
            pinned: Whether all the items are pinned.
            tags: Tags of all the items.
            sources: Sources of all the items.
            trust: Trust of all the items.

        Raises:
            InvalidNameError: If an id is not valid. Nothing has changed then.
            InvalidArgumentError: If another value is not valid. Nothing has changed then.
            KaosmemError: As `SessionMemory.add`, for an item that is refused. The items before it
                stay.
        """
        new_entities = [Entity.of(given) for given in entities]
        new_relationships = [Relationship.of(given) for given in relationships]
        given = {
            "priority": priority,
            "pinned": pinned,
            "tags": tuple(tags),
            "sources": tuple(sources),
            "trust": trust,
        }
        section = self._session.writable(self._section.spec.name)
        is_first = not len(self._section)
        renamed = [
            entity.id
            for entity in new_entities
            if not is_first and entity.label != self._label(entity.id)
        ]
        items = [self._put(section, entity, given) for entity in new_entities]
        self._relabel(section, renamed)
        return items + [
            self._put(section, relationship, given) for relationship in new_relationships
        ]

    def remove(
        self,
        entities: Iterable[str] = (),
        relationships: Iterable[str] = (),
    ) -> list[Item]:
        """Move entities, with all their relationships, and relationships to the archive.

        Return their items.

        Raises NotFoundError if one is unknown; then nothing has changed.

        Args:
            entities: Their ids.
            relationships: Their ids.
        """
        section = self._session.writable(self._section.spec.name)
        doomed: dict[str, Item] = {}
        for entity_id in check_collection(entities, "entities"):
            found = [*self._around(entity_id, 0)[0], *self._around(entity_id, 1)[1]]
            if not found:
                raise _unknown_entity(entity_id)
            doomed |= {item.id: item for item in found}
        for relationship_id in check_collection(relationships, "relationships"):
            item_id = relationship_item_id(relationship_id)
            if item_id not in section:
                raise NotFoundError(
                    f"no relationship {shown(relationship_id)} in this graph; neighbors() has those"
                )
            doomed[item_id] = section.peek(item_id)
        for item_id in doomed:
            section.remove(item_id, at=self._session.clock())
        return list(doomed.values())

    def _put(
        self,
        section: Section,
        part: GraphPart,
        given: Mapping[str, Any],
    ) -> Item:
        """Add or replace the item of an entity or relationship, unless it is there as it is."""
        live = section.peek(part.item_id) if part.item_id in section else None
        own: dict[str, Any] = {"id": None if live else part.item_id, "metadata": part.metadata}
        if isinstance(part, Entity):
            item = self._make(section.spec, part.line, **own, **given)
        else:
            line, ends = self._titled(part)
            item = self._derived(self._make(section.spec, line, **own, **given), ends)
        if live is None:
            section.add(item)
            return item
        item = replace(item, id=live.id, created_at=live.created_at)
        if item == live:
            return live
        section.update(item, at=self._session.clock())
        return item

    def _relabel(self, section: Section, entity_ids: Iterable[str]) -> None:
        """Write the lines of the relationships of entities anew."""
        stale: dict[str, Item] = {}
        for entity_id in entity_ids:
            _, related = self._around(entity_id, 1)
            stale |= {item.id: item for item in related}
        for item in stale.values():
            if item.id in section:  # an update may evict others
                line, ends = self._titled(Relationship.of(item.metadata["relationship"]))
                item = replace(
                    item, content=line, tokens=count_content(line, self._session.counter)
                )
                section.update(self._derived(item, ends), at=self._session.clock())

    def _titled(self, relationship: Relationship) -> tuple[str, list[Item]]:
        """Return a relationship's line, and the items of the entities that give it their names."""
        source = self.entity(relationship.source)
        target = self.entity(relationship.target)
        line = relationship.line(
            source.label if source else safe_line(relationship.source),
            target.label if target else safe_line(relationship.target),
        )
        return line, [self._section.peek(end.item_id) for end in (source, target) if end]

    def _derived(self, item: Item, ends: Iterable[Item]) -> Item:
        """Return a relationship's item with those of its ends among its sources."""
        sources = dict.fromkeys(item.sources)
        trust = item.trust
        for end in ends:
            sources[end.id] = None
            trust = min(trust, end.trust)
        item = replace(item, trust=trust)
        if self._section.spec.placement == "static":  # where nothing may be derived
            return item
        return replace(item, sources=tuple(sources))

    def _label(self, entity_id: str) -> str:
        entity = self.entity(entity_id)
        if entity is None:
            return safe_line(entity_id)
        return entity.label

    def _around(self, entity_id: str, depth: int) -> tuple[list[Item], list[Item]]:
        """Return the items of the entities and of the relationships around one."""
        from kaosmem.retrieval.graph_index import GraphIndex

        with self._section.index.asked() as index:
            assert isinstance(index, GraphIndex)  # the ranker is a GraphRanker
            return index.neighbourhood(entity_id, depth)


def _unknown_entity(entity_id: str) -> NotFoundError:
    return NotFoundError(f"no entity {shown(entity_id)} in this graph; add it first")
