"""Facts in a SQL database, with an index of their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar

from kaosmem.arguments import MAX_INTEGER, Clock, json_text
from kaosmem.backends.base import value_of
from kaosmem.backends.sql.database import SqlDatabase, Transaction
from kaosmem.exact import UNITS, idf
from kaosmem.language.analysis import ANALYSIS, analyze
from kaosmem.language.keys import key_words
from kaosmem.retrieval.rankers import BM25Ranker
from kaosmem.stores.facts import FactRow, FactRows, FactScope, LongTermMemory, StoredFact, by_begin

T = TypeVar("T")

FIELDS = "id, key, content, metadata, valid_from, valid_until, known_from, expiry, facts.number"
"""The columns of a FactRow, in the order of its fields."""
OF_SHELF = (
    "shelf = (SELECT number FROM shelves "
    "WHERE tenant = :tenant AND agent = :agent AND namespace = :namespace)"
)
IS_HELD = "(expiry IS NULL OR expiry > :now)"
_OF_FACT = "shelf = :shelf AND fact = :fact AND term IN (SELECT term FROM {pairs} AS own)"
_BM25 = BM25Ranker()
_SCORE_UNITS = 1e9
"""Scores are whole numbers of 1 / _SCORE_UNITS."""


class SqlLongTermMemory(LongTermMemory):
    """A LongTermMemory in a SQL database. It ranks facts by BM25, as InMemoryLongTermMemory does.

    Each namespace of an agent has its own index and statistics. Texts are split into words as in
    sessions. The database's own search is not used: it splits words by rules of its own.
    """

    def __init__(self, database: SqlDatabase[Any], *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._database = database

    async def list_namespaces(self) -> list[FactScope]:
        return await self._database.rows(
            "SELECT agent, namespace FROM shelves WHERE tenant = :tenant "
            f"AND EXISTS (SELECT 1 FROM facts WHERE shelf = shelves.number AND {IS_HELD})",
            now=self._clock().timestamp(),
        )

    async def delete_all(self) -> None:
        await self._database.change("DELETE FROM shelves WHERE tenant = :tenant")

    async def _search(
        self,
        scope: FactScope,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> list[StoredFact]:
        def search(transaction: Transaction) -> Sequence[tuple[FactRow, float]] | None:
            rows = self._rows(transaction, scope)
            if not rows.is_index_current():
                return None
            return rows.search(query, limit, superseded=superseded)

        found = await self._database.read(search)
        if found is None:  # the index is brought up to date first
            found = await self._write(
                scope, lambda rows: rows.search(query, limit, superseded=superseded)
            )
        return [row.fact(score) for row, score in found]

    async def _read(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        return await self._database.read(lambda transaction: work(self._rows(transaction, scope)))

    async def _write(self, scope: FactScope, work: Callable[[FactRows], T]) -> T:
        def write(transaction: Transaction) -> T:
            transaction.lock("facts", *scope)
            rows = self._rows(transaction, scope)
            rows.bring_up_to_date()
            return work(rows)

        return await self._database.write(write)

    def _rows(self, transaction: Transaction, scope: FactScope) -> SqlFacts:
        return SqlFacts(transaction, scope, self._clock().timestamp())


class SqlFacts:
    """FactRows in a transaction.

    Args:
        now: Seconds since 1970.
    """

    def __init__(
        self,
        transaction: Transaction,
        scope: FactScope,
        now: float,
    ) -> None:
        agent, namespace = scope
        self.pairs = transaction.pairs
        self._transaction = transaction
        self._values = {"agent": agent, "namespace": namespace, "now": now}

    def get(self, memory_id: str) -> FactRow | None:
        found = self.select("id = :id", id=memory_id)
        return found[0] if found else None

    def versions(self, key: str, *, after: datetime | None = None) -> list[FactRow]:
        if after is None:
            found = self.select("key = :key", key=key)
        else:
            found = self.select(
                "key = :key AND coalesce(valid_until, '~') > :after",
                key=key,
                after=_text(after),
            )
        return sorted(found, key=by_begin)

    def add(self, new: FactRow, ended: Sequence[FactRow]) -> None:
        terms = _fact_terms(new.key, new.content)
        [(shelf,)] = self._transaction.rows(
            "INSERT INTO shelves (tenant, agent, namespace, facts, terms, analysis) "
            "VALUES (:tenant, :agent, :namespace, 1, :length, :analysis) "
            "ON CONFLICT (tenant, agent, namespace) DO UPDATE "
            "SET facts = shelves.facts + 1, terms = shelves.terms + :length RETURNING number",
            analysis=ANALYSIS,
            length=terms.total(),
            **self._values,
        )
        for each in ended:
            self._end(shelf, each)
        [(number,)] = self._transaction.rows(
            "INSERT INTO facts (tenant, shelf, id, key, content, metadata, valid_from, "
            "valid_until, known_from, expiry) VALUES (:tenant, :shelf, :id, :key, :content, "
            ":metadata, :valid_from, :valid_until, :known_from, :expiry) RETURNING number",
            shelf=shelf,
            id=new.id,
            key=new.key,
            content=new.content.encode(),
            metadata=json_text(new.metadata),
            valid_from=_text(new.valid_from),
            valid_until=None if new.valid_until is None else _text(new.valid_until),
            known_from=_text(new.known_from),
            expiry=new.expiry,
        )
        self._index(shelf, number, terms, is_live=new.valid_until is None)

    def delete(self, memory_id: str | None) -> None:
        if memory_id is None:
            self._transaction.change(
                "DELETE FROM shelves "
                "WHERE tenant = :tenant AND agent = :agent AND namespace = :namespace",
                **self._values,
            )
        else:
            self._delete(f"{OF_SHELF} AND id = :id", id=memory_id)

    def search(
        self,
        query: str,
        limit: int,
        *,
        superseded: bool,
    ) -> Sequence[tuple[FactRow, float]]:
        asked = Counter(_terms(query))
        shelves = self._transaction.rows(
            "SELECT number, facts, terms FROM shelves "
            "WHERE tenant = :tenant AND agent = :agent AND namespace = :namespace",
            **self._values,
        )
        if not asked or not shelves:
            return []
        [(shelf, facts, length)] = shelves
        having = self._transaction.rows(
            "SELECT term, (SELECT count(*) FROM postings WHERE shelf = :shelf AND live IN (0, 1) "
            f"AND postings.term = asked.term) FROM {self.pairs} AS asked",
            pairs=_pairs(asked),
            shelf=shelf,
        )
        weights = [
            (term, round(asked[term] * (_BM25.k1 + 1) * idf(facts, number) * UNITS))
            for term, number in having
        ]
        rows = self._transaction.rows(
            f"WITH asked AS MATERIALIZED (SELECT term, number FROM {self.pairs} AS given) "
            f"SELECT score, {FIELDS} FROM ("
            "SELECT fact, round(sum(CAST(round(asked.number * occurrences "
            "/ (occurrences + :least + :by_length * length)) AS BIGINT)) / :units) AS score "
            "FROM asked CROSS JOIN postings "
            "WHERE shelf = :shelf AND live IN (:superseded, 1) AND postings.term = asked.term "
            "GROUP BY fact ORDER BY score DESC, fact DESC LIMIT :limit"
            ") AS best JOIN facts ON facts.number = fact ORDER BY score DESC, fact DESC",
            pairs=json_text(weights),
            shelf=shelf,
            superseded=0 if superseded else 1,
            least=_BM25.k1 * (1 - _BM25.b),
            by_length=_BM25.k1 * _BM25.b * facts / max(length, 1),
            units=UNITS / _SCORE_UNITS,
            limit=min(limit, MAX_INTEGER),
        )
        return [(row_of(*fields), score / _SCORE_UNITS) for score, *fields in rows]

    def is_index_current(self) -> bool:
        """Return whether the index has no expired fact, and the words of today's analysis."""
        outdated = self._transaction.rows(
            "SELECT number FROM shelves WHERE tenant = :tenant AND agent = :agent "
            "AND namespace = :namespace AND (analysis < :analysis OR EXISTS "
            "(SELECT 1 FROM facts WHERE tenant = :tenant AND expiry <= :now))",
            analysis=ANALYSIS,
            **self._values,
        )
        return not outdated

    def bring_up_to_date(self) -> None:
        """Delete the tenant's expired facts. Index a scope anew if an older analysis did it."""
        if self.is_index_current():
            return
        self._delete("tenant = :tenant AND expiry <= :now")
        outdated = self._transaction.rows(
            "UPDATE shelves SET analysis = :analysis WHERE tenant = :tenant "
            "AND agent = :agent AND namespace = :namespace AND analysis < :analysis "
            "RETURNING number",
            analysis=ANALYSIS,
            **self._values,
        )
        for (shelf,) in outdated:
            self._index_anew(shelf)

    def select(self, conditions: str, **values: object) -> list[FactRow]:
        """Return the rows that meet conditions and are not expired."""
        rows = self.rows(f"SELECT {FIELDS} FROM facts", conditions, **values)
        return [row_of(*row) for row in rows]

    def rows(
        self,
        select: str,
        conditions: str,
        **values: object,
    ) -> list[tuple[Any, ...]]:
        """Return columns of the rows that meet conditions and are not expired."""
        return self._transaction.rows(
            f"{select} WHERE {OF_SHELF} AND {IS_HELD} AND {conditions}", **self._values, **values
        )

    def _end(self, shelf: int, row: FactRow) -> None:
        """Store the end of a row, which is then no longer live."""
        self._transaction.change(
            "UPDATE facts SET valid_until = :valid_until WHERE number = :fact",
            valid_until=_text(row.valid_until or row.valid_from),
            fact=row.number,
        )
        of_fact = _OF_FACT.format(pairs=self.pairs)
        self._transaction.change(
            f"UPDATE postings SET live = 0 WHERE live = 1 AND {of_fact}",
            shelf=shelf,
            fact=row.number,
            pairs=_pairs(_fact_terms(row.key, row.content)),
        )

    def _index_anew(self, shelf: int) -> None:
        self._transaction.change("DELETE FROM postings WHERE shelf = :shelf", shelf=shelf)
        length = 0
        for each in self.select("1 = 1"):
            terms = _fact_terms(each.key, each.content)
            length += terms.total()
            self._index(shelf, each.number, terms, is_live=each.valid_until is None)
        self._transaction.change(
            "UPDATE shelves SET terms = :length WHERE number = :shelf", length=length, shelf=shelf
        )

    def _index(
        self,
        shelf: int,
        fact: int,
        terms: Counter[int],
        *,
        is_live: bool,
    ) -> None:
        self._transaction.change(
            "INSERT INTO postings (shelf, live, term, fact, occurrences, length) "
            f"SELECT :shelf, :live, term, :fact, number, :length FROM {self.pairs} AS own",
            shelf=shelf,
            live=int(is_live),
            fact=fact,
            length=terms.total(),
            pairs=_pairs(terms),
        )

    def _delete(self, conditions: str, **values: object) -> None:
        """Delete the facts that meet the conditions, and scopes that this leaves empty."""
        deleted = self._transaction.rows(
            f"DELETE FROM facts WHERE {conditions} RETURNING shelf, number, key, content",
            **self._values,
            **values,
        )
        of_fact = _OF_FACT.format(pairs=self.pairs)
        for shelf, fact, key, content in deleted:
            terms = _fact_terms(key, content.decode())
            self._transaction.change(
                f"DELETE FROM postings WHERE live IN (0, 1) AND {of_fact}",
                shelf=shelf,
                fact=fact,
                pairs=_pairs(terms),
            )
            self._transaction.change(
                "UPDATE shelves SET facts = facts - 1, terms = terms - :length "
                "WHERE number = :shelf",
                length=terms.total(),
                shelf=shelf,
            )
            self._transaction.change(
                "DELETE FROM shelves WHERE number = :shelf AND facts = 0", shelf=shelf
            )


