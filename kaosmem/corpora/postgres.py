"""A corpus in PostgreSQL: ranked by pg_textsearch where it is installed, else by plain tsvector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.corpora.corpus import (
    ChangeResult,
    Corpus,
    CorpusVersion,
    PassageChange,
    Row,
    Snapshot,
    StampsBySource,
    no_such_version,
    utc_now,
)
from kaosmem.corpora.in_memory import EMPTY
from kaosmem.errors import DurabilityError
from kaosmem.filters import Filter
from kaosmem.stores.labels import condition

if TYPE_CHECKING:
    from psycopg import Cursor

T = TypeVar("T")

_UPKEEP_S = 6 * 3_600.0
"""Compacting and erasing may take so long."""
_READ_PLAIN = 20_000
"""Without pg_textsearch, about so many passages are scored: those with the rarest words."""
_EXTENSION = "pg_textsearch"
# A tenant has a table of passages and one of terms. In the second, the words "" and " " stand for
# the numbers of passages and of words.
_TENANT = """INSERT INTO corpora (tenant, passages, has_bm25)
    SELECT %(tenant)s, 'corpus_' || nextval('corpus_numbers'),
        EXISTS (SELECT FROM pg_extension WHERE extname = %(extension)s)
    ON CONFLICT DO NOTHING RETURNING passages, has_bm25"""
_COLUMNS = "id, source, passage, stamp, labels, words, since"
_TABLES = """CREATE TABLE {table} (
        id text COLLATE "C" NOT NULL, source text COLLATE "C" NOT NULL, passage text NOT NULL,
        stamp text NOT NULL, labels text[] NOT NULL, words text NOT NULL, since bigint NOT NULL,
        until bigint
    );
    CREATE TABLE {table}_terms (
        word text COLLATE "C", counted bigint, passages bigint, PRIMARY KEY (word, counted)
    )"""
_INDICES = """CREATE INDEX {table}_id ON {table} (id);
    CREATE INDEX {table}_source ON {table} (source);
    CREATE INDEX {table}_labels ON {table} USING gin (labels)"""
_BM25_INDEX = (
    "CREATE INDEX {table}_words ON {table} USING bm25 (words) WITH (text_config = 'simple')"
)
_PLAIN_INDEX = """ALTER TABLE {table} ADD vector tsvector
        GENERATED ALWAYS AS (to_tsvector('simple', words)) STORED;
    CREATE INDEX {table}_words ON {table} USING gin (vector)"""
_LIVE = "since <= {version} AND (until IS NULL OR until > {version})"
_REPLACED = "until IS NULL AND (source = ANY(%(sources)s) OR id = ANY(%(ids)s))"
_OF_TENANT = "corpus_versions WHERE tenant = '{tenant}'"
_LAST_COUNT = "(SELECT max(counted) FROM {table}_terms WHERE word = '' AND counted <= {version})"
_ERASE = """DROP TABLE {table}, {table}_terms;
    DELETE FROM corpora WHERE tenant = '{tenant}'"""
_GIVE_UP = f"""DELETE FROM {_OF_TENANT} AND number < {{version}};
    DELETE FROM {{table}} WHERE until <= {{version}};
    DELETE FROM {{table}}_terms WHERE counted < {_LAST_COUNT};
    ANALYZE {{table}}"""
_COUNT = """INSERT INTO {table}_terms (word, counted, passages)
    SELECT word, {version}, count(*)
        FROM {table}, LATERAL (SELECT DISTINCT unnest(string_to_array(ltrim(words), ' '))) AS own (word)
        WHERE until IS NULL GROUP BY word
    UNION ALL SELECT '', {version}, count(*) FROM {table} WHERE until IS NULL
    UNION ALL SELECT ' ', {version}, coalesce(sum(cardinality(
        string_to_array(split_part(words, ' xz', 1), ' '))), 0)
        FROM {table} WHERE until IS NULL"""
_MOVE = f"""INSERT INTO corpus_$number ({_COLUMNS})
        SELECT {_COLUMNS} FROM {{table}} WHERE until IS NULL;
    INSERT INTO corpus_$number_terms
        SELECT * FROM {{table}}_terms WHERE counted = {_LAST_COUNT};
    DROP TABLE {{table}}, {{table}}_terms;
    DELETE FROM {_OF_TENANT} AND number < $number;
    UPDATE corpora SET passages = 'corpus_$number' WHERE tenant = '{{tenant}}'"""
_ANY = f"SELECT passage, 1 FROM {{table}} WHERE {_LIVE} AND $wanted LIMIT %(limit)s"
_BM25 = f"""SELECT passage, -(words <@> to_bm25query(%(any)s, '{{table}}_words')) AS score
    FROM {{table}} WHERE {_LIVE} AND $wanted
    ORDER BY words <@> to_bm25query(%(any)s, '{{table}}_words') LIMIT %(limit)s"""
# BM25. `ts_rank` of one word with n occurrences is 1 - 0.6079 / (n + 0.5), to within 3 percent.
_PLAIN = f"""WITH counted AS (
        SELECT word, passages FROM {{table}}_terms WHERE counted = {_LAST_COUNT}
            AND (word IN ('', ' ') OR word = ANY(%(words)s))
    ), figures AS (
        SELECT size, greatest(1.0, words::float8 / greatest(1, size)) AS length FROM (
            SELECT coalesce(max(passages) FILTER (WHERE word = ''), 0) AS size,
                coalesce(max(passages) FILTER (WHERE word = ' '), 0) AS words FROM counted
        ) AS sums
    ), known AS (
        SELECT word, coalesce(passages, 0) AS passages
        FROM unnest(%(words)s::text[]) AS given (word) LEFT JOIN counted USING (word)
    ), asked AS (
        SELECT word, ln(1 + (size - passages + 0.5) / (passages + 0.5))::float8 AS idf,
            sum(passages) OVER (ORDER BY passages, word) <= %(most)s
                OR row_number() OVER (ORDER BY passages, word) = 1 AS is_rare
        FROM known, figures
    ), best AS (
        SELECT ctid AS place, (
            SELECT sum(idf * n / (n + 1.2 * (0.25 + 0.75 * own / length)))
            FROM asked, figures,
                LATERAL ts_rank(ARRAY[1, 1, 1, 1]::real[], vector, word::tsquery) AS rank,
                LATERAL (SELECT 0.6079 / (1 - rank) - 0.5 AS n) AS occurrences
            WHERE rank > 0
        ) AS score
        FROM {{table}}, LATERAL (SELECT 1 + regexp_count(words, ' ') AS own) AS sizes
        WHERE vector @@ (SELECT string_agg(word, ' | ') FROM asked WHERE is_rare)::tsquery
            AND {_LIVE} AND $wanted
        ORDER BY score DESC, id LIMIT %(limit)s
    ) SELECT passage, score FROM {{table}} AS passages JOIN best ON passages.ctid = place
    ORDER BY score DESC, id"""


class PgCorpus(Corpus):
    """A corpus in PostgreSQL. Each tenant has a table of its own.

    A change is one transaction, and a question reads one snapshot. Writers of a tenant wait for
    each other. Where the database has the extension `pg_textsearch` when a tenant is first written,
    the engine ranks by BM25. Otherwise PostgreSQL finds words by `tsvector`: where the words of a
    question stand in more than 20,000 passages, it scores only those with the rarest words.

    Args:
        url: `postgresql://user@host/database`. `kaosmem` makes its tables in the schema.
        tenant: A valid name. `safe_id` makes one of any text.
        timeout_s: Seconds that a question or an addition may take.

    Raises:
        MissingExtraError: If the extra `postgres` is not installed.
        InvalidNameError: If the URL or a name is not valid.

    Example, not run here because it needs a server::

        corpus = PgCorpus("postgresql://app@db/agents", tenant="acme")
        await memory.attach(CorpusSource(corpus), timeout_s=2)
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        schema: str = "kaosmem",
        timeout_s: float = 30.0,
    ) -> None:
        super().__init__(tenant)
        self._url = url
        self._database = PostgresDatabase(url, schema=schema, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"PgCorpus(schema={self._database.schema!r}, tenant={self.tenant!r})"

    async def versions(self) -> list[CorpusVersion]:
        query = "SELECT number, at FROM corpus_versions WHERE tenant = %(tenant)s ORDER BY 1"
        rows = await self._run(lambda cursor: _rows(cursor, query, tenant=self.tenant))
        return [CorpusVersion(*row) for row in rows]

    async def tenants(self) -> list[str]:
        rows = await self._run(lambda cursor: _rows(cursor, "SELECT tenant FROM corpora"))
        return sorted(tenant for (tenant,) in rows)

    async def erase_tenant(self) -> None:
        self._check_writable()
        await self._maintain(lambda at: at.rows(_ERASE))

    async def close(self) -> None:
        await self._database.close()

    # The engine's part.

    async def _change(self, change: PassageChange) -> ChangeResult:
        new, sources, ids = change
        named = {"sources": list(sources), "ids": [*ids, *(row.id for row in new)]}

        def work(cursor: Cursor) -> ChangeResult:
            if new:
                self._make(cursor)
            found = self._locked(cursor)
            if found is None:
                return ChangeResult(0, 0)
            ((gone,),) = found.rows(f"SELECT count(*) FROM {{table}} WHERE {_REPLACED}", **named)
            if not (new or gone):
                return ChangeResult(found.version, 0)
            now = found.next()
            now.rows(f"UPDATE {{table}} SET until = {{version}} WHERE {_REPLACED}", **named)
            now.insert(new)
            return ChangeResult(now.version, gone)

        return await self._run(work)

    async def _merge(self, keep: timedelta, *, counts: bool) -> None:
        def work(at: _Snapshot) -> None:
            query = f"SELECT min(number) FROM {_OF_TENANT} AND at >= %(time)s"
            ((oldest,),) = at.rows(query, time=utc_now() - keep)
            at._replace(version=oldest or at.version).rows(_GIVE_UP)
            if counts:
                at.next().rows(_COUNT)

        await self._maintain(work)

    async def _purge(self, *, alone: bool) -> int:
        """Write the newest version into a new table with new indices, and drop the old table."""

        def work(at: _Snapshot) -> int:
            last = at.next()
            last.rows(_COUNT)
            number = last.version
            other = last._replace(table=f"corpus_{number}")
            other.rows(_TABLES)
            last.rows(_MOVE.replace("$number", str(number)))
            other.make_indices()
            return number

        return await self._maintain(work) or 0

    # Transactions.

    async def _run(self, work: Callable[[Cursor], T]) -> T:
        return await self._database.run(work, part="corpora")

    async def _maintain(self, work: Callable[[_Snapshot], T]) -> T | None:
        """Return the result of long work on the newest version, None without one."""

        def locked(cursor: Cursor) -> T | None:
            found = self._locked(cursor)
            if found is None:
                return None
            return work(found)

        await self._run(lambda cursor: None)  # so that a server that is down is told of in time
        async with PostgresDatabase(
            self._url, schema=self._database.schema, timeout_s=_UPKEEP_S, max_connections=1
        ) as patient:
            return await patient.run(locked, part="corpora")

    async def _ask(self, ask: Callable[[Snapshot], T]) -> T:
        """Return the answer of one version.

        An erasure may drop the table while it is asked. Then the new one is asked.
        """
        from psycopg.errors import UndefinedTable

        number = await self._number()

        def work(cursor: Cursor) -> T:
            _rows(cursor, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            found = self._snapshot(cursor, number)
            if found is None and number is not None:
                raise no_such_version()
            return ask(found or EMPTY)

        try:
            return await self._run(work)
        except DurabilityError as error:
            if not isinstance(error.__cause__, UndefinedTable):
                raise
        return await self._run(work)

    def _snapshot(self, cursor: Cursor, number: int | None = None) -> _Snapshot | None:
        """Return a version, or the newest one."""
        query = """SELECT passages, has_bm25, number
            FROM corpora JOIN corpus_versions USING (tenant)
            WHERE tenant = %(tenant)s AND number = coalesce(%(number)s, number)
            ORDER BY number DESC LIMIT 1"""
        for row in _rows(cursor, query, tenant=self.tenant, number=number):
            return _Snapshot(cursor, self.tenant, *row)
        return None

    def _locked(self, cursor: Cursor) -> _Snapshot | None:
        """Return the newest version, which no other transaction changes until this one ends."""
        lock = "SELECT tenant FROM corpora WHERE tenant = %(tenant)s FOR UPDATE"
        _rows(cursor, lock, tenant=self.tenant)
        return self._snapshot(cursor)

    def _make(self, cursor: Cursor) -> None:
        """Make the tables of the tenant, unless they are there."""
        made = _rows(cursor, _TENANT, tenant=self.tenant, extension=_EXTENSION)
        for table, has_bm25 in made:
            empty = _Snapshot(cursor, self.tenant, table, has_bm25, 0).next()
            empty.rows(_TABLES)
            empty.make_indices()


class _Snapshot(NamedTuple):
    """A version of a tenant's passages, in one transaction."""

    cursor: Cursor
    tenant: str
    table: str
    has_bm25: bool
    version: int

    def rows(self, query: str, **named: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, which may name the table, the tenant and the version."""
        sql = query.format(table=self.table, tenant=self.tenant, version=self.version)
        return _rows(self.cursor, sql, **named)

    def next(self) -> _Snapshot:
        """Return a new version, which has the same passages yet."""
        query = """INSERT INTO corpus_versions (number, tenant, at)
            VALUES (nextval('corpus_numbers'), '{tenant}', %(at)s) RETURNING number"""
        ((number,),) = self.rows(query, at=utc_now())
        return self._replace(version=number)

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        query = f"""SELECT word, passages FROM {{table}}_terms
            WHERE counted = {_LAST_COUNT} AND word = ANY(%(words)s)"""
        return dict(self.rows(query, words=list(words)))

    def search(
        self,
        words: Sequence[str],
        limit: int,
        wanted: Filter,
    ) -> list[str]:
        query = _ANY
        if words:
            query = _BM25 if self.has_bm25 else _PLAIN
        rows = self.rows(
            query.replace("$wanted", condition(wanted, "labels && ARRAY[{}]")),
            any=" ".join(words),
            words=list(words),
            most=_READ_PLAIN,
            limit=limit,
        )
        return [passage for passage, score in rows if score > 0]

    def get(self, ids: Sequence[str]) -> list[str]:
        query = f"SELECT passage FROM {{table}} WHERE {_LIVE} AND id = ANY(%(ids)s)"
        return [passage for (passage,) in self.rows(query, ids=list(ids))]

    def sources(self) -> StampsBySource:
        return dict(self.rows(f"SELECT DISTINCT source, stamp FROM {{table}} WHERE {_LIVE}"))

    def insert(self, new: Sequence[Row]) -> None:
        """Write new passages, which are there from this version on."""
        copying = f"COPY {self.table} ({_COLUMNS}) FROM STDIN"
        with self.cursor.copy(copying.encode()) as copy:
            for row in new:
                copy.write_row([*row, self.version])

    def make_indices(self) -> None:
        self.rows(_INDICES)
        self.rows(_BM25_INDEX if self.has_bm25 else _PLAIN_INDEX)


def _rows(
    cursor: Cursor,
    query: str,
    **named: object,
) -> list[tuple[Any, ...]]:
    """Execute a statement, or several without values, and return the rows."""
    cursor.execute(query.encode(), named or None)
    if cursor.description is not None:
        return cursor.fetchall()
    return []
