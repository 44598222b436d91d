"""A PostgreSQL database for stores: connections, tenants, transactions, migrations, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kaosmem.arguments import check_count, check_ttl
from kaosmem.backends.postgres.connections import PooledWorkers, connection_class_with_timeout
from kaosmem.backends.postgres.schema import LEDGER, MIGRATION_LOCK, MIGRATIONS
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.errors import (
    DurabilityError,
    InvalidNameError,
    KaosmemError,
    MissingExtraError,
    UnsupportedVersionError,
)
from kaosmem.names import check_id, check_name

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool

    Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]


T = TypeVar("T")

_TRIES = 5
_PAUSE_S = 0.5
"""The longest wait for a new connection before another attempt to connect."""
_GRACE_S = 1.0
"""Seconds beyond `timeout_s` in which the server may still say that it gave up a statement."""
_MAX_SCHEMA_CHARS = 63


class PostgresDatabase(SqlDatabase[PooledWorkers]):
    """A database of PostgreSQL for the stores in `kaosmem.backends.postgres`.

    Any number of processes may use it.

    Calls run in worker threads: any event loop may make them, and a call that is cancelled changes
    everything or nothing. Raises MissingExtraError without the extra `postgres`, InvalidNameError
    and InvalidArgumentError; every call raises DurabilityError if the server fails or does not
    answer in time.

    Example, not run here because it needs a server::

        async with PostgresDatabase("postgresql://app@db/agents") as database:
            history = PostgresHistoryProvider(database.for_tenant("acme"))
            await history.append("analyst", ChatMessage("user", "Who owns the deal?"),
            session_id="room-7")

    Args:
        url: `postgresql://user@host/database`, or a connection string of libpq.
        tenant: All rows belong to it; rows of other tenants are neither seen nor changed.
            `for_tenant` gives another one over the same connections.
        schema: The name of the schema for the tables. The first use makes the schema and its
            tables.
        max_connections: Connections of this process. More calls than that wait for their turn.
        timeout_s: Seconds that a statement, a lock or the wait for a connection may take. A call
            whose connection breaks before its commit, as when the server starts again, is tried
            again for so long.
    """

    _part = "tables"

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        schema: str = "kaosmem",
        max_connections: int = 8,
        timeout_s: float = 30.0,
    ) -> None:
        super().__init__()
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtraError(
                "PostgreSQL needs the extra 'postgres': pip install 'kaosmem[postgres]'"
            ) from error
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # whose message may show a password
            raise InvalidNameError(
                "the url is none of PostgreSQL; give postgresql://user@host/database"
            ) from None
        check_count(max_connections, "max_connections", least=1)
        if len(check_name(schema, "schema")) > _MAX_SCHEMA_CHARS:
            raise InvalidNameError(
                f"schema has {len(schema)} characters, PostgreSQL knows {_MAX_SCHEMA_CHARS}; give "
                "a shorter name"
            )
        self._url = url
        self._max_connections = max_connections
        self._tenant = check_id(tenant, "tenant")
        self.schema = schema
        self._timeout_s = check_ttl(timeout_s, "timeout_s")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(schema={self.schema!r})"

    def __reduce__(self) -> tuple[Callable[[], PostgresDatabase], tuple[()]]:
        """Return what another process needs: it opens connections of its own."""
        return partial(
            PostgresDatabase,
            self._url,
            tenant=self._tenant,
            schema=self.schema,
            max_connections=self._max_connections,
            timeout_s=self._timeout_s,
        ), ()

    @property
    def tenant(self) -> str:
        """Return the tenant whose rows the stores see."""
        return self._tenant

    def for_tenant(self, tenant: str) -> PostgresDatabase:
        """Return this database for the rows of a tenant. Give it to stores.

        It uses the connections of this database, which serve all tenants, and closing it closes
        none of them. It costs nothing to make: make one for each request. Raises InvalidNameError.

        Example, not run here because it needs a server::

            facts = PostgresLongTermMemory(database.for_tenant("acme"))
        """
        shared = self._sharing()
        shared._tenant = check_id(tenant, "tenant")
        return shared

    def with_part(self, part: str) -> PostgresDatabase:
        """Return this database for stores that need a part of the schema, and the parts before it."""
        shared = self._sharing()
        shared._part = part
        return shared

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return await self.write(work)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self.run(
            lambda cursor: work(PostgresTransaction(cursor, self._tenant)), part=self._part
        )

    async def run(self, work: Callable[[Cursor], T], *, part: str = "tables") -> T:
        """Return the result of `work`, in one transaction. If it raises, nothing changes.

        A transaction that the server gives up for another one's sake is tried again.

        Args:
            part: The part of the schema that `work` needs, with the parts before it.
        """
        return await self._submit(
            lambda workers: workers.threads.submit(self._run, workers, work, part),
            timeout_s=self._timeout_s,
        )

    def _start(self) -> PooledWorkers:
        return PooledWorkers(self._make_pool(), self._max_connections)

    async def _check(self) -> None:
        await self.run(lambda cursor: None)

    def _make_pool(self) -> psycopg_pool.ConnectionPool[Any]:
        from psycopg_pool import ConnectionPool

        return ConnectionPool(
            self._url,
            connection_class=connection_class_with_timeout(self._timeout_s + _GRACE_S),
            min_size=0,
            max_size=self._max_connections,
            timeout=self._timeout_s,
            max_idle=60,
            open=False,
            configure=self._configure,
            check=ConnectionPool.check_connection,  # the server may have cut an idle connection
            kwargs={
                "connect_timeout": max(2, round(self._timeout_s)),
                "application_name": "kaosmem",
            },
            reconnect_timeout=0,
        )

    def _run(
        self,
        workers: PooledWorkers,
        work: Callable[[Cursor], T],
        part: str,
    ) -> T:
        with self._as_typed_errors():
            for each in MIGRATIONS:
                migrate = partial(self._tried, workers, partial(self._migrate, part=each))
                workers.prepare(each, migrate, self._timeout_s)
                if each == part:
                    break
            return self._tried(workers, partial(self._as_tenant, work))

    def _as_tenant(self, work: Callable[[Cursor], T], cursor: Cursor) -> T:
        """Return the result of `work` on the rows of the tenant.

        The tenant is a setting of the transaction, so that no connection in the pool carries one.
        `SET` is no query: `work` may still choose the isolation level.
        """
        from psycopg import sql

        cursor.execute(sql.SQL("SET LOCAL kaosmem.tenant = {}").format(sql.Literal(self._tenant)))
        return work(cursor)

    def _tried(self, workers: PooledWorkers, work: Callable[[Cursor], T]) -> T:
        """Return the result of `work`.

        After a failure that changed nothing, call it again for `timeout_s`.
        """
        from psycopg.errors import DeadlockDetected, OperationalError, SerializationFailure
        from psycopg_pool import PoolTimeout

        until = monotonic() + self._timeout_s
        conflicts = 0
        was_cut = False
        while True:
            try:
                # The pool gives up an attempt to connect that fails, and makes the next one when it
                # is asked again.
                patience_s = min(_PAUSE_S, until - monotonic())
                with (
                    workers.pool.connection(patience_s) as connection,
                    connection.cursor() as cursor,
                ):
                    try:
                        return work(cursor)
                    except OperationalError:
                        was_cut = connection.broken
                        raise
            except (DeadlockDetected, SerializationFailure):
                conflicts += 1
                if conflicts == _TRIES:
                    raise
            except PoolTimeout:
                if monotonic() >= until:
                    raise
            except OperationalError:
                # While the commit is under way nobody knows whether it is done.
                if not was_cut or monotonic() >= until:
                    raise
                was_cut = False

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        """Let a connection find the tables, and wait no longer than it may."""
        limit = f"{round(self._timeout_s * 1_000)}ms"
        settings = {
            "search_path": f'"{self.schema}", public, ag_catalog',
            "timezone": "UTC",
            "statement_timeout": limit,
            "lock_timeout": limit,
            "idle_in_transaction_session_timeout": limit,
        }
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()

    def _migrate(self, cursor: Cursor, part: str) -> None:
        """Bring a part of the schema to its newest version.

        Of several processes one does it, the others wait.
        """
        from psycopg import sql

        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        cursor.execute("SELECT to_regclass(%s) IS NULL", (f'"{self.schema}".migrations',))
        if (cursor.fetchone() or (True,))[0]:
            cursor.execute(
                sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema))
            )
            cursor.execute(LEDGER)
        cursor.execute("SELECT count(*) FROM migrations WHERE part = %s", (part,))
        (done,) = cursor.fetchone() or (0,)
        known = MIGRATIONS[part]
        if done > len(known):
            raise UnsupportedVersionError(
                f"part {part!r} of the schema {self.schema!r} has version {done}, this kaosmem "
                f"knows {len(known)}; "
                "install a newer kaosmem"
            )
        for version, statements in enumerate(known[done:], done + 1):
            for statement in statements:
                cursor.execute(statement)
            cursor.execute(
                "INSERT INTO migrations (part, version) VALUES (%s, %s)", (part, version)
            )

    @contextmanager
    def _as_typed_errors(self) -> Iterator[None]:
        """Raise the errors of psycopg as DurabilityError. Their messages may show rows."""
        import psycopg
        from psycopg_pool import PoolTimeout

        try:
            yield
        except KaosmemError:
            raise
        except PoolTimeout as error:
            raise DurabilityError(
                f"no connection to PostgreSQL within {self._timeout_s:g} s; check that the server "
                "runs and has "
                f"{self._max_connections} connections left, or raise timeout_s"
            ) from error
        except TimeoutError as error:
            raise DurabilityError(
                f"PostgreSQL sent no answer within {self._timeout_s:g} s; check the server and the "
                "network, read "
                "what is stored, then try again or raise timeout_s"
            ) from error
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
            raise DurabilityError(
                f"PostgreSQL took longer than {self._timeout_s:g} s; nothing has changed, try "
                "again or raise timeout_s"
            ) from error
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFile) as error:
            raise DurabilityError(
                f"the role may not make schema {self.schema!r}, or an extension is missing; let an "
                "administrator grant "
                "CREATE on the database, and run CREATE EXTENSION vector for PgVectorStore"
            ) from error
        except psycopg.Error as error:
            code = error.sqlstate or "no connection"
            raise DurabilityError(
                f"PostgreSQL failed: {type(error).__name__} ({code}); read what is stored, then "
                "try again"
            ) from error


_PARAMETER = re.compile(r":(\w+)")


@lru_cache(512)
def _for_psycopg(statement: str) -> str:
    """Return a statement with its parameters as psycopg names them."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


