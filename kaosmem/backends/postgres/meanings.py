"""Facts in PostgreSQL, found by meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kaosmem.arguments import Clock
from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.postgres.facts import FIELDS, LIVE, SHELF, PostgresLongTermMemory, memory_of
from kaosmem.backends.postgres.vectors import direction_of
from kaosmem.clients import EmbeddingClient
from kaosmem.stores.memory import NewFact, Shelf, StoredFact
from kaosmem.stores.vector import check_cosine, check_query, embeddings_of
from kaosmem.types import MAX_INTEGER

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor

T = TypeVar("T")


class PgVectorMemory(PostgresLongTermMemory):
    """A LongTermMemory in PostgreSQL that ranks facts by meaning, with pgvector.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the namespace is compared.
    embedding_client: makes the embeddings. All have the same number of dimensions: another model needs another
        namespace. Facts that a PostgresLongTermMemory has saved get theirs with the first search.
    min_score: a search returns the facts with a larger cosine, -1 to 1.
    clock: returns times with a zone.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        embedding_client: EmbeddingClient,
        *,
        min_score: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock=clock)
        self._client, self._min_score, self._has_facts = embedding_client, check_cosine(min_score), False

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        (embedding,) = await embeddings_of([new.content], self._client)
        await self._run(lambda cursor: self._check(cursor, shelf, embedding))
        memory_id = await super()._save(shelf, new, of)
        await self._put(shelf, [memory_id], [embedding])
        return memory_id

    async def _search(self, shelf: Shelf, query: str, limit: int, *, superseded: bool) -> list[StoredFact]:
        if missing := await self._run(lambda cursor: self._missing(cursor, shelf)):
            made = await embeddings_of([content for _, content in missing], self._client)
            await self._put(shelf, [memory_id for memory_id, _ in missing], made)
        (asked,) = await embeddings_of([query], self._client)

        def search(cursor: Cursor) -> list[StoredFact]:
            self._check(cursor, shelf, asked)
            direction = direction_of(asked)
            cursor.execute(
                f"SELECT -(direction OPERATOR(public.<#>) %s::public.vector) AS cosine, {FIELDS} "
                f"FROM facts JOIN meanings ON fact = seq AND meanings.tenant = facts.tenant "
                f"WHERE {SHELF} AND {LIVE} AND (%s OR valid_until IS NULL) "
                "AND -(direction OPERATOR(public.<#>) %s::public.vector) > %s ORDER BY cosine DESC, seq DESC LIMIT %s",
                (direction, *self._place(shelf), superseded, direction, self._min_score, min(limit, MAX_INTEGER)),
            )
            return [memory_of(*fields, score=max(-1.0, min(1.0, cosine))) for cosine, *fields in cursor]

        return await self._run(search)

    async def _run(self, work: Callable[[Cursor], T]) -> T:
        if not self._has_facts:
            await super()._run(lambda cursor: None)  # which makes the table that the meanings refer to
            self._has_facts = True
        return await self._database.run(work, part="meanings")

    async def _put(self, shelf: Shelf, ids: list[str], embeddings: Sequence[tuple[float, ...]]) -> None:
        def put(cursor: Cursor) -> None:
            for embedding in embeddings:
                self._check(cursor, shelf, embedding)
            cursor.executemany(  # nothing for a fact that is deleted meanwhile
                "INSERT INTO meanings (fact, direction) "
                f"SELECT seq, %s::public.vector FROM facts WHERE {SHELF} AND id = %s ON CONFLICT DO NOTHING",
                [
                    (direction_of(embedding), self._database.tenant, *shelf, memory_id)
                    for memory_id, embedding in zip(ids, embeddings, strict=True)
                ],
            )

        await self._run(put)

    def _missing(self, cursor: Cursor, shelf: Shelf) -> list[tuple[str, str]]:
        cursor.execute(
            f"SELECT id, content FROM facts WHERE {SHELF} AND {LIVE} "
            "AND NOT EXISTS (SELECT FROM meanings WHERE fact = seq)",
            self._place(shelf),
        )
        return [(memory_id, content.decode()) for memory_id, content in cursor]

    def _check(self, cursor: Cursor, shelf: Shelf, embedding: tuple[float, ...]) -> None:
        """Raise InvalidArgumentError for an embedding that has other dimensions than those of the shelf."""
        cursor.execute(
            "SELECT public.vector_dims(direction) FROM meanings JOIN facts ON seq = fact "
            f"AND meanings.tenant = facts.tenant WHERE {SHELF} LIMIT 1",
            (self._database.tenant, *shelf),
        )
        if row := cursor.fetchone():
            check_query(embedding, row[0], shelf[1])

    def _place(self, shelf: Shelf) -> tuple[object, ...]:
        return self._database.tenant, *shelf, self._clock().timestamp()
