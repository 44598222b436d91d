"""A corpus in PostgreSQL: ranked by pg_textsearch where it is installed, else by plain tsvector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kaosmem.arguments import check_ttl
from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.corpora.corpus import (
    WEEK_S,
    Change,
    Corpus,
    CorpusVersion,
    Entry,
    Found,
    Hits,
    not_kept,
    utc_now,
)
from kaosmem.corpora.labels import condition
from kaosmem.corpora.term_counts import TermCounts
from kaosmem.errors import DurabilityError, InvalidArgumentError
from kaosmem.filters import MetadataFilter

if TYPE_CHECKING:
    import psycopg

    _Cursor: TypeAlias = psycopg.Cursor[dict[str, Any]]

T = TypeVar("T")

_UPKEEP_S = 6 * 3_600.0
"""Compacting and erasing may take so long."""
_READ_PLAIN = 20_000
"""Without pg_textsearch, about so many passages are scored: those with the rarest words."""
_TRIES = 5
_EXTENSION = "pg_textsearch"
_COLUMNS = {
    "id": 'text COLLATE "C" NOT NULL',
    "source": 'text COLLATE "C" NOT NULL',
    "spot": 'text COLLATE "C" NOT NULL',
    "passage": "text NOT NULL",
    "stamp": "bytea NOT NULL",
    "labels": "text[] NOT NULL",
    "words": "text NOT NULL",
    "since": "bigint NOT NULL",
    "until": "bigint",
}
_LIVE = "since <= %(version)s AND (until IS NULL OR until > %(version)s)"
_BM25 = f"""SELECT passage, -(words <@> to_bm25query(%(words)s, %(index)s)) AS score
    FROM {{table}} WHERE {_LIVE} AND $wanted
    ORDER BY words <@> to_bm25query(%(words)s, %(index)s) LIMIT %(limit)s"""
# BM25. `ts_rank` of one word with n occurrences is 1 - 0.6079 / (n + 0.5), to within 3 percent.
_PLAIN = f"""WITH best AS (
        SELECT ctid AS spot_of, (
            SELECT sum(idf * n / (n + 1.2 * (0.25 + 0.75 * size / %(length)s)))
            FROM unnest(%(each)s::text[], %(idfs)s::float8[]) AS asked (word, idf),
                LATERAL ts_rank('{{{{1, 1, 1, 1}}}}', vector, word::tsquery) AS rank,
                LATERAL (SELECT 0.6079 / (1 - rank) - 0.5 AS n) AS occurrences
            WHERE rank > 0
        ) AS score
        FROM {{table}}, LATERAL (SELECT 1 + regexp_count(words, ' ') AS size) AS sizes
        WHERE vector @@ %(any)s::tsquery AND {_LIVE} AND $wanted
        ORDER BY score DESC, id LIMIT %(limit)s
    ) SELECT passage, score FROM {{table}} AS passages JOIN best ON passages.ctid = spot_of
    ORDER BY score DESC, id"""


class PgCorpus(Corpus):
    """A corpus in PostgreSQL. Each tenant has a table of its own.

    A change is one transaction, and a question reads one snapshot. Writers of a tenant wait for each
    other. With the extension `pg_textsearch`, the engine ranks by BM25. Without it, PostgreSQL
    finds words by `tsvector`: where the words of a question stand in more than 20,000 passages, it
    scores only those with the rarest words.

    Args:
        url: `postgresql://user@host/database`. `kaosmem` makes its tables in the schema.
        tenant: A valid name. `safe_id` makes one of any text.
        uses_bm25: Whether new tenants are ranked by `pg_textsearch`. The default is to do so where
            the database has the extension.
        timeout_s: Seconds that a question or an addition may take.
        keep_s: Seconds for which `compact` keeps older versions.

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
        uses_bm25: bool | None = None,
        timeout_s: float = 30.0,
        keep_s: float = WEEK_S,
    ) -> None:
        super().__init__(tenant)
        self._url = url
        self._schema = schema
        self._timeout_s = timeout_s
        self._keep = timedelta(seconds=check_ttl(keep_s, "keep_s"))
        self._uses_bm25 = uses_bm25
        self._open()

    def __repr__(self) -> str:
        return f"PgCorpus(schema={self._schema!r}, tenant={self._tenant!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it opens connections of its own."""
        opened = ("_database", "_upkeep", "_known")
        return {name: value for name, value in vars(self).items() if name not in opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def _open(self) -> None:
        self._database = PostgresDatabase(self._url, schema=self._schema, timeout_s=self._timeout_s)
        self._upkeep = PostgresDatabase(
            self._url, schema=self._schema, timeout_s=_UPKEEP_S, max_connections=1
        )
        self._known: dict[str, tuple[int, TermCounts]] = {}

    async def sources(self) -> dict[str, str]:
        def ask(at: _Snapshot) -> dict[str, str]:
            rows = at.rows(f"SELECT DISTINCT source, stamp FROM {{table}} WHERE {_LIVE}")
            return {row["source"]: row["stamp"].decode() for row in rows}

        return await self._ask(ask, {})

    async def versions(self) -> list[CorpusVersion]:
        def ask(cursor: _Cursor) -> list[CorpusVersion]:
            query = "SELECT number, at FROM corpus_versions WHERE tenant = %(tenant)s ORDER BY 1"
            rows = _rows(cursor, query, tenant=self._tenant)
            return [CorpusVersion(row["number"], row["at"]) for row in rows]

        return await self._run(ask)

    async def tenants(self) -> list[str]:
        def ask(cursor: _Cursor) -> list[str]:
            return sorted(row["tenant"] for row in _rows(cursor, "SELECT tenant FROM corpora"))

        return await self._run(ask)

    async def erase_tenant(self) -> None:
        self._check_writable()

        def work(cursor: _Cursor) -> None:
            found = self._locked(cursor)
            if found is not None:
                found.rows("DROP TABLE {table}")
                found.rows("DELETE FROM corpora WHERE tenant = %(tenant)s", tenant=self._tenant)

        await self._run(work)

    async def compact(self) -> None:
        """Give up versions that are older than `keep_s`."""
        self._check_writable()
        await self._maintain(self._compacted)

    async def close(self) -> None:
        await self._database.close()
        await self._upkeep.close()

    # The engine's part.

    async def _search(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None
    ) -> Hits:
        def ask(at: _Snapshot) -> Hits:
            counts = self._counts_in(at)
            return Hits(at.matches(words, limit, wanted, counts), counts, at.version)

        return await self._ask(ask, Hits((), TermCounts(), 0))

    async def _counts(self) -> TermCounts:
        return await self._ask(self._counts_in, TermCounts())

    async def _at_values(self, column: str, values: Sequence[str]) -> list[Found]:
        where = f"{column} = ANY(%(values)s)"
        return await self._ask(lambda at: at.found(where, values=list(values)), [])

    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        new_ids = [entry.id for entry in entries]
        named = {"sources": list(sources), "ids": [*ids, *new_ids]}

        def work(cursor: _Cursor) -> Change:
            if entries:
                self._make(cursor)
            found = self._locked(cursor)
            if found is None:
                return Change(0, 0)
            number = _next_number(cursor)
            query = """UPDATE {table} SET until = %(number)s WHERE until IS NULL
                AND (source = ANY(%(sources)s) OR id = ANY(%(ids)s)) RETURNING words"""
            replaced = found.rows(query, number=number, **named)
            if not (entries or replaced):
                return Change(found.version, 0)
            _insert(cursor, found.table, entries, number)
            removed = [row["words"].split() for row in replaced]
            counts = TermCounts.of((entry.words for entry in entries), removed)
            self._record(cursor, number, counts)
            return Change(number, len(replaced))

        return await self._run(work)

    async def _purge(self, *, alone: bool) -> int:
        return await self._maintain(self._rewritten) or 0

    def _rewritten(self, cursor: _Cursor, found: _Snapshot) -> int:
        """Write the newest version into a new table with new indices, and drop the old table."""
        counts = self._counts_in(found)
        number = _next_number(cursor)
        table = f"corpus_{number}"
        _create(cursor, table, has_bm25=found.has_bm25)
        columns = ", ".join(_COLUMNS)
        copying = f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {{table}}"
        found.rows(f"{copying} WHERE until IS NULL")
        _index(cursor, table, has_bm25=found.has_bm25)
        found.rows("DROP TABLE {table}")
        of_tenant = "WHERE tenant = %(tenant)s"
        found.rows(f"UPDATE corpora SET passages = '{table}' {of_tenant}", tenant=self._tenant)
        found.rows(f"DELETE FROM corpus_versions {of_tenant}", tenant=self._tenant)
        self._record(cursor, number, counts)
        return number

    def _compacted(self, cursor: _Cursor, found: _Snapshot) -> None:
        of_tenant = "corpus_versions WHERE tenant = %(tenant)s"
        query = f"SELECT min(number) AS oldest FROM {of_tenant} AND at >= %(time)s"
        (row,) = found.rows(query, tenant=self._tenant, time=utc_now() - self._keep)
        oldest = found.version if row["oldest"] is None else row["oldest"]
        counts = self._counts_in(found._replace(version=oldest)).dump().tobytes()
        merge = "UPDATE corpus_versions SET counts = %(counts)s WHERE number = %(oldest)s"
        found.rows(merge, counts=counts, oldest=oldest)
        older = f"DELETE FROM {of_tenant} AND number < %(oldest)s"
        found.rows(older, tenant=self._tenant, oldest=oldest)
        found.rows("DELETE FROM {table} WHERE until <= %(oldest)s", oldest=oldest)
        found.rows("ANALYZE {table}")

    # Transactions.

    async def _run(self, work: Callable[[_Cursor], T]) -> T:
        return await self._database.run(_with_names(work), part="corpora")

    async def _maintain(self, work: Callable[[_Cursor, _Snapshot], T]) -> T | None:
        """Return the result of long work on the newest version, None without one."""
        await self._run(lambda cursor: None)  # so that a server that is down is told of in time

        def locked(cursor: _Cursor) -> T | None:
            found = self._locked(cursor)
            return None if found is None else work(cursor, found)

        return await self._upkeep.run(_with_names(locked), part="corpora")

    async def _ask(self, ask: Callable[[_Snapshot], T], none: T) -> T:
        """Return the answer of one version, or `none` if the tenant has no passages.

        An erasure may drop the table while it is asked. Then the new one is asked.
        """
        from psycopg.errors import UndefinedTable

        def work(cursor: _Cursor) -> T:
            _rows(cursor, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            found = self._snapshot(cursor)
            return none if found is None else ask(found)

        for attempt in range(_TRIES):
            try:
                return await self._run(work)
            except DurabilityError as error:
                if not isinstance(error.__cause__, UndefinedTable) or attempt == _TRIES - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises

    def _snapshot(self, cursor: _Cursor) -> _Snapshot | None:
        """Return the version that is asked for. Raises NotFoundError."""
        is_wanted = "TRUE"
        if self._moment is not None:
            is_number = isinstance(self._moment, int)
            is_wanted = "number = %(moment)s" if is_number else "at <= %(moment)s"
        query = f"""SELECT passages, has_bm25, max(number) AS version
            FROM corpora JOIN corpus_versions USING (tenant)
            WHERE tenant = %(tenant)s AND {is_wanted} GROUP BY passages, has_bm25"""
        for row in _rows(cursor, query, tenant=self._tenant, moment=self._moment):
            return _Snapshot(cursor, row["passages"], row["has_bm25"], row["version"])
        if self._moment is not None:
            raise not_kept()
        return None

    def _locked(self, cursor: _Cursor) -> _Snapshot | None:
        """Return the newest version, which no other transaction changes until this one ends."""
        lock = "SELECT tenant FROM corpora WHERE tenant = %(tenant)s FOR UPDATE"
        _rows(cursor, lock, tenant=self._tenant)
        return self._snapshot(cursor)

    def _make(self, cursor: _Cursor) -> None:
        """Make the table of the tenant, unless it is there."""
        known = "SELECT tenant FROM corpora WHERE tenant = %(tenant)s"
        if _rows(cursor, known, tenant=self._tenant):
            return
        query = "SELECT oid FROM pg_extension WHERE extname = %(name)s"
        has_bm25 = bool(_rows(cursor, query, name=_EXTENSION))
        if self._uses_bm25 and not has_bm25:
            raise InvalidArgumentError(
                "the database has no pg_textsearch; let an administrator run CREATE EXTENSION "
                "pg_textsearch, or leave uses_bm25 out"
            )
        has_bm25 = has_bm25 if self._uses_bm25 is None else self._uses_bm25
        number = _next_number(cursor)
        table = f"corpus_{number}"
        insert = """INSERT INTO corpora (tenant, passages, has_bm25)
            VALUES (%(tenant)s, %(table)s, %(has_bm25)s) ON CONFLICT DO NOTHING RETURNING tenant"""
        if _rows(cursor, insert, tenant=self._tenant, table=table, has_bm25=has_bm25):
            _create(cursor, table, has_bm25=has_bm25)
            _index(cursor, table, has_bm25=has_bm25)
            self._record(cursor, number, TermCounts())

    def _record(self, cursor: _Cursor, number: int, counts: TermCounts) -> None:
        """Record a version, with the counts of what it changed."""
        query = """INSERT INTO corpus_versions (number, tenant, at, counts)
            VALUES (%(number)s, %(tenant)s, %(at)s, %(counts)s)"""
        dumped = counts.dump().tobytes()
        _rows(cursor, query, number=number, tenant=self._tenant, at=utc_now(), counts=dumped)

    def _counts_in(self, at: _Snapshot) -> TermCounts:
        """Return the counts of terms in a version. Changes that are known already are not read."""
        known, counts = self._known.get(self._tenant, (0, TermCounts()))
        of_tenant = "FROM corpus_versions WHERE tenant = %(tenant)s"
        (row,) = at.rows(f"SELECT min(number) AS oldest {of_tenant}", tenant=self._tenant)
        if not row["oldest"] <= known <= at.version:
            known = 0
            counts = TermCounts()
        rows = at.rows(
            f"SELECT counts {of_tenant} AND number > %(known)s AND number <= %(version)s",
            tenant=self._tenant,
            known=known,
        )
        parts = [TermCounts.load(np.frombuffer(row["counts"], np.int64)) for row in rows]
        if parts:
            counts = TermCounts.sum([counts, *parts])
        self._known[self._tenant] = at.version, counts
        return counts


class _Snapshot(NamedTuple):
    """A version of a tenant's passages, in one transaction."""

    cursor: _Cursor
    table: str
    has_bm25: bool
    version: int

    def rows(self, query: str, **named: object) -> list[dict[str, Any]]:
        """Return the rows of a query, which may name the table and the version."""
        return _rows(self.cursor, query.format(table=self.table), version=self.version, **named)

    def found(self, where: str, **named: object) -> list[Found]:
        """Return the passages of the version that satisfy a condition."""
        query = f"SELECT passage FROM {{table}} WHERE {_LIVE} AND {where}"
        return [Found.load(row["passage"]) for row in self.rows(query, **named)]

    def matches(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None, counts: TermCounts
    ) -> list[Found]:
        """Return the passages that match best, best first, as the engine scores them."""
        frequencies = counts.frequencies(words)
        known = sorted((word for word in words if frequencies[word]), key=frequencies.__getitem__)
        if not known:
            return []
        sql = "TRUE" if wanted is None else condition(wanted.given, "labels @> ARRAY['{}']")
        if self.has_bm25:
            query = _BM25.replace("$wanted", sql)
            index = f"{self.table}_words"
            rows = self.rows(query, words=" ".join(known), index=index, limit=limit)
        else:
            chosen = _rarest(known, frequencies)
            idfs = [_idf(counts.passages, frequencies[word]) for word in known]
            rows = self.rows(
                _PLAIN.replace("$wanted", sql),
                any=" | ".join(chosen),
                each=known,
                idfs=idfs,
                length=counts.terms / counts.passages,
                limit=limit,
            )
        return [Found.load(row["passage"]) for row in rows if row["score"] > 0]


def _idf(passages: int, frequency: int) -> float:
    return log(1 + (passages - frequency + 0.5) / (frequency + 0.5))


def _rarest(words: Sequence[str], frequencies: Mapping[str, int]) -> list[str]:
    """Return the first words, which together stand in no more passages than may be scored."""
    chosen: list[str] = []
    left = _READ_PLAIN
    for word in words:
        left -= frequencies[word]
        if chosen and left < 0:
            break
        chosen.append(word)
    return chosen


def _with_names(work: Callable[[_Cursor], T]) -> Callable[[psycopg.Cursor[Any]], T]:
    """Return work whose rows are mappings."""
    from psycopg.rows import dict_row

    def named(cursor: psycopg.Cursor[Any]) -> T:
        cursor.row_factory = dict_row
        return work(cursor)

    return named


def _rows(cursor: _Cursor, query: str, **named: object) -> list[dict[str, Any]]:
    """Execute a statement, and return its rows."""
    cursor.execute(query.encode(), named)
    return cursor.fetchall() if cursor.description is not None else []


def _next_number(cursor: _Cursor) -> int:
    (row,) = _rows(cursor, "SELECT nextval('corpus_numbers') AS number")
    number: int = row["number"]
    return number


def _create(cursor: _Cursor, table: str, *, has_bm25: bool) -> None:
    columns = [f"{name} {kind}" for name, kind in _COLUMNS.items()]
    if not has_bm25:
        columns.append("vector tsvector GENERATED ALWAYS AS (to_tsvector('simple', words)) STORED")
    _rows(cursor, f"CREATE TABLE {table} ({', '.join(columns)})")


def _index(cursor: _Cursor, table: str, *, has_bm25: bool) -> None:
    kinds = {name: f"({name})" for name in ("id", "source", "spot")}
    kinds["labels"] = "USING gin (labels)"
    kinds["words"] = "USING gin (vector)"
    if has_bm25:
        kinds["words"] = "USING bm25 (words) WITH (text_config = 'simple')"
    for name, kind in kinds.items():
        _rows(cursor, f"CREATE INDEX {table}_{name} ON {table} {kind}")


def _insert(cursor: _Cursor, table: str, entries: Sequence[Entry], number: int) -> None:
    copying = f"COPY {table} ({', '.join(_COLUMNS)}) FROM STDIN"
    with cursor.copy(copying.encode()) as copy:
        for entry in entries:
            row = {**entry.row(), "since": number, "until": None}
            row["stamp"] = row["stamp"].encode()
            copy.write_row([row[name] for name in _COLUMNS])
