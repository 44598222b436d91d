"""One file of SQLite, shared by threads and processes: connections, transactions, migrations, errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from kaosmem.arguments import check_ttl
from kaosmem.backends.base import Workers
from kaosmem.backends.sql.database import TABLES, SqlDatabase
from kaosmem.errors import (
    CorruptionError,
    DurabilityError,
    InvalidArgumentError,
    InvalidNameError,
    KaosmemError,
    UnsupportedVersionError,
)
from kaosmem.names import shown_location
from kaosmem.persistence.storage.disk import Disk

APPLICATION_ID = 0x4B414F53
"""`KAOS` in ASCII: tells a database of kaosmem from those of other programs."""

_TENANT = "default"
"""The tenant of all rows: a file belongs to one."""

_DOCUMENTS = (
    """CREATE TABLE documents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
        id TEXT NOT NULL, content TEXT NOT NULL, metadata TEXT NOT NULL, embedding BLOB NOT NULL,
        UNIQUE (collection, id)
    )""",
    "CREATE INDEX documents_by_number ON documents (collection)",
)
# The embedding of a fact at length 1, in single precision.
_MEANINGS = """CREATE TABLE meanings (
    fact INTEGER PRIMARY KEY REFERENCES facts ON DELETE CASCADE, direction BLOB NOT NULL
)"""

_TYPES = {
    "number": "number INTEGER PRIMARY KEY AUTOINCREMENT",
    "tenant": f"tenant TEXT NOT NULL DEFAULT '{_TENANT}'",
    "owner": "",
    "text": "TEXT",
    "integer": "INTEGER",
    "real": "REAL",
    "bytes": "BLOB",
    "clustered": "WITHOUT ROWID",
}
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*(each.format_map(_TYPES) for each in TABLES), *_DOCUMENTS, _MEANINGS),
)
"""The statements of each version. Never change one that has been released: append another."""


T = TypeVar("T")

_Call: TypeAlias = tuple[Callable[["SqliteTransaction"], Any], Future[Any]]
"""Work that changes the file, and the future of its result."""

_MAKING = threading.Lock()
"""Held while a thread makes a file."""
_READERS = 4
_CALLS_AT_ONCE = 256
# Deleted content is overwritten. Pages of up to 32 MiB for each connection: twice as fast as the
# default of 2 MB where words of many facts are indexed.
_SETTINGS = (
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",
    "PRAGMA foreign_keys = ON",
)


class SqliteDatabase(SqlDatabase["_Workers"]):
    """A file of SQLite for the stores of `kaosmem.backends` whose names begin with `Sqlite`.

    Several processes may use it at once.

    Each thread has a connection of its own. A call that is cancelled has changed everything or
    nothing.

    Args:
        path: A file on a local disk, not on a network filesystem. The first use makes the file and
            its folders.
        durable: Whether a call returns only after its changes reached the disk. False is for tests:
            a crash of the machine, but not of the process, may lose the newest changes.
        busy_timeout_s: Seconds that a change waits for those of other processes.

    >>> from kaosmem.backends.sqlite.database import SqliteDatabase
    >>> from kaosmem.backends.sqlite.stores import SqliteShortTermMemory
    >>> async with SqliteDatabase("agent.sqlite") as database:
    ...     await SqliteShortTermMemory(database).update_state("room-7", {"step": 2})
    {'step': 2}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = True,
        busy_timeout_s: float = 60,
    ) -> None:
        super().__init__()
        self.path = local_path(path)
        self._durable = durable
        self._busy_timeout_s = check_ttl(busy_timeout_s, "busy_timeout_s")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown_location(self.path)})"

    async def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Return the result of `work`, which reads in one transaction and sees one state of the file."""
        return await self._submit(lambda workers: workers.threads.submit(self._read, workers, work))

    async def write(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Return what `work` returns, in a transaction that excludes other writers.

        If it raises, nothing changes.

        Calls that wait at the same time share a transaction, and so one wait for the disk.
        """

        def queue(workers: _Workers) -> Future[T]:
            asked: Future[T] = Future()
            workers.waiting.append((work, asked))
            workers.writer.submit(self._write_waiting, workers)
            return asked

        return await self._submit(queue)

    def _start(self) -> _Workers:
        return _Workers()

    async def _check(self) -> None:
        await self.read(lambda connection: None)

    def _read(self, workers: _Workers, work: Callable[[SqliteTransaction], T]) -> T:
        with self._as_typed_errors(), workers.transaction(self._connect, "BEGIN") as connection:
            return work(SqliteTransaction(connection))

    def _write_waiting(self, workers: _Workers) -> None:
        """Do the waiting work in one transaction, and tell each caller when it is durable."""
        if not workers.waiting:  # an earlier transaction took it
            return
        batch: list[_Call] = []
        try:
            with (
                self._as_typed_errors(),
                workers.transaction(self._connect, "BEGIN IMMEDIATE") as connection,
            ):
                # Only now: a call that was cancelled while other processes wrote is left out.
                batch = workers.taken()
                outcomes = [self._outcome(connection, work) for work, _ in batch]
        except BaseException as error:
            for _, asked in batch or workers.taken():
                asked.set_exception(error)
            return
        for (_, asked), (result, refusal) in zip(batch, outcomes, strict=True):
            if refusal is None:
                asked.set_result(result)
            else:
                asked.set_exception(refusal)

    def _outcome(
        self, connection: sqlite3.Connection, work: Callable[[SqliteTransaction], Any]
    ) -> tuple[Any, Exception | None]:
        """Return the result of `work`, or its error after its changes are undone."""
        connection.execute("SAVEPOINT one")
        try:
            with self._as_typed_errors():
                result = work(SqliteTransaction(connection))
        except Exception as error:
            # SQLite has given up the whole transaction, as for a full disk.
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            return None, error
        connection.execute("RELEASE one")
        return result, None

    def _connect(self) -> sqlite3.Connection:
        _make_file(self.path)
        # Transactions begin and end by statements of our own; close() may run in another thread.
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            for setting in (
                *_SETTINGS,
                f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}",
            ):
                connection.execute(setting)
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Bring the file to the newest schema. Several processes may do this at once."""
        with _transaction(connection, "BEGIN"):
            version = _version(connection, self.path)
        if version == len(MIGRATIONS):
            return
        _use_wal(connection, time.monotonic() + self._busy_timeout_s)
        with _transaction(connection, "BEGIN IMMEDIATE"):
            for number, statements in enumerate(MIGRATIONS, 1):
                if number > _version(connection, self.path):  # another process may have come first
                    for statement in statements:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {number}")
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextmanager
    def _as_typed_errors(self) -> Iterator[None]:
        """Raise the errors of SQLite and of the disk as those of kaosmem."""
        try:
            yield
        except KaosmemError:  # some are an OSError or OverflowError, too
            raise
        except OverflowError as error:
            raise InvalidArgumentError("a number is beyond 64 bits; give a smaller one") from error
        except OSError as error:
            raise _failure(
                f"{shown_location(self.path)} can't be used: {error.strerror}; choose another place",
                error.errno,
            ) from error
        except sqlite3.Error as error:
            raise _typed(error, shown_location(self.path), self._busy_timeout_s) from error


class SqliteTransaction:
    """A Transaction of one connection."""

    pairs = (
        "(SELECT json_extract(value, '$[0]') AS term, json_extract(value, '$[1]') AS number "
        "FROM json_each(:pairs))"
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values | _BOUND).fetchall()

    def change(self, statement: str, **values: object) -> int:
        return self._connection.execute(statement, values | _BOUND).rowcount

    def each(self, statement: str, values: Sequence[Mapping[str, object]]) -> None:
        self._connection.executemany(statement, [{**each, **_BOUND} for each in values])

    def texts(self, name: str) -> str:
        return f"(SELECT value FROM json_each(:{name}))"

    def lock(self, *names: str) -> None:
        """Do nothing: a transaction that writes excludes all others that write."""


_BOUND = {"tenant": _TENANT}


class _Workers(Workers):
    """The threads of one process, each with a connection.

    Writers queue for a single thread, in the order of calls.
    """

    def __init__(self) -> None:
        super().__init__("kaosmem-sqlite-reader", _READERS)
        self.writer = ThreadPoolExecutor(1, "kaosmem-sqlite-writer")
        self.waiting: deque[_Call] = deque()
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    @contextmanager
    def transaction(
        self, connect: Callable[[], sqlite3.Connection], begin: str
    ) -> Iterator[sqlite3.Connection]:
        """Provide the connection of the current thread, in a transaction."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect()
            self._connections.append(connection)
        with _transaction(connection, begin):
            yield connection

    def taken(self) -> list[_Call]:
        """Take the oldest waiting calls that are not cancelled."""
        oldest = [self.waiting.popleft() for _ in range(min(_CALLS_AT_ONCE, len(self.waiting)))]
        return [(work, asked) for work, asked in oldest if asked.set_running_or_notify_cancel()]

    def close(self) -> None:
        self.writer.shutdown()
        super().close()

    def disconnect(self) -> None:
        self.writer.shutdown(wait=False)
        for connection in self._connections:
            connection.close()


