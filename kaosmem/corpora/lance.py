"""A corpus in LanceDB: a folder, or a prefix of an object store, with nothing else to run."""

from __future__ import annotations

import asyncio
import os
import re
import time
import warnings
from base64 import b32decode, b32encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, timedelta
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast
from uuid import uuid4

import numpy as np

from kaosmem.arguments import check_ttl
from kaosmem.corpora.corpus import (
    ChangeResult,
    Corpus,
    CorpusVersion,
    PassageChange,
    Snapshot,
    StampsBySource,
    count_words,
    no_such_version,
)
from kaosmem.corpora.in_memory import EMPTY
from kaosmem.errors import (
    DurabilityError,
    InvalidArgumentError,
    KaosmemError,
    MissingExtraError,
)
from kaosmem.filters import Filter
from kaosmem.names import shown_location
from kaosmem.stores.labels import condition

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
_INDICES = 4


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
    ) -> None:
        _check_installed()
        if not isinstance(folder_or_url, str | os.PathLike) or not os.fspath(folder_or_url):
            raise InvalidArgumentError("the place of a corpus is empty; give a folder or a URL")
        super().__init__(tenant)
        self._url = os.fspath(folder_or_url)
        self._options = dict(storage_options or {})
        self._timeout_s = check_ttl(timeout_s, "timeout_s")
        self._connection: LanceDBConnection | None = None
        self._opened: dict[str, _Tenant] = {}

    def __repr__(self) -> str:
        return f"LanceCorpus({shown_location(self._url)}, tenant={self.tenant!r})"

    def __copy__(self) -> Self:
        """Return a corpus that shares what this one has opened."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it opens tables of its own."""
        return {**vars(self), "_connection": None, "_opened": {}}

    async def versions(self) -> list[CorpusVersion]:
        return await self._work(_Tenant.versions) or []

    async def tenants(self) -> list[str]:
        return sorted(map(_tenant_of, await self._run(self._tables)))

    async def erase_tenant(self) -> None:
        self._check_writable()
        name = _table_name(self.tenant)
        self._opened.pop(name, None)
        await self._run(lambda: self._connect().drop_table(name, ignore_missing=True))

    async def close(self) -> None:
        self._connection = None
        self._opened.clear()

    # The engine's part.

    async def _ask(self, ask: Callable[[Snapshot], T]) -> T:
        number = await self._number()
        return await self._work(lambda tenant: ask(tenant.at(number))) or ask(EMPTY)

    async def _change(self, change: PassageChange) -> ChangeResult:
        work = partial(_Tenant.change, change=change)
        return await self._work(work, makes=bool(change.new)) or ChangeResult(0, 0)

    async def _merge(self, keep: timedelta, *, counts: bool) -> None:
        """Merge small files and index the passages that no index has, which may take minutes."""
        merge = partial(_Tenant.merge, keep=keep, counts=counts)
        await self._work(merge, is_long=True)

    async def _purge(self, *, alone: bool) -> int:
        return await self._work(partial(_Tenant.rebuild, alone=alone), is_long=True) or 0

    async def _work(
        self,
        work: Callable[[_Tenant], T],
        *,
        makes: bool = False,
        is_long: bool = False,
    ) -> T | None:
        """Return the result of work on the tenant, None if it has no table and none is made."""

        def on_tenant() -> T | None:
            tenant = self._find(makes=makes)
            if tenant is None:
                return None
            return work(tenant)

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

    def _find(self, *, makes: bool) -> _Tenant | None:
        """Return the tenant, None if it has no table and none is made."""
        name = _table_name(self.tenant)
        if name not in self._opened:
            connection = self._connect()
            if makes:
                _make(connection, name)
            elif name not in self._tables():
                return None
            self._opened[name] = _Tenant(partial(connection.open_table, name))
        return self._opened[name]

    def _tables(self) -> list[str]:
        """Return the names of the tables of tenants."""
        return [each for each in self._connect().list_tables().tables if each.startswith(_TABLE)]

    def _connect(self) -> LanceDBConnection:
        """Return the connection of this process."""
        import lancedb

        if self._connection is None:
            limits = {
                "timeout": f"{self._timeout_s:g}s",
                "connect_timeout": f"{min(5.0, self._timeout_s):g}s",
                "client_max_retries": "3",
                "client_retry_timeout": f"{max(1, round(self._timeout_s))}",
            }
            options = None
            if "://" in self._url:
                options = {**limits, **self._options}
            try:
                connection = lancedb.connect(
                    self._url, read_consistency_interval=timedelta(0), storage_options=options
                )
            except ValueError as error:
                raise InvalidArgumentError(
                    f"{self!r} is at no place that LanceDB knows; give a folder or s3://bucket/prefix"
                ) from error
            self._connection = cast("LanceDBConnection", connection)
        return self._connection


