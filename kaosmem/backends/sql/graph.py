"""Graphs in a SQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.stores.graph import GraphStore, walk


class SqlGraphStore(GraphStore):
    """A GraphStore in a SQL database."""

    def __init__(self, database: SqlDatabase[Any]) -> None:
        self._database = database

    async def list_entities(self) -> list[str]:
        rows = await self._database.rows("SELECT id FROM entities WHERE tenant = :tenant")
        return [entity_id for (entity_id,) in rows]

    async def delete_all(self) -> None:
        await self._write(self._drop_all)

    async def _add_entities(self, entities: list[Entity]) -> None:
        await self._write(self._put_entities, entities)

    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        await self._write(self._put_relationships, relationships)

    async def _read_entities(self, ids: list[str]) -> list[Entity]:
        return await self._database.read(lambda transaction: _entities(transaction, ids))

    async def _around(
        self,
        entity_id: str,
        depth: int,
        types: frozenset[str] | None,
    ) -> SubGraph:
        return await self._database.read(
            lambda transaction: walk(
                entity_id,
                depth,
                lambda ids: _entities(transaction, ids),
                lambda ids: _touching(transaction, ids, types),
            )
        )

    async def _delete_entity(self, entity_id: str) -> None:
        await self._write(self._drop_entity, entity_id)

    async def _delete_relationship(self, relationship_id: str) -> None:
        await self._write(self._drop_relationship, relationship_id)

    async def _write(self, work: Callable[..., None], *given: object) -> None:
        """Change the graph in one transaction. Other writers of the tenant's graph wait.

        Args:
            work: Gets the transaction, and the given values.
        """

        def write(transaction: Transaction) -> None:
            transaction.lock("graph")
            work(transaction, *given)

        await self._database.write(write)

    def _put_entities(self, transaction: Transaction, entities: list[Entity]) -> None:
        transaction.each(
            "INSERT INTO entities (tenant, id, entity) VALUES (:tenant, :id, :entity) "
            "ON CONFLICT (tenant, id) DO UPDATE SET entity = excluded.entity",
            _rows(entities),
        )

    def _put_relationships(
        self, transaction: Transaction, relationships: list[Relationship]
    ) -> None:
        transaction.each(
            "INSERT INTO entities (tenant, id, entity) VALUES (:tenant, :id, :entity) "
            "ON CONFLICT (tenant, id) DO NOTHING",
            _rows(ends_of(relationships)),
        )
        transaction.each(
            "INSERT INTO relationships (tenant, id, source, target, type, relationship) "
            "VALUES (:tenant, :id, :source, :target, :type, :relationship) "
            "ON CONFLICT (tenant, id) DO UPDATE SET source = excluded.source, "
            "target = excluded.target, type = excluded.type, relationship = excluded.relationship",
            [
                {
                    "id": each.id,
                    "source": each.source,
                    "target": each.target,
                    "type": each.type,
                    "relationship": json_text(each.metadata["relationship"]),
                }
                for each in relationships
            ],
        )

    def _drop_entity(self, transaction: Transaction, entity_id: str) -> None:
        transaction.change(
            "DELETE FROM relationships WHERE tenant = :tenant AND (source = :id OR target = :id)",
            id=entity_id,
        )
        transaction.change("DELETE FROM entities WHERE tenant = :tenant AND id = :id", id=entity_id)

    def _drop_relationship(self, transaction: Transaction, relationship_id: str) -> None:
        transaction.change(
            "DELETE FROM relationships WHERE tenant = :tenant AND id = :id", id=relationship_id
        )

    def _drop_all(self, transaction: Transaction) -> None:
        transaction.change("DELETE FROM relationships WHERE tenant = :tenant")
        transaction.change("DELETE FROM entities WHERE tenant = :tenant")


def ends_of(relationships: Iterable[Relationship]) -> list[Entity]:
    """Return an entity with only an id for each end of relationships, by id."""
    ends = {end for each in relationships for end in (each.source, each.target)}
    return [Entity(end) for end in sorted(ends)]


def _rows(entities: Iterable[Entity]) -> list[dict[str, str]]:
    return [{"id": each.id, "entity": json_text(each.metadata["entity"])} for each in entities]


def _entities(transaction: Transaction, ids: list[str]) -> list[Entity]:
    """Return the stored entities among these ids, by id."""
    rows = transaction.rows(
        "SELECT entity FROM entities WHERE tenant = :tenant "
        f"AND id IN {transaction.texts('ids')} ORDER BY id",
        ids=json_text(ids),
    )
    return [Entity.of(value_of(text)) for (text,) in rows]


def _touching(
    transaction: Transaction,
    ids: list[str],
    types: frozenset[str] | None,
) -> list[Relationship]:
    """Return the relationships that have one of these entities as an end, each once."""
    of_types = "" if types is None else f"AND type IN {transaction.texts('types')}"
    select = f"SELECT number, relationship FROM relationships WHERE tenant = :tenant {of_types}"
    among = transaction.texts("ids")
    rows = transaction.rows(
        f"{select} AND source IN {among} UNION {select} AND target IN {among}",
        ids=json_text(ids),
        types=json_text(sorted(types or ())),
    )
    return [Relationship.of(value_of(text)) for _, text in rows]