def row_of(
    memory_id: str,
    key: str,
    content: bytes,
    metadata: str,
    valid_from: str,
    valid_until: str | None,
    known_from: str,
    expiry: float | None,
    number: int,
) -> FactRow:
    """Return the row that FIELDS hold."""
    return FactRow(
        memory_id,
        key,
        content.decode(),
        value_of(metadata),
        datetime.fromisoformat(valid_from),
        None if valid_until is None else datetime.fromisoformat(valid_until),
        datetime.fromisoformat(known_from),
        expiry,
        number,
    )


def _text(time: datetime) -> str:
    """Return a time as text. Texts are in the order of their times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _fact_terms(key: str, content: str) -> Counter[int]:
    """Return the terms of a fact: of its text, and those of its key that the text lacks."""
    terms = Counter(_terms(content))
    return terms + Counter({*_terms(key_words(key))}.difference(terms))


def _terms(text: str) -> list[int]:
    """Return the terms of a text, each as a number of 64 bits."""
    return [_hashed(term) for term in analyze(text)]


@lru_cache(100_000)
def _hashed(term: str) -> int:
    digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _pairs(terms: Counter[int]) -> str:
    """Return terms and their numbers of occurrences as JSON text."""
    pairs = [f"[{term},{number}]" for term, number in terms.items()]
    return f"[{','.join(pairs)}]"
