"""Documents and their embeddings in SQLite, compared in memory."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaosmem.arguments import json_text
from kaosmem.backends.base import blocks_of, value_of
from kaosmem.backends.sql.database import Transaction
from kaosmem.backends.sql.vectors import SqlVectorStore, collection_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.clients import EmbeddingClient
from kaosmem.filters import MetadataFilter
from kaosmem.stores.vector import SearchResult, check_length

if TYPE_CHECKING:
    from kaosmem.stores.unit_vectors import UnitVectors

_ROWS_AT_ONCE = 4_096
_MAX_CACHE_BYTES = 2**30


class SqliteVectorStore(SqlVectorStore):
    """A VectorStore in a file of SQLite.

    Every search compares with every document of the collection.

    The embeddings and metadata of the last searched collections stay in memory, 1 GiB of embeddings
    at most and those of the last one in any case. A search reads only the changes since.

    Args:
        embedding_client: Makes missing embeddings. Without a client, a document without an
            embedding is refused.

    >>> from kaosmem.stores import VectorDocument
    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.vectors import SqliteVectorStore
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     store = SqliteVectorStore(database)
    ...     await store.add([VectorDocument("Notice is thirty days.", "msa-12", embedding=(1.0, 0.0))])
    ...     [result.id for result in await store.search((0.9, 0.1))]
    ['msa-12']
    """

    _insert = (
        "INSERT INTO documents (collection, id, content, metadata, embedding) "
        "VALUES (:collection, :id, :content, :metadata, :embedding)"
    )

    def __init__(
        self,
        database: SqliteDatabase,
        embedding_client: EmbeddingClient | None = None,
    ) -> None:
        super().__init__(database, embedding_client)
        self._cache = _CollectionCache()

    async def _search(
        self,
        collection: str,
        query: tuple[float, ...],
        limit: int,
        wanted: MetadataFilter | None,
    ) -> list[SearchResult]:
        def search(transaction: Transaction) -> list[SearchResult]:
            with self._cache.lock:  # one search at a time; the product of matrices uses all cores
                cached = self._cache.fresh(transaction, collection)
                if cached is None:
                    return []
                check_length(len(query), cached.vectors.dimensions, collection)
                passes = None
                if wanted is not None:
                    passes = lambda each: wanted(json.loads(cached.metadata[each]))  # noqa: E731
                found = cached.vectors.nearest(query, limit, passes)
                fields = [cached.metadata[each] for each, _ in found]
            contents = dict(
                transaction.rows(
                    "SELECT id, content FROM documents WHERE collection = :number "
                    f"AND id IN {transaction.texts('ids')}",
                    number=cached.number,
                    ids=json_text([each for each, _ in found]),
                )
            )
            return [
                SearchResult(each, blocks_of(contents[each]), cosine, value_of(metadata))
                for (each, cosine), metadata in zip(found, fields, strict=True)
            ]

        return await self._database.read(search)


@dataclass(slots=True)
class _CachedCollection:
    """A collection in memory, as it was after its newest document and a number of deletions.

    Attributes:
        number: Of the collection in the file, which another one of the same name does not have.
    """

    number: int
    vectors: UnitVectors
    newest: int = 0
    deletions: int = 0
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return len(self.vectors) * self.vectors.dimensions * 4


class _CollectionCache:
    """The last searched collections, within _MAX_CACHE_BYTES."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._collections: OrderedDict[str, _CachedCollection] = OrderedDict()

    def fresh(self, transaction: Transaction, collection: str) -> _CachedCollection | None:
        """Return a collection as the file has it, None for an unknown one."""
        held = collection_of(transaction, collection)
        cached = self._collections.pop(collection, None)
        if held is None:
            return None
        number, dimensions, deletions = held
        if cached is None or cached.number != number:
            from kaosmem.stores.unit_vectors import UnitVectors

            cached = _CachedCollection(number, UnitVectors(dimensions))
        _refresh(transaction, cached, deletions)
        self._collections[collection] = cached
        while len(self._collections) > 1 and self._bytes > _MAX_CACHE_BYTES:
            self._collections.popitem(last=False)
        return cached

    @property
    def _bytes(self) -> int:
        return sum(each.bytes for each in self._collections.values())


def _refresh(
    transaction: Transaction,
    cached: _CachedCollection,
    deletions: int,
) -> None:
    """Read the changes since a collection was read last. A replaced document has a new number."""
    import numpy as np

    while rows := _documents_after(transaction, cached):
        joined = b"".join(embedding for *_, embedding in rows)
        embeddings = np.frombuffer(joined, "<f4").reshape(len(rows), -1)
        cached.vectors.put([each for _, each, *_ in rows], embeddings)
        cached.metadata.update((each, metadata) for _, each, metadata, _ in rows)
        cached.newest = rows[-1][0]
    if cached.deletions != deletions:
        held = transaction.rows(
            "SELECT id FROM documents WHERE collection = :collection", collection=cached.number
        )
        left = {each for (each,) in held}
        for each in cached.metadata.keys() - left:
            cached.vectors.remove(each)
            del cached.metadata[each]
        cached.deletions = deletions


def _documents_after(transaction: Transaction, cached: _CachedCollection) -> list[tuple[Any, ...]]:
    """Return the first documents after the newest that was read."""
    return transaction.rows(
        "SELECT number, id, metadata, embedding FROM documents "
        "WHERE collection = :collection AND number > :newest ORDER BY number LIMIT :rows",
        collection=cached.number,
        newest=cached.newest,
        rows=_ROWS_AT_ONCE,
    )