class PostgresTransaction:
    """A Transaction over a cursor, for one tenant."""

    pairs = (
        "(SELECT CAST(value->>0 AS bigint) AS term, CAST(value->>1 AS bigint) AS number "
        "FROM json_array_elements(CAST(:pairs AS json)))"
    )

    def __init__(self, cursor: Cursor, tenant: str) -> None:
        self.cursor = cursor
        self._tenant = tenant

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        self._execute(statement, values)
        return self.cursor.fetchall()

    def change(self, statement: str, **values: object) -> int:
        self._execute(statement, values)
        return self.cursor.rowcount

    def each(self, statement: str, values: Sequence[Mapping[str, object]]) -> None:
        given = [{**each, "tenant": self._tenant} for each in values]
        if len(given) == 1:
            self.cursor.execute(_for_psycopg(statement), given[0])
        elif given:
            self.cursor.executemany(_for_psycopg(statement), given)

    def texts(self, name: str) -> str:
        return f"(SELECT value FROM json_array_elements_text(CAST(:{name} AS json)))"

    def lock(self, *names: str) -> None:
        lock(self.cursor, self._tenant, *names)

    def _execute(self, statement: str, values: dict[str, object]) -> None:
        self.cursor.execute(_for_psycopg(statement), values | {"tenant": self._tenant})


def lock(cursor: Cursor, *names: str) -> None:
    """Keep other transactions with these names waiting until this one ends."""
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (repr(names),))
