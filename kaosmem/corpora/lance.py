"""A corpus in LanceDB: a folder, or a prefix of an object store, with nothing else to run."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import warnings
from base64 import b32decode, b32encode
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kaosmem.arguments import check_ttl, json_text
from kaosmem.corpora.corpus import (
    WEEK_S,
    Change,
    Corpus,
    CorpusVersion,
    Entry,
    Found,
    Hits,
    not_kept,
)
from kaosmem.corpora.labels import condition
from kaosmem.corpora.term_counts import TermCounts
from kaosmem.errors import (
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
    MissingExtraError,
    UnsupportedVersionError,
)
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown_location

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

T = TypeVar("T")

_COUNTS = "\x01"
"""The beginning of the id of a row with counts of terms.

Such rows have the source "". No passage has such an id or source. A row with a `stamp` is the sum
of the rows that its `passage` names, at the version of that number.
"""
_OF_COUNTS = "source = ''"
_LITERALS = 500
"""So many ids or sources stand in one condition."""
_TRIES = 8
_NOTHING_OLD = timedelta(days=36_500)
_TABLE = "corpus_"
"""Begins the names of the tables of tenants."""
_INDEXED = ("words", "id", "source", "spot", "labels")


class LanceCorpus(Corpus):
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
        keep_s: float = WEEK_S,
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

    async def sources(self) -> dict[str, str]:
        return await self._ask(_sources, {})

    async def versions(self) -> list[CorpusVersion]:
        async with self._limited():
            tenant = await self._lake.find(self._tenant)
            return [] if tenant is None else await _versions(tenant.newest)

    async def tenants(self) -> list[str]:
        async with self._limited():
            return sorted(await self._lake.names())

    async def erase_tenant(self) -> None:
        self._check_writable()
        async with _as_typed_errors(self):
            await self._lake.drop(self._tenant)

    async def compact(self) -> None:
        """Merge small files and index what is not indexed yet, which may take minutes."""
        self._check_writable()
        async with _as_typed_errors(self):
            if await self._lake.find(self._tenant) is not None:
                tenant = await self._lake.make(self._tenant)
                await tenant.merge_counts()
                await _retried(partial(tenant.newest.optimize, cleanup_older_than=self._keep))

    async def close(self) -> None:
        self._lake.close()

    # The engine's part.

    async def _change(
        self, entries: Sequence[Entry], sources: Sequence[str] = (), ids: Sequence[str] = ()
    ) -> Change:
        gone = [*_conditions("source", sources), *_conditions("id", ids)]
        async with self._limited():
            lake = self._lake
            find = lake.make if entries else lake.find
            tenant = await find(self._tenant)
            if tenant is None:
                return Change(0, 0)
            return await _retried(partial(tenant.change, entries, gone))

    async def _search(
        self, words: Sequence[str], limit: int, wanted: MetadataFilter | None
    ) -> Hits:
        async def ask(tenant: _Tenant, table: AsyncTable) -> Hits:
            found = await _matches(table, words, limit, wanted)
            return Hits(found, await tenant.counts(table), await table.version())

        return await self._ask(ask, Hits((), TermCounts(), 0))

    async def _counts(self) -> TermCounts:
        return await self._ask(_Tenant.counts, TermCounts())

    async def _at_values(self, column: str, values: Sequence[str]) -> list[Found]:
        async def ask(_: _Tenant, table: AsyncTable) -> list[dict[str, Any]]:
            return await _rows(table, _conditions(column, values), ("passage",))

        rows: list[dict[str, Any]] = await self._ask(ask, [])
        return [Found.load(row["passage"]) for row in rows]

    async def _purge(self, *, alone: bool) -> int:
        async with _as_typed_errors(self):
            tenant = await self._lake.find(self._tenant)
            if tenant is None:
                return 0
            await tenant.rebuild(alone=alone)
            return await tenant.newest.version()

    async def _ask(self, ask: Callable[[_Tenant, AsyncTable], Awaitable[T]], none: T) -> T:
        """Return the answer of one version, or `none` if the tenant has no passages.

        A version may be given up while it is read. Then the newest one is asked.
        """
        async with self._limited():
            for attempt in range(_TRIES):
                tenant = await self._lake.find(self._tenant)
                if tenant is None:
                    if self._moment is not None:
                        raise not_kept()
                    return none
                version = await self._version(tenant.newest)
                try:
                    return await ask(tenant, await tenant.pinned(version))
                except (OSError, RuntimeError, ValueError):
                    kept = [each.number for each in await _versions(tenant.newest)]
                    if self._moment is not None and version not in kept:
                        raise not_kept() from None
                    if version in kept or attempt == _TRIES - 1:
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
    """A place with the tables of tenants, as far as this process has opened them."""

    url: str
    options: dict[str, str]
    timeout_s: float
    _connection: AsyncConnection | None = None
    _tenants: dict[str, _Tenant] = field(default_factory=dict)

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

    async def find(self, name: str) -> _Tenant | None:
        """Return a tenant, or None if it has no table."""
        if name not in self._tenants:
            connection = await self.connection()
            table_name = _table_name(name)
            try:
                newest = await connection.open_table(table_name)
            except ValueError as error:
                if "not found" in str(error):
                    return None
                raise
            _check_schema(await newest.schema())
            self._tenants[name] = _Tenant(newest, partial(connection.open_table, table_name))
        return self._tenants[name]

    async def make(self, name: str) -> _Tenant:
        """Return a tenant, with a table and its indices."""
        if await self.find(name) is None:
            connection = await self.connection()
            await _retried(partial(_created, connection, _table_name(name)))
        tenant = await self.find(name)
        assert tenant is not None
        if not tenant.is_complete:
            found = [index.columns for index in await tenant.newest.list_indices()]
            for column in _INDEXED:
                if [column] not in found:
                    await _retried(partial(_index, tenant.newest, column))
            tenant.is_complete = True
        return tenant

    async def names(self) -> list[str]:
        """Return the names of the tenants."""
        connection = await self.connection()
        names: list[str] = []
        token: str | None = ""
        while token is not None:
            page = await connection.list_tables(page_token=token or None, limit=1_000)
            names += page.tables
            token = page.page_token or None
        return [_tenant_of(name) for name in names if name.startswith(_TABLE)]

    async def drop(self, name: str) -> None:
        self.close()
        connection = await self.connection()
        await connection.drop_table(_table_name(name), ignore_missing=True)

    def close(self) -> None:
        """Let go of the connection and of all that was read."""
        self._connection = None
        self._tenants.clear()


@dataclass(eq=False)
class _Tenant:
    """The table of a tenant, and what this process has read of it.

    Attributes:
        newest: The table, which follows all changes.
        reopen: Opens the table anew.
        is_complete: Whether all indices are there.
    """

    newest: AsyncTable
    reopen: Callable[[], Awaitable[AsyncTable]]
    is_complete: bool = False
    _pinned: tuple[int, AsyncTable] | None = None
    _parts: dict[str, TermCounts] = field(default_factory=dict)
    _sum: tuple[int, TermCounts] = (-1, TermCounts())

    async def pinned(self, version: int) -> AsyncTable:
        """Return the table as it stays in one version."""
        if self._pinned is None or self._pinned[0] != version:
            table = await self.reopen()
            await table.checkout(version)
            self._pinned = version, table
        return self._pinned[1]

    async def counts(self, table: AsyncTable) -> TermCounts:
        """Return the counts of terms in a version. Rows that are known already are not read."""
        version = await table.version()
        if self._sum[0] != version:
            wanted = _counted(await _rows(table, [_OF_COUNTS], ("id", "stamp", "passage")))
            parts = {each: part for each, part in self._parts.items() if each in wanted}
            for each in _conditions("id", wanted - parts.keys()):
                rows = await table.query().where(each).select(["id", "counts"]).to_arrow()
                for row_id, counts in zip(rows["id"].to_pylist(), rows["counts"], strict=True):
                    numbers = counts.values.to_numpy(zero_copy_only=False)
                    parts[row_id] = TermCounts.load(numbers)
            self._parts = parts
            self._sum = version, await asyncio.to_thread(TermCounts.sum, parts.values())
        return self._sum[1]

    async def merge_counts(self) -> None:
        """Put the sum of all counts into one row, and delete the others.

        Processes that do so at once add several sums, of which the newest one counts.
        """
        version = await self.newest.version()
        table = await self.pinned(version)
        rows = await _rows(table, [_OF_COUNTS], ("id",))
        if len(rows) < 2:
            return
        covered = [row["id"] for row in rows]
        total = await self.counts(table)
        await self.newest.add(_arrow([_counts_row(total, str(version), covered)]))
        for each in _conditions("id", covered):
            await _retried(partial(self.newest.delete, each))

    async def rebuild(self, *, alone: bool) -> None:
        """Write all files anew that may hold removed passages, and delete all older versions."""
        table = self.newest
        await self.merge_counts()
        await _retried(partial(table.optimize, cleanup_older_than=_NOTHING_OLD))
        for column in _INDEXED:
            await _retried(partial(_index, table, column))
        clean = partial(table.optimize, cleanup_older_than=timedelta(0), delete_unverified=alone)
        with warnings.catch_warnings():
            # Giving up every older version is the purpose here.
            warnings.simplefilter("ignore", UserWarning)
            await _retried(clean)
        self._pinned = None

    async def change(self, entries: Sequence[Entry], gone: Sequence[str]) -> Change:
        """Make one version with new entries, without the rows that satisfy any of some conditions."""
        table = self.newest
        before = await table.version()
        conditions = [*gone, *_conditions("id", [entry.id for entry in entries])]
        replaced = await _words_by_spot(table, conditions)
        data = await asyncio.to_thread(_new_rows, entries, replaced.values())
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        if gone and replaced:  # with it, the engine reads the whole table
            merge = merge.when_not_matched_by_source_delete(" OR ".join(gone))
        result = await merge.execute(data)
        if result.version != before + 1 and conditions:
            own = {entry.found.spot() for entry in entries}
            await self._settle(result.version, conditions, own, replaced)
        return Change(result.version, result.num_deleted_rows)

    async def _settle(
        self,
        version: int,
        conditions: Sequence[str],
        own: Collection[str],
        replaced: Mapping[str, Sequence[str]],
    ) -> None:
        """Bring the counts in line with what a change has done beside other changes.

        Passages that another writer put there meanwhile give way: the later change wins.

        Args:
            own: The spots of the new passages.
            replaced: The words of the rows whose counts have been taken back, by their spots.
        """
        earlier = await _words_by_spot(await self.pinned(version - 1), conditions)
        later = await _words_by_spot(await self.pinned(version), conditions)
        gone = {spot: words for spot, words in earlier.items() if spot not in later}
        if gone.keys() != replaced.keys():
            difference = TermCounts.of(replaced.values(), gone.values())
            await self.newest.add(_arrow([_counts_row(difference)]))
        strays = later.keys() - own
        if strays:
            await _retried(partial(self.change, (), _conditions("spot", sorted(strays))))


async def _words_by_spot(table: AsyncTable, conditions: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return the words of the rows that satisfy any of some conditions."""
    rows = await _rows(table, conditions, ("spot", "words"))
    return {row["spot"]: row["words"].split() for row in rows}


