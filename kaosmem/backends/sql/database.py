"""A SQL database as stores see it: transactions and tables. SQLite and PostgreSQL provide it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kaosmem.backends.base import SharedDatabase, W

T = TypeVar("T")


class Transaction(Protocol):
    """A transaction of either database.

    A statement names its parameters, as in `WHERE session = :session`. `:tenant` is always bound.
    """

    pairs: str
    """A table of the columns `term` and `number`: pairs of integers, in `:pairs` as JSON text."""

    def rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Execute a statement, and return the rows that it selects or returns."""

    def change(self, statement: str, **values: object) -> int:
        """Execute a statement, and return the number of rows that it changes."""

    def each(self, statement: str, values: Sequence[Mapping[str, object]]) -> None:
        """Execute a statement once for each mapping of values."""

    def texts(self, name: str) -> str:
        """Return a table of one column: the texts of a list, in a parameter as JSON text."""

    def lock(self, *names: str) -> None:
        """Keep other transactions of the tenant with these names waiting until this one ends."""


class SqlDatabase(SharedDatabase[W]):
    """A SQL database whose stores work in transactions."""

    @abstractmethod
    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return the result of `work`, which reads in one transaction."""

    @abstractmethod
    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Return the result of `work`, done in one transaction. If it raises, nothing changes."""

    async def rows(self, statement: str, **values: object) -> list[Any]:
        """Return the rows that a statement selects, tuples in the order of their code points."""
        found = await self.read(lambda transaction: transaction.rows(statement, **values))
        return sorted(found)

    async def change(self, statement: str, **values: object) -> int:
        """Execute a statement, and return the number of rows that it changes."""
        return await self.write(lambda transaction: transaction.change(statement, **values))


# Each database fills in its own types. `{tenant}` is a column of a table whose rows statements
# find by their tenant, `{owner}` the column of one whose rows belong to rows of another table.
TABLES = (
    """CREATE TABLE threads (
        {number}, {tenant}, agent {text} NOT NULL, session {text} NOT NULL, size {integer} NOT NULL,
        UNIQUE (tenant, agent, session)
    )""",
    # Positions are 0, 1, 2, ...: any part of a long thread is read at once.
    """CREATE TABLE messages (
        {owner} thread {integer} NOT NULL REFERENCES threads ON DELETE CASCADE,
        position {integer} NOT NULL, run {text} NOT NULL, message {text} NOT NULL
    )""",
    "CREATE INDEX messages_by_position ON messages (thread, position)",
    "CREATE INDEX messages_of_run ON messages (thread, run) WHERE run <> ''",
    # Names are bytes: PostgreSQL has no NUL in texts.
    """CREATE TABLE states (
        {number}, {tenant}, session {text} NOT NULL, name {bytes} NOT NULL, value {text} NOT NULL,
        UNIQUE (tenant, session, name)
    )""",
    """CREATE TABLE boards (
        {number}, {tenant}, conversation {text} NOT NULL, agent {text} NOT NULL,
        max_retries {integer} NOT NULL, tasks {text} NOT NULL, UNIQUE (tenant, conversation, agent)
    )""",
    """CREATE TABLE entities (
        {number}, {tenant}, id {text} NOT NULL, entity {text} NOT NULL, UNIQUE (tenant, id)
    )""",
    """CREATE TABLE relationships (
        {number}, {tenant}, id {text} NOT NULL, source {text} NOT NULL, target {text} NOT NULL,
        type {text} NOT NULL, relationship {text} NOT NULL, UNIQUE (tenant, id)
    )""",
    "CREATE INDEX relationships_by_source ON relationships (tenant, source, type)",
    "CREATE INDEX relationships_by_target ON relationships (tenant, target, type)",
    # The documents of a collection are a table of each database's own. Its numbers grow, and a
    # replaced document has a new one: with the deletions they tell what has changed.
    """CREATE TABLE collections (
        {number}, {tenant}, name {text} NOT NULL, dimensions {integer} NOT NULL,
        deletions {integer} NOT NULL, UNIQUE (tenant, name)
    )""",
    # A row of `shelves` is a scope: one agent in one namespace. `facts` and `terms` are sums over
    # its facts.
    """CREATE TABLE shelves (
        {number}, {tenant}, agent {text} NOT NULL, namespace {text} NOT NULL,
        facts {integer} NOT NULL, terms {integer} NOT NULL, analysis {integer} NOT NULL,
        UNIQUE (tenant, agent, namespace)
    )""",
    """CREATE TABLE facts (
        {number}, {tenant}, shelf {integer} NOT NULL REFERENCES shelves ON DELETE CASCADE,
        id {text} NOT NULL, key {text} NOT NULL, content {bytes} NOT NULL, metadata {text} NOT NULL,
        valid_from {text} NOT NULL, valid_until {text}, known_from {text} NOT NULL, expiry {real},
        UNIQUE (shelf, id)
    )""",
    # `~` comes after every time: a live version has no end.
    "CREATE INDEX facts_by_end ON facts (shelf, key, coalesce(valid_until, '~'))",
    "CREATE INDEX facts_that_expire ON facts (tenant, expiry) WHERE expiry IS NOT NULL",
    # An index of words for each scope: no scope's facts count in the scores of another.
    """CREATE TABLE postings (
        {owner} shelf {integer} NOT NULL REFERENCES shelves ON DELETE CASCADE,
        live {integer} NOT NULL, term {integer} NOT NULL, fact {integer} NOT NULL,
        occurrences {integer} NOT NULL, length {integer} NOT NULL,
        PRIMARY KEY (shelf, live, term, fact)
    ) {clustered}""",
)
"""The tables of histories, states, tasks, graphs, collections and facts.

They have the names of types for `str.format`.
"""

TENANT_TABLES = (
    *("threads", "messages", "states", "boards", "entities", "relationships"),
    *("collections", "shelves", "facts", "postings"),
)
"""The names of the tables."""
