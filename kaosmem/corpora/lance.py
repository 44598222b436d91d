"""A corpus in LanceDB: a folder, or a prefix of an object store, with nothing else to run."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kaosmem.arguments import check_count, check_ttl, json_text
from kaosmem.corpora.corpus import (
    CANDIDATES,
    BaseCorpus,
    Candidates,
    Change,
    CorpusVersion,
    Entry,
    Found,
    check_ids,
    not_kept,
    spot_of,
)
from kaosmem.corpora.lance_filter import condition, labels_of
from kaosmem.corpora.term_counts import TermCounts
from kaosmem.errors import (
    DurabilityError,
    InvalidArgumentError,
    InvalidNameError,
    KaosmemError,
    MissingExtraError,
    NotFoundError,
    UnsupportedVersionError,
)
from kaosmem.filters import MetadataFilter
from kaosmem.ingest.passages import Passage
from kaosmem.names import name_of, path_of, shown_location
from kaosmem.retrieval.ranker import CollectionStatistics

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

T = TypeVar("T")

_WEEK_S = 7 * 86_400.0
_FIRST_COUNTS = "\x01"
"""The id of the first row with counts of terms, and the beginning of others' ids.

Such rows have the source "". No passage has such an id or source.
"""
_FOUND = ("id", "source", "place", "added_at", "text", "tokens", "role", "metadata")
_MAX_SEARCHED = 4_096
_LITERALS = 500
"""So many ids or sources stand in one condition."""
_TRIES = 6
_MAX_TABLE_CHARS = 200
# The characters that a path segment of kaosmem has and a table of LanceDB has not, and `_` itself.
_ESCAPES = {"_": "__", ".": "_d", "@": "_a", "=": "_c", "+": "_p", "~": "_t", "%": "_m"}
_ESCAPED = {escape: char for char, escape in _ESCAPES.items()}
_INDEXED = ("terms", "id", "source", "spot", "labels")


class LanceCorpus(BaseCorpus):
    """A corpus in LanceDB, which needs no server. Each tenant has a table of its own.

    Any number of processes may read and write. A writer that meets another one tries again. Each
    question and each version is consistent. Call `compact` after many additions: questions read
    passages that are not compacted yet without an index.

    Args:
        folder_or_url: A folder, or the URL of a prefix, such as `s3://bucket/corpora`.
        tenant: A valid name. `safe_id` makes one of any text.
        storage_options: Settings of the object store, such as `aws_access_key_id`, `region` and
            `endpoint`. The default is the environment.
        timeout_s: Seconds that a question or an addition may take.
        keep_s: Seconds for which `compact` keeps older versions.

    Raises:
        MissingExtraError: If the extra `lance` is not installed.
        InvalidNameError: If the tenant is not valid.
        InvalidArgumentError: If another argument is not valid.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = LanceCorpus(folder)
    ...     version = await corpus.add(
    ...         [{"id": "lease-1", "source": "lease.md", "text": "The rent is 900 euros."}]
    ...     )
    ...     found = await corpus.candidates(["rent"])
    >>> [each.passage.text for each in found.found]
    ['The rent is 900 euros.']
    """

    def __init__(
        self,
        folder_or_url: str | os.PathLike[str],
        *,
        tenant: str = "default",
        storage_options: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        keep_s: float = _WEEK_S,
    ) -> None:
        _check_installed()
        if not isinstance(folder_or_url, str | os.PathLike) or not os.fspath(folder_or_url):
            raise InvalidArgumentError("the place of a corpus is empty; give a folder or a URL")
        super().__init__(tenant)
        self._timeout_s = check_ttl(timeout_s, "timeout_s")
        self._keep = timedelta(seconds=check_ttl(keep_s, "keep_s"))
        self._lake = _Lake(
            os.fspath(folder_or_url), dict(storage_options or {}), timeout_s=self._timeout_s
        )

    def __repr__(self) -> str:
        return f"LanceCorpus({shown_location(self._lake.url)}, tenant={self._tenant!r})"

    leaves_files = True

    # Changes.

    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        async with self._limited():
            if entries:
                await self._lake.made(self._tenant)
            table = await self._lake.newest(self._tenant)
            return Change(0, 0) if table is None else await _merge(table, entries, sources, ids)

    # Questions.

    async def candidates(
        self,
        terms: Sequence[str],
        *,
        limit: int = CANDIDATES,
        filter: MetadataFilter | None = None,
    ) -> Candidates:
        check_count(limit, "limit", least=1)

        async def ask(table: AsyncTable, version: int) -> Candidates:
            found = await _search(table, terms, limit, filter)
            counts = await self._lake.counts(self._tenant, table, version)
            return Candidates(tuple(found), counts.statistics(terms), version)

        return await self._ask(ask, Candidates((), CollectionStatistics(0, 0), 0))

    async def statistics(self, terms: Iterable[str] = ()) -> CollectionStatistics:
        async def ask(table: AsyncTable, version: int) -> CollectionStatistics:
            return (await self._lake.counts(self._tenant, table, version)).statistics(terms)

        return await self._ask(ask, CollectionStatistics(0, 0))

    async def get(self, ids: Iterable[str]) -> list[Found]:
        wanted = check_ids(ids)
        rows = await self._select(_conditions("id", wanted), _FOUND)
        found = {row["id"]: _found(row) for row in rows}
        return [found[each] for each in wanted if each in found]

    async def at_spots(self, spots: Iterable[str]) -> list[Found]:
        return list(map(_found, await self._select(_conditions("spot", spots), _FOUND)))

    async def sources(self) -> dict[str, str]:
        rows = await self._select(["source <> ''"], ("source", "stamp"))
        return {row["source"]: row["stamp"] for row in rows}

    async def versions(self) -> list[CorpusVersion]:
        async with self._limited():
            table = await self._lake.newest(self._tenant)
            return [] if table is None else await _versions(table)

    async def _select(
        self, conditions: Sequence[str], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return some columns of the rows that satisfy any of some conditions."""

        async def ask(table: AsyncTable, _: int) -> list[dict[str, Any]]:
            return await _rows(table, conditions, columns)

        return await self._ask(ask, [])

    async def _ask(self, ask: Callable[[AsyncTable, int], Awaitable[T]], none: T) -> T:
        """Return the answer of one version, or `none` if the tenant has no passages.

        A version may be given up while it is read. Then the newest one is asked.
        """
        async with self._limited():
            for attempt in range(_TRIES):
                table = await self._lake.newest(self._tenant)
                if table is None:
                    if self._moment is not None:
                        raise not_kept()
                    return none
                version = await self._version(table)
                try:
                    return await ask(await self._lake.pinned(self._tenant, version), version)
                except Exception:
                    is_kept = version in [each.number for each in await _versions(table)]
                    if self._moment is not None and not is_kept:
                        raise not_kept() from None
                    if is_kept or attempt == _TRIES - 1:
                        raise
            raise AssertionError  # the last attempt returns or raises

    async def _version(self, table: AsyncTable) -> int:
        if self._moment is None:
            return await table.version()
        if isinstance(self._moment, int):
            return self._moment
        known = [each.number for each in await _versions(table) if each.at <= self._moment]
        if not known:
            raise not_kept()
        return max(known)

    # Erasure and upkeep.

    async def _purge(self, *, alone: bool) -> int:
        async with _as_typed_errors(self):
            table = await self._lake.newest(self._tenant)
            if table is None:
                return 0
            await self._lake.rebuild(self._tenant, alone=alone)
            return await table.version()

    async def _times(self, sources: Sequence[str], ids: Sequence[str]) -> list[datetime]:
        wanted = [*_conditions("source", sources), *_conditions("id", ids)]
        return [row["added_at"] for row in await self._select(wanted, ("id", "added_at"))]

    async def tenants(self) -> list[str]:
        async with self._limited():
            return sorted(await self._lake.tenants())

    async def erase_tenant(self) -> None:
        self._check_writable()
        async with _as_typed_errors(self):
            await self._lake.drop(self._tenant)

    async def compact(self) -> None:
        """Merge small files and index what is not indexed yet, which may take minutes."""
        self._check_writable()
        async with _as_typed_errors(self):
            if await self._lake.newest(self._tenant) is not None:
                await self._lake.compact(self._tenant, self._keep)

    async def close(self) -> None:
        self._lake.close()

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Raise DurabilityError if the engine fails or takes longer than it may."""
        async with _as_typed_errors(self):
            try:
                async with asyncio.timeout(self._timeout_s):
                    yield
            except TimeoutError as error:
                raise DurabilityError(
                    f"{self!r} gave no answer within {self._timeout_s:g} s; check the storage, "
                    "read what is stored, then try again or raise timeout_s"
                ) from error


@dataclass(eq=False)
class _Lake:
    """A place with the tables of tenants, and what this process knows of them."""

    url: str
    options: dict[str, str]
    timeout_s: float
    _connection: AsyncConnection | None = None
    _tables: dict[str, AsyncTable] = field(default_factory=dict)
    _complete: set[str] = field(default_factory=set)
    _pinned: dict[tuple[str, int], AsyncTable] = field(default_factory=dict)
    _counts: dict[str, tuple[int, TermCounts]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[_Lake], tuple[str, dict[str, str], float]]:
        """Return what another process needs: it opens connections of its own."""
        return _Lake, (self.url, self.options, self.timeout_s)

    async def connection(self) -> AsyncConnection:
        if self._connection is None:
            import lancedb

            limits = {
                "timeout": f"{self.timeout_s:g}s",
                "connect_timeout": f"{min(5.0, self.timeout_s):g}s",
                "client_max_retries": "3",
                "client_retry_timeout": f"{max(1, round(self.timeout_s))}",
            }
            self._connection = await lancedb.connect_async(
                self.url,
                read_consistency_interval=timedelta(0),
                storage_options={**limits, **self.options} if "://" in self.url else None,
            )
        return self._connection

    async def newest(self, tenant: str) -> AsyncTable | None:
        """Return the table of a tenant, which follows all changes. None if there is none."""
        if tenant not in self._tables:
            connection = await self.connection()
            try:
                table = await connection.open_table(_table_name(tenant))
            except ValueError as error:
                if "not found" in str(error):
                    return None
                raise
            _check_schema(await table.schema())
            self._tables[tenant] = table
        return self._tables[tenant]

    async def handle(self, tenant: str) -> AsyncTable:
        """Return the table of a tenant. Raises NotFoundError where there is none."""
        table = await self.newest(tenant)
        if table is None:
            raise NotFoundError("this tenant has no passages here; add some first")
        return table

    async def made(self, tenant: str) -> None:
        """Make the table of a tenant with its indices, as far as they are missing."""
        if tenant in self._complete:
            return
        if await self.newest(tenant) is None:
            # The engine lets one of two creations at the same time replace the other's table.
            connection = await self.connection()
            first = _arrow([_counts_row(TermCounts(), _FIRST_COUNTS)])
            create = partial(connection.create_table, _table_name(tenant), first, exist_ok=True)
            await _retried(create)
        table = await self.handle(tenant)
        for column in _INDEXED:
            await _retried(partial(_indexed, table, column))
        self._complete.add(tenant)

    async def pinned(self, tenant: str, version: int) -> AsyncTable:
        """Return a table that stays in one version."""
        key = tenant, version
        if key not in self._pinned:
            connection = await self.connection()
            table = await connection.open_table(_table_name(tenant))
            await table.checkout(version)
            while len(self._pinned) >= 8:
                del self._pinned[next(iter(self._pinned))]
            self._pinned[key] = table
        return self._pinned[key]

    async def counts(self, tenant: str, table: AsyncTable, version: int) -> TermCounts:
        """Return the counts of terms in a version."""
        known = self._counts.get(tenant)
        if known is None or known[0] != version:
            counts = await asyncio.to_thread(_summed, await _counts_rows(table))
            known = version, counts
            self._counts[tenant] = known
        return known[1]

    async def merge_counts(self, tenant: str) -> None:
        """Put the sum of all counts into the first row of counts, and delete the others.

        Of processes that do so at once, one changes the first row, and the others give way. The row
        names the rows in its sum, so that one that is not deleted yet counts once.
        """
        table = await self.handle(tenant)
        rows = await _counts_rows(table)
        stamps = dict(zip(rows["id"].to_pylist(), rows["stamp"].to_pylist(), strict=True))
        stamp = stamps.pop(_FIRST_COUNTS)
        others = list(stamps)
        if not others:
            return
        counts = await asyncio.to_thread(_summed, rows)
        changed = (
            await table.merge_insert("id")
            .when_matched_update_all(where=f"target.stamp = '{stamp}'")
            .execute(_arrow([_counts_row(counts, _FIRST_COUNTS, covers=others)]))
        )
        if changed.num_updated_rows:
            for condition_sql in _conditions("id", others):
                await table.delete(condition_sql)

    async def compact(self, tenant: str, keep: timedelta) -> None:
        table = await self.handle(tenant)
        await self.made(tenant)
        await self.merge_counts(tenant)
        await _retried(lambda: table.optimize(cleanup_older_than=keep))

    async def rebuild(self, tenant: str, *, alone: bool) -> None:
        """Write all files anew that may hold removed passages, and delete all older versions."""
        import warnings

        table = await self.handle(tenant)
        self._forget(tenant)
        await self.merge_counts(tenant)
        nothing = timedelta(days=36_500)
        await _retried(lambda: table.optimize(cleanup_older_than=nothing))
        for column in _INDEXED:
            await _retried(partial(_indexed, table, column, anew=True))
        with warnings.catch_warnings():
            # Giving up every older version is the purpose here.
            warnings.simplefilter("ignore", UserWarning)
            await _retried(
                lambda: table.optimize(cleanup_older_than=timedelta(0), delete_unverified=alone)
            )
        self._forget(tenant)

    async def tenants(self) -> list[str]:
        connection = await self.connection()
        names = []
        token: str | None = None
        while True:
            page = await connection.list_tables(page_token=token, limit=1_000)
            names += page.tables
            token = page.page_token
            if not token:
                break
        tenants = map(_tenant_of, names)
        return [tenant for tenant in tenants if tenant is not None]

    async def drop(self, tenant: str) -> None:
        self.close()
        connection = await self.connection()
        await connection.drop_table(_table_name(tenant), ignore_missing=True)

    def close(self) -> None:
        """Let go of the connection and of all that was read."""
        self._connection = None
        self._tables.clear()
        self._complete.clear()
        self._pinned.clear()
        self._counts.clear()

    def _forget(self, tenant: str) -> None:
        """Keep nothing of older versions of a tenant."""
        self._counts.pop(tenant, None)
        for key in [key for key in self._pinned if key[0] == tenant]:
            del self._pinned[key]


async def _merge(
    table: AsyncTable, entries: Sequence[Entry], sources: Sequence[str], ids: Sequence[str]
) -> Change:
    """Make one version with new entries, without the old ones of some sources and ids."""
    new_ids = [entry.passage.id for entry in entries]
    gone = [*_conditions("source", sources), *_conditions("id", ids)]
    replaced = await _rows(table, [*gone, *_conditions("id", new_ids)], ("id", "terms"))
    counts = await asyncio.to_thread(
        TermCounts.of,
        (entry.terms for entry in entries),
        (list(map(_term, row["terms"].split())) for row in replaced),
    )
    data = await asyncio.to_thread(_new_rows, entries, counts)
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    if gone and replaced:  # with it, the engine reads the whole table
        merge = merge.when_not_matched_by_source_delete(" OR ".join(gone))
    result = await merge.execute(data)
    return Change(result.version, result.num_deleted_rows)


async def _search(
    table: AsyncTable, terms: Sequence[str], limit: int, wanted: MetadataFilter | None
) -> list[Found]:
    """Return the passages that match best, best first, as the engine scores them."""
    from lancedb.query import MatchQuery

    words = " ".join(map(_token, dict.fromkeys(terms)))
    if not words:
        return []
    sql = None if wanted is None else condition(wanted.given)
    asked = limit
    while True:
        match = MatchQuery(words, "terms")  # type: ignore[call-arg]
        query = table.query().nearest_to_text(match)
        if sql is not None:
            query = query.where(sql)
        rows = await query.limit(asked).select([*_FOUND, "_score"]).to_list()
        rows.sort(key=lambda row: (-row["_score"], row["id"]))
        found = list(map(_found, rows))
        if wanted is not None:
            found = [each for each in found if wanted(each.passage.metadata)]
        if len(found) >= limit or len(rows) < asked or asked >= _MAX_SEARCHED:
            return found[:limit]
        asked = min(4 * asked, _MAX_SEARCHED)


async def _rows(
    table: AsyncTable, conditions: Iterable[str], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return some columns of the rows that satisfy any of some conditions, each row once."""
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    listed = list(conditions)
    for each in listed:
        found = await table.query().where(each).select(list(columns)).to_list()
        if len(listed) > 1 and "id" in columns:
            found = [row for row in found if row["id"] not in seen]
            seen.update(row["id"] for row in found)
        rows += found
    return rows


