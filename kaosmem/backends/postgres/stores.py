"""Histories, states, facts and tasks in PostgreSQL."""

from __future__ import annotations

from kaosmem.arguments import MAX_INTEGER, Clock
from kaosmem.backends.postgres.database import PostgresDatabase
from kaosmem.backends.postgres.vectors import direction_of
from kaosmem.backends.sql.facts import FIELDS, SqlFacts, SqlLongTermMemory, row_of
from kaosmem.backends.sql.history import SqlHistoryProvider
from kaosmem.backends.sql.meanings import SqlVectorMemory
from kaosmem.backends.sql.state import SqlShortTermMemory
from kaosmem.backends.sql.tasks import SqlTaskStore
from kaosmem.clients import EmbeddingClient
from kaosmem.stores.facts import FactRow


class PostgresHistoryProvider(SqlHistoryProvider):
    """A HistoryProvider in PostgreSQL. Reading a part of a thread costs the same at any length.

    Messages that several workers append at once are stored one batch after another, without gaps.

    Args:
        clock: Gives the times of messages, with a zone.
    """


class PostgresShortTermMemory(SqlShortTermMemory):
    """A ShortTermMemory in PostgreSQL. A patch costs its own size, not that of the state.

    Patches of one session that several workers make at once come one after another; none is lost.
    """


class PgTaskStore(SqlTaskStore):
    """A TaskStore in PostgreSQL. Of several workers that start one task, one succeeds."""


class PostgresLongTermMemory(SqlLongTermMemory):
    """A LongTermMemory in PostgreSQL. It ranks facts as an InMemoryLongTermMemory does, by BM25.

    Texts in all languages are split into words as in sessions, not by the server's dictionaries.

    Args:
        clock: Returns times with a zone.
    """


class PgVectorMemory(SqlVectorMemory, PostgresLongTermMemory):
    """A LongTermMemory in PostgreSQL that ranks facts by meaning, with pgvector.

    The score of a fact is the cosine of its embedding with that of the query. Every fact of the
    namespace is compared.

    Args:
        embedding_client: Makes the embeddings. All have the same number of dimensions: another
            model needs another namespace. Facts that a PostgresLongTermMemory has saved get theirs
            with the first search.
        min_score: A search returns the facts with a larger cosine, -1 to 1.
        clock: Returns times with a zone.
    """

    _dimensions = "public.vector_dims(direction)"
    _direction = "CAST(:direction AS public.vector)"

    def __init__(
        self,
        database: PostgresDatabase,
        embedding_client: EmbeddingClient,
        *,
        min_score: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            database.with_part("vectors"), embedding_client, min_score=min_score, clock=clock
        )

    def _encoded(self, embedding: tuple[float, ...]) -> str:
        return direction_of(embedding)

    def _nearest(
        self,
        rows: SqlFacts,
        asked: tuple[float, ...],
        limit: int,
        *,
        superseded: bool,
    ) -> list[tuple[FactRow, float]]:
        cosine = f"-(direction OPERATOR(public.<#>) {self._direction})"
        found = rows.rows(
            f"SELECT {cosine} AS cosine, {FIELDS} FROM facts JOIN meanings "
            "ON fact = facts.number AND meanings.tenant = facts.tenant",
            f"(:superseded OR valid_until IS NULL) AND {cosine} > :min_score "
            "ORDER BY cosine DESC, facts.number DESC LIMIT :limit",
            direction=direction_of(asked),
            superseded=superseded,
            min_score=self._min_score,
            limit=min(limit, MAX_INTEGER),
        )
        return [(row_of(*fields), max(-1.0, min(1.0, cosine))) for cosine, *fields in found]
