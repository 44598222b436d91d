"""Documents and their embeddings in PostgreSQL, by pgvector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kaosmem.backends.base import blocks_of, value_of
from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.sql.database import Transaction
from kaosmem.backends.sql.vectors import SqlVectorStore, collection_of
from kaosmem.clients import EmbeddingClient
from kaosmem.errors import InvalidArgumentError
from kaosmem.filters import MetadataFilter
from kaosmem.stores.labels import condition, labels_of
from kaosmem.stores.vector import SearchResult, VectorDocument, check_length

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


_ROWS_AT_ONCE = 256
_MAX_HNSW_DIMENSIONS = 2_000


class PgVectorStore(SqlVectorStore):
    """A VectorStore in PostgreSQL with the extension pgvector, 0.8 or newer.

    The server tests whether a field equals a value, or one of `$in`. Other conditions on metadata
    are tested here: rows come, the nearest first, until enough of them pass.

    Args:
        embedding_client: Makes missing embeddings. Without a client, a document without an
            embedding is refused.
        index: `exact` compares with every document of the collection. `hnsw` keeps a graph of
            neighbours for each collection: searches are faster, and may miss a near document. It
            takes at most 2,000 dimensions.
    """

    _insert = (
        "INSERT INTO documents "
        "(tenant, collection, id, content, metadata, labels, embedding, direction) "
        "VALUES (:tenant, :collection, :id, :content, :metadata, :labels, :embedding, "
        "CAST(:direction AS public.vector))"
    )

    def __init__(
        self,
        database: PostgresDatabase,
        embedding_client: EmbeddingClient | None = None,
        *,
        index: Literal["exact", "hnsw"] = "exact",
    ) -> None:
        super().__init__(database.with_part("vectors"), embedding_client)
        if index not in ("exact", "hnsw"):
            raise InvalidArgumentError(f"index is {index!r}; give 'exact' or 'hnsw'")
        self._is_approximate = index == "hnsw"

    async def _search(
        self,
        collection: str,
        query: tuple[float, ...],
        limit: int,
        wanted: MetadataFilter | None,
    ) -> list[SearchResult]:
        def search(transaction: Transaction) -> list[SearchResult]:
            held = collection_of(transaction, collection)
            if held is None or not limit:
                return []
            number, dimensions, _ = held
            cursor: Cursor = transaction.cursor  # type: ignore[attr-defined]
            check_length(len(query), dimensions, collection)
            if self._is_approximate:
                # Goes on until enough rows pass the filter.
                cursor.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                # Otherwise the server may sort the whole collection.
                cursor.execute("SET LOCAL enable_sort = off")
            found: list[SearchResult] = []
            for each in _nearest(cursor, number, dimensions, query, wanted):
                # Equal ones come by id: rows follow until one is worse than the last of them.
                if len(found) >= limit and each.score < found[limit - 1].score:
                    break
                if wanted is None or wanted(each.metadata):
                    found.append(each)
            return sorted(found, key=lambda each: (-each.score, each.id))[:limit]

        return await self._database.read(search)

    def _row(self, number: int, document: VectorDocument) -> dict[str, object]:
        row = super()._row(number, document)
        row["labels"] = labels_of(document.metadata)
        row["direction"] = direction_of(document.embedding or ())
        return row

    def _make_index(
        self,
        transaction: Transaction,
        number: int,
        dimensions: int,
    ) -> None:
        if not self._is_approximate:
            return
        if dimensions > _MAX_HNSW_DIMENSIONS:
            raise InvalidArgumentError(
                f"an embedding has {dimensions:,} dimensions, an index of neighbours takes "
                f"{_MAX_HNSW_DIMENSIONS:,}; use index='exact'"
            )
        transaction.change(
            f"CREATE INDEX neighbours_{number:d} ON documents USING hnsw "
            f"((CAST(direction AS public.vector({dimensions:d}))) public.vector_ip_ops) WHERE "
            f"collection = {number:d}"
        )

    def _drop_index(self, transaction: Transaction, number: int) -> None:
        if self._is_approximate:
            transaction.change(f"DROP INDEX IF EXISTS neighbours_{number:d}")


def _nearest(
    cursor: Cursor,
    number: int,
    dimensions: int,
    query: tuple[float, ...],
    wanted: MetadataFilter | None,
) -> Iterator[SearchResult]:
    """Yield documents, the largest cosine first, that may pass the filter.

    Only those that are asked for are sent.
    """
    passes = "TRUE" if wanted is None else condition(wanted.given, "labels && ARRAY[{}]")
    # The numbers are part of the statement: only so does the server see that its index of this
    # collection applies.
    distance = f"(direction::public.vector({dimensions:d})) OPERATOR(public.<#>) %s::public.vector"
    statement = (
        f"SELECT id, content, metadata, -({distance}) FROM documents "
        f"WHERE collection = {number:d} AND {passes} ORDER BY {distance}"
    )
    direction = direction_of(query)
    with cursor.connection.cursor("nearest") as rows:
        rows.itersize = _ROWS_AT_ONCE
        rows.execute(statement, (direction, direction))
        for each, content, metadata, cosine in rows:
            yield SearchResult(
                each, blocks_of(content), max(-1.0, min(1.0, cosine)), value_of(metadata)
            )


def direction_of(embedding: tuple[float, ...]) -> str:
    """Return an embedding at length 1 as pgvector reads it."""
    from kaosmem.stores.unit_vectors import unit_of

    return f"[{','.join(map(repr, unit_of(embedding).tolist()))}]"