async def _created(connection: AsyncConnection, name: str) -> None:
    """Make a table, unless another process has made it.

    The engine lets one of two creations at the same time replace the other's table. The later one
    puts back what it has replaced.
    """
    try:
        table = await connection.create_table(name, schema=_schema())
    except ValueError as error:
        if "already exists" not in str(error):
            raise
        return
    version = await table.version()
    if version > 1:
        replaced = await connection.open_table(name)
        await replaced.checkout(version - 1)
        rows = await replaced.to_arrow()
        await _retried(
            partial(table.merge_insert("id").when_not_matched_insert_all().execute, rows)
        )


async def _matches(
    table: AsyncTable, words: Sequence[str], limit: int, wanted: MetadataFilter | None
) -> list[Found]:
    """Return the passages that match best, best first, as the engine scores them."""
    from lancedb.query import MatchQuery

    if not words:
        return []
    query = table.query().nearest_to_text(MatchQuery(" ".join(words), "words"))  # type: ignore[call-arg]
    if wanted is not None:
        query = query.where(condition(wanted.given, "array_has(labels, '{}')"))
    rows = await query.limit(limit).select(["passage", "_score"]).to_list()
    found = [(-row["_score"], Found.load(row["passage"])) for row in rows]
    found.sort(key=lambda each: (each[0], each[1].passage.id))
    return [each for _, each in found]


