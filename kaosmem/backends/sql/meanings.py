"""Facts in a SQL database that are found by meaning."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from kaosmem.arguments import Clock
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.backends.sql.facts import OF_SHELF, SqlFacts, SqlLongTermMemory
from kaosmem.clients import EmbeddingClient
from kaosmem.stores.facts import FactRow, FactScope, NewFact, StoredFact
from kaosmem.stores.vector import check_cosine, check_length, embeddings_of


class SqlVectorMemory(SqlLongTermMemory):
    """A LongTermMemory in a SQL database that ranks facts by meaning.

    The table `meanings` holds the embedding of each fact at length 1, in single precision. A fact
    that was saved without one gets it with the first search.
    """

    _dimensions: str
    """The SQL expression of the number of dimensions of `direction`."""
    _direction: str
    """The SQL expression of the parameter `:direction`."""

    def __init__(
        self,
        database: SqlDatabase[Any],
        embedding_client: EmbeddingClient,
        *,
        min_score: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock=clock)
        self._client = embedding_client
        self._min_score = check_cosine(min_score)

    async def _save(
        self,
        scope: FactScope,
        new: NewFact,
        of: str | None,
    ) -> str:
        (embedding,) = await embeddings_of([new.content], self._client)
        await self._database.read(lambda transaction: self._check(transaction, scope, [embedding]))
        memory_id = await super()._save(scope, new, of)
        await self._put(scope, [memory_id], [embedding])
        return memory_id

    async def _search(
        self,
        scope: FactScope,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> list[StoredFact]:
        missing = await self._database.read(lambda transaction: self._missing(transaction, scope))
        if missing:
            made = await embeddings_of([each.content for each in missing], self._client)
            await self._put(scope, [each.id for each in missing], made)
        (asked,) = await embeddings_of([query], self._client)

        def search(transaction: Transaction) -> list[StoredFact]:
            self._check(transaction, scope, [asked])
            rows = self._rows(transaction, scope)
            found = self._nearest(rows, asked, limit, superseded=superseded)
            return [row.fact(cosine) for row, cosine in found]

        return await self._database.read(search)

    async def _put(
        self,
        scope: FactScope,
        ids: list[str],
        embeddings: Sequence[tuple[float, ...]],
    ) -> None:
        agent, namespace = scope
        directions = [
            {
                "agent": agent,
                "namespace": namespace,
                "id": memory_id,
                "direction": self._encoded(embedding),
            }
            for memory_id, embedding in zip(ids, embeddings, strict=True)
        ]

        def put(transaction: Transaction) -> None:
            self._check(transaction, scope, embeddings)
            transaction.each(  # nothing for a fact that is deleted meanwhile
                f"INSERT INTO meanings (fact, direction) SELECT number, {self._direction} "
                f"FROM facts WHERE {OF_SHELF} AND id = :id ON CONFLICT DO NOTHING",
                directions,
            )

        await self._database.write(put)

    def _missing(self, transaction: Transaction, scope: FactScope) -> list[FactRow]:
        """Return the facts that have no embedding."""
        return self._rows(transaction, scope).select(
            "NOT EXISTS (SELECT 1 FROM meanings WHERE fact = facts.number)"
        )

    def _check(
        self,
        transaction: Transaction,
        scope: FactScope,
        embeddings: Sequence[tuple[float, ...]],
    ) -> None:
        """Raise InvalidArgumentError if the embeddings of the scope have other dimensions."""
        agent, namespace = scope
        held = transaction.rows(
            f"SELECT {self._dimensions} FROM facts JOIN meanings ON fact = facts.number "
            f"WHERE {OF_SHELF} LIMIT 1",
            agent=agent,
            namespace=namespace,
        )
        for (dimensions,) in held:
            for embedding in embeddings:
                check_length(len(embedding), dimensions, namespace)

    @abstractmethod
    def _encoded(self, embedding: tuple[float, ...]) -> object:
        """Return an embedding at length 1 as the database stores it."""

    @abstractmethod
    def _nearest(
        self,
        rows: SqlFacts,
        asked: tuple[float, ...],
        limit: int,
        *,
        superseded: bool,
    ) -> list[tuple[FactRow, float]]:
        """Return the facts whose cosine is above the least score, the nearest first.

        Of facts with equal cosines the newest comes first.
        """
