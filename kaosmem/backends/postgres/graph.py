"""Graphs in PostgreSQL, by Apache AGE."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kaosmem.backends.base import value_of
from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.entities import Entity, Relationship, SubGraph
from kaosmem.errors import DurabilityError, InvalidArgumentError
from kaosmem.stores.graph import ORDER, BaseGraphStore
from kaosmem.types import JSONValue, check_json, check_text, json_text

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<word>\w+)|(?P<other>\s+|.)""",
    re.DOTALL,
)
_ALIAS = re.compile(r"\bAS\s+(\w+|`[^`]*`)\s*$", re.IGNORECASE)
_END = {"ORDER", "SKIP", "LIMIT", "UNION"}


def returned_columns(query: str) -> list[str]:
    """Return the names in the RETURN of a query, none for a query without one. Raises InvalidArgumentError for `*`.

    >>> returned_columns("MATCH (e) WHERE e.name = 'RETURN x, y' RETURN e.name AS name, count(e) ORDER BY name")
    ['name', 'count(e)']
    """
    depth, parts, is_in = 0, [""], False
    for token in _TOKEN.finditer(query):
        text, word = token[0], (token["word"] or "").upper()
        depth += bool(token["open"]) - bool(token["close"])
        if depth == 0 and word == "RETURN":
            is_in, parts = True, [""]
        elif depth == 0 and word in _END:
            is_in = False
            if word == "UNION":  # both sides have the same columns
                break
        elif is_in and not token["comment"]:
            if depth == 0 and token["comma"]:
                parts.append("")
            else:
                parts[-1] += text
    names = [_name(part) for part in parts if part.strip()]
    if "*" in names:
        raise InvalidArgumentError("the Cypher query returns *; name its columns, such as RETURN e.name, e.type")
    if len(set(names)) < len(names):
        raise InvalidArgumentError("two columns of the Cypher query have one name; give them others by AS")
    return names


def _name(part: str) -> str:
    expression = re.sub(r"^\s*DISTINCT\b", "", part, flags=re.IGNORECASE).strip()
    alias = _ALIAS.search(expression)
    return alias[1].strip("`") if alias else expression


_ROWS_AT_ONCE = 1_000
_MAX_QUERIED_CHARS = 2**16
_AGTYPE = re.compile(r'("(?:[^"\\]|\\.)*")|::(?:vertex|edge|path|numeric)')
_INDEXES = (
    'CREATE UNIQUE INDEX entity_id ON {graph}."Entity" ({id_})',
    'CREATE UNIQUE INDEX relationship_id ON {graph}."Relationship" ({id_})',
    'CREATE INDEX relationship_start ON {graph}."Relationship" (start_id)',
    'CREATE INDEX relationship_end ON {graph}."Relationship" (end_id)',
)
_ID = "ag_catalog.agtype_access_operator(VARIADIC ARRAY[properties, '\"id\"'::ag_catalog.agtype])"


