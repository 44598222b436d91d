"""Facts in PostgreSQL, with an index of their words."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from kaosmem.arguments import Clock, check_clock
from kaosmem.backends.base import value_of
from kaosmem.backends.postgres.database import PostgresDatabase, lock
from kaosmem.backends.postgres.vectors import direction_of
from kaosmem.clients import EmbeddingClient
from kaosmem.exact import UNITS, idf
from kaosmem.language.analysis import ANALYSIS, analyze
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.stores.expiry import utc_now
from kaosmem.stores.memory import (
    BaseLongTermMemory,
    NewFact,
    Shelf,
    StoredFact,
    fact_time,
    unknown_fact,
)
from kaosmem.stores.vector import check_cosine, check_query, embeddings_of
from kaosmem.types import MAX_INTEGER, Version, json_text

if TYPE_CHECKING:
    from kaosmem.backends.postgres.database import Cursor


T = TypeVar("T")

FIELDS = "content, id, metadata, key"
SHELF = "facts.tenant = %s AND agent = %s AND namespace = %s"
LIVE = "(expiry IS NULL OR expiry > %s)"
_BM25 = BM25Ranker()


class PostgresLongTermMemory(BaseLongTermMemory):
    """A LongTermMemory in PostgreSQL. It ranks facts as an InMemoryLongTermMemory does, by BM25.

    A GIN index finds the facts that share a word with the query. Their words, and not the server's
    dictionaries,
    decide: texts in all languages are split as in sessions.
    clock: returns times with a zone.
    """

    def __init__(self, database: PostgresDatabase, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = utc_now if clock is None else check_clock(clock)

    async def list_namespaces(self) -> list[Shelf]:
        rows = await self._database.rows(
            f"SELECT DISTINCT agent, namespace FROM facts WHERE tenant = %s AND {LIVE}",
            self._clock().timestamp(),
            part="facts",
        )
        return [(agent, namespace) for agent, namespace in rows]

    async def delete_all(self) -> None:
        await self._database.delete("facts", part="facts")

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        def save(cursor: Cursor) -> str:
            place = self._database.tenant, *shelf
            lock(cursor, "facts", *place)
            saved_at = self._clock().astimezone(UTC)
            cursor.execute(
                "DELETE FROM facts WHERE tenant = %s AND expiry <= %s",
                (place[0], saved_at.timestamp()),
            )
            key = new.key if of is None else _key_of(cursor, place, of)
            cursor.execute(
                f"SELECT max(valid_from) FROM facts WHERE {SHELF} AND key = %s", (*place, key)
            )
            (latest,) = cursor.fetchone() or (None,)
            fact = new._replace(key=key).saved(secrets.token_hex(16), saved_at, latest)
            expiry = None if new.ttl is None else saved_at.timestamp() + new.ttl
            _insert(cursor, place, fact, saved_at, expiry)
            return fact.id

        return await self._run(save)

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        def search(cursor: Cursor) -> list[StoredFact]:
            place = (self._database.tenant, *shelf)
            now = self._clock().timestamp()
            _index_anew(cursor, place)
            rows = _ranked(
                cursor, place, now, query, min(limit, MAX_INTEGER), superseded=superseded
            )
            return [memory_of(*fields, score=score) for score, *fields in rows]

        return await self._run(search)

    async def _versions(self, shelf: Shelf, key: str) -> list[Version[StoredFact]]:
        def versions(cursor: Cursor) -> list[Version[StoredFact]]:
            cursor.execute(
                f"SELECT valid_from, valid_until, known_from, {FIELDS} FROM facts "
                f"WHERE {SHELF} AND key = %s AND {LIVE} ORDER BY valid_from, seq",
                (self._database.tenant, *shelf, key, self._clock().timestamp()),
            )
            return [
                Version(memory_of(*fields), begins, ends, known)
                for begins, ends, known, *fields in cursor
            ]

        return await self._run(versions)

    async def _get(self, shelf: Shelf, memory_id: str) -> StoredFact | None:
        def get(cursor: Cursor) -> StoredFact | None:
            cursor.execute(
                f"SELECT {FIELDS} FROM facts WHERE {SHELF} AND id = %s AND {LIVE}",
                (self._database.tenant, *shelf, memory_id, self._clock().timestamp()),
            )
            row = cursor.fetchone()
            return memory_of(*row) if row else None

        return await self._run(get)

    async def _delete(self, shelf: Shelf, memory_id: str | None) -> None:
        def delete(cursor: Cursor) -> None:
            only, values = ("", ()) if memory_id is None else (" AND id = %s", (memory_id,))
            cursor.execute(
                f"DELETE FROM facts WHERE {SHELF}{only}", (self._database.tenant, *shelf, *values)
            )

        await self._run(delete)

    async def _run(self, work: Callable[[Cursor], T]) -> T:
        return await self._database.run(work, part="facts")


def _key_of(cursor: Cursor, place: tuple[str, ...], memory_id: str) -> str:
    """Return the key of a fact. Raises NotFoundError."""
    cursor.execute(f"SELECT key FROM facts WHERE {SHELF} AND id = %s", (*place, memory_id))
    row = cursor.fetchone()
    if row is None:
        raise unknown_fact(memory_id, place[-1])
    return str(row[0])


def _insert(
    cursor: Cursor,
    place: tuple[str, ...],
    fact: StoredFact,
    saved_at: datetime,
    expiry: float | None,
) -> None:
    """Store a fact among the versions of its key: it ends those that began before, and the next one ends it."""
    begins = fact_time(fact.metadata) or saved_at
    of_key = f"{SHELF} AND key = %s AND valid_from"
    cursor.execute(
        f"UPDATE facts SET valid_until = %s WHERE {of_key} <= %s AND (valid_until IS NULL OR "
        "valid_until > %s)",
        (begins, *place, fact.key, begins, begins),
    )
    cursor.execute(
        f"SELECT min(valid_from) FROM facts WHERE {of_key} > %s", (*place, fact.key, begins)
    )
    (ends,) = cursor.fetchone() or (None,)
    terms = _terms(fact.content)
    cursor.execute(
        "INSERT INTO facts (tenant, agent, namespace, id, key, content, metadata, valid_from, "
        "valid_until, known_from, "
        "expiry, terms, length, analysis) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
        "%s, %s)",
        (
            *place,
            *(fact.id, fact.key, fact.content.encode(), json_text(fact.metadata)),
            *(begins, ends, saved_at, expiry, terms, len(terms), ANALYSIS),
        ),
    )


def _index_anew(cursor: Cursor, place: tuple[str, ...]) -> None:
    """Split the texts of a shelf again that an older version of kaosmem has split."""
    cursor.execute(
        f"SELECT seq, content FROM facts WHERE {SHELF} AND analysis < %s", (*place, ANALYSIS)
    )
    outdated = cursor.fetchall()
    for seq, content in outdated:
        terms = _terms(content.decode())
        cursor.execute(
            "UPDATE facts SET terms = %s, length = %s, analysis = %s WHERE seq = %s",
            (terms, len(terms), ANALYSIS, seq),
        )


def _ranked(
    cursor: Cursor, place: tuple[str, ...], now: float, query: str, limit: int, *, superseded: bool
) -> Iterable[tuple[Any, ...]]:
    """Return scores and fields of the best facts: BM25 over the facts of the shelf, as BM25Index."""
    there = f"{SHELF} AND {LIVE}"
    cursor.execute(
        f"SELECT count(*), coalesce(sum(length), 0)::bigint FROM facts WHERE {there}", (*place, now)
    )
    facts, length = cursor.fetchone() or (0, 0)
    asked = Counter(_terms(query))
    if not facts or not asked:
        return []
    cursor.execute(
        f"SELECT term, (SELECT count(*) FROM facts WHERE {there} AND terms @> ARRAY[term]) "
        "FROM unnest(%s::bigint[]) AS term",
        (*place, now, list(asked)),
    )
    weights = {
        term: asked[term] * (_BM25.k1 + 1) * idf(facts, having) * UNITS for term, having in cursor
    }
    cursor.execute(
        f"""
        SELECT round(sum((weight * n / (n + %s + %s * length))::bigint) / %s, 9)::float8 AS score, {FIELDS}
        FROM facts
        CROSS JOIN LATERAL (SELECT word, count(*) AS n FROM unnest(terms) AS word GROUP BY word) AS counted
        JOIN unnest(%s::bigint[], %s::float8[]) AS asked (term, weight) ON term = word
        WHERE {there} AND terms && %s::bigint[] AND (%s OR valid_until IS NULL)
        GROUP BY seq ORDER BY score DESC, seq DESC LIMIT %s
        """,
        (
            _BM25.k1 * (1 - _BM25.b),
            _BM25.k1 * _BM25.b * facts / max(length, 1),
            int(UNITS),
            list(weights),
            list(weights.values()),
            *(*place, now),
            list(weights),
            superseded,
            limit,
        ),
    )
    return cursor.fetchall()


def _terms(text: str) -> list[int]:
    """Return the terms of a text, each as a number of 64 bits: terms of any length fit into the index."""
    hashed = {}
    terms = analyze(text)
    for term in terms:
        if term not in hashed:
            digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            hashed[term] = int.from_bytes(digest, "big", signed=True)
    return [hashed[term] for term in terms]


def memory_of(
    content: bytes, memory_id: str, metadata: str, key: str, *, score: float = 0.0
) -> StoredFact:
    """Return the fact that a row of FIELDS holds."""
    return StoredFact(content.decode(), score, memory_id, value_of(metadata), key)


class PgVectorMemory(PostgresLongTermMemory):
    """A LongTermMemory in PostgreSQL that ranks facts by meaning, with pgvector.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the
    namespace is compared.
    embedding_client: makes the embeddings. All have the same number of dimensions: another model
        needs another namespace. Facts that a PostgresLongTermMemory has saved get theirs with the
        first search.
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
        self._client = embedding_client
        self._min_score = check_cosine(min_score)
        self._has_facts = False

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        (embedding,) = await embeddings_of([new.content], self._client)
        await self._run(lambda cursor: self._check(cursor, shelf, embedding))
        memory_id = await super()._save(shelf, new, of)
        await self._put(shelf, [memory_id], [embedding])
        return memory_id

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
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
                "AND -(direction OPERATOR(public.<#>) %s::public.vector) > %s ORDER BY cosine "
                "DESC, seq DESC LIMIT %s",
                (
                    direction,
                    *self._place(shelf),
                    superseded,
                    direction,
                    self._min_score,
                    min(limit, MAX_INTEGER),
                ),
            )
            return [
                memory_of(*fields, score=max(-1.0, min(1.0, cosine))) for cosine, *fields in cursor
            ]

        return await self._run(search)

    async def _run(self, work: Callable[[Cursor], T]) -> T:
        if not self._has_facts:
            await super()._run(
                lambda cursor: None
            )  # which makes the table that the meanings refer to
            self._has_facts = True
        return await self._database.run(work, part="meanings")

    async def _put(
        self, shelf: Shelf, ids: list[str], embeddings: Sequence[tuple[float, ...]]
    ) -> None:
        def put(cursor: Cursor) -> None:
            for embedding in embeddings:
                self._check(cursor, shelf, embedding)
            cursor.executemany(  # nothing for a fact that is deleted meanwhile
                "INSERT INTO meanings (fact, direction) "
                f"SELECT seq, %s::public.vector FROM facts WHERE {SHELF} AND id = %s ON CONFLICT "
                "DO NOTHING",
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