async def _versions(table: AsyncTable) -> list[CorpusVersion]:
    listed = await table.list_versions()  # type: ignore[no-untyped-call]
    return sorted(
        CorpusVersion(each["version"], each["timestamp"].astimezone(UTC)) for each in listed
    )


async def _indexed(table: AsyncTable, column: str, *, anew: bool = False) -> None:
    """Make the index of a column, if it is missing or shall be made anew."""
    from lancedb.index import FTS, BTree, LabelList

    columns = [index.columns for index in await table.list_indices()]
    if [column] in columns and not anew:
        return
    kind: FTS | BTree | LabelList = BTree()
    if column == "terms":
        kind = FTS(
            base_tokenizer="whitespace",
            with_position=False,
            max_token_length=None,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
    elif column == "labels":
        kind = LabelList()
    await table.create_index(column, config=kind, replace=True)


async def _retried(work: Callable[[], Awaitable[object]]) -> None:
    """Do work that gives way to other writers, until it is done."""
    for attempt in range(_TRIES):
        try:
            await work()
            return
        except (RuntimeError, OSError) as error:
            if "conflict" not in str(error).lower() or attempt == _TRIES - 1:
                raise
        await asyncio.sleep(0.05 * 2**attempt)


@asynccontextmanager
async def _as_typed_errors(corpus: LanceCorpus) -> AsyncIterator[None]:
    """Raise the engine's errors as DurabilityError. Their messages may show rows."""
    try:
        yield
    except (KaosmemError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise DurabilityError(
            f"{corpus!r} failed with {type(error).__name__}, the cause of this error; check the "
            "storage and its free space, then try again"
        ) from error


def _conditions(column: str, values: Iterable[str]) -> list[str]:
    """Return conditions of which a row satisfies one if its column has one of some values."""
    quoted = ["'" + value.replace("'", "''") + "'" for value in values]
    parts = [quoted[at : at + _LITERALS] for at in range(0, len(quoted), _LITERALS)]
    return [f"{column} IN ({', '.join(part)})" for part in parts]


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        {
            "id": pa.string(),
            "source": pa.string(),
            "place": pa.int32(),
            "spot": pa.string(),
            "added_at": pa.timestamp("us", tz="UTC"),
            "text": pa.string(),
            "tokens": pa.int32(),
            "role": pa.string(),
            "metadata": pa.string(),
            "stamp": pa.string(),
            "labels": pa.list_(pa.string()),
            "terms": pa.string(),
            # As a list: the engine rewrites long binary values slowly, and in gigabytes.
            "counts": pa.list_(pa.int64()),
        }
    )


def _check_schema(schema: pa.Schema) -> None:
    if schema.names != _schema().names:
        raise UnsupportedVersionError(
            "the table of this corpus has other columns; give a folder of its own, or install the "
            "kaosmem that wrote it"
        )


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, _schema())