class _Tenant:
    """The table of a tenant, and what this process has read of it."""

    def __init__(self, open_table: Callable[..., LanceTable]) -> None:
        self._open = open_table
        self._newest = open_table()
        self._last: _Snapshot | None = None
        if len(list(self._newest.list_indices())) < _INDICES:
            # Its writer is about to make them, or was killed before.
            self._index()

    def versions(self) -> list[CorpusVersion]:
        """Return the versions that are kept, oldest first."""
        return [
            CorpusVersion(each["version"], each["timestamp"].astimezone(UTC))
            for each in self._newest.list_versions()
        ]

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
            raise no_such_version() from None
        rows = _rows(table, _IS_COUNT, "stamp")
        # Two processes that have made the first count at once have made two rows.
        stamp = max((row["stamp"] for row in rows), key=int, default="")
        if last is not None and last.stamp == stamp:
            packed = last.packed
        else:
            is_newest = f"{_IS_COUNT} AND stamp = '{stamp}'"
            read = table.search().where(is_newest).select(["counts"]).to_arrow()
            packed = read["counts"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        self._last = _Snapshot(version, table, stamp, packed)
        return self._last

    def change(self, change: PassageChange) -> ChangeResult:
        """Make one version with new passages, without the old ones of some sources and ids."""
        table = self._newest
        before = table.version
        gone = f"{_is_in('source', change.sources)} OR {_is_in('id', change.ids)}"
        has_gone = table.count_rows(gone) > 0
        if not (change.new or has_gone):
            return ChangeResult(before, 0)
        spot = uuid4().hex
        rows = _arrow({**row._asdict(), "spot": spot} for row in change.new)
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        if has_gone:  # with it, the engine reads the whole table
            merge = merge.when_not_matched_by_source_delete(gone)
        result = merge.execute(rows)
        if result.version != before + 1:
            # What another writer has put in the same place meanwhile goes.
            ids = (row.id for row in change.new)
            replaced = f"{gone} OR {_is_in('id', ids)}"
            there = _rows(self._open(version=result.version), replaced, "spot")
            others = {row["spot"] for row in there} - {spot}
            if others:
                table.delete(f"({replaced}) AND {_is_in('spot', others)}")
        return ChangeResult(result.version, result.num_deleted_rows + result.num_updated_rows)

    def merge(
        self,
        *,
        keep: timedelta,
        counts: bool,
        alone: bool = False,
    ) -> None:
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
        row = {"id": _COUNT_ID, "source": "", "stamp": str(version), "counts": _packed(counts)}
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
        for column in ("id", "source"):
            self._newest.create_index(column, config=BTree())
        self._newest.create_index("labels", config=LabelList())
        self._newest.create_index("words", config=words)


class _Snapshot(NamedTuple):
    """A version of a tenant's table, with the last count of terms in it."""

    version: int
    table: LanceTable
    stamp: str
    packed: NDArray[np.int64]

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        return _unpacked(self.packed, words)

    def search(
        self,
        words: Sequence[str],
        limit: int,
        wanted: Filter,
    ) -> list[str]:
        columns = ["id", "passage"]
        query: LanceQueryBuilder = self.table.search()
        if words:
            query = self.table.search(" ".join(words), query_type="fts", fts_columns="words")
            columns.append("_score")
        where = f"{_IS_PASSAGE} AND {condition(wanted, 'array_has_any(labels, [{}])')}"
        rows = query.where(where).limit(limit).select(columns).to_list()
        rows.sort(key=lambda row: (-row.get("_score", 0), row["id"]))
        return [row["passage"] for row in rows]

    def get(self, ids: Sequence[str]) -> list[str]:
        return [row["passage"] for row in _rows(self.table, _is_in("id", ids), "passage")]

    def sources(self) -> StampsBySource:
        """Return the stamp of each source. Rows are read in batches, as there may be millions."""
        stamps: StampsBySource = {}
        query = self.table.search().where(_IS_PASSAGE).select(["source", "stamp"])
        for batch in query.to_batches():
            stamps.update(zip(*batch.to_pydict().values(), strict=True))
        return stamps


def _packed(counts: Counter[str]) -> NDArray[np.int64]:
    """Return the digests of the words, ascending, and then their counts. It holds no text.

    >>> _unpacked(_packed(Counter({"rent": 2})), ["rent", "notice"])
    {'rent': 2}
    """
    pairs = sorted((_digest(word), count) for word, count in counts.items())
    return np.array(pairs, np.int64).T.ravel()


def _unpacked(packed: NDArray[np.int64], words: Iterable[str]) -> dict[str, int]:
    """Return the counts of those of some words that were counted."""
    digests, counts = np.split(packed, 2)
    found = {}
    for word in words:
        digest = _digest(word)
        place = digests.searchsorted(digest)
        if place < len(digests) and digests[place] == digest:
            found[word] = int(counts[place])
    return found


def _digest(word: str) -> int:
    digest = blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _make(connection: LanceDBConnection, name: str) -> None:
    """Make a table, unless another process has made it.

    The engine lets one of two creations at the same time replace the other's table. The later one
    puts back what it has replaced.
    """
    try:
        table = connection.create_table(name, data=_arrow([]))
    except ValueError as error:
        if "already exists" not in str(error):
            raise
        return
    version = table.version
    if version > 1:
        rows = connection.open_table(name, version=version - 1).to_arrow()
        table.merge_insert("id").when_not_matched_insert_all().execute(rows)


def _rows(
    table: LanceTable,
    where: str,
    *columns: str,
) -> list[dict[str, Any]]:
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
    if quoted:
        return f"{column} IN ({', '.join(quoted)})"
    return "FALSE"


def _arrow(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows as a table. The column `spot` tells passages of one change from others."""
    import pyarrow as pa

    texts = ("id", "source", "spot", "passage", "stamp", "words")
    columns = {name: pa.string() for name in texts}
    # As a list: the engine rewrites long binary values slowly, and in gigabytes.
    lists = {"labels": pa.list_(pa.string()), "counts": pa.list_(pa.int64())}
    return pa.Table.from_pylist(list(rows), pa.schema(columns | lists))


def _table_name(tenant: str) -> str:
    """Return the name of a tenant's table. No two tenants share one, on any filesystem."""
    letters = b32encode(tenant.encode()).decode()
    return _TABLE + letters.rstrip("=").lower()


def _tenant_of(table_name: str) -> str:
    """Return the tenant of a table."""
    letters = table_name.removeprefix(_TABLE).upper()
    padding = "=" * (-len(letters) % 8)
    return b32decode(letters + padding).decode()


def _check_installed() -> None:
    try:
        import lancedb  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "LanceCorpus needs the extra 'lance': pip install 'kaosmem[lance]'"
        ) from error
