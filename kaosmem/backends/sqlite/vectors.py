"""Documents and their embeddings in SQLite, compared in memory."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaosmem.backends.base import blocks_of, blocks_text, value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.clients import EmbeddingClient
from kaosmem.filters import MetadataFilter
from kaosmem.stores.vector import (
    BaseVectorStore,
    SearchResult,
    VectorDocument,
    check_dimensions,
    check_query,
)
from kaosmem.types import json_text

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
    >>> from kaosmem.backends import SqliteDatabase, SqliteVectorStore
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
        def names(connection: sqlite3.Connection) -> list[str]:
            return sorted(name for (name,) in connection.execute("SELECT name FROM collections"))

        return await self._database.read(names)

    async def delete_all(self) -> None:
        await self._database.delete("documents", "collections")

    async def _known(self, collection: str, ids: Collection[str]) -> Collection[str]:
        return await self._database.read(lambda connection: _known(connection, collection, ids))

    async def _put(
        self, collection: str, documents: list[VectorDocument], *, replace: bool
    ) -> None:
        def put(connection: sqlite3.Connection) -> None:
            known = (
                set()
                if replace
                else _known(connection, collection, [each.id for each in documents])
            )
            new = [each for each in documents if each.id not in known]
            number, held = connection.execute(
                "SELECT id, dimensions FROM collections WHERE name = ?", (collection,)
            ).fetchone() or (None, None)
            dimensions = check_dimensions(new, held, collection)
            if number is None and new:
                number = connection.execute(
                    "INSERT INTO collections (name, dimensions) VALUES (?, ?)",
                    (collection, dimensions),
                ).lastrowid
            connection.executemany(
                "REPLACE INTO documents (collection, id, content, metadata, embedding) VALUES (?, "
                "?, ?, ?, ?)",
                ((number, *_row(each)) for each in new),
            )
            connection.execute(
                "UPDATE collections SET newest = (SELECT max(seq) FROM documents WHERE collection "
                "= ?) WHERE id = ?",
                (number, number),
            )

        await self._database.write(put)

    async def _search(
        self, collection: str, query: tuple[float, ...], limit: int, wanted: MetadataFilter | None
    ) -> list[SearchResult]:
        def search(connection: sqlite3.Connection) -> list[SearchResult]:
            with self._warm.lock:  # one search at a time; the product of matrices uses all cores
                warm = self._warm.fresh(connection, collection)
                if warm is None:
                    return []
                check_query(query, warm.vectors.dimensions, collection)
                passes = (
                    None if wanted is None else lambda each: wanted(json.loads(warm.metadata[each]))
                )
                found = warm.vectors.nearest(query, limit, passes)
                fields = [warm.metadata[each] for each, _ in found]
            contents = _contents(connection, warm.number, [each for each, _ in found])
            return [
                SearchResult(each, blocks_of(contents[each]), cosine, value_of(metadata))
                for (each, cosine), metadata in zip(found, fields, strict=True)
            ]

        return await self._database.read(search)

    async def _get(self, collection: str, ids: list[str]) -> list[VectorDocument]:
        def get(connection: sqlite3.Connection) -> list[VectorDocument]:
            rows = connection.execute(
                f"SELECT id, content, metadata, embedding {_AMONG}",
                (collection, json_text(list(ids))),
            ).fetchall()
            found = {row[0]: row for row in rows}
            return [_document(*found[each]) for each in ids if each in found]

        return await self._database.read(get)

    async def _delete(self, collection: str, ids: list[str] | None) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            (number,) = connection.execute(
                "SELECT id FROM collections WHERE name = ?", (collection,)
            ).fetchone() or (0,)
            if ids is None:
                connection.execute("DELETE FROM documents WHERE collection = ?", (number,))
            else:
                doomed = "DELETE FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?))"
                deleted = connection.execute(doomed, (number, json_text(ids))).rowcount
                connection.execute(
                    "UPDATE collections SET deletions = deletions + ? WHERE id = ?",
                    (deleted, number),
                )
            connection.execute(
                "DELETE FROM collections WHERE id = ? AND NOT EXISTS (SELECT 1 FROM documents "
                "WHERE collection = ?)",
                (number, number),
            )

        await self._database.write(delete)


_AMONG = (
    "FROM documents WHERE collection = (SELECT id FROM collections WHERE name = ?) "
    "AND id IN (SELECT value FROM json_each(?))"
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

    def fresh(self, connection: sqlite3.Connection, collection: str) -> _Warm | None:
        """Return a collection as the file has it, None for an unknown one."""
        row = connection.execute(
            "SELECT id, dimensions, newest, deletions FROM collections WHERE name = ?",
            (collection,),
        ).fetchone()
        warm = self._collections.pop(collection, None)
        if row is None:
            return None
        number, dimensions, newest, deletions = row
        if warm is None or warm.number != number or warm.newest > newest:
            from kaosmem.stores.unit_vectors import UnitVectors

            warm = _Warm(number, UnitVectors(dimensions))
        _refresh(connection, warm, newest, deletions)
        self._collections[collection] = warm
        while (
            len(self._collections) > 1
            and sum(each.bytes for each in self._collections.values()) > self._warm_bytes
        ):
            self._collections.popitem(last=False)
        return warm


def _refresh(connection: sqlite3.Connection, warm: _Warm, newest: int, deletions: int) -> None:
    """Read the changes since a collection was read last."""
    import numpy as np

    if warm.newest != newest:
        rows = connection.execute(
            "SELECT id, metadata, embedding FROM documents WHERE collection = ? AND seq > ?",
            (warm.number, warm.newest),
        )
        while new := rows.fetchmany(_ROWS_AT_ONCE):
            embeddings = np.frombuffer(b"".join(row[2] for row in new), "<f4").reshape(len(new), -1)
            warm.vectors.put([row[0] for row in new], embeddings)
            warm.metadata.update((row[0], row[1]) for row in new)
    if warm.deletions != deletions:
        left = {
            each
            for (each,) in connection.execute(
                "SELECT id FROM documents WHERE collection = ?", (warm.number,)
            )
        }
        for each in warm.metadata.keys() - left:
            warm.vectors.remove(each)
            del warm.metadata[each]
    warm.newest = newest
    warm.deletions = deletions


def _known(connection: sqlite3.Connection, collection: str, ids: Iterable[str]) -> set[str]:
    return {
        each
        for (each,) in connection.execute(f"SELECT id {_AMONG}", (collection, json_text(list(ids))))
    }


def _contents(connection: sqlite3.Connection, number: int, ids: list[str]) -> dict[str, str]:
    wanted = "SELECT id, content FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(wanted, (number, json_text(ids))).fetchall())


def _row(document: VectorDocument) -> tuple[str, str, str, bytes]:
    import numpy as np

    embedding = np.asarray(document.embedding, "<f4").tobytes()
    return document.id, blocks_text(document.content), json_text(document.metadata), embedding


def _document(document_id: str, content: str, metadata: str, embedding: bytes) -> VectorDocument:
    import numpy as np

    return VectorDocument(
        blocks_of(content),
        document_id,
        np.frombuffer(embedding, "<f4").tolist(),
        value_of(metadata),
    )