def _new_rows(entries: Iterable[Entry], counts: TermCounts) -> pa.Table:
    return _arrow([*map(_row, entries), _counts_row(counts)])


def _row(entry: Entry) -> dict[str, Any]:
    passage = entry.passage
    return {
        "id": passage.id,
        "source": passage.source,
        "place": entry.place,
        "spot": spot_of(passage.source, entry.added_at, entry.place),
        "added_at": entry.added_at,
        "text": passage.text,
        "tokens": entry.tokens,
        "role": passage.role,
        "metadata": json_text(passage.metadata),
        "stamp": str(passage.metadata.get("file", "")),
        "labels": labels_of(passage.metadata),
        "terms": " ".join(map(_token, entry.terms)),
        "counts": None,
    }


def _found(row: Mapping[str, Any]) -> Found:
    metadata = json.loads(row["metadata"])
    passage = Passage(row["id"], row["text"], row["source"], metadata, row["role"])
    return Found(row["added_at"], row["place"], passage, row["tokens"])


def _counts_row(
    counts: TermCounts, row_id: str = "", *, covers: Sequence[str] = ()
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_schema().names)
    row["stamp"] = secrets.token_hex(16)
    row["id"] = row_id or _FIRST_COUNTS + row["stamp"]
    row["source"] = ""
    row["metadata"] = json_text(list(covers))
    row["counts"] = counts.dump()
    return row