class AGEGraphStore(BaseGraphStore):
    """A GraphStore in PostgreSQL with the extension Apache AGE. It answers Cypher queries.

    Each tenant of a schema has a graph of its own. Entities have the label `Entity`, relationships `Relationship`, with
    the properties `id`, `name`, `type`, `description` and `properties`.
    An administrator prepares the database once: `CREATE EXTENSION age`, `GRANT USAGE ON SCHEMA ag_catalog TO <role>`
    and `ALTER DATABASE <name> SET session_preload_libraries = 'age'`.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        digest = sha256(json.dumps([database.schema, database.tenant]).encode()).hexdigest()
        self._graph, self._is_made = f"kaosmem_{digest[:32]}", False

    async def query_cypher(self, query: str, params: Mapping[str, JSONValue] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a Cypher query on the tenant's graph: each a mapping from the names in its RETURN.

        params: values that the query names as `$name`. They are bound, never inserted into its text.
        Vertices and edges are mappings of `id`, `label` and `properties`.
        Raises InvalidArgumentError if the server refuses the query, InvalidArgumentError for the values.
        """
        import psycopg

        columns = returned_columns(check_text(query, "query"))
        bound = dict(check_json(dict(params or {}), "params"))
        if "\\u0000" in json_text(bound).replace(r"\\", ""):
            raise InvalidArgumentError("params have a NUL character, which PostgreSQL cannot hold; remove it")

        def ask(cursor: Cursor) -> list[dict[str, Any]]:
            try:
                rows = self._cypher(cursor, query, bound, columns=max(1, len(columns)))
            except (psycopg.ProgrammingError, psycopg.DataError, psycopg.errors.InternalError_) as error:
                why = error.diag.message_primary or type(error).__name__
                raise InvalidArgumentError(f"the Cypher query is refused: {why}; correct it") from error
            return [dict(zip(columns, row, strict=True)) for row in rows]

        return await self._database.run(self._made(ask))

    async def list_entities(self) -> list[str]:
        def ids(cursor: Cursor) -> list[str]:
            return sorted(entity_id for (entity_id,) in self._cypher(cursor, "MATCH (e:Entity) RETURN e.id", {}))

        return await self._database.run(self._made(ids))

    async def delete_all(self) -> None:
        def delete(cursor: Cursor) -> None:
            lock(cursor, "graph", self._graph)
            self._cypher(cursor, "MATCH (e:Entity) DETACH DELETE e", {})

        await self._database.run(self._made(delete))

    async def _add_entities(self, entities: list[Entity]) -> None:
        def add(cursor: Cursor) -> None:
            lock(cursor, "graph", self._graph)
            self._put_entities(cursor, entities)

        await self._database.run(self._made(add))

    async def _add_relationships(self, relationships: list[Relationship]) -> None:
        ends = [Entity(end) for end in sorted({end for each in relationships for end in (each.source, each.target)})]

        def add(cursor: Cursor) -> None:
            lock(cursor, "graph", self._graph)
            self._put_entities(cursor, ends, replace=False)
            self._delete_relationships(cursor, [each.id for each in relationships])
            self._in_parts(
                cursor,
                "UNWIND $rows AS row MATCH (a:Entity), (b:Entity) WHERE a.id = row.source AND b.id = row.target "
                f"CREATE (a)-[:Relationship {_inline('source', 'target', 'type')}]->(b)",
                [_fields(each) for each in relationships],
            )

        await self._database.run(self._made(add))

    async def _around(self, entity_id: str, depth: int, types: frozenset[str] | None) -> SubGraph:
        def walk(cursor: Cursor) -> SubGraph:
            entities = self._entities(cursor, [entity_id])
            reached, frontier, found = {entity_id}, [entity_id], dict[str, Relationship]()
            for _ in range(depth if entities else 0):
                near = [each for each in self._touching(cursor, frontier, types) if each.id not in found]
                found |= {each.id: each for each in sorted(near, key=ORDER)}
                frontier = sorted({end for each in near for end in (each.source, each.target)} - reached)
                if not frontier:
                    break
                reached.update(frontier)
                entities += self._entities(cursor, frontier)
            return SubGraph(tuple(entities), tuple(found.values()))

        return await self._database.run(self._made(walk))

    async def _delete_entity(self, entity_id: str) -> None:
        def delete(cursor: Cursor) -> None:
            lock(cursor, "graph", self._graph)
            self._cypher(cursor, "MATCH (e:Entity) WHERE e.id = $id DETACH DELETE e", {"id": entity_id})

        await self._database.run(self._made(delete))

    async def _delete_relationship(self, relationship_id: str) -> None:
        def delete(cursor: Cursor) -> None:
            lock(cursor, "graph", self._graph)
            self._delete_relationships(cursor, [relationship_id])

        await self._database.run(self._made(delete))

    def _put_entities(self, cursor: Cursor, entities: list[Entity], *, replace: bool = True) -> None:
        ids = [each.id for each in entities]
        rows = self._in_parts(cursor, "UNWIND $rows AS row MATCH (e:Entity) WHERE e.id = row RETURN e.id", ids)
        known = {row[0] for row in rows}
        new = [_fields(each) for each in entities if each.id not in known]
        self._in_parts(cursor, f"UNWIND $rows AS row CREATE (:Entity {_inline('name', 'type')})", new)
        if replace:
            old = [_fields(each) for each in entities if each.id in known]
            self._in_parts(cursor, "UNWIND $rows AS row MATCH (e:Entity) WHERE e.id = row.id SET e = row", old)

    def _delete_relationships(self, cursor: Cursor, ids: list[str]) -> None:
        self._in_parts(cursor, "UNWIND $rows AS row MATCH ()-[r:Relationship]->() WHERE r.id = row DELETE r", ids)

    def _entities(self, cursor: Cursor, ids: list[str]) -> list[Entity]:
        """Return the stored entities among these ids, by id."""
        rows = self._in_parts(cursor, "UNWIND $rows AS row MATCH (e:Entity) WHERE e.id = row RETURN e.stored", ids)
        return sorted((Entity.of(value_of(stored)) for (stored,) in rows), key=lambda each: each.id)

    def _touching(self, cursor: Cursor, ids: list[str], types: frozenset[str] | None) -> list[Relationship]:
        """Return the relationships that have one of these entities as an end, each once."""
        narrow = "" if types is None else "AND r.type IN $types "
        kinds = [each for each in types or () if isinstance(each, str)]
        rows = [
            row
            # One direction after the other: for both at once AGE reads all relationships.
            for pattern in ("(a:Entity)-[r:Relationship]->()", "()-[r:Relationship]->(a:Entity)")
            for row in self._in_parts(
                cursor,
                f"UNWIND $rows AS row MATCH {pattern} WHERE a.id = row {narrow}RETURN r.stored",
                ids,
                types=kinds,
            )
        ]
        return [Relationship.of(value_of(stored)) for stored in dict.fromkeys(row[0] for row in rows)]

    def _in_parts(self, cursor: Cursor, query: str, rows: Sequence[Any], **params: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query that unwinds `$rows`, of which some are sent at once."""
        parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
        return [each for part in parts for each in self._cypher(cursor, query, {"rows": list(part), **params})]

    def _cypher(
        self, cursor: Cursor, query: str, params: Mapping[str, Any], *, columns: int = 1
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query. AGE takes its text as a constant, and its parameters as one bound value."""
        names = [f"c{number}" for number in range(columns)]
        quote = f"$kaosmem{secrets.token_hex(8)}$"  # nobody can end the constant
        typed = ", ".join(f"{name} ag_catalog.agtype" for name in names)
        statement = (
            f"SELECT {', '.join(names)} FROM ag_catalog.cypher('{self._graph}', {quote}{query}{quote}, %s) AS ({typed})"
        )
        cursor.execute(statement.replace("%", "%%").replace(", %%s) AS (", ", %s) AS ("), (json_text(params),))
        return [tuple(map(_value, row)) for row in cursor]

    def _made(self, work: Any) -> Any:
        """Return work that makes the graph first, if need be."""

        def ready(cursor: Cursor) -> Any:
            if not self._is_made:
                self._make(cursor)
            for plan in ("seqscan", "hashjoin", "mergejoin"):  # the server's statistics of a new graph mislead it
                cursor.execute(f"SET LOCAL enable_{plan} = off")
            result = work(cursor)
            self._is_made = True
            return result

        return ready

    def _make(self, cursor: Cursor) -> None:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'age'")
        if not cursor.fetchone():
            raise DurabilityError(
                "the database has no Apache AGE; let an administrator run CREATE EXTENSION age, GRANT USAGE ON SCHEMA "
                "ag_catalog and ALTER DATABASE ... SET session_preload_libraries = 'age'"
            )
        lock(cursor, "graph", self._graph)
        cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._graph,))
        if cursor.fetchone():
            return
        cursor.execute("SELECT ag_catalog.create_graph(%s)", (self._graph,))
        cursor.execute("SELECT ag_catalog.create_vlabel(%s, 'Entity')", (self._graph,))
        cursor.execute("SELECT ag_catalog.create_elabel(%s, 'Relationship')", (self._graph,))
        for statement in _INDEXES:
            cursor.execute(statement.format(graph=self._graph, id_=_ID))


def _inline(*names: str) -> str:
    """Return the properties of `row` as a map in a query: setting them after CREATE would write each part twice."""
    return f"{{{', '.join(f'{name}: row.{name}' for name in ('id', 'stored', *names, 'description', 'properties'))}}}"


def _fields(part: Entity | Relationship) -> dict[str, Any]:
    """Return the properties of a vertex or edge. `stored` holds the part exactly, the others are for queries."""
    if isinstance(part, Entity):
        fields: dict[str, Any] = {"id": part.id, "stored": json_text(part.metadata["entity"])}
        texts = {"name": part.name, "type": part.type}
    else:
        fields = {"id": part.id, "stored": json_text(part.metadata["relationship"])}
        fields |= {"source": part.source, "target": part.target, "type": part.type}
        texts = {}
    if "\\u0000" in fields["stored"] or len(fields["stored"]) > _MAX_QUERIED_CHARS:  # no text here holds a NUL
        return fields
    return fields | texts | {"description": part.description, "properties": dict(part.properties)}


def _value(agtype: str | None) -> Any:
    """Return the value of an agtype's text: JSON with marks such as `::vertex`."""
    return None if agtype is None else json.loads(_AGTYPE.sub(r"\1", agtype))