def local_path(given: str | os.PathLike[str]) -> Path:
    """Return an absolute path on a local disk. Raises InvalidNameError."""
    if isinstance(given, str | os.PathLike) and "://" not in str(given) and "\0" not in str(given):
        try:
            return Path(given).expanduser().absolute()
        except (RuntimeError, TypeError, ValueError):  # no home
            pass
    raise InvalidNameError(
        f"{shown_location(given)} is not on a local disk, where SQLite keeps its file; give a path"
    )


def _make_file(path: Path) -> None:
    """Make a file and its folders, durably, for their owner alone.

    One thread at a time, and never a file that is there: closing a descriptor of a file releases
    all locks that SQLite holds on it in this process.
    """
    with _MAKING:
        if not path.exists():
            _make(path)


def _make(path: Path) -> None:
    disk = Disk()
    missing = [each for each in (path.parent, *path.parent.parents) if not each.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            disk.make_folder(str(folder))
        disk.sync_folder(str(folder.parent))
    disk.close(disk.open(str(path), os.O_RDWR | os.O_CREAT))
    disk.sync_folder(str(path.parent))


def _use_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Let readers and a writer work side by side. SQLite does not wait for other processes here."""
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode == "wal":
            return
        raise DurabilityError(
            f"the filesystem allows the journal mode {mode!r} only, and not WAL; use a local disk"
        )


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of migrations that a file has had.

    Raises CorruptionError and UnsupportedVersionError.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise CorruptionError(
                f"{shown_location(path)} is a database of another program; choose another file"
            )
        return 0
    if version > len(MIGRATIONS):
        raise UnsupportedVersionError(
            f"{shown_location(path)} has version {version} of the schema, this kaosmem knows "
            f"{len(MIGRATIONS)}; "
            "install a newer kaosmem"
        )
    return int(version)


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _typed(
    error: sqlite3.Error,
    place: str,
    busy_timeout_s: float,
) -> Exception:
    match _code(error):
        case None:  # a fault of this package
            return error
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return _failure(
                f"other processes wrote to {place} for {busy_timeout_s:g} s; try again, or raise "
                "busy_timeout_s",
                errno.EBUSY,
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return CorruptionError(
                f"{place} is no SQLite database, or a damaged one; restore a copy, or choose "
                "another file"
            )
    return _failure(
        f"{place} failed: {error}; nothing has changed; check the space on its disk and the "
        "permissions of its folder, then try again",
        errno.EIO,
    )


def _failure(message: str, number: int | None) -> DurabilityError:
    failure = DurabilityError(message)
    failure.errno = number
    return failure


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
