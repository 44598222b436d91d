"""Facts in SQLite, with an index of their words."""

from __future__ import annotations

import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from kaosmem.arguments import Clock, check_clock
from kaosmem.backends.base import value_of
from kaosmem.backends.sqlite.database import SqliteDatabase
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

T = TypeVar("T")

FIELDS = "content, id, metadata, key"
_BM25 = BM25Ranker()


class SqliteLongTermMemory(BaseLongTermMemory):
    """A LongTermMemory in a file of SQLite.

    It ranks facts as an InMemoryLongTermMemory does, by BM25.

    Each namespace of an agent has its own index and statistics. FTS5 is not used: it would count
    the words of all namespaces together, split words by rules of its own, and keep terms of deleted
    facts for a while.
    clock: returns times with a zone.

    >>> from kaosmem.backends import SqliteDatabase, SqliteLongTermMemory
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     facts = SqliteLongTermMemory(database)
    ...     old_id = await facts.save("analyst", "The customer prefers calls.", key="contact")
    ...     new_id = await facts.save("analyst", "The customer prefers letters.", key="contact")
    ...     [fact.content for fact in await facts.search("analyst", "customer")]
    ['The customer prefers letters.']
    """

    def __init__(self, database: SqliteDatabase, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = utc_now if clock is None else check_clock(clock)

    async def list_namespaces(self) -> list[Shelf]:
        def shelves(connection: sqlite3.Connection) -> list[Shelf]:
            return sorted(
                connection.execute(
                    "SELECT agent, namespace FROM shelves WHERE EXISTS (SELECT 1 FROM facts WHERE "
                    "shelf = shelves.id)"
                )
            )

        return await self._read(shelves)

    async def delete_all(self) -> None:
        await self._database.delete("facts", "postings", "shelves")

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        def save(connection: sqlite3.Connection) -> str:
            saved_at = self._clock().astimezone(UTC)
            _clean(connection, saved_at)
            key = new.key if of is None else _key_of(connection, shelf, of)
            latest = _latest(connection, shelf, key)
            fact = new._replace(key=key).saved(secrets.token_hex(16), saved_at, latest)
            expiry = None if new.ttl is None else saved_at.timestamp() + new.ttl
            _insert(connection, shelf, fact, saved_at, expiry)
            return fact.id

        return await self._database.write(save)

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        def search(connection: sqlite3.Connection) -> list[StoredFact]:
            scores = _scores(
                connection, shelf, query, min(limit, MAX_INTEGER), superseded=superseded
            )
            rows = connection.execute(
                f"SELECT seq, {FIELDS} FROM facts WHERE seq IN (SELECT value FROM json_each(?))",
                (json_text([*scores]),),
            )
            found = {seq: row for seq, *row in rows}
            return [memory_of(*found[seq], score=score) for seq, score in scores.items()]

        return await self._read(search)

    async def _versions(self, shelf: Shelf, key: str) -> list[Version[StoredFact]]:
        def versions(connection: sqlite3.Connection) -> list[Version[StoredFact]]:
            rows = connection.execute(
                f"SELECT valid_from, valid_until, known_from, {FIELDS} FROM facts WHERE shelf = ? "
                "AND key = ? "
                "ORDER BY valid_from, seq",
                (shelf_number(connection, shelf), key),
            )
            return [
                Version(memory_of(*fields), _time(begins), ends and _time(ends), _time(known))
                for begins, ends, known, *fields in rows
            ]

        return await self._read(versions)

    async def _get(self, shelf: Shelf, memory_id: str) -> StoredFact | None:
        return await self._read(lambda connection: _fact(connection, shelf, memory_id))

    async def _delete(self, shelf: Shelf, memory_id: str | None) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            if memory_id is not None:
                _remove(
                    connection, "id = ? AND shelf = ?", (memory_id, shelf_number(connection, shelf))
                )
                return
            number = shelf_number(connection, shelf)
            for table in ("facts", "postings"):
                connection.execute(f"DELETE FROM {table} WHERE shelf = ?", (number,))
            connection.execute("DELETE FROM shelves WHERE id = ?", (number,))

        await self._database.write(delete)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` reads, after the deletion of expired facts."""
        now = self._clock()

        def read(connection: sqlite3.Connection) -> tuple[bool, T | None]:
            is_clean = _is_clean(connection, now)
            return is_clean, work(connection) if is_clean else None

        def clean_and_read(connection: sqlite3.Connection) -> T:
            _clean(connection, now)
            return work(connection)

        is_clean, result = await self._database.read(read)
        return result if is_clean else await self._database.write(clean_and_read)  # type: ignore[return-value]


def _is_clean(connection: sqlite3.Connection, now: datetime) -> bool:
    """Return whether no fact is expired, and the index has the terms of this version's analysis."""
    due = connection.execute(
        "SELECT 1 FROM facts WHERE expiry <= ? LIMIT 1", (now.timestamp(),)
    ).fetchone()
    return due is None and _analysis(connection) >= ANALYSIS


def _analysis(connection: sqlite3.Connection) -> int:
    row: tuple[int] | None = connection.execute("SELECT version FROM analysis").fetchone()
    return row[0] if row else 0


def _clean(connection: sqlite3.Connection, now: datetime) -> None:
    """Delete expired facts, and index all facts anew if an older analysis made the index."""
    _remove(connection, "expiry <= ?", (now.timestamp(),))
    if _analysis(connection) >= ANALYSIS:
        return
    connection.execute("DELETE FROM postings")
    connection.execute("UPDATE shelves SET facts = 0, terms = 0")
    for seq, shelf, content, ends in connection.execute(
        "SELECT seq, shelf, content, valid_until FROM facts"
    ).fetchall():
        _index(connection, seq, shelf, content, is_live=ends is None)
    connection.execute("DELETE FROM analysis")
    connection.execute("INSERT INTO analysis VALUES (?)", (ANALYSIS,))


def shelf_number(connection: sqlite3.Connection, shelf: Shelf) -> int:
    """Return the number of a shelf, 0 for an unknown one."""
    row = connection.execute(
        "SELECT id FROM shelves WHERE agent = ? AND namespace = ?", shelf
    ).fetchone()
    return int(row[0]) if row else 0


def _fact(connection: sqlite3.Connection, shelf: Shelf, memory_id: str) -> StoredFact | None:
    number = shelf_number(connection, shelf)
    row = connection.execute(
        f"SELECT {FIELDS} FROM facts WHERE id = ? AND shelf = ?", (memory_id, number)
    ).fetchone()
    return memory_of(*row) if row else None


def _key_of(connection: sqlite3.Connection, shelf: Shelf, memory_id: str) -> str:
    """Return the key of a fact. Raises NotFoundError."""
    found = _fact(connection, shelf, memory_id)
    if found is None:
        raise unknown_fact(memory_id, shelf[1])
    return found.key


def _latest(connection: sqlite3.Connection, shelf: Shelf, key: str | None) -> datetime | None:
    """Return when the last version of a fact began to hold."""
    at = shelf_number(connection, shelf), key
    (latest,) = connection.execute(
        "SELECT max(valid_from) FROM facts WHERE shelf = ? AND key = ?", at
    ).fetchone()
    return latest and _time(latest)


def _insert(
    connection: sqlite3.Connection,
    shelf: Shelf,
    fact: StoredFact,
    saved_at: datetime,
    expiry: float | None,
) -> None:
    """Store a fact among the versions of its key: it ends those that began before, and the next one ends it."""
    connection.execute("INSERT OR IGNORE INTO shelves (agent, namespace) VALUES (?, ?)", shelf)
    number = shelf_number(connection, shelf)
    begins = _text(fact_time(fact.metadata) or saved_at)
    of_key = (number, fact.key, begins)
    versions = "FROM facts WHERE shelf = ? AND key = ? AND valid_from"
    for seq, terms in connection.execute(
        f"SELECT seq, terms {versions} <= ? AND valid_until IS NULL", of_key
    ).fetchall():
        supersede = (
            "UPDATE postings SET live = 0 WHERE shelf = ? AND live = 1 AND term = ? AND fact = ?"
        )
        _each_posting(connection, supersede, number, terms, seq)
    connection.execute(
        "UPDATE facts SET valid_until = ? WHERE shelf = ? AND key = ? AND valid_from <= ? "
        "AND (valid_until IS NULL OR valid_until > ?)",
        (begins, *of_key, begins),
    )
    (ends,) = connection.execute(f"SELECT min(valid_from) {versions} > ?", of_key).fetchone()
    fields = "id, shelf, key, content, metadata, valid_from, valid_until, known_from, expiry, terms"
    values = (
        fact.id,
        number,
        fact.key,
        fact.content,
        json_text(fact.metadata),
        begins,
        ends,
        _text(saved_at),
        expiry,
    )
    stored = connection.execute(
        f"INSERT INTO facts ({fields}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')", values
    )
    _index(connection, stored.lastrowid or 0, number, fact.content, is_live=ends is None)


def _index(
    connection: sqlite3.Connection, seq: int, shelf: int, content: str, *, is_live: bool
) -> None:
    terms = Counter(analyze(content))
    length = terms.total()
    connection.executemany(
        "INSERT INTO postings (shelf, live, term, fact, occurrences, length) VALUES (?, ?, ?, ?, "
        "?, ?)",
        [(shelf, is_live, term, seq, occurrences, length) for term, occurrences in terms.items()],
    )
    connection.execute("UPDATE facts SET terms = ? WHERE seq = ?", (json_text(terms), seq))
    connection.execute(
        "UPDATE shelves SET facts = facts + 1, terms = terms + ? WHERE id = ?", (length, shelf)
    )


def _remove(connection: sqlite3.Connection, condition: str, values: tuple[object, ...]) -> None:
    """Delete the facts that meet a condition, their postings, and shelves that this leaves empty."""
    doomed = connection.execute(
        f"SELECT seq, shelf, terms FROM facts WHERE {condition}", values
    ).fetchall()
    for seq, shelf, terms in doomed:
        _each_posting(
            connection,
            "DELETE FROM postings WHERE shelf = ? AND live IN (0, 1) AND term = ? AND fact = ?",
            shelf,
            terms,
            seq,
        )
        length = sum(value_of(terms).values())
        connection.execute(
            "UPDATE shelves SET facts = facts - 1, terms = terms - ? WHERE id = ?", (length, shelf)
        )
        connection.execute("DELETE FROM facts WHERE seq = ?", (seq,))
        connection.execute("DELETE FROM shelves WHERE id = ? AND facts = 0", (shelf,))


def _each_posting(
    connection: sqlite3.Connection, statement: str, shelf: int, terms: str, seq: int
) -> None:
    """Execute a statement for each posting of a fact: its shelf, a term, its number."""
    connection.executemany(statement, [(shelf, term, seq) for term in value_of(terms)])


def _scores(
    connection: sqlite3.Connection, shelf: Shelf, query: str, limit: int, *, superseded: bool
) -> dict[int, float]:
    """Return the scores of the best facts by their numbers: BM25 over the facts of the shelf, as BM25Index."""
    number, facts, length = connection.execute(
        "SELECT id, facts, terms FROM shelves WHERE agent = ? AND namespace = ?", shelf
    ).fetchone() or (0, 0, 0)
    weights = []
    for term, count in Counter(analyze(query)).items():
        (having,) = connection.execute(
            "SELECT count(*) FROM postings WHERE shelf = ? AND live IN (0, 1) AND term = ?",
            (number, term),
        ).fetchone()
        weights.append((term, round(count * (_BM25.k1 + 1) * idf(facts, having) * UNITS)))
    rows: Iterable[tuple[int, float]] = connection.execute(
        """
        SELECT fact,
            round(sum(cast(round(weight * occurrences / (occurrences + ? + ? * length)) AS INTEGER)) / ?, 9) AS score
        FROM (SELECT json_extract(value, '$[0]') AS word, json_extract(value, '$[1]') AS weight FROM json_each(?))
        CROSS JOIN postings ON shelf = ? AND live IN (1, ?) AND term = word
        GROUP BY fact ORDER BY score DESC, fact DESC LIMIT ?
        """,
        (
            _BM25.k1 * (1 - _BM25.b),
            _BM25.k1 * _BM25.b * max(facts, 1) / max(length, 1),
            UNITS,
            json_text(weights),
            number,
            0 if superseded else 1,
            limit,
        ),
    )
    return dict(rows)


def memory_of(
    content: str, memory_id: str, metadata: str, key: str, *, score: float = 0.0
) -> StoredFact:
    """Return the fact that a row of FIELDS holds."""
    return StoredFact(content, score, memory_id, value_of(metadata), key)


def _text(time: datetime) -> str:
    """Return a time in UTC as text. Texts are in the order of their times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


_BYTES = 4  # of a number in single precision


class SqliteVectorMemory(SqliteLongTermMemory):
    """A LongTermMemory in a file of SQLite that ranks facts by meaning.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the
    namespace is compared.
    embedding_client: makes the embeddings. All have the same number of dimensions: another model
        needs another namespace. Facts that a SqliteLongTermMemory has saved get theirs with the
        first search.
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
        self._client = embedding_client
        self._min_score = check_cosine(min_score)

    async def _save(self, shelf: Shelf, new: NewFact, of: str | None) -> str:
        (embedding,) = await embeddings_of([new.content], self._client)
        await self._read(lambda connection: _check(connection, shelf, embedding))
        memory_id = await super()._save(shelf, new, of)
        await self._put(shelf, [memory_id], [embedding])
        return memory_id

    async def _search(
        self, shelf: Shelf, query: str, limit: int, *, superseded: bool
    ) -> list[StoredFact]:
        if missing := await self._read(lambda connection: _missing(connection, shelf)):
            made = await embeddings_of([content for _, content in missing], self._client)
            await self._put(shelf, [memory_id for memory_id, _ in missing], made)
        (asked,) = await embeddings_of([query], self._client)

        def search(connection: sqlite3.Connection) -> list[StoredFact]:
            _check(connection, shelf, asked)
            best = _nearest(connection, shelf, asked, self._min_score, superseded=superseded)[
                :limit
            ]
            found = (
                (
                    connection.execute(
                        f"SELECT {FIELDS} FROM facts WHERE seq = ?", (seq,)
                    ).fetchone(),
                    cosine,
                )
                for seq, cosine in best
            )
            return [memory_of(*row, score=cosine) for row, cosine in found]

        return await self._read(search)

    async def _put(
        self, shelf: Shelf, ids: list[str], embeddings: Sequence[tuple[float, ...]]
    ) -> None:
        def put(connection: sqlite3.Connection) -> None:
            for memory_id, embedding in zip(ids, embeddings, strict=True):
                _check(connection, shelf, embedding)
                connection.execute(  # nothing for a fact that is deleted meanwhile
                    "INSERT OR IGNORE INTO meanings SELECT seq, ? FROM facts WHERE id = ? AND "
                    "shelf = ?",
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
    connection: sqlite3.Connection,
    shelf: Shelf,
    asked: tuple[float, ...],
    min_score: float,
    *,
    superseded: bool,
) -> list[tuple[int, float]]:
    """Return numbers and cosines of facts, the largest cosine first, of equal ones the newest."""
    import numpy as np

    from kaosmem.stores.unit_vectors import cosines_of, unit_of

    rows = connection.execute(
        "SELECT seq, direction FROM facts JOIN meanings ON fact = seq "
        "WHERE shelf = ? AND (? OR valid_until IS NULL) ORDER BY seq DESC",
        (shelf_number(connection, shelf), superseded),
    ).fetchall()
    if not rows:
        return []
    directions = np.frombuffer(b"".join(direction for _, direction in rows), "<f4").reshape(
        len(rows), -1
    )
    cosines = cosines_of(directions.astype(np.float64), unit_of(asked).astype(np.float64))
    order = np.argsort(-cosines, kind="stable")
    return [(rows[n][0], float(cosines[n])) for n in order if cosines[n] > min_score]


def _direction(embedding: tuple[float, ...]) -> bytes:
    """Return an embedding at length 1 in single precision."""
    from kaosmem.stores.unit_vectors import unit_of

    return unit_of(embedding).astype("<f4").tobytes()
