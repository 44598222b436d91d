"""Graphs in SQLite."""

from __future__ import annotations

import json

from kaosmem.arguments import json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase, SqliteTransaction
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.stores.graph import BaseGraphStore, walk


class SqliteGraphStore(BaseGraphStore):
    """A GraphStore in a file of SQLite.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.graph import SqliteGraphStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteGraphStore(database)
    ...     await store.add_relationships([{"source": "acme", "target": "beta", "type": "supplies"}])
    ...     [entity.id for entity in (await store.get_neighbors("acme")).entities]
    ['acme', 'beta']
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def list_entities(self) -> list[str]:
        return [entity_id for (entity_id,) in await self._database.rows("SELECT id FROM entities")]

    async def delete_all(self) -> None:
        def delete(transaction: SqliteTransaction) -> None:
            transaction.change("DELETE FROM relationships")
            transaction.change("DELETE FROM entities")

        await self._database.write(delete)

    async def _add_entities(self, entities: list[Entity]) -> None:
        await self._database.write(
            lambda transaction: transaction.each(
                "REPLACE INTO entities (id, entity) VALUES (:id, :entity)", _rows(entities)
            )
        )

    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        ends = {each.source for each in relationships} | {each.target for each in relationships}
        rows = [
            {
                "id": each.id,
                "source": each.source,
                "target": each.target,
                "type": each.type,
                "relationship": json_text(each.metadata["relationship"]),
            }
            for each in relationships
        ]

        def add(transaction: SqliteTransaction) -> None:
            transaction.each(
                "INSERT OR IGNORE INTO entities (id, entity) VALUES (:id, :entity)",
                _rows([Entity(end) for end in sorted(ends)]),
            )
            transaction.each(
                "REPLACE INTO relationships (id, source, target, type, relationship) "
                "VALUES (:id, :source, :target, :type, :relationship)",
                rows,
            )

        await self._database.write(add)

    async def _read_entities(self, ids: list[str]) -> list[Entity]:
        return await self._database.read(lambda transaction: _entities(transaction, ids))

    async def _around(self, entity_id: str, depth: int, types: frozenset[str] | None) -> SubGraph:
        return await self._database.read(
            lambda transaction: walk(
                entity_id,
                depth,
                lambda ids: _entities(transaction, ids),
                lambda ids: _touching(transaction, ids, types),
            )
        )

    async def _delete_entity(self, entity_id: str) -> None:
        def delete(transaction: SqliteTransaction) -> None:
            transaction.change(
                "DELETE FROM relationships WHERE source = :id OR target = :id", id=entity_id
            )
            transaction.change("DELETE FROM entities WHERE id = :id", id=entity_id)

        await self._database.write(delete)

    async def _delete_relationship(self, relationship_id: str) -> None:
        await self._database.change("DELETE FROM relationships WHERE id = :id", id=relationship_id)


def _rows(entities: list[Entity]) -> list[dict[str, str]]:
    return [{"id": each.id, "entity": json_text(each.metadata["entity"])} for each in entities]


def _entities(transaction: SqliteTransaction, ids: list[str]) -> list[Entity]:
    """Return the stored entities among these ids, by id."""
    rows = transaction.rows(
        "SELECT entity FROM entities WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id",
        ids=json_text(ids),
    )
    return [Entity.of(value_of(text)) for (text,) in rows]


def _touching(
    transaction: SqliteTransaction, ids: list[str], types: frozenset[str] | None
) -> list[Relationship]:
    """Return the relationships that have one of these entities as an end, each once."""
    of_types = ""
    if types is not None:
        of_types = "AND type IN (SELECT value FROM json_each(:types))"
    rows = transaction.rows(
        "SELECT number, relationship FROM relationships "
        f"WHERE source IN (SELECT value FROM json_each(:ids)) {of_types} UNION "
        "SELECT number, relationship FROM relationships "
        f"WHERE target IN (SELECT value FROM json_each(:ids)) {of_types}",
        ids=json_text(ids),
        types=json.dumps([each for each in types or () if isinstance(each, str)]),
    )
    return [Relationship.of(value_of(text)) for _, text in rows]
