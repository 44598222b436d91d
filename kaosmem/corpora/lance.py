"""A corpus in LanceDB: a folder, or a prefix of an object store, with nothing else to run."""

from __future__ import annotations

import asyncio
import os
import re
import time
import warnings
from base64 import b32decode, b32encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from kaosmem.arguments import check_ttl
from kaosmem.corpora.corpus import (
    OF_ALL_WORDS,
    OF_PASSAGES,
    WEEK_S,
    Candidates,
    Change,
    Corpus,
    CorpusChange,
    CorpusVersion,
    Snapshot,
    not_kept,
    passage_in,
    query_words,
    row_of,
    spot_of,
    statistics_of,
    word_of,
)
from kaosmem.corpora.term_counts import count_words, packed, unpacked
from kaosmem.errors import (
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
    MissingExtraError,
)
from kaosmem.filters import MetadataFilter
from kaosmem.names import shown_location
from kaosmem.stores.labels import condition
from kaosmem.types.items import Item

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import LanceDBConnection
    from lancedb.query import LanceQueryBuilder
    from lancedb.table import LanceTable
    from numpy.typing import NDArray

T = TypeVar("T")

_COUNT_ID = "\x01"
"""The id of the row with the last count of terms. No passage has this id, nor its source "".

Its `stamp` is the number of the version that was counted.
"""
_IS_COUNT = "source = ''"
_IS_PASSAGE = "source <> ''"
_TRIES = 8
_GIVES_WAY = re.compile("conflict|no longer exists|not found", re.IGNORECASE)
"""Errors of a change that met another one, and of a version that was given up while it was read."""
_NOTHING_OLD = timedelta(days=36_500)
_TABLE = "corpus_"
"""Begins the names of the tables of tenants."""
_INDICES = 5


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
    >>> [each.text for each in found.found]
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

    async def versions(self) -> list[CorpusVersion]:
        return await self._work(_Tenant.versions) or []

    async def tenants(self) -> list[str]:
        return await self._run(self._lake.tenants)

    async def erase_tenant(self) -> None:
        self._check_writable()
        await self._run(lambda: self._lake.drop(self._tenant))

    async def close(self) -> None:
        self._lake.close()

    # The engine's part.

    async def _ask(self, ask: Callable[[Snapshot], T]) -> T | None:
        number = await self._number()
        return await self._work(lambda tenant: ask(tenant.at(number)))

    async def _change(self, change: Change) -> CorpusChange:
        work = partial(_Tenant.change, change=change)
        return await self._work(work, makes=bool(change.new)) or CorpusChange(0, 0)

    async def _merge(self, *, counts: bool) -> None:
        """Merge small files and index the passages that no index has, which may take minutes."""
        merge = partial(_Tenant.merge, keep=self._keep, counts=counts)
        await self._work(merge, is_long=True)

    async def _purge(self, *, alone: bool) -> int:
        return await self._work(partial(_Tenant.rebuild, alone=alone), is_long=True) or 0

    async def _work(
        self, work: Callable[[_Tenant], T], *, makes: bool = False, is_long: bool = False
    ) -> T | None:
        """Return the result of work on the tenant, None if it has no table and none is made."""

        def on_tenant() -> T | None:
            tenant = self._lake.find(self._tenant, makes=makes)
            return None if tenant is None else work(tenant)

        return await self._run(on_tenant, is_long=is_long)

    async def _run(self, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Return the result of work in a thread. It begins again if another writer was faster.

        Raises:
            DurabilityError: If the engine fails or takes too long. Its own errors may show rows.
        """
        try:
            async with asyncio.timeout(None if is_long else self._timeout_s):
                return await asyncio.to_thread(_retried, work)
        except TimeoutError as error:
            raise DurabilityError(
                f"{self!r} gave no answer within {self._timeout_s:g} s; check the storage, "
                "read what is stored, then try again or raise timeout_s"
            ) from error
        except KaosmemError:
            raise
        except (OSError, RuntimeError) as error:
            raise DurabilityError(
                f"{self!r} failed with {type(error).__name__}, the cause of this error; check the "
                "storage and its free space, then try again"
            ) from error


@dataclass(eq=False)
class _Lake:
    """A place with the tables of tenants, as far as this process has opened them."""

    url: str
    options: dict[str, str]
    timeout_s: float
    _tenants: dict[str, _Tenant] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[_Lake], tuple[str, dict[str, str], float]]:
        """Return what another process needs: it opens connections of its own."""
        return _Lake, (self.url, self.options, self.timeout_s)

    @cached_property
    def connection(self) -> LanceDBConnection:
        """The connection of this process."""
        import lancedb

        limits = {
            "timeout": f"{self.timeout_s:g}s",
            "connect_timeout": f"{min(5.0, self.timeout_s):g}s",
            "client_max_retries": "3",
            "client_retry_timeout": f"{max(1, round(self.timeout_s))}",
        }
        return lancedb.connect(  # type: ignore[return-value]
            self.url,
            read_consistency_interval=timedelta(0),
            storage_options={**limits, **self.options} if "://" in self.url else None,
        )

    def find(self, name: str, *, makes: bool = False) -> _Tenant | None:
        """Return a tenant, None if it has no table and none is made."""
        if name not in self._tenants:
            table_name = _table_name(name)
            if makes:
                _make(self.connection, table_name)
            elif table_name not in self.tables():
                return None
            self._tenants[name] = _Tenant(partial(self.connection.open_table, table_name))
        tenant = self._tenants[name]
        if makes:
            tenant.complete()
        return tenant

    def tables(self) -> list[str]:
        """Return the names of the tables."""
        tables: list[str] = self.connection.list_tables().tables
        return tables

    def tenants(self) -> list[str]:
        """Return the names of the tenants."""
        return sorted(_tenant_of(name) for name in self.tables() if name.startswith(_TABLE))

    def drop(self, name: str) -> None:
        self._tenants.pop(name, None)
        self.connection.drop_table(_table_name(name), ignore_missing=True)

    def close(self) -> None:
        """Let go of the connection and of all that was read."""
        vars(self).pop("connection", None)
        self._tenants.clear()


class _Tenant:
    """The table of a tenant, and what this process has read of it."""

    def __init__(self, open_table: Callable[..., LanceTable]) -> None:
        self._open = open_table
        self._newest = open_table()
        self._last: _Snapshot | None = None

    def versions(self) -> list[CorpusVersion]:
        """Return the versions that are kept, oldest first."""
        listed = self._newest.list_versions()
        return sorted(
            CorpusVersion(each["version"], each["timestamp"].astimezone(UTC)) for each in listed
        )

    def complete(self) -> None:
        """Make all indices, unless they are there."""
        if len(list(self._newest.list_indices())) < _INDICES:
            self._index()

    def at(self, number: int | None) -> _Snapshot:
        """Return a version of the table. A count of terms that is known is not read again."""
        version = self._newest.version if number is None else number
        last = self._last
        if last is not None and last.version == version:
            return last
        try:
            table = self._open(version=version)
        except ValueError:
            if number is None:
                raise
            raise not_kept() from None
        rows = _rows(table, _IS_COUNT, "stamp")
        # Two processes that have made the first count at once have made two rows.
        stamp = max((row["stamp"] for row in rows), key=int, default="")
        counts = np.empty(0, np.int64)
        if last is not None and last.stamp == stamp:
            counts = last.counts
        elif stamp:
            is_newest = f"{_IS_COUNT} AND stamp = '{stamp}'"
            read = table.search().where(is_newest).select(["counts"]).to_arrow()
            counts = read["counts"][0].values.to_numpy(zero_copy_only=False)
        self._last = _Snapshot(version, table, stamp, counts)
        return self._last

    def change(self, change: Change) -> CorpusChange:
        """Make one version with new passages, without the old ones of some sources and ids."""
        new, sources, ids = change
        table = self._newest
        before = table.version
        gone = f"{_is_in('source', sources)} OR {_is_in('id', ids)}"
        has_gone = table.count_rows(gone) > 0
        if not (new or has_gone):
            return CorpusChange(before, 0)
        rows = _arrow(map(row_of, new))
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        if has_gone:  # with it, the engine reads the whole table
            merge = merge.when_not_matched_by_source_delete(gone)
        result = merge.execute(rows)
        if result.version != before + 1:
            own = {spot_of(each): each.id for each in new}
            self._take_over(result.version, f"{gone} OR {_is_in('id', own.values())}", own)
        return CorpusChange(result.version, result.num_deleted_rows + result.num_updated_rows)

    def _take_over(self, version: int, replaced: str, own: Collection[str]) -> None:
        """Remove the passages that another writer put in the same place meanwhile.

        Args:
            replaced: The condition of the passages that the change has replaced.
            own: The spots of the new passages.
        """
        table = self._open(version=version)
        there = {row["spot"] for row in _rows(table, replaced, "spot")}
        strays = there.difference(own)
        if strays:
            self._newest.delete(_is_in("spot", strays))

    def merge(self, *, keep: timedelta, counts: bool, alone: bool = False) -> None:
        """Merge small files, give up versions that are older, and count the terms of all passages.

        Args:
            alone: Whether files that no version names are deleted too.
        """
        with warnings.catch_warnings():
            # Giving up every older version is the purpose of an erasure.
            warnings.simplefilter("ignore", UserWarning)
            self._newest.optimize(cleanup_older_than=keep, delete_unverified=alone)
        if counts:
            self._count()

    def rebuild(self, *, alone: bool) -> int:
        """Write all files anew that may hold removed passages, and delete all older versions."""
        self.merge(keep=_NOTHING_OLD, counts=True)
        self._index()
        self.merge(keep=timedelta(0), counts=False, alone=alone)
        self._last = None
        return self._newest.version

    def _count(self) -> None:
        """Count the terms of all passages, and keep the count in a new version."""
        version = self._newest.version
        counts: Counter[str] = Counter()
        query = self._open(version=version).search().where(_IS_PASSAGE).select(["words"])
        for batch in query.to_batches():
            count_words(counts, batch["words"].to_pylist())
        row = {"id": _COUNT_ID, "source": "", "stamp": str(version), "counts": packed(counts)}
        merge = self._newest.merge_insert("id")
        put = merge.when_matched_update_all().when_not_matched_insert_all()
        put.execute(_arrow([row]))

    def _index(self) -> None:
        """Make all indices, in place of those that are there."""
        from lancedb.index import FTS, BTree, LabelList

        words = FTS(
            base_tokenizer="whitespace",
            max_token_length=None,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
        for column in ("id", "source", "spot"):
            self._newest.create_index(column, config=BTree())
        self._newest.create_index("labels", config=LabelList())
        self._newest.create_index("words", config=words)


class _Snapshot(NamedTuple):
    """A version of a tenant's table, with the last count of terms in it."""

    version: int
    table: LanceTable
    stamp: str
    counts: NDArray[np.int64]

    def lookup(self, column: str, values: Sequence[str]) -> list[Item]:
        rows = _rows(self.table, _is_in(column, values), "passage")
        return [passage_in(row["passage"]) for row in rows]

    def sources(self) -> dict[str, str]:
        """Return the stamp of each source. Rows are read in batches, as there may be millions."""
        stamps: dict[str, str] = {}
        query = self.table.search().where(_IS_PASSAGE).select(["source", "stamp"])
        for batch in query.to_batches():
            stamps.update(zip(batch["source"].to_pylist(), batch["stamp"].to_pylist(), strict=True))
        return stamps

    def search(self, terms: Sequence[str], limit: int, wanted: MetadataFilter | None) -> Candidates:
        """Return the passages that match best, best first, as the engine scores them."""
        statistics = statistics_of(
            terms, unpacked(self.counts, [OF_PASSAGES, OF_ALL_WORDS, *map(word_of, terms)])
        )
        if not limit:
            return Candidates((), statistics, self.version)
        where = _IS_PASSAGE
        if wanted is not None:
            where = f"{where} AND {condition(wanted.given, 'array_has_any(labels, [{}])')}"
        columns = ["id", "passage"]
        query: LanceQueryBuilder = self.table.search()
        if terms:
            words = " ".join(query_words(terms))
            query = self.table.search(words, query_type="fts", fts_columns="words")
            columns.append("_score")
        rows = query.where(where).limit(limit).select(columns).to_list()
        rows.sort(key=lambda row: (-row.get("_score", 0), row["id"]))
        found = [passage_in(row["passage"]) for row in rows]
        return Candidates(found, statistics, self.version)


def _make(connection: LanceDBConnection, name: str) -> None:
    """Make a table, unless another process has made it.

    The engine lets one of two creations at the same time replace the other's table. The later one
    puts back what it has replaced.
    """
    try:
        table = connection.create_table(name, schema=_schema())
    except ValueError as error:
        if "already exists" not in str(error):
            raise
        return
    version = table.version
    if version > 1:
        rows = connection.open_table(name, version=version - 1).to_arrow()
        table.merge_insert("id").when_not_matched_insert_all().execute(rows)


def _rows(table: LanceTable, where: str, *columns: str) -> list[dict[str, Any]]:
    """Return some columns of the rows that satisfy a condition."""
    rows: list[dict[str, Any]] = table.search().where(where).select(list(columns)).to_list()
    return rows


def _retried(work: Callable[[], T]) -> T:
    """Return the result of work that gives way to other writers, until it is done."""
    for attempt in range(_TRIES - 1):
        try:
            return work()
        except (OSError, RuntimeError, ValueError) as error:
            if not _GIVES_WAY.search(str(error)):
                raise
        time.sleep(0.05 * 2**attempt)
    return work()


def _is_in(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column has one of some values."""
    quoted = ["'" + value.replace("'", "''") + "'" for value in values]
    return f"{column} IN ({', '.join(quoted)})" if quoted else "FALSE"


def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = ("id", "source", "spot", "passage", "stamp", "words")
    columns = {name: pa.string() for name in texts}
    # As a list: the engine rewrites long binary values slowly, and in gigabytes.
    lists = {"labels": pa.list_(pa.string()), "counts": pa.list_(pa.int64())}
    return pa.schema(columns | lists)


def _arrow(rows: Iterable[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), _schema())


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
