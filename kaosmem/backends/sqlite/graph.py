"""Graphs in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from kaosmem.backends.base import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.stores.graph import ORDER, BaseGraphStore
from kaosmem.types import json_text


class SqliteGraphStore(BaseGraphStore):
    """A GraphStore in a file of SQLite.

    A walk asks once for each hop, so that it also ends in a graph with cycles.

    >>> from kaosmem.backends import SqliteDatabase, SqliteGraphStore
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
        await self._database.delete("relationships", "entities")

    async def _add_entities(self, entities: list[Entity]) -> None:
        rows = [(each.id, json_text(each.metadata["entity"])) for each in entities]
        await self._database.write(
            lambda connection: connection.executemany(
                "REPLACE INTO entities (id, entity) VALUES (?, ?)", rows
            )
        )

    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        ends = {end for each in relationships for end in (each.source, each.target)}
        new = [(end, json_text(Entity(end).metadata["entity"])) for end in sorted(ends)]
        rows = [
            (each.id, each.source, each.target, each.type, json_text(each.metadata["relationship"]))
            for each in relationships
        ]

        def add(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR IGNORE INTO entities (id, entity) VALUES (?, ?)", new)
            fields = "id, source, target, type, relationship"
            connection.executemany(
                f"REPLACE INTO relationships ({fields}) VALUES (?, ?, ?, ?, ?)", rows
            )

        await self._database.write(add)

    async def _read_entities(self, ids: list[str]) -> list[Entity]:
        return await self._database.read(lambda connection: _entities(connection, ids))

    async def _around(self, entity_id: str, depth: int, types: frozenset[str] | None) -> SubGraph:
        def walk(connection: sqlite3.Connection) -> SubGraph:
            entities = _entities(connection, [entity_id])
            reached = {entity_id}
            frontier = [entity_id]
            found = dict[str, Relationship]()
            for _ in range(depth if entities else 0):
                near = [
                    each for each in _touching(connection, frontier, types) if each.id not in found
                ]
                found |= {each.id: each for each in sorted(near, key=ORDER)}
                frontier = sorted(
                    {end for each in near for end in (each.source, each.target)} - reached
                )
                if not frontier:
                    break
                reached.update(frontier)
                entities += _entities(connection, frontier)
            return SubGraph(tuple(entities), tuple(found.values()))

        return await self._database.read(walk)

    async def _delete_entity(self, entity_id: str) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM relationships WHERE source = ? OR target = ?", (entity_id, entity_id)
            )
            connection.execute("DELETE FROM entities WHERE id = ?", (entity_id,))

        await self._database.write(delete)

    async def _delete_relationship(self, relationship_id: str) -> None:
        await self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM relationships WHERE id = ?", (relationship_id,)
            )
        )


def _entities(connection: sqlite3.Connection, ids: list[str]) -> list[Entity]:
    """Return the stored entities among these ids, by id."""
    rows = connection.execute(
        "SELECT entity FROM entities WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json_text(ids),),
    )
    return [Entity.of(value_of(text)) for (text,) in rows]


def _touching(
    connection: sqlite3.Connection, ids: list[str], types: Collection[str] | None
) -> list[Relationship]:
    """Return the relationships that have one of these entities as an end, each once."""
    along = "FROM relationships WHERE {} IN (SELECT value FROM json_each(:ids))"
    if types is not None:
        along += " AND type IN (SELECT value FROM json_each(:types))"
    rows = connection.execute(
        " UNION ".join(
            f"SELECT number, relationship {along.format(end)}" for end in ("source", "target")
        ),
        {
            "ids": json_text(ids),
            "types": json.dumps([each for each in types or () if isinstance(each, str)]),
        },
    )
    return [Relationship.of(value_of(text)) for _, text in rows]