async def _rows(
    table: AsyncTable, conditions: Iterable[str], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return some columns of the rows that satisfy some conditions: a row of two comes twice."""
    rows: list[dict[str, Any]] = []
    for each in conditions:
        rows += await table.query().where(each).select(list(columns)).to_list()
    return rows


async def _sources(_: _Tenant, table: AsyncTable) -> dict[str, str]:
    """Return the stamp of each source. Rows are read in batches, as there may be millions."""
    stamps: dict[str, str] = {}
    query = table.query().where("source <> ''").select(["source", "stamp"])
    async for batch in await query.to_batches():
        stamps.update(zip(batch["source"].to_pylist(), batch["stamp"].to_pylist(), strict=True))
    return stamps


async def _versions(table: AsyncTable) -> list[CorpusVersion]:
    listed = await table.list_versions()  # type: ignore[no-untyped-call]
    return sorted(
        CorpusVersion(each["version"], each["timestamp"].astimezone(UTC)) for each in listed
    )


async def _index(table: AsyncTable, column: str) -> None:
    """Make the index of a column, in place of one that is there."""
    from lancedb.index import FTS, BTree, LabelList

    kind: FTS | BTree | LabelList = BTree()
    if column == "words":
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


async def _retried(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work that gives way to other writers, until it is done."""
    for attempt in range(_TRIES):
        try:
            return await work()
        except (RuntimeError, OSError) as error:
            if "conflict" not in str(error).lower() or attempt == _TRIES - 1:
                raise
        await asyncio.sleep(0.05 * 2**attempt)
    raise AssertionError  # the last attempt returns or raises


@asynccontextmanager
async def _as_typed_errors(corpus: LanceCorpus) -> AsyncIterator[None]:
    """Raise the engine's errors as DurabilityError. Their messages may show rows."""
    try:
        yield
    except KaosmemError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        if not (isinstance(error, OSError) or _is_from_engine(error)):
            raise
        raise DurabilityError(
            f"{corpus!r} failed with {type(error).__name__}, the cause of this error; check the "
            "storage and its free space, then try again"
        ) from error


def _is_from_engine(error: Exception) -> bool:
    """Return whether an error was raised in a call of the engine, and not by a fault here."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals["__name__"] if trace is not None else ""
    return module.partition(".")[0] in ("lancedb", "pyarrow")


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
            "spot": pa.string(),
            "passage": pa.string(),
            "stamp": pa.string(),
            "labels": pa.list_(pa.string()),
            "words": pa.string(),
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


def _new_rows(entries: Sequence[Entry], removed: Iterable[Sequence[str]]) -> pa.Table:
    counts = TermCounts.of((entry.words for entry in entries), removed)
    return _arrow([*(entry.row() for entry in entries), _counts_row(counts)])


def _counts_row(
    counts: TermCounts, version: str = "", covered: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "id": _COUNTS + secrets.token_hex(16),
        "source": "",
        "stamp": version,
        "passage": json_text(list(covered)),
        "counts": counts.dump(),
    }


def _counted(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the rows with counts whose sum is that of a version."""
    sums = [row for row in rows if row["stamp"]]
    newest = max(sums, key=lambda row: (int(row["stamp"]), row["id"]), default=None)
    wanted = {row["id"] for row in rows if not row["stamp"]}
    if newest is not None:
        wanted.difference_update(json.loads(newest["passage"]))
        wanted.add(newest["id"])
    return wanted


def _table_name(tenant: str) -> str:
    """Return the name of a tenant's table. No two tenants share one, on any filesystem."""
    return _TABLE + b32encode(tenant.encode()).decode().rstrip("=").lower()


def _tenant_of(table_name: str) -> str:
    """Return the tenant of a table."""
    letters = table_name.removeprefix(_TABLE).upper()
    return b32decode(letters + "=" * (-len(letters) % 8)).decode()


def _check_installed() -> None:
    try:
        import lancedb  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "LanceCorpus needs the extra 'lance': pip install 'kaosmem[lance]'"
        ) from error
