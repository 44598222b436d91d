"""Graphs in PostgreSQL, by Apache AGE."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kaosmem.arguments import check_json, check_list_of, check_text, json_text
from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.backends.sql.database import Transaction
from kaosmem.backends.sql.graph import SqlGraphStore, ends_of
from kaosmem.entities import Entity, Relationship
from kaosmem.errors import DurabilityError, InvalidArgumentError
from kaosmem.types import JSONObject

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


_ROWS_AT_ONCE = 1_000
_MAX_QUERIED_CHARS = 2**16
_AGTYPE = re.compile(r'("(?:[^"\\]|\\.)*")|::(?:vertex|edge|path|numeric)')
_PROPERTY = (
    "ag_catalog.agtype_access_operator(VARIADIC ARRAY[properties, '\"id\"'::ag_catalog.agtype])"
)
_RELATIONSHIP = "Relationship"
MAX_LABELS = 100
"""Each label is a table with indexes, and a query without a label reads all of them."""
_NO_LABEL = re.compile(r"[^A-Za-z0-9_]")


def label_of(relationship_type: str) -> str:
    """Return the label of the relationships of a type.

    It is the type, with `_` for each character that no label may have.

    >>> label_of("WORKS_AT"), label_of("works at"), label_of("2nd owner"), label_of("属于")
    ('WORKS_AT', 'works_at', '_2nd_owner', 'Relationship')
    """
    label = _NO_LABEL.sub("_", relationship_type)
    if label[0].isdigit():
        label = f"_{label}"
    is_name = label.strip("_") and not label.startswith("_ag_label")
    return label[:63] if is_name else _RELATIONSHIP


class AGEGraphStore(SqlGraphStore):
    """A GraphStore in PostgreSQL that answers Cypher queries, by the extension Apache AGE.

    Tables hold the entities and relationships. A graph of AGE beside them is for queries. Each
    tenant of a schema has a graph of its own.

    Entities have the label `Entity`. A relationship has its type as label (see `label_of`), so that
    `MATCH (a)-[:WORKS_AT]->(b)` finds it. From the hundredth label on, new types have the label
    `Relationship`. Both have the properties `id`, `name`, `type`, `description` and `properties`.
    Changes by a Cypher query are seen by Cypher queries alone.

    An administrator prepares the database once: `CREATE EXTENSION age`, `GRANT USAGE ON SCHEMA
    ag_catalog TO <role>` and `ALTER DATABASE <name> SET session_preload_libraries = 'age'`.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._postgres = database
        digest = sha256(json.dumps([database.schema, database.tenant]).encode()).hexdigest()
        self._graph = f"kaosmem_{digest[:32]}"

    async def query_cypher(
        self,
        query: str,
        params: JSONObject | None = None,
        *,
        columns: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        """Return the rows of a Cypher query on the tenant's graph.

        Each row is a mapping by `columns`. Vertices and edges are mappings of `id`, `label` and
        `properties`. A change by a query is seen by queries alone.

        Args:
            params: Values that the query names as `$name`. They are bound, never inserted into its
                text.
            columns: A name for each value of the query's RETURN, in its order. A query without
                RETURN has none.

        Raises:
            InvalidArgumentError: If the server refuses the query, for the values, or if the query
                returns another number of values than there are columns.
        """
        import psycopg

        check_text(query, "query")
        names = check_list_of(columns, str, "columns")
        bound = dict(check_json(dict(params or {}), "params"))
        if "\\u0000" in json_text(bound).replace(r"\\", ""):
            raise InvalidArgumentError(
                "params have a NUL character, which PostgreSQL cannot hold; remove it"
            )

        def ask(cursor: Cursor) -> list[tuple[Any, ...]]:
            self._prepare(cursor)
            try:
                return self._cypher(cursor, query, bound, columns=max(1, len(names)))
            except (
                psycopg.ProgrammingError,
                psycopg.DataError,
                psycopg.errors.InternalError_,
            ) as error:
                why = error.diag.message_primary or type(error).__name__
                raise InvalidArgumentError(
                    f"the Cypher query is refused: {why}; correct it, and name what it returns by "
                    "columns"
                ) from error

        rows = await self._postgres.run(ask)
        if rows and len(set(names)) < len(rows[0]):
            raise InvalidArgumentError(
                "columns do not name each value that the Cypher query returns; give as many "
                "different names"
            )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _put_entities(self, transaction: Transaction, entities: list[Entity]) -> None:
        super()._put_entities(transaction, entities)
        self._put_vertices(self._cursor(transaction), entities, replace=True)

    def _put_relationships(
        self, transaction: Transaction, relationships: list[Relationship]
    ) -> None:
        super()._put_relationships(transaction, relationships)
        cursor = self._cursor(transaction)
        self._put_vertices(cursor, ends_of(relationships), replace=False)
        self._delete_edges(cursor, [each.id for each in relationships])
        labels = self._labels_of(cursor, {each.type for each in relationships})
        of_label: dict[str, list[Any]] = {}
        for each in relationships:
            of_label.setdefault(labels[each.type], []).append(_fields(each))
        for label, rows in of_label.items():
            self._in_parts(
                cursor,
                "UNWIND $rows AS row MATCH (a:Entity), (b:Entity) WHERE a.id = row.source AND "
                "b.id = row.target "
                f"CREATE (a)-[:`{label}` {_inline('source', 'target', 'type')}]->(b)",
                rows,
            )

    def _drop_entity(self, transaction: Transaction, entity_id: str) -> None:
        super()._drop_entity(transaction, entity_id)
        query = "MATCH (e:Entity) WHERE e.id = $id DETACH DELETE e"
        self._cypher(self._cursor(transaction), query, {"id": entity_id})

    def _drop_relationship(self, transaction: Transaction, relationship_id: str) -> None:
        super()._drop_relationship(transaction, relationship_id)
        self._delete_edges(self._cursor(transaction), [relationship_id])

    def _drop_all(self, transaction: Transaction) -> None:
        super()._drop_all(transaction)
        self._cypher(self._cursor(transaction), "MATCH (e) DETACH DELETE e", {})

    def _labels_of(self, cursor: Cursor, types: set[str]) -> dict[str, str]:
        """Return the label of each type, and make the labels and indexes that are missing."""
        cursor.execute(
            "SELECT child.relname, parent.relname = '_ag_label_edge' FROM pg_inherits "
            "JOIN pg_class AS child ON child.oid = inhrelid JOIN pg_class AS parent ON parent.oid "
            "= inhparent "
            "JOIN pg_namespace ON pg_namespace.oid = child.relnamespace WHERE nspname = %s",
            (self._graph,),
        )
        is_edge: dict[str, bool] = dict(cursor.fetchall())
        cursor.execute("SELECT indexname FROM pg_indexes WHERE schemaname = %s", (self._graph,))
        indexes = {name for (name,) in cursor.fetchall()}
        labels = {}
        for each in sorted(types):
            label = label_of(each)
            is_full = label not in is_edge and sum(is_edge.values()) >= MAX_LABELS
            if is_full or not is_edge.get(label, True):  # a label is of vertices or of edges
                label = _RELATIONSHIP
            if label not in is_edge:
                cursor.execute("SELECT ag_catalog.create_elabel(%s, %s)", (self._graph, label))
                is_edge[label] = True
            index = f"id_{sha256(label.encode()).hexdigest()[:32]}"
            # A query may have made the label; its own indexes are of the ends.
            if index not in indexes:
                cursor.execute(f'CREATE INDEX {index} ON {self._graph}."{label}" ({_PROPERTY})')
                indexes.add(index)
            labels[each] = label
        return labels

    def _put_vertices(
        self,
        cursor: Cursor,
        entities: list[Entity],
        *,
        replace: bool,
    ) -> None:
        query = "UNWIND $rows AS row MATCH (e:Entity) WHERE e.id = row RETURN e.id"
        found = self._in_parts(cursor, query, [each.id for each in entities])
        known = {entity_id for (entity_id,) in found}
        new = [_fields(each) for each in entities if each.id not in known]
        create = f"UNWIND $rows AS row CREATE (:Entity {_inline('name', 'type')})"
        self._in_parts(cursor, create, new)
        if replace:
            old = [_fields(each) for each in entities if each.id in known]
            change = "UNWIND $rows AS row MATCH (e:Entity) WHERE e.id = row.id SET e = row"
            self._in_parts(cursor, change, old)

    def _delete_edges(self, cursor: Cursor, ids: list[str]) -> None:
        query = "UNWIND $rows AS row MATCH ()-[r]->() WHERE r.id = row DELETE r"
        self._in_parts(cursor, query, ids)

    def _in_parts(
        self,
        cursor: Cursor,
        query: str,
        rows: Sequence[Any],
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query that unwinds `$rows`, of which some are sent at once."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = list(rows[start : start + _ROWS_AT_ONCE])
            found += self._cypher(cursor, query, {"rows": part})
        return found

    def _cypher(
        self,
        cursor: Cursor,
        query: str,
        params: Mapping[str, Any],
        *,
        columns: int = 1,
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        AGE takes its text as a constant, and its parameters as one bound value.
        """
        names = [f"c{number}" for number in range(columns)]
        quote = f"$kaosmem{secrets.token_hex(8)}$"  # nobody can end the constant
        typed = ", ".join(f"{name} ag_catalog.agtype" for name in names)
        call = f"ag_catalog.cypher('{self._graph}', {quote}{query}{quote}, %s)"
        statement = f"SELECT {', '.join(names)} FROM {call} AS ({typed})"
        cursor.execute(
            statement.replace("%", "%%").replace(", %%s) AS (", ", %s) AS ("), (json_text(params),)
        )
        return [tuple(map(_value, row)) for row in cursor]

    def _cursor(self, transaction: Transaction) -> Cursor:
        """Return the cursor of a transaction, in which the tenant's graph is there."""
        cursor: Cursor = transaction.cursor  # type: ignore[attr-defined]
        self._prepare(cursor)
        return cursor

    def _prepare(self, cursor: Cursor) -> None:
        """Make the tenant's graph, if need be, and let the server use its indexes."""
        cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._graph,))
        if not cursor.fetchone():
            self._make(cursor)
        # The server's statistics of a new graph mislead it.
        for plan in ("seqscan", "hashjoin", "mergejoin"):
            cursor.execute(f"SET LOCAL enable_{plan} = off")

    def _make(self, cursor: Cursor) -> None:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'age'")
        if not cursor.fetchone():
            raise DurabilityError(
                "the database has no Apache AGE; let an administrator run CREATE EXTENSION age, "
                "GRANT USAGE ON SCHEMA "
                "ag_catalog and ALTER DATABASE ... SET session_preload_libraries = 'age'"
            )
        lock(cursor, self._postgres.tenant, "graph")
        cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._graph,))
        if cursor.fetchone():
            return
        cursor.execute("SELECT ag_catalog.create_graph(%s)", (self._graph,))
        cursor.execute("SELECT ag_catalog.create_vlabel(%s, 'Entity')", (self._graph,))
        cursor.execute("SELECT ag_catalog.create_elabel(%s, %s)", (self._graph, _RELATIONSHIP))
        cursor.execute(f'CREATE INDEX entity_id ON {self._graph}."Entity" ({_PROPERTY})')


def _inline(*names: str) -> str:
    """Return the properties of `row` as a map in a query.

    Setting them after CREATE would write each part twice.
    """
    given = (f"{name}: row.{name}" for name in ("id", *names, "description", "properties"))
    return f"{{{', '.join(given)}}}"


def _fields(part: Entity | Relationship) -> dict[str, Any]:
    """Return the properties of a vertex or edge."""
    fields: dict[str, Any] = {"id": part.id}
    texts = {"description": part.description, "properties": dict(part.properties)}
    if isinstance(part, Entity):
        texts |= {"name": part.name, "type": part.type}
    else:
        fields |= {"type": part.type, "source": part.source, "target": part.target}
    stored = json_text(texts)
    if "\\u0000" in stored or len(stored) > _MAX_QUERIED_CHARS:  # no text here holds a NUL
        return fields
    return fields | texts


def _value(agtype: str | None) -> Any:
    """Return the value of an agtype's text: JSON with marks such as `::vertex`."""
    if agtype is None:
        return None
    return json.loads(_AGTYPE.sub(r"\1", agtype))
