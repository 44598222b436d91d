"""Documents and their embeddings in SQLite, compared in memory."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaosmem.arguments import json_text
from kaosmem.backends.base import (
    blocks_of,
    blocks_text,
    document_of,
    embedding_bytes,
    value_of,
)
from kaosmem.backends.sqlite.database import SqliteDatabase, SqliteTransaction
from kaosmem.clients import EmbeddingClient
from kaosmem.filters import MetadataFilter
from kaosmem.stores.vector import (
    BaseVectorStore,
    SearchResult,
    VectorDocument,
    check_dimensions,
    check_query,
)

if TYPE_CHECKING:
    from kaosmem.stores.unit_vectors import UnitVectors

_ROWS_AT_ONCE = 4_096
_WARM_BYTES = 2**30


class SqliteVectorStore(BaseVectorStore):
    """A VectorStore in a file of SQLite.

    Every search compares with every document of the collection.

    The embeddings and metadata of the last searched collections stay in memory; a search reads only
    the changes since.
    embedding_client: makes missing embeddings. Without a client, a document without an embedding is
        refused.
    warm_bytes: how much the embeddings in memory may take; those of the last searched collection
        stay in any case.

    >>> from kaosmem.stores import VectorDocument
    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.vectors import SqliteVectorStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteVectorStore(database)
    ...     await store.add([VectorDocument("Notice is thirty days.", "msa-12", embedding=(1.0, 0.0))])
    ...     [result.id for result in await store.search((0.9, 0.1))]
    ['msa-12']
    """

    def __init__(
        self,
        database: SqliteDatabase,
        embedding_client: EmbeddingClient | None = None,
        *,
        warm_bytes: int = _WARM_BYTES,
    ) -> None:
        super().__init__(embedding_client)
        self._database = database
        self._warm = _WarmCollections(warm_bytes)

    async def list_collections(self) -> list[str]:
        return [name for (name,) in await self._database.rows("SELECT name FROM collections")]

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM collections")

    async def _known(self, collection: str, ids: Collection[str]) -> Collection[str]:
        return await self._database.read(lambda transaction: _known(transaction, collection, ids))

    async def _put(
        self, collection: str, documents: list[VectorDocument], *, replace: bool
    ) -> None:
        def put(transaction: SqliteTransaction) -> None:
            new = documents
            if not replace:
                known = _known(transaction, collection, [each.id for each in documents])
                new = [each for each in documents if each.id not in known]
            if not new:
                return
            held = transaction.rows(
                "SELECT number, dimensions FROM collections WHERE name = :name", name=collection
            )
            if held:
                [(number, dimensions)] = held
                check_dimensions(new, dimensions, collection)
            else:
                number = _new_collection(
                    transaction, collection, check_dimensions(new, None, collection)
                )
            transaction.each(
                "REPLACE INTO documents (collection, id, content, metadata, embedding) "
                "VALUES (:collection, :id, :content, :metadata, :embedding)",
                [_row(number, each) for each in new],
            )
            transaction.change(
                "UPDATE collections SET newest = "
                "(SELECT max(number) FROM documents WHERE collection = :number) "
                "WHERE number = :number",
                number=number,
            )

        await self._database.write(put)

    async def _search(
        self, collection: str, query: tuple[float, ...], limit: int, wanted: MetadataFilter | None
    ) -> list[SearchResult]:
        def search(transaction: SqliteTransaction) -> list[SearchResult]:
            with self._warm.lock:  # one search at a time; the product of matrices uses all cores
                warm = self._warm.fresh(transaction, collection)
                if warm is None:
                    return []
                check_query(query, warm.vectors.dimensions, collection)
                passes = None
                if wanted is not None:
                    passes = lambda each: wanted(json.loads(warm.metadata[each]))  # noqa: E731
                found = warm.vectors.nearest(query, limit, passes)
                fields = [warm.metadata[each] for each, _ in found]
            contents = dict(
                transaction.rows(
                    "SELECT id, content FROM documents WHERE collection = :number "
                    "AND id IN (SELECT value FROM json_each(:ids))",
                    number=warm.number,
                    ids=json_text([each for each, _ in found]),
                )
            )
            return [
                SearchResult(each, blocks_of(contents[each]), cosine, value_of(metadata))
                for (each, cosine), metadata in zip(found, fields, strict=True)
            ]

        return await self._database.read(search)

    async def _get(self, collection: str, ids: list[str]) -> list[VectorDocument]:
        rows = await self._database.rows(
            f"SELECT id, content, metadata, embedding {_AMONG}", name=collection, ids=json_text(ids)
        )
        found = {row[0]: row for row in rows}
        return [document_of(*found[each]) for each in ids if each in found]

    async def _delete(self, collection: str, ids: list[str] | None) -> None:
        def delete(transaction: SqliteTransaction) -> None:
            if ids is None:
                transaction.change("DELETE FROM collections WHERE name = :name", name=collection)
                return
            deleted = transaction.change(f"DELETE {_AMONG}", name=collection, ids=json_text(ids))
            transaction.change(
                "UPDATE collections SET deletions = deletions + :deleted WHERE name = :name",
                deleted=deleted,
                name=collection,
            )
            transaction.change(
                "DELETE FROM collections WHERE name = :name AND NOT EXISTS "
                "(SELECT 1 FROM documents WHERE collection = collections.number)",
                name=collection,
            )

        await self._database.write(delete)


_AMONG = (
    "FROM documents WHERE collection = (SELECT number FROM collections WHERE name = :name) "
    "AND id IN (SELECT value FROM json_each(:ids))"
)


@dataclass(slots=True)
class _Warm:
    """A collection in memory, as it was after its newest document and a number of deletions.

    number: of the collection in the file, which another one of the same name does not have.
    """

    number: int
    vectors: UnitVectors
    newest: int = 0
    deletions: int = 0
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return len(self.vectors) * self.vectors.dimensions * 4


class _WarmCollections:
    """The last searched collections, within a number of bytes."""

    def __init__(self, warm_bytes: int) -> None:
        self.lock = threading.Lock()
        self._warm_bytes = warm_bytes
        self._collections: OrderedDict[str, _Warm] = OrderedDict()

    def fresh(self, transaction: SqliteTransaction, collection: str) -> _Warm | None:
        """Return a collection as the file has it, None for an unknown one."""
        rows = transaction.rows(
            "SELECT number, dimensions, newest, deletions FROM collections WHERE name = :name",
            name=collection,
        )
        warm = self._collections.pop(collection, None)
        if not rows:
            return None
        [(number, dimensions, newest, deletions)] = rows
        if warm is None or warm.number != number or warm.newest > newest:
            from kaosmem.stores.unit_vectors import UnitVectors

            warm = _Warm(number, UnitVectors(dimensions))
        _refresh(transaction, warm, newest, deletions)
        self._collections[collection] = warm
        while len(self._collections) > 1 and self._bytes > self._warm_bytes:
            self._collections.popitem(last=False)
        return warm

    @property
    def _bytes(self) -> int:
        return sum(each.bytes for each in self._collections.values())


def _refresh(transaction: SqliteTransaction, warm: _Warm, newest: int, deletions: int) -> None:
    """Read the changes since a collection was read last."""
    import numpy as np

    while warm.newest < newest:
        rows = transaction.rows(
            "SELECT number, id, metadata, embedding FROM documents "
            "WHERE collection = :collection AND number > :newest ORDER BY number LIMIT :rows",
            collection=warm.number,
            newest=warm.newest,
            rows=_ROWS_AT_ONCE,
        )
        if not rows:  # the newest document is deleted
            break
        joined = b"".join(embedding for *_, embedding in rows)
        embeddings = np.frombuffer(joined, "<f4").reshape(len(rows), -1)
        warm.vectors.put([each for _, each, *_ in rows], embeddings)
        warm.metadata.update((each, metadata) for _, each, metadata, _ in rows)
        warm.newest = rows[-1][0]
    warm.newest = newest
    if warm.deletions != deletions:
        rows = transaction.rows(
            "SELECT id FROM documents WHERE collection = :collection", collection=warm.number
        )
        left = {each for (each,) in rows}
        for each in warm.metadata.keys() - left:
            warm.vectors.remove(each)
            del warm.metadata[each]
        warm.deletions = deletions


def _known(transaction: SqliteTransaction, collection: str, ids: Iterable[str]) -> set[str]:
    """Return the ids, among these, of stored documents."""
    rows = transaction.rows(f"SELECT id {_AMONG}", name=collection, ids=json_text(list(ids)))
    return {each for (each,) in rows}


def _new_collection(transaction: SqliteTransaction, name: str, dimensions: int) -> int:
    """Make a collection, and return its number."""
    [(number,)] = transaction.rows(
        "INSERT INTO collections (name, dimensions) VALUES (:name, :dimensions) RETURNING number",
        name=name,
        dimensions=dimensions,
    )
    return int(number)


def _row(collection: int, document: VectorDocument) -> dict[str, object]:
    return {
        "collection": collection,
        "id": document.id,
        "content": blocks_text(document.content),
        "metadata": json_text(document.metadata),
        "embedding": embedding_bytes(document),
    }