async def _counts_rows(table: AsyncTable) -> pa.Table:
    query = table.query().where("source = ''")
    return await query.select(["id", "stamp", "metadata", "counts"]).to_arrow()


def _summed(rows: pa.Table) -> TermCounts:
    """Return the sum of rows with counts, without the rows that are in the sum of the first."""
    covered: set[str] = set()
    for covers in rows["metadata"].to_pylist():
        covered.update(json.loads(covers))
    parts = []
    for row_id, counts in zip(rows["id"].to_pylist(), rows["counts"], strict=True):
        if row_id not in covered:
            parts.append(TermCounts.load(counts.values.to_numpy(zero_copy_only=False)))
    return TermCounts.sum(parts)


def _token(term: str) -> str:
    """Return a term as a word of ASCII letters and digits. Different terms have different words."""
    if term.isascii() and term.isalnum() and not term.startswith("X"):
        return term
    return "X" + term.encode().hex()


def _term(token: str) -> str:
    """Return the term of a word."""
    return bytes.fromhex(token[1:]).decode() if token.startswith("X") else token


def _table_name(tenant: str) -> str:
    """Return the name of a tenant's table. No two tenants share one, on any filesystem."""
    name = "".join(_ESCAPES.get(char, char) for char in path_of(tenant))
    if len(name) > _MAX_TABLE_CHARS:
        raise InvalidNameError(
            f"tenant of {len(tenant)} characters is too long for a folder; use safe_id() of a "
            "shorter text"
        )
    return name


def _tenant_of(table_name: str) -> str | None:
    """Return the tenant of a table, None for a table of another kind."""
    chars = []
    at = 0
    while at < len(table_name):
        size = 2 if table_name[at] == "_" else 1
        chars.append(table_name[at : at + size])
        at += size
    return name_of("".join(_ESCAPED.get(char, char) for char in chars))


def _check_installed() -> None:
    try:
        import lancedb  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "LanceCorpus needs the extra 'lance': pip install 'kaosmem[lance]'"
        ) from error
