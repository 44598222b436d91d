"""Documents and their embeddings in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import blocks_of, value_of
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.clients import EmbeddingClient
from kaosmem.stores.vector import VectorDocument, VectorStore, check_dimensions
from kaosmem.types.content import content_json

_OF_NAME = "tenant = :tenant AND name = :name"
_OF_COLLECTION = (
    f"FROM documents WHERE collection = (SELECT number FROM collections WHERE {_OF_NAME})"
)


class SqlVectorStore(VectorStore):
    """A VectorStore in a SQL database. The database's own class searches."""

    _insert: str
    """The statement that inserts what `_row` returns."""

    def __init__(
        self, database: SqlDatabase[Any], embedding_client: EmbeddingClient | None
    ) -> None:
        super().__init__(embedding_client)
        self._database = database

    async def list_collections(self) -> list[str]:
        rows = await self._database.rows("SELECT name FROM collections WHERE tenant = :tenant")
        return [name for (name,) in rows]

    async def _known(self, collection: str, ids: Collection[str]) -> Collection[str]:
        return await self._database.read(lambda transaction: _known(transaction, collection, ids))

    async def _put(
        self,
        collection: str,
        documents: list[VectorDocument],
        *,
        replace: bool,
    ) -> None:
        def put(transaction: Transaction) -> None:
            transaction.lock("collection", collection)
            ids = [each.id for each in documents]
            new = documents
            if replace:
                _delete(transaction, collection, ids)
            else:
                known = _known(transaction, collection, ids)
                new = [each for each in documents if each.id not in known]
            if new:
                number = self._collection_for(transaction, collection, new)
                transaction.each(self._insert, [self._row(number, each) for each in new])

        await self._database.write(put)

    async def _get(self, collection: str, ids: list[str]) -> list[VectorDocument]:
        rows = await self._database.read(
            lambda transaction: transaction.rows(
                f"SELECT id, content, metadata, embedding {_OF_COLLECTION} "
                f"AND id IN {transaction.texts('ids')}",
                name=collection,
                ids=json_text(ids),
            )
        )
        found = {row[0]: _document(*row) for row in rows}
        return [found[each] for each in ids if each in found]

    async def _delete(self, collection: str, ids: list[str] | None) -> None:
        def delete(transaction: Transaction) -> None:
            transaction.lock("collection", collection)
            if ids is None:
                transaction.change(f"DELETE {_OF_COLLECTION}", name=collection)
            else:
                transaction.change(
                    f"UPDATE collections SET deletions = deletions + :deleted WHERE {_OF_NAME}",
                    deleted=_delete(transaction, collection, ids),
                    name=collection,
                )
            emptied = transaction.rows(
                f"DELETE FROM collections WHERE {_OF_NAME} AND NOT EXISTS "
                "(SELECT 1 FROM documents WHERE collection = collections.number) RETURNING number",
                name=collection,
            )
            for (number,) in emptied:
                self._drop_index(transaction, number)

        await self._database.write(delete)

    def _collection_for(
        self,
        transaction: Transaction,
        name: str,
        new: list[VectorDocument],
    ) -> int:
        """Return the number of the collection for documents, which is made if need be.

        Raises InvalidArgumentError if the embeddings have not all the same dimensions.
        """
        held = collection_of(transaction, name)
        if held is not None:
            number, dimensions, _ = held
            check_dimensions(new, dimensions, name)
            return number
        dimensions = check_dimensions(new, None, name)
        [(made,)] = transaction.rows(
            "INSERT INTO collections (tenant, name, dimensions, deletions) "
            "VALUES (:tenant, :name, :dimensions, 0) RETURNING number",
            name=name,
            dimensions=dimensions,
        )
        self._make_index(transaction, made, dimensions)
        return int(made)

    def _row(self, number: int, document: VectorDocument) -> dict[str, object]:
        """Return the values of a document, its embedding in single precision."""
        import numpy as np

        return {
            "collection": number,
            "id": document.id,
            "content": json_text(content_json(document.content)),
            "metadata": json_text(document.metadata),
            "embedding": np.asarray(document.embedding, "<f4").tobytes(),
        }

    def _make_index(
        self,
        transaction: Transaction,
        number: int,
        dimensions: int,
    ) -> None:
        """Make the index of a new collection, if the store has one."""

    def _drop_index(self, transaction: Transaction, number: int) -> None:
        """Delete the index of a collection that is gone, if the store has one."""


def _document(
    document_id: str,
    content: str,
    metadata: str,
    embedding: bytes,
) -> VectorDocument:
    """Return a document of its stored values. Raises CorruptionError."""
    import numpy as np

    numbers = np.frombuffer(embedding, "<f4").tolist()
    return VectorDocument(blocks_of(content), document_id, numbers, value_of(metadata))


def collection_of(transaction: Transaction, name: str) -> tuple[int, int, int] | None:
    """Return the number, the dimensions and the number of deletions of a collection, or None."""
    rows = transaction.rows(
        f"SELECT number, dimensions, deletions FROM collections WHERE {_OF_NAME}", name=name
    )
    for number, dimensions, deletions in rows:
        return number, dimensions, deletions
    return None


def _known(
    transaction: Transaction,
    collection: str,
    ids: Iterable[str],
) -> set[str]:
    """Return the ids, among these, of stored documents."""
    rows = transaction.rows(
        f"SELECT id {_OF_COLLECTION} AND id IN {transaction.texts('ids')}",
        name=collection,
        ids=json_text(list(ids)),
    )
    return {each for (each,) in rows}


def _delete(
    transaction: Transaction,
    collection: str,
    ids: Collection[str],
) -> int:
    """Delete the documents with these ids, and return their number."""
    return transaction.change(
        f"DELETE {_OF_COLLECTION} AND id IN {transaction.texts('ids')}",
        name=collection,
        ids=json_text(list(ids)),
    )
