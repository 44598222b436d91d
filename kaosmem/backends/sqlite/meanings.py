"""Facts in SQLite, found by meaning."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from kaosmem.arguments import Clock
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.facts import FIELDS, SqliteLongTermMemory, memory_of, shelf_number
from kaosmem.clients import EmbeddingClient
from kaosmem.stores.memory import NewFact, Shelf, StoredFact
from kaosmem.stores.vector import check_cosine, check_query, embeddings_of

_BYTES = 4  # of a number in single precision
_DECIMALS = 6  # equal embeddings get equal scores, whatever their place in the matrix


class SqliteVectorMemory(SqliteLongTermMemory):
    """A LongTermMemory in a file of SQLite that ranks facts by meaning.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the namespace is compared.
    embedding_client: makes the embeddings. All have the same number of dimensions: another model needs another
        namespace. Facts that a SqliteLongTermMemory has saved get theirs with the first search.
    min_score: a search returns the facts with a larger cosine, -1 to 1.
    clock: returns times with a zone.

    >>> from kaosmem.backends import SqliteDatabase, SqliteVectorMemory
    >>> class Colours:
    ...     async def embed(self, texts):
    ...         return [(float("red" in text or "crimson" in text), 0.1) for text in texts]
    >>> async with SqliteDatabase("meanings.sqlite") as database:
    ...     facts = SqliteVectorMemory(database, Colours(), min_score=0.9)
    ...     saved = [await facts.save("analyst", text) for text in ("The door is crimson.", "The roof is flat.")]
    ...     [fact.content for fact in await facts.search("analyst", "anything red")]
    ['The door is crimson.']
    """

    def __init__(
        self,
        database: SqliteDatabase,
        embedding_client: EmbeddingClient,
        *,
        min_score: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock=clock)
        self._client, self._min_score = embedding_client, check_cosine(min_score)

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        (embedding,) = await embeddings_of([new.content], self._client)
        await self._read(lambda connection: _check(connection, shelf, embedding))
        memory_id = await super()._save(shelf, new, of)
        await self._put(shelf, [memory_id], [embedding])
        return memory_id

    async def _search(self, shelf: Shelf, query: str, limit: int, *, superseded: bool) -> list[StoredFact]:
        if missing := await self._read(lambda connection: _missing(connection, shelf)):
            made = await embeddings_of([content for _, content in missing], self._client)
            await self._put(shelf, [memory_id for memory_id, _ in missing], made)
        (asked,) = await embeddings_of([query], self._client)

        def search(connection: sqlite3.Connection) -> list[StoredFact]:
            _check(connection, shelf, asked)
            best = _nearest(connection, shelf, asked, self._min_score, superseded=superseded)[:limit]
            found = (
                (connection.execute(f"SELECT {FIELDS} FROM facts WHERE seq = ?", (seq,)).fetchone(), cosine)
                for seq, cosine in best
            )
            return [memory_of(*row, score=cosine) for row, cosine in found]

        return await self._read(search)

    async def _put(self, shelf: Shelf, ids: list[str], embeddings: Sequence[tuple[float, ...]]) -> None:
        def put(connection: sqlite3.Connection) -> None:
            for memory_id, embedding in zip(ids, embeddings, strict=True):
                _check(connection, shelf, embedding)
                connection.execute(  # nothing for a fact that is deleted meanwhile
                    "INSERT OR IGNORE INTO meanings SELECT seq, ? FROM facts WHERE id = ? AND shelf = ?",
                    (_direction(embedding), memory_id, shelf_number(connection, shelf)),
                )

        await self._database.write(put)


def _missing(connection: sqlite3.Connection, shelf: Shelf) -> list[tuple[str, str]]:
    """Return ids and texts of the facts that have no embedding."""
    return connection.execute(
        "SELECT id, content FROM facts WHERE shelf = ? AND seq NOT IN (SELECT fact FROM meanings)",
        (shelf_number(connection, shelf),),
    ).fetchall()


def _check(connection: sqlite3.Connection, shelf: Shelf, embedding: tuple[float, ...]) -> None:
    """Raise InvalidArgumentError for an embedding that has other dimensions than those of the shelf."""
    row = connection.execute(
        "SELECT length(direction) FROM facts JOIN meanings ON fact = seq WHERE shelf = ? LIMIT 1",
        (shelf_number(connection, shelf),),
    ).fetchone()
    if row:
        check_query(embedding, row[0] // _BYTES, shelf[1])


def _nearest(
    connection: sqlite3.Connection, shelf: Shelf, asked: tuple[float, ...], min_score: float, *, superseded: bool
) -> list[tuple[int, float]]:
    """Return numbers and cosines of facts, the largest cosine first, of equal ones the newest."""
    import numpy as np

    rows = connection.execute(
        "SELECT seq, direction FROM facts JOIN meanings ON fact = seq "
        "WHERE shelf = ? AND (? OR valid_until IS NULL) ORDER BY seq DESC",
        (shelf_number(connection, shelf), superseded),
    ).fetchall()
    if not rows:
        return []
    directions = np.frombuffer(b"".join(direction for _, direction in rows), "<f4").reshape(len(rows), -1)
    cosines = (directions @ np.frombuffer(_direction(asked), "<f4")).astype(np.float64)
    cosines = np.clip(np.round(cosines, _DECIMALS), -1.0, 1.0)
    order = np.argsort(-cosines, kind="stable")
    return [(rows[n][0], float(cosines[n])) for n in order if cosines[n] > min_score]


def _direction(embedding: tuple[float, ...]) -> bytes:
    """Return an embedding at length 1 in single precision."""
    import numpy as np

    vector = np.asarray(embedding, np.float64)
    vector /= np.abs(vector).max()
    vector /= np.linalg.norm(vector)
    return vector.astype("<f4").tobytes()
